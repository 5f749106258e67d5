// For the bounded tests: inputs that are near to valid ones. The same for a seed on every machine.
//
// With STRIA_FUZZ_SEEDS=DIRECTORY in the environment the samples are written there instead, for a long run to begin with
// (tools/fuzz).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "common/random.h"
#include "test/fuzz/fuzz_target.h"

namespace stria {

inline void FuzzOne(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// True if they were asked for, and nothing else is to be done.
inline bool WroteSamples(const std::vector<std::string>& samples) {
  const char* directory = std::getenv("STRIA_FUZZ_SEEDS");
  if (directory == nullptr) return false;
  for (size_t i = 0; i < samples.size(); ++i) {
    std::ofstream out(std::string(directory) + "/sample-" + std::to_string(i), std::ios::binary);
    out.write(samples[i].data(), static_cast<std::streamsize>(samples[i].size()));
    EXPECT_TRUE(out.good()) << "cannot write a sample to " << directory;
  }
  return true;
}

// One change of `input` at `keep` or behind it.
inline void Mutate(Random& rng, size_t keep, const std::vector<std::string>& samples, std::string* input) {
  constexpr size_t kMaxInput = 64 * 1024;
  if (input->size() < keep + 1) input->resize(keep + 1);
  const size_t at = rng.Between(keep, input->size() - 1);
  switch (rng.Below(7)) {
    case 0: input->erase(at, rng.Between(1, 4)); break;
    case 1: input->insert(at, input->substr(rng.Below(input->size()), rng.Between(1, 40))); break;
    case 2: (*input)[at] = static_cast<char>((*input)[at] ^ (1 << rng.Below(8))); break;
    case 3: {  // a number, as lengths and counts are
      const size_t bytes = size_t{1} << rng.Below(4);
      const uint64_t number = rng.OneIn(2) ? rng.Next() >> rng.Below(64) : UINT64_MAX >> rng.Below(64);
      for (size_t i = 0; i < bytes && at + i < input->size(); ++i) (*input)[at + i] = static_cast<char>(number >> (8 * i));
      break;
    }
    case 4: {  // the end of another one
      const std::string& other = samples[rng.Below(samples.size())];
      input->resize(at);
      if (at < other.size()) input->append(other, at);
      break;
    }
    case 5: input->resize(at); break;
    default: (*input)[at] = static_cast<char>(rng.Next());
  }
  if (input->size() > kMaxInput) input->resize(kMaxInput);
}

// Each sample as it is, which the target must take, and then `inputs` inputs, each with a few changes more than the one before. The
// first `keep` bytes stay: they say for whom the rest is.
inline void FuzzBounded(uint64_t seed, int inputs, size_t keep, const std::vector<std::string>& samples) {
  SCOPED_TRACE(seed);
  if (WroteSamples(samples)) return;
  for (size_t i = 0; i < samples.size(); ++i) {
    const uint64_t before = fuzz_taken;
    FuzzOne(samples[i]);
    EXPECT_GT(fuzz_taken, before) << "sample " << i << " is not taken";
  }
  Random rng(seed);
  std::string input;
  for (int i = 0; i < inputs; ++i) {
    if (i % 8 == 0) input = samples[rng.Below(samples.size())];
    Mutate(rng, keep, samples, &input);
    FuzzOne(input);
  }
}

}  // namespace stria
