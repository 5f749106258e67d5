#include "proto/grpc_bytes.h"

#include <memory>
#include <utility>
#include <vector>

#include <grpcpp/support/slice.h>

namespace stria {
namespace {

// Below this, copying is cheaper than sharing.
constexpr size_t kCopyBytes = 1024;

grpc::Slice ToSlice(const Buffer& b) {
  if (b.size() <= kCopyBytes) return grpc::Slice(b.data(), b.size());
  auto* share = new std::shared_ptr<const void>(b.owner());
  return grpc::Slice(
      const_cast<uint8_t*>(b.data()), b.size(),
      [](void* p) { delete static_cast<std::shared_ptr<const void>*>(p); }, share);
}

}  // namespace

grpc::ByteBuffer ToByteBuffer(const WireMessage& message) {
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + message.payload.parts().size());
  if (!message.header.empty()) slices.push_back(ToSlice(message.header));
  for (const Buffer& b : message.payload.parts()) slices.push_back(ToSlice(b));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

WireMessage FromByteBuffer(const grpc::ByteBuffer& bytes) {
  WireMessage message;
  // One owner for all slices. They stay where they are: small ones hold their bytes in themselves.
  const auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (!bytes.Valid() || !bytes.Dump(slices.get()).ok()) return message;
  for (const grpc::Slice& s : *slices) message.payload.Append(Buffer(slices, s.begin(), s.size()));
  return message;
}

Error FromGrpcStatus(const grpc::Status& status, const std::string& address) {
  const std::string text = address + ": " + status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Error(FsError::kDeadline, address + " did not answer in time");
    case grpc::StatusCode::UNIMPLEMENTED:
      return Error(FsError::kVersion, text);
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::INVALID_ARGUMENT:
      return Error(FsError::kBadRequest, text);
    default:
      return Error(FsError::kUnavailable, text);
  }
}

}  // namespace stria
