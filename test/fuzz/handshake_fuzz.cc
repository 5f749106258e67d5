#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/random.h"
#include "test/fuzz/mutate.h"

namespace stria {
namespace {

constexpr uint64_t kSeed = 20'261'127;
constexpr int kInputs = 1'500;

TEST(HandshakeFuzz, BoundedRun) {
  SCOPED_TRACE(kSeed);
  std::vector<std::string> samples;
  for (const char flight : {0, 1, 2, 3}) samples.push_back(std::string{flight, 0, 9, 1});
  if (WroteSamples(samples)) return;
  Random rng(kSeed);
  for (int i = 0; i < kInputs; ++i) {
    std::string input(1 + 3 * rng.Below(4), '\0');
    for (char& c : input) c = static_cast<char>(rng.Next());
    FuzzOne(input);
  }
}

}  // namespace
}  // namespace stria
