// Wire codecs: the structs of api/*.h to and from the bytes of the messages in *.proto. Pure functions,
// safe from any thread.
//
// The wire bytes of a message are header ++ payload, an ordinary protobuf message. Where one ends and the other begins carries
// no meaning: a decoder takes the bytes cut in any way. Encoders put the payload's slices behind the serialised fields, and
// decoders slice it out of the received bytes, so bulk bytes are never copied or parsed (docs/wire.md).
#pragma once

#include <cstdint>

#include "common/buffer.h"
#include "common/error.h"
#include "common/units.h"

namespace stria {

struct WireMessage {
  Buffer header;
  BufferChain payload;
  int64_t arrived_ns = 0;  // of a request: Executor::NowNs when all of it was there; 0: the transport does not say
  size_t size() const { return header.size() + payload.size(); }
  // All of it as one chain; shares the bytes.
  BufferChain Bytes() const {
    BufferChain all(header);
    all.Append(payload);
    return all;
  }
};

inline constexpr size_t kMaxWireItems = 65'536;          // of any list in a message
inline constexpr size_t kMaxWireStringBytes = 64 * kKiB;  // of any string in a message
inline constexpr size_t kMaxErrorTextBytes = 4 * kKiB;    // longer ones are cut
// Strings and nested messages together; bounds the memory that a hostile message can make the decoder allocate.
inline constexpr size_t kMaxWireFields = 300'000;

// T is any request or reply struct of api/data_api.h or api/meta_api.h (and ClusterMap, Empty).
// REQUIRES: lists and strings of `message` are within the limits above, or the receiver refuses it.
template <class T>
WireMessage Encode(const T& message);

// The decoded and validated message (proto/validate.h). Errors: kBadRequest with a sentence for bytes
// that are no such message; a more fitting code for names that are too long and the like; for replies
// also the error that the peer sent instead of an answer.
template <class T>
Result<T> Decode(const WireMessage& bytes);

// A reply (of any type) that says `error` in place of an answer. REQUIRES: !error.ok().
WireMessage EncodeError(const Error& error);

}  // namespace stria
