#include "trust/doorman.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "common/random.h"
#include "trust/network.h"

namespace stria {
namespace {

std::string From(size_t host, size_t port = 1) { return "10.0." + std::to_string(host / 250) + "." + std::to_string(host % 250 + 1) + ":" + std::to_string(port); }

TEST(Doorman, EightFromOneAddress) {
  Doorman d;
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < 8; ++i) ids.push_back(d.Arrive(From(1, i), 0).value().id);
  const auto ninth = d.Arrive(From(1, 9), 0);
  EXPECT_EQ(ninth.code(), FsError::kRetryLater);
  EXPECT_EQ(ninth.error().message, "8 connections from 10.0.0.2 have not said yet who they are");
  EXPECT_TRUE(d.Arrive(From(2), 0).ok());
  d.Leave(ids[3]);
  d.Leave(ids[3]);
  EXPECT_TRUE(d.Arrive(From(1, 10), 0).ok());
  EXPECT_FALSE(d.Arrive(From(1, 11), 0).ok());
  EXPECT_EQ(d.refused(), 2u);
}

// Eight silent connections of the same machine keep an honest one out for no more than a second.
TEST(Doorman, TheOldestOfAnAddressGivesWayInTime) {
  Doorman d;
  std::vector<uint64_t> silent;
  for (size_t i = 0; i < 8; ++i) silent.push_back(d.Arrive(From(1, i), static_cast<int64_t>(i)).value().id);
  EXPECT_FALSE(d.Arrive(From(1, 8), kSecond - 1).ok());
  const auto ninth = d.Arrive(From(1, 9), kSecond);
  ASSERT_TRUE(ninth.ok()) << ninth.error();
  EXPECT_EQ(ninth->sent_away, silent[0]);
  EXPECT_FALSE(d.Arrive(From(1, 10), kSecond).ok()) << "the next has been here for less";
  EXPECT_EQ(d.Arrive(From(1, 11), kSecond + 1).value().sent_away, silent[1]);
  EXPECT_EQ(d.waiting(), 8u);
  EXPECT_EQ(d.Sent(silent[0], 1).code(), FsError::kDeadline);
}

TEST(Doorman, TheOldestOfAllGivesWayInTime) {
  Doorman d;
  const uint64_t first = d.Arrive(From(0), 0).value().id;
  for (size_t i = 1; i < 64; ++i) ASSERT_TRUE(d.Arrive(From(i), 1).ok());
  EXPECT_FALSE(d.Arrive(From(99), kSecond - 1).ok());
  EXPECT_EQ(d.Arrive(From(99), kSecond).value().sent_away, first);
  EXPECT_FALSE(d.Arrive(From(98), kSecond).ok());
  EXPECT_EQ(d.waiting(), 64u);
}

TEST(Doorman, EachLocalUserIsAPlace) {
  Doorman d;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(d.Arrive("uid 1000", 0).ok());
  EXPECT_EQ(d.Arrive("uid 1000", 0).error().message, "8 connections from uid 1000 have not said yet who they are");
  EXPECT_TRUE(d.Arrive("uid 0", 0).ok());
}

TEST(Doorman, BytesAreBounded) {
  Doorman d;
  const uint64_t id = d.Arrive(From(1), 0).value().id;
  EXPECT_TRUE(d.Sent(id, 4096).ok());
  EXPECT_EQ(d.Sent(id, 1).code(), FsError::kBadRequest);
  d.Leave(id);
  EXPECT_EQ(d.Sent(id, 1).code(), FsError::kDeadline);
}

TEST(Doorman, TimeIsBounded) {
  Doorman d;
  EXPECT_EQ(d.NextOverdue(), INT64_MAX);
  const uint64_t a = d.Arrive(From(1), 0).value().id, b = d.Arrive(From(2), kSecond).value().id;
  EXPECT_EQ(d.NextOverdue(), 5 * kSecond);
  EXPECT_TRUE(d.TakeOverdue(5 * kSecond - 1).empty());
  EXPECT_EQ(d.TakeOverdue(5 * kSecond), std::vector<uint64_t>{a});
  EXPECT_EQ(d.NextOverdue(), 6 * kSecond);
  EXPECT_EQ(d.TakeOverdue(60 * kSecond), std::vector<uint64_t>{b});
  EXPECT_EQ(d.waiting(), 0u);
}

TEST(Doorman, AFloodKeepsNobodyOut) {
  Doorman d;
  // Eight machines fill all places, and go on coming.
  for (size_t i = 0; i < 10'000; ++i) (void)d.Arrive(From(i % 8, i), 0);
  EXPECT_EQ(d.waiting(), 64u);
  for (size_t i = 0; i < 20; ++i) {
    const auto honest = d.Arrive(From(100 + i), 0);
    ASSERT_TRUE(honest.ok()) << i << " " << honest.error();
    EXPECT_TRUE(honest->sent_away.has_value());
    EXPECT_EQ(d.waiting(), 64u);
  }
  // One after the other of the flood's, never an honest one.
  for (size_t i = 0; i < 1000; ++i) (void)d.Arrive(From(i % 8, i), 0);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(d.TakeOverdue(0).size(), 0u);
  EXPECT_EQ(d.sent_away(), 20u);
}

TEST(Doorman, AHundredMachinesWithOneEach) {
  Doorman d;
  for (size_t i = 0; i < 64; ++i) ASSERT_TRUE(d.Arrive(From(i), 0).ok());
  EXPECT_EQ(d.Arrive(From(99), 0).code(), FsError::kRetryLater) << "nobody has more than it would have";
}

TEST(Doorman, OneNetworkOfIpv6IsOneAddress) {
  Doorman d;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(d.Arrive("[fd00:1:2:3::" + std::to_string(i) + "]:1", 0).ok());
  EXPECT_FALSE(d.Arrive("[fd00:1:2:3:ffff::1]:1", 0).ok());
  EXPECT_TRUE(d.Arrive("[fd00:1:2:4::1]:1", 0).ok());
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(d.Arrive("unix:/run/x", 0).ok());
  EXPECT_FALSE(d.Arrive("unix:/run/y", 0).ok());
}

TEST(Doorman, CountsStayRight) {
  Random rng(7);
  Doorman d;
  std::map<uint64_t, size_t> here;  // id -> host
  int64_t now = 0;
  for (int i = 0; i < 50'000; ++i) {
    now += static_cast<int64_t>(rng.Below(200 * kMillisecond));
    for (const uint64_t id : d.TakeOverdue(now)) ASSERT_EQ(here.erase(id), 1u);
    if (rng.OneIn(3) && !here.empty()) {
      const auto it = std::next(here.begin(), static_cast<ptrdiff_t>(rng.Below(here.size())));
      d.Leave(it->first);
      here.erase(it);
      continue;
    }
    const size_t host = rng.OneIn(2) ? rng.Below(5) : rng.Below(100);
    const auto a = d.Arrive(From(host, static_cast<size_t>(i)), now);
    if (!a.ok()) continue;
    if (a->sent_away) ASSERT_EQ(here.erase(*a->sent_away), 1u);
    here[a->id] = host;
    ASSERT_EQ(d.waiting(), here.size());
    ASSERT_LE(here.size(), 64u);
    std::map<size_t, size_t> per;
    for (const auto& [id, h] : here) ASSERT_LE(++per[h], 8u);
  }
}

TEST(Network, TextThereAndBack) {
  for (const char* text : {"10.3.0.0/16", "10.3.0.7", "0.0.0.0/0", "fd00::/8", "fd00::1", "::/0", "10.0.0.128/25"}) {
    const auto n = ParseNetwork(text);
    ASSERT_TRUE(n.has_value()) << text;
    EXPECT_EQ(n->ToString(), text);
  }
  for (const char* text : {"", "10.3.1.0/16", "10.3.0.0/33", "10.3/16", "10.3.0.0/", "10.3.0.0/x", "10.3.0.0/-1", "fd00::/129", "fd00::1/64", "pc1", "10.3.0.0/16 ", "1.2.3.4/32/1"}) {
    EXPECT_FALSE(ParseNetwork(text).has_value()) << text;
  }
}

TEST(Network, HasItsAddresses) {
  const auto has = [](const char* network, const char* address) { return ParseNetwork(network)->Has(ParseIp(address).value()); };
  EXPECT_TRUE(has("10.3.0.0/16", "10.3.255.1"));
  EXPECT_FALSE(has("10.3.0.0/16", "10.4.0.1"));
  EXPECT_TRUE(has("10.0.0.128/25", "10.0.0.200"));
  EXPECT_FALSE(has("10.0.0.128/25", "10.0.0.100"));
  EXPECT_TRUE(has("0.0.0.0/0", "1.2.3.4"));
  EXPECT_FALSE(has("0.0.0.0/0", "fd00::1"));
  EXPECT_TRUE(has("10.3.0.0/16", "::ffff:10.3.0.1")) << "as a socket of IPv6 says it";
  EXPECT_TRUE(has("fd00::/8", "fdff::1"));
  EXPECT_TRUE(has("10.0.0.7", "10.0.0.7"));
  EXPECT_FALSE(has("10.0.0.7", "10.0.0.8"));
}

TEST(Network, AddressesOfConnections) {
  EXPECT_EQ(IpOfAddress("10.0.0.7:5")->ToString(), "10.0.0.7");
  EXPECT_EQ(IpOfAddress("[fd00::7]:5")->ToString(), "fd00::7");
  EXPECT_EQ(IpOfAddress("fd00::7")->ToString(), "fd00::7");
  EXPECT_FALSE(IpOfAddress("unix:/x").has_value());
  EXPECT_FALSE(IpOfAddress("pc1:5").has_value());
  EXPECT_FALSE(IpOfAddress("").has_value());
}

}  // namespace
}  // namespace stria
