#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/random.h"
#include "proto/random_messages.h"
#include "proto/wire.h"
#include "test/fuzz/mutate.h"

namespace stria {
namespace {

constexpr uint64_t kSeed = 20'240'601;
constexpr int kInputs = 20'000;

template <class T>
std::string Sample(Random& rng) {
  return std::string(Encode(random_messages::RandomMessage<T>(rng)).Bytes().Flatten().view());
}
using SampleFn = std::string (*)(Random&);
#define X(T) &Sample<T>,
constexpr SampleFn kSamples[] = {STRIA_ALL_MESSAGES(X)};  // in the target's order
#undef X

TEST(WireFuzz, BoundedRun) {
  SCOPED_TRACE(kSeed);
  Random rng(kSeed);
  std::vector<std::string> samples;
  for (size_t type = 0; type < std::size(kSamples); ++type) samples.push_back(std::string{0, static_cast<char>(type)} + kSamples[type](rng));
  if (WroteSamples(samples)) return;
  std::string input;
  for (int i = 0; i < kInputs; ++i) {
    if (i % 8 == 0) {
      const size_t type = rng.Below(std::size(kSamples));
      input = std::string{static_cast<char>(rng.Next()), static_cast<char>(type)} + kSamples[type](rng);
      if (input.size() > 4096) input.resize(4096);
    }
    const size_t at = rng.Below(input.size());
    if (rng.OneIn(3)) {
      input.erase(at, rng.Between(1, 4));
      if (input.size() < 2) input.resize(2);
    } else if (rng.OneIn(2)) {
      input[at] = static_cast<char>(rng.Next());
    } else {
      input.insert(at, input.substr(rng.Below(input.size()), rng.Between(1, 40)));
    }
    FuzzOne(input);
  }
}

}  // namespace
}  // namespace stria
