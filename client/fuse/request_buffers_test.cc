#include "client/fuse/request_buffers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace stria {
namespace {

TEST(RequestBuffers, PayloadIsPageAlignedAndFits) {
  RequestBuffers pool(80, 1 << 20, 2, 4);
  auto b = pool.Take();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.get() + 80) % 4096, 0u);
  EXPECT_EQ(pool.capacity_bytes(), 80u + (1 << 20));
  std::memset(b.get(), 7, pool.capacity_bytes());
}

TEST(RequestBuffers, WhatComesBackIsUsedAgain) {
  RequestBuffers pool(80, 4096, 1, 4);
  auto a = pool.Take();
  uint8_t* where = a.get();
  auto share = a;
  a.reset();
  auto b = pool.Take();
  EXPECT_NE(b.get(), where);  // still shared
  share.reset();
  EXPECT_EQ(pool.Take().get(), where);
}

TEST(RequestBuffers, OnlyWhatFillsMostOfABufferIsKept) {
  constexpr size_t kPayload = 1 << 20;
  EXPECT_TRUE(RequestBuffers::WorthKeeping(kPayload, kPayload));
  EXPECT_FALSE(RequestBuffers::WorthKeeping(64 << 10, kPayload));
  // However the held bytes are cut into payloads, there are buffers enough for them.
  constexpr size_t kHeld = 256 << 20;
  for (size_t bytes = 4096; bytes <= kPayload; bytes += 4096) {
    if (!RequestBuffers::WorthKeeping(bytes, kPayload)) continue;
    EXPECT_LE(kHeld / bytes, RequestBuffers::HoldingAtMost(kHeld, kPayload)) << bytes;
  }
  EXPECT_LE(RequestBuffers::HoldingAtMost(kHeld, kPayload) * kPayload, 2 * kHeld);  // and no more memory than this
}

TEST(RequestBuffers, ABufferMayOutliveThePool) {
  std::shared_ptr<uint8_t> b;
  {
    RequestBuffers pool(80, 4096, 1, 1);
    b = pool.Take();
  }
  b.get()[0] = 1;
  b.reset();
}

TEST(RequestBuffers, TakeWaitsForOneToComeBackButNotForEver) {
  RequestBuffers pool(80, 4096, 1, 1);
  auto a = pool.Take();
  uint8_t* where = a.get();
  std::thread other([&a] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    a.reset();
  });
  auto b = pool.Take();
  other.join();
  EXPECT_EQ(b.get(), where);
  auto c = pool.Take();  // no buffer comes back
  EXPECT_NE(c.get(), where);
}

}  // namespace
}  // namespace stria
