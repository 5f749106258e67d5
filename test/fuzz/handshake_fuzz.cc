#include <gtest/gtest.h>

#include <string>

#include "common/random.h"
#include "test/fuzz/fuzz_target.h"

namespace stria {
namespace {

constexpr uint64_t kSeed = 20'261'127;
constexpr int kInputs = 1'500;

TEST(HandshakeFuzz, BoundedRun) {
  SCOPED_TRACE(kSeed);
  Random rng(kSeed);
  for (int i = 0; i < kInputs; ++i) {
    std::string input(1 + 3 * rng.Below(4), '\0');
    for (char& c : input) c = static_cast<char>(rng.Next());
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace stria
