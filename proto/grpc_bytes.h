// Wire messages to and from gRPC's byte buffers, sharing the bytes. Only grpc_*.cc include this.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "api/types.h"
#include "common/error.h"
#include "proto/wire.h"

namespace stria {

// gRPC's limit is this much above Stria's, so that messages over Stria's limit get an answer with a sentence.
inline constexpr int kMaxGrpcMessageBytes = static_cast<int>(kMaxMessageBytes + kMiB);

grpc::ByteBuffer ToByteBuffer(const WireMessage& message);
WireMessage FromByteBuffer(const grpc::ByteBuffer& bytes);

// The error of a call to `address` that failed in gRPC. REQUIRES: !status.ok().
Error FromGrpcStatus(const grpc::Status& status, const std::string& address);

}  // namespace stria
