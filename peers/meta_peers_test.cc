#include "peers/meta_peers.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

LocateReply Said(uint64_t term, const std::string& address, std::vector<std::string> members = {}) {
  LocateReply r;
  r.term = term;
  r.address = address;
  for (std::string& m : members) r.members.push_back({"of " + m, std::move(m)});
  return r;
}

class MetaPeersTest : public testing::Test {
 protected:
  SimExecutor ex_{1};
  MetaPeers peers_{{"a:1", "b:1", "a:1"}};
};

TEST_F(MetaPeersTest, AddressesAreTriedInTurn) {
  EXPECT_EQ(peers_.addresses(), (std::vector<std::string>{"a:1", "b:1"}));
  EXPECT_EQ(peers_.current(), "a:1");
  peers_.Failed("a:1");
  EXPECT_EQ(peers_.current(), "b:1");
  peers_.Failed("a:1");
  EXPECT_EQ(peers_.current(), "b:1") << "old news";
  peers_.Failed("b:1");
  EXPECT_EQ(peers_.current(), "a:1");
}

TEST_F(MetaPeersTest, TheHighestTermCounts) {
  EXPECT_TRUE(peers_.Heard(Said(5, "b:1")));
  EXPECT_EQ(peers_.current(), "b:1");
  EXPECT_EQ(peers_.known(), 5u);
  EXPECT_FALSE(peers_.Heard(Said(4, "a:1"))) << "it was so";
  EXPECT_FALSE(peers_.Heard(Said(0, ""))) << "it knows nothing";
  EXPECT_FALSE(peers_.Heard(Said(5, "b:1")));
  EXPECT_EQ(peers_.current(), "b:1");
  EXPECT_TRUE(peers_.Heard(Said(6, "a:1")));
  EXPECT_EQ(peers_.current(), "a:1");
  EXPECT_FALSE(peers_.Heard(Said(7, ""))) << "it does not know where";
  EXPECT_EQ(peers_.known(), 6u);
}

TEST_F(MetaPeersTest, FormerMembersAreRememberedTheLatestFirst) {
  for (size_t i = 0; i < 2 * kMaxFormer; ++i) peers_.Heard(Said(2 + i, "a:1", {"m" + std::to_string(i)}));
  EXPECT_EQ(peers_.former().size(), kMaxFormer);
  EXPECT_EQ(peers_.former()[0], "m" + std::to_string(2 * kMaxFormer - 2));
  peers_.Heard(Said(100, "a:1", {peers_.former()[1]}));
  EXPECT_EQ(peers_.former()[0], "m" + std::to_string(2 * kMaxFormer - 1));
  EXPECT_EQ(std::count(peers_.former().begin(), peers_.former().end(), peers_.addresses().back()), 0);
}

TEST_F(MetaPeersTest, AHintOfLessThanWasProvedIsNone) {
  peers_.Answered("a:1", 9);
  EXPECT_EQ(peers_.proved(), 9u);
  EXPECT_FALSE(peers_.Heard(Said(8, "b:1")));
  EXPECT_EQ(peers_.current(), "a:1");
  peers_.Answered("a:1", 3);
  EXPECT_EQ(peers_.proved(), 9u);
}

TEST_F(MetaPeersTest, MembersAreThoseOfTheNewestAnswer) {
  EXPECT_TRUE(peers_.Heard(Said(2, "c:1", {"b:1", "c:1", ""})));
  EXPECT_EQ(peers_.addresses(), (std::vector<std::string>{"a:1", "b:1", "c:1"}));
  EXPECT_TRUE(peers_.Heard(Said(3, "d:1", {"d:1", "b:1"})));
  EXPECT_EQ(peers_.addresses(), (std::vector<std::string>{"a:1", "b:1", "d:1"})) << "given ones are kept, c:1 was removed";
  EXPECT_EQ(peers_.former(), std::vector<std::string>{"c:1"});
  EXPECT_FALSE(peers_.Heard(Said(2, "c:1", {"c:1"})));
  EXPECT_EQ(peers_.addresses().size(), 3u);
  EXPECT_FALSE(peers_.Heard(Said(3, "d:1"))) << "that one does not know them";
  EXPECT_EQ(peers_.addresses().size(), 3u);
  EXPECT_TRUE(peers_.Heard(Said(4, "e:1", {"b:1"})));
  EXPECT_EQ(peers_.addresses(), (std::vector<std::string>{"a:1", "b:1", "e:1"})) << "wherever calls go is an address";
}

TEST_F(MetaPeersTest, WhoMustKnowTheAddressesIsToldBeforeCallsGoThere) {
  std::vector<std::pair<std::vector<std::string>, std::string>> told;
  peers_.OnAddresses([&](const std::vector<std::string>& all) { told.emplace_back(all, peers_.current()); });
  peers_.Heard(Said(2, "c:1", {"c:1"}));
  peers_.Heard(Said(2, "c:1", {"c:1"}));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, (std::vector<std::string>{"a:1", "b:1", "c:1"}));
  EXPECT_EQ(told[0].second, "a:1");
  EXPECT_EQ(peers_.current(), "c:1");
}

// Former members are asked, too, and a server that must be expected where it is would be refused there.
TEST_F(MetaPeersTest, FormerMembersAreToldToo) {
  std::vector<std::string> told;
  peers_.Heard(Said(2, "a:1", {"a:1", "b:1", "c:1", "d:1"}));
  peers_.OnAddresses([&](const std::vector<std::string>& asked) { told = asked; });
  peers_.Heard(Said(2, "a:1", {"a:1", "b:1"}));
  EXPECT_EQ(told, (std::vector<std::string>{"a:1", "b:1", "c:1", "d:1"}));
  EXPECT_EQ(told, peers_.asked());
  peers_.Heard(Said(3, "d:1"));
  EXPECT_EQ(told, (std::vector<std::string>{"a:1", "b:1", "d:1", "c:1"})) << "none twice";
}

// Somebody still names the one that is dead.
TEST_F(MetaPeersTest, WhatLedNowhereIsNotTriedAgainAndAgain) {
  peers_.Answered("a:1", 5);
  peers_.Failed("a:1");
  EXPECT_EQ(peers_.current(), "b:1");
  EXPECT_FALSE(peers_.Heard(Said(5, "a:1")));
  EXPECT_EQ(peers_.current(), "b:1");
  EXPECT_TRUE(peers_.Heard(Said(6, "a:1"))) << "it is back, in a new term";
  peers_.Failed("a:1");
  EXPECT_FALSE(peers_.Heard(Said(6, "a:1")));
  EXPECT_EQ(peers_.known(), 5u) << "it was not proved";
  ex_.RunFor(kTryHintAgainNs);
  EXPECT_TRUE(peers_.Heard(Said(6, "a:1"))) << "nobody else serves, and it may only have been hard to reach";
  peers_.Failed("a:1");
  // In a later term hints count anew.
  peers_.Answered("b:1", 6);
  EXPECT_EQ(peers_.current(), "b:1");
  EXPECT_TRUE(peers_.Heard(Said(7, "a:1")));
}

// A term that nobody ever had, from a member that is mad.
TEST_F(MetaPeersTest, AWrongHintHoldsNobodyForLong) {
  peers_.Answered("a:1", 5);
  EXPECT_TRUE(peers_.Heard(Said(UINT64_MAX, "b:1")));
  EXPECT_FALSE(peers_.Heard(Said(6, "a:1")));
  peers_.Failed("b:1");
  EXPECT_EQ(peers_.current(), "a:1");
  ex_.RunFor(60 * kSecond);
  EXPECT_FALSE(peers_.Heard(Said(UINT64_MAX, "b:1"))) << "a:1 serves";
  EXPECT_EQ(peers_.known(), 5u);
  EXPECT_TRUE(peers_.Heard(Said(6, "b:1")));
}

// The address in the settings and the one that the others know.
TEST_F(MetaPeersTest, OneServerUnderTwoNamesIsOne) {
  peers_.Answered("a:1", 5);
  EXPECT_FALSE(peers_.Heard(Said(5, "pc1.example:1", {"pc1.example:1", "pc2.example:1"})));
  EXPECT_EQ(peers_.current(), "a:1");
  EXPECT_EQ(peers_.addresses().size(), 4u);
}

TEST_F(MetaPeersTest, TellsWhenCallsGoElsewhere) {
  std::optional<bool> left;
  TaskScope scope;
  scope.Spawn(LeftFor(&peers_, "a:1"), [&](bool yes) { left = yes; });
  ex_.RunFor(kSecond);
  EXPECT_FALSE(left);
  peers_.Heard(Said(1, "a:1", {"c:1"}));
  ex_.RunFor(kSecond);
  EXPECT_FALSE(left) << "only the list has changed";
  peers_.Heard(Said(2, "c:1"));
  ex_.RunFor(kSecond);
  EXPECT_TRUE(left);
  EXPECT_TRUE(RunSim(ex_, LeftFor(&peers_, "b:1"))) << "they do not go there now";
}

}  // namespace
}  // namespace stria
