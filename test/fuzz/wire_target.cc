// Input: one byte that says how to cut the message and one that names its type; the rest are its bytes.
#include <cstdint>
#include <cstdlib>

#include "proto/random_messages.h"
#include "proto/wire.h"
#include "test/fuzz/fuzz_target.h"

namespace stria {
namespace {

// What was decoded is valid: it must survive another trip.
template <class T>
void DecodeAs(const WireMessage& bytes) {
  const Result<T> got = Decode<T>(bytes);
  if (got.ok() && !Decode<T>(Encode(got.value())).ok()) std::abort();
}

using DecodeFn = void (*)(const WireMessage&);
#define X(T) &DecodeAs<T>,
constexpr DecodeFn kDecoders[] = {STRIA_ALL_MESSAGES(X)};
#undef X

}  // namespace
}  // namespace stria

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t piece = size_t{data[0]} + 1;
  const size_t type = data[1] % std::size(stria::kDecoders);
  stria::WireMessage message;
  for (size_t at = 2; at < size; at += piece) {
    // Copies, so that a read beyond a piece is a read beyond an allocation.
    message.payload.Append(stria::Buffer::Copy({data + at, std::min(piece, size - at)}));
  }
  stria::kDecoders[type](message);
  return 0;
}
