#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/bound_token.h"
#include "common/token.h"
#include "test/fuzz/mutate.h"
#include "test/fuzz/token_samples.h"

namespace stria {
namespace {

using namespace token_samples;

// In the order of the target's kinds.
std::vector<std::string> Samples() {
  const TokenSigner signer(Key(1));
  BoundToken bound;
  bound.shard = ShardId(3), bound.target = TargetId(4), bound.rights = kTokenRead | kTokenWrite;
  bound.expiry_s = kNowS + 600, bound.holder = 77, bound.most_bytes = 1 << 20, bound.incarnation = kIncarnation;
  std::vector<std::string> out = {
      std::string(1, 0) + EncodeToken(signer.Sign(ShardId(3), TargetId(4), kTokenRead | kTokenDelete, kNowS + 600)),
      std::string(1, 0) + EncodeToken(signer.Sign(ShardId(), TargetId(4), kTokenAdmin, kNowS - 1)),
      std::string(1, 1) + EncodeBoundToken(BoundTokenSigner(NodeKeyOfToday()).Sign(bound)),
      std::string(1, 3) + signer.ProveNode(kNode, "n6"),
      std::string(1, 4) + "# two\n" + FormatClusterKey(Key(1)) + FormatClusterKey(Key(2)),
  };
  for (const OpenProof& p : OpenProofs()) out.push_back(std::string(1, 2) + signer.ProveOpen(p));
  return out;
}

TEST(TokenFuzz, BoundedRun) { FuzzBounded(20'261'127, 20'000, 1, Samples()); }

}  // namespace
}  // namespace stria
