// For tests of this folder: a pool of stripes over the fake cluster, and checks of written bytes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "client/io/io_test_env.h"
#include "client/io/stripe_pool.h"

namespace stria {

// The pieces cover the payload, in order, fully durable; reading them gives it back.
inline void ExpectWritten(IoEnv& env, const std::vector<WrittenPiece>& pieces, const BufferChain& payload) {
  const std::vector<uint8_t> want = BytesOf(payload);
  uint64_t at = 0;
  for (const WrittenPiece& p : pieces) {
    ASSERT_EQ(p.payload_offset, at);
    ASSERT_TRUE(ValidateStripe(p.info).ok());
    for (const Column& c : p.info.columns) {
      if (c.shard) EXPECT_TRUE(env.cluster.IsSealed(c.shard));
    }
    Error error;
    const std::vector<uint8_t> got = env.Read(p.info, 0, p.info.shape.payload_bytes, &error);
    ASSERT_FALSE(got.empty()) << error;
    EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin() + static_cast<std::ptrdiff_t>(at)));
    EXPECT_FALSE(env.cluster.IsGivenBack(p.info.id));
    at += got.size();
  }
  EXPECT_EQ(at, want.size());
}

class PoolEnv : public IoEnv {
 public:
  explicit PoolEnv(uint64_t seed, uint32_t nodes = 10, uint32_t disks = 1)
      : IoEnv(seed, nodes, disks), layout(MakeLayout(1, 4, 1, 64 * kKiB, 2)), stripes(Make()) {}
  std::unique_ptr<StripePool> Make() {
    auto allocate = [this](AllocateRequest r) -> Task<Result<AllocateReply>> {
      if (++requests > full_after) co_return Error(FsError::kNoSpace, "full");
      EXPECT_LE(r.count, 16u);
      co_await Sleep(2 * kMillisecond);
      AllocateReply reply;
      for (uint32_t i = 0; i < r.count; ++i) {
        Result<StripeGrant> g = cluster.Allocate(ShapeFor(layout, layout.stripe_bytes), r.avoid);
        // As the metadata server does.
        if (!g.ok() && !r.avoid.empty()) g = cluster.Allocate(ShapeFor(layout, layout.stripe_bytes));
        if (!g.ok()) co_return g.error();
        allocated.insert(g->info.id);
        g->max_column_bytes = max_column_bytes;
        reply.stripes.push_back(std::move(*g));
      }
      co_return reply;
    };
    auto give_back = [this](std::vector<StripeId> ids) -> Task<void> {
      co_await Sleep(kMillisecond);
      for (StripeId id : ids) EXPECT_TRUE(returned.insert(id).second);
    };
    return std::make_unique<StripePool>(peers, allocate, give_back);
  }
  StripeGrant Take(uint64_t bytes = 0, std::vector<TargetId> avoid = {}) {
    Result<StripeGrant> g = RunSim(ex, stripes->Take(InodeId(9), layout, bytes, std::move(avoid)));
    EXPECT_TRUE(g.ok()) << g.error();
    EXPECT_TRUE(taken.insert(g->info.id).second);
    return *g;
  }
  Layout layout;
  size_t requests = 0;
  size_t full_after = SIZE_MAX;   // requests
  uint64_t max_column_bytes = 0;  // of all grants
  std::set<StripeId> allocated, returned, taken;
  std::unique_ptr<StripePool> stripes;
};

}  // namespace stria
