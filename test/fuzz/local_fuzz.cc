#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/local_wire.h"
#include "test/fuzz/mutate.h"

namespace stria {
namespace {

std::vector<std::string> Samples() {
  return {
      std::string(1, 0) + EncodeLocal(LocalAsk{1, ShardId(2), TargetId(3), std::string(66, 't')}),
      std::string(1, 0) + EncodeLocal(LocalAsk{UINT64_MAX, ShardId(2), TargetId(3), ""}),
      std::string(1, 1) + EncodeLocal(LocalAnswer{1, FsError::kOk, 9000, {1, 2, 3}}),
      std::string(1, 1) + EncodeLocal(LocalAnswer{2, FsError::kBadToken, 0, {}}),
  };
}

TEST(LocalFuzz, BoundedRun) { FuzzBounded(20'261'127, 40'000, 1, Samples()); }

}  // namespace
}  // namespace stria
