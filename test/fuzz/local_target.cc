// Input: one byte that says which of the two packets of the local socket; the rest is one.
#include <cstdint>
#include <string>

#include "api/local_api.h"
#include "proto/local_wire.h"
#include "test/fuzz/fuzz_target.h"

namespace stria {

uint64_t fuzz_taken = 0;

namespace {

void AsAsk(const std::string& s) {
  const auto ask = DecodeLocalAsk(s);
  if (!ask) return;
  ++fuzz_taken;
  Must(EncodeLocal(*ask) == s && s.size() <= kMaxLocalPacketBytes);
}

void AsAnswer(const std::string& s) {
  const auto answer = DecodeLocalAnswer(s);
  if (!answer) return;
  ++fuzz_taken;
  Must(answer->crcs.size() <= kMaxLocalCrcs && s.size() <= kMaxLocalPacketBytes);
  // The number of an error has 16 bits here and 32 there, so bytes are not compared.
  const auto again = DecodeLocalAnswer(EncodeLocal(*answer));
  Must(again && again->id == answer->id && again->error == answer->error && again->length == answer->length && again->crcs == answer->crcs);
}

}  // namespace
}  // namespace stria

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  (data[0] % 2 == 0 ? stria::AsAsk : stria::AsAnswer)(input);
  return 0;
}
