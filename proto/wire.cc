#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>

#include "api/types.h"
#include "proto/meta.pb.h"
#include "proto/wire_fields.h"

namespace stria {
namespace wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedOutputStream;

constexpr uint32_t kPayloadField = 15;
constexpr uint8_t kPayloadTag = kPayloadField << 3 | 2;  // length-delimited; one byte
constexpr size_t kCountFieldsAbove = 64 * kKiB;
constexpr size_t kMaxVarintBytes = 10;

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

Error Malformed(const char* why) {
  return Error(FsError::kBadRequest, std::string("malformed message: ") + why);
}

// Reads protobuf's framing from bytes in pieces. After the end all reads fail.
class Cursor {
 public:
  explicit Cursor(const BufferChain& bytes) : parts_(bytes.parts()), left_(bytes.size()) {}
  size_t left() const { return left_; }
  bool Varint(uint64_t* v) {
    *v = 0;
    for (size_t i = 0; i < kMaxVarintBytes && left_ > 0; ++i) {
      const uint8_t byte = parts_[part_].data()[at_];
      Skip(1);
      *v |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool Skip(uint64_t n) {
    if (n > left_) return false;
    left_ -= n;
    while (n > 0) {
      const size_t step = std::min<uint64_t>(n, parts_[part_].size() - at_);
      at_ += step;
      n -= step;
      if (at_ == parts_[part_].size()) {
        ++part_;
        at_ = 0;
      }
    }
    return true;
  }
  // Skips the value of a field with this tag.
  bool SkipValue(uint64_t tag) {
    uint64_t n;
    switch (tag & 7) {
      case kVarint:
        return Varint(&n);
      case kFixed64:
        return Skip(8);
      case kBytes:
        return Varint(&n) && Skip(n);
      case kFixed32:
        return Skip(4);
      default:
        return false;
    }
  }

 private:
  const std::span<const Buffer> parts_;
  size_t left_;
  size_t part_ = 0;
  size_t at_ = 0;
};

// Splits the bytes where the payload field begins.
Error SplitPayload(const BufferChain& bytes, Buffer* fields, BufferChain* payload) {
  Cursor c(bytes);
  while (c.left() > 0) {
    const size_t start = bytes.size() - c.left();
    uint64_t tag;
    if (!c.Varint(&tag)) return Malformed("a field's tag is cut off");
    if (tag == kPayloadTag) {
      uint64_t length;
      if (!c.Varint(&length)) return Malformed("the payload's length is cut off");
      if (length != c.left()) return Malformed("the payload is cut off, or not the last field");
      *fields = bytes.Slice(0, start).Flatten();
      *payload = bytes.Slice(bytes.size() - c.left(), c.left());
      return Error();
    }
    if (!c.SkipValue(tag)) return Malformed("a field is cut off");
  }
  *fields = bytes.Flatten();
  return Error();
}

// Takes one off `budget` for every string and nested message; false if it runs out or the bytes are
// malformed. Nesting is as deep as the schema's, which is not recursive.
bool CountFields(const Descriptor* type, std::string_view in, size_t* budget) {
  const Buffer bytes(nullptr, reinterpret_cast<const uint8_t*>(in.data()), in.size());
  const BufferChain chain(bytes);
  Cursor c(chain);
  while (c.left() > 0) {
    uint64_t tag;
    if (!c.Varint(&tag)) return false;
    if ((tag & 7) != kBytes) {
      if (!c.SkipValue(tag)) return false;
      continue;
    }
    uint64_t length;
    if (!c.Varint(&length) || length > c.left() || *budget == 0) return false;
    --*budget;
    const size_t at = in.size() - c.left();
    c.Skip(length);
    const FieldDescriptor* field = type->FindFieldByNumber(static_cast<int>(tag >> 3 & 0x1fffffff));
    if (field && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
        !CountFields(field->message_type(), in.substr(at, length), budget)) {
      return false;
    }
  }
  return true;
}

}  // namespace

WireMessage Serialize(const google::protobuf::MessageLite& m, const BufferChain* payload) {
  const size_t fields = m.ByteSizeLong();
  CHECK(fields <= INT32_MAX, "message too large to encode");
  MutableBuffer out(fields + 1 + kMaxVarintBytes);
  uint8_t* p = m.SerializeWithCachedSizesToArray(out.data());
  WireMessage wire;
  if (payload && !payload->empty()) {
    *p++ = kPayloadTag;
    p = CodedOutputStream::WriteVarint64ToArray(payload->size(), p);
    wire.payload = *payload;
  }
  const auto size = static_cast<size_t>(p - out.data());
  wire.header = std::move(out).Freeze(size);
  return wire;
}

Error Parse(const WireMessage& bytes, google::protobuf::Message* m, BufferChain* payload) {
  if (bytes.size() > kMaxMessageBytes) {
    return Error(FsError::kBadRequest, "a message of " + std::to_string(bytes.size()) +
                                           " bytes is over the limit of 8 MiB");
  }
  Buffer fields;
  if (payload) {
    Error e = SplitPayload(bytes.Bytes(), &fields, payload);
    if (!e.ok()) return e;
  } else {
    fields = bytes.payload.empty() ? bytes.header : bytes.Bytes().Flatten();
  }
  if (fields.size() > kCountFieldsAbove) {
    size_t budget = kMaxWireFields;
    if (!CountFields(m->GetDescriptor(), fields.view(), &budget)) {
      return Malformed("too many or broken fields");
    }
  }
  if (!m->ParseFromArray(fields.data(), static_cast<int>(fields.size()))) {
    return Malformed("it does not parse");
  }
  return Error();
}

}  // namespace wire

WireMessage EncodeError(const Error& error) {
  CHECK(!error.ok(), "EncodeError of an error that is ok");
  v1::Empty reply;
  reply.set_error(static_cast<uint32_t>(error.code));
  reply.set_error_message(error.message.substr(0, kMaxErrorTextBytes));
  return wire::Serialize(reply, nullptr);
}

}  // namespace stria
