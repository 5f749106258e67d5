#include "proto/peer_shares.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "common/random.h"

namespace stria {
namespace {

using Usage = PeerShares::Usage;

TEST(PeerShareKey, NamesThePeerThatWasProved) {
  Peer peer;
  peer.role = Role::kClient;
  peer.name = "wn7";
  EXPECT_EQ(PeerShareKey(&peer, "10.0.0.7:40112"), "client wn7");
  EXPECT_EQ(PeerShareKey(&peer, "127.0.0.1:1"), "client wn7");
  EXPECT_EQ(PeerShareKey(nullptr, "10.0.0.7:40112"), "10.0.0.7");
  EXPECT_EQ(PeerShareKey(nullptr, "10.0.0.7:40113"), "10.0.0.7") << "whatever its port";
  EXPECT_EQ(PeerShareKey(nullptr, "[fd00:1:2:3::7]:1"), PeerShareKey(nullptr, "[fd00:1:2:3:ffff::8]:1"));
  EXPECT_NE(PeerShareKey(nullptr, "[fd00:1:2:3::7]:1"), PeerShareKey(nullptr, "[fd00:1:2:4::7]:1"));
  for (const char* own : {"127.0.0.1:5", "[::1]:5", "a local process", ""}) EXPECT_EQ(PeerShareKey(nullptr, own), "") << own;
}

TEST(PeerShares, RequestsAreBounded) {
  PeerLimits limits;
  limits.requests = 3;
  PeerShares shares(limits);
  const uint64_t a = shares.Open("client a").value().id, a2 = shares.Open("client a").value().id, b = shares.Open("client b").value().id;
  EXPECT_TRUE(shares.Begin(a, 10).ok());
  EXPECT_TRUE(shares.Begin(a2, 10).ok());
  EXPECT_TRUE(shares.Begin(a, 10).ok());
  const Result<void> fourth = shares.Begin(a2, 10);
  EXPECT_EQ(fourth.code(), FsError::kRetryLater) << "both connections together";
  EXPECT_EQ(fourth.error().message, "client a has 3 requests under way, which is all that one peer gets");
  EXPECT_TRUE(shares.Begin(b, 10).ok()) << "another has its own";
  shares.End(a, 1, 10);
  EXPECT_TRUE(shares.Begin(a2, 10).ok());
  EXPECT_EQ(shares.Of("client a"), (Usage{2, 3, 0, 30}));
}

TEST(PeerShares, BytesAreBoundedRepliesIncluded) {
  PeerLimits limits;
  limits.bytes = 1000;
  PeerShares shares(limits);
  const uint64_t a = shares.Open("client a").value().id;
  EXPECT_EQ(shares.Begin(a, 1001).code(), FsError::kRetryLater);
  ASSERT_TRUE(shares.Begin(a, 400).ok());
  EXPECT_TRUE(shares.Grow(a, 600).ok());
  EXPECT_EQ(shares.Grow(a, 1).code(), FsError::kRetryLater);
  EXPECT_EQ(shares.Begin(a, 0).code(), FsError::kRetryLater) << "a request without bytes brings a reply";
  EXPECT_TRUE(shares.MayBeServed(a).ok()) << "its own bytes are no hindrance";
  shares.Reply(a, 5000);
  EXPECT_EQ(shares.MayBeServed(a).code(), FsError::kRetryLater);
  shares.End(a, 1, 1000);
  EXPECT_EQ(shares.Begin(a, 1).code(), FsError::kRetryLater) << "it has not taken its reply";
  shares.End(a, 0, 5000);
  EXPECT_TRUE(shares.Begin(a, 1000).ok());
  EXPECT_EQ(shares.Begin(a, UINT64_MAX).code(), FsError::kRetryLater);
}

TEST(PeerShares, TheOldestIdleConnectionMakesRoom) {
  PeerLimits limits;
  limits.connections = 3;
  PeerShares shares(limits);
  const uint64_t first = shares.Open("client a").value().id, second = shares.Open("client a").value().id, third = shares.Open("client a").value().id;
  ASSERT_TRUE(shares.Begin(first, 1).ok());
  const auto fourth = shares.Open("client a");
  ASSERT_TRUE(fourth.ok());
  EXPECT_EQ(fourth->to_close, second) << "the first is older, but busy";
  EXPECT_EQ(shares.Of("client a").connections, 3u);
  EXPECT_EQ(shares.Begin(second, 1).code(), FsError::kRetryLater) << "it may have sent something meanwhile";
  EXPECT_FALSE(shares.Refuse(second));
  EXPECT_FALSE(shares.Open("client b").value().to_close.has_value());
  shares.Close(second);  // which its owner says when it is closed indeed
  EXPECT_EQ(shares.Of("client a").connections, 3u);
  shares.Reply(third, 1);
  ASSERT_TRUE(shares.Refuse(fourth->id));
  EXPECT_EQ(shares.Open("client a").code(), FsError::kRetryLater) << "whose replies are not taken is busy, too";
  shares.EndRefusal(fourth->id);
  EXPECT_EQ(shares.Open("client a").value().to_close, fourth->id);
}

TEST(PeerShares, WhatIsUnderWayOutlivesItsConnection) {
  PeerLimits limits;
  limits.requests = 1;
  PeerShares shares(limits);
  const uint64_t a = shares.Open("client a").value().id;
  ASSERT_TRUE(shares.Begin(a, 7).ok());
  shares.Close(a);
  shares.Close(a);
  EXPECT_EQ(shares.Of("client a"), (Usage{0, 1, 0, 7}));
  const uint64_t again = shares.Open("client a").value().id;
  EXPECT_EQ(shares.Begin(again, 1).code(), FsError::kRetryLater) << "who connects again does not get another share";
  shares.Reply(a, 3);
  shares.End(a, 0, 3);
  shares.End(a, 1, 7);
  EXPECT_TRUE(shares.Begin(again, 1).ok());
  shares.End(again, 1, 1);
  shares.Close(again);
  EXPECT_EQ(shares.peers(), 0u);
}

TEST(PeerShares, RefusalsAreBounded) {
  PeerLimits limits;
  limits.refusals = 2;
  PeerShares shares(limits);
  for (const char* who : {"client a", ""}) {
    const uint64_t a = shares.Open(who).value().id;
    EXPECT_TRUE(shares.Refuse(a) && shares.Refuse(a));
    EXPECT_FALSE(shares.Refuse(a));
    shares.EndRefusal(a);
    EXPECT_TRUE(shares.Refuse(a));
    shares.Close(a);
    EXPECT_EQ(shares.Of(who).refusals, 2u);
    shares.EndRefusal(a);
    shares.EndRefusal(a);
    EXPECT_EQ(shares.peers(), 0u);
  }
}

TEST(PeerShares, WhoCannotBeToldApartHasNoShare) {
  PeerLimits limits;
  limits.connections = limits.requests = 1;
  limits.bytes = 1;
  PeerShares shares(limits);
  for (int i = 0; i < 10; ++i) {
    const auto a = shares.Open("");
    ASSERT_TRUE(a.ok());
    EXPECT_FALSE(a->to_close.has_value());
    EXPECT_TRUE(shares.Begin(a->id, 100).ok());
    EXPECT_TRUE(shares.Grow(a->id, 100).ok());
  }
  EXPECT_EQ(shares.Of(""), (Usage{10, 10, 0, 2000}));
}

// Against sums that are made anew each time.
TEST(PeerShares, CountsStayRight) {
  PeerLimits limits;
  limits.connections = 4;
  limits.requests = 10;
  limits.bytes = 1000;
  limits.refusals = 5;
  Random rng(9);
  PeerShares shares(limits);
  struct Mine {
    std::string peer;
    bool open = true;
    Usage used;
  };
  std::map<uint64_t, Mine> all;
  const auto of = [&](const std::string& peer) {
    Usage sum;
    for (const auto& [id, m] : all) {
      if (m.peer != peer) continue;
      sum.connections += m.open, sum.requests += m.used.requests, sum.refusals += m.used.refusals, sum.bytes += m.used.bytes;
    }
    return sum;
  };
  for (int i = 0; i < 50'000; ++i) {
    if (all.empty() || rng.OneIn(8)) {
      const std::string peer = std::string("client ") + static_cast<char>('a' + rng.Below(4));
      const auto opened = shares.Open(peer);
      ASSERT_TRUE(opened.ok() || of(peer).connections == 4);
      if (!opened.ok()) continue;
      if (opened->to_close) {
        ASSERT_EQ(all[*opened->to_close].used, Usage());
        all.erase(*opened->to_close);
      }
      all[opened->id].peer = peer;
      continue;
    }
    const auto it = std::next(all.begin(), static_cast<ptrdiff_t>(rng.Below(all.size())));
    const uint64_t id = it->first;
    Mine& m = it->second;
    const uint64_t n = rng.Below(300);
    const Usage before = of(m.peer);
    switch (rng.Below(6)) {
      case 0:
        if (!m.open) break;
        if (shares.Begin(id, n).ok()) {
          ASSERT_TRUE(before.requests < 10 && before.bytes < 1000 && before.bytes + n <= 1000);
          ++m.used.requests, m.used.bytes += n;
        } else {
          ASSERT_TRUE(before.requests >= 10 || before.bytes >= 1000 || before.bytes + n > 1000);
        }
        break;
      case 1:
        if (m.used.requests > 0 && shares.Grow(id, n).ok()) m.used.bytes += n;
        break;
      case 2:
        if (m.used.requests > 0) shares.Reply(id, n), m.used.bytes += n;
        break;
      case 3:
        if (m.open && shares.Refuse(id)) ++m.used.refusals;
        break;
      case 4:
        if (m.used.refusals > 0) --m.used.refusals, shares.EndRefusal(id);
        else if (m.used.requests > 0) {
          const uint64_t bytes = m.used.requests == 1 ? m.used.bytes : 0;
          --m.used.requests, m.used.bytes -= bytes;
          shares.End(id, 1, bytes);
        }
        break;
      default:
        if (rng.OneIn(4)) m.open = false, shares.Close(id);
    }
    const std::string peer = m.peer;
    if (!m.open && m.used == Usage()) all.erase(it);
    ASSERT_EQ(shares.Of(peer), of(peer)) << i;
    ASSERT_LE(of(peer).connections, 4u);
  }
}

}  // namespace
}  // namespace stria
