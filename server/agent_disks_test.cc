#include "server/agent_disks.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

AgentDisk Away(const std::string& label) {
  AgentDisk d;
  d.label = label;
  d.problem = label + " is away";
  return d;
}

TEST(AgentDisksTest, ADiskThatLeavesIsToldOnceMore) {
  std::vector<AgentDisk> disks = {Away("d1"), Away("d2"), Away("d3")};
  EXPECT_EQ(ToldDisks(disks), (std::vector<size_t>{0, 1, 2}));
  EXPECT_TRUE(LeavingDisks(disks).empty());
  disks[1].leaves = true;
  EXPECT_EQ(ToldDisks(disks), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(LeavingDisks(disks), std::vector<size_t>{1});
  disks[1].left = true;
  EXPECT_EQ(ToldDisks(disks), (std::vector<size_t>{0, 2}));
  EXPECT_TRUE(LeavingDisks(disks).empty());
  const std::vector<DiskHello> hellos = HellosOf(disks, ToldDisks(disks), {});
  ASSERT_EQ(hellos.size(), 2u);
  EXPECT_EQ(hellos[0].label, "d1");
  EXPECT_EQ(hellos[1].label, "d3");
  EXPECT_EQ(hellos[1].problem, "d3 is away");
  EXPECT_TRUE(hellos[0].absent);
  EXPECT_FALSE(hellos[0].failed);
}

TEST(AgentDisksTest, WhatIsNewIsHeldBack) {
  std::vector<AgentDisk> disks = {Away("d1"), Away("d2"), Away("d3")};
  const Error no(FsError::kBadRequest, "no");
  EXPECT_FALSE(HoldBack(&disks, no)) << "none is new";
  EXPECT_FALSE(TryHeldBack(&disks));
  disks[1].fresh = disks[2].fresh = true;
  disks[2].left = true;
  EXPECT_FALSE(HoldBack(&disks, Error(FsError::kUnavailable))) << "nobody has said no";
  EXPECT_EQ(HoldBack(&disks, no), std::vector<size_t>{1});
  EXPECT_EQ(RegisteredDisks(disks), std::vector<size_t>{0});
  EXPECT_EQ(HellosOf(disks, ToldDisks(disks), {}).at(1).problem, "the node is not registered with it: no");
  EXPECT_FALSE(HoldBack(&disks, no)) << "it was without them";
  disks[1].leaves = true;
  EXPECT_EQ(HellosOf(disks, ToldDisks(disks), {}).at(1).problem, "d2 is away");
  disks[1].leaves = false;
  EXPECT_TRUE(TryHeldBack(&disks));
  EXPECT_EQ(RegisteredDisks(disks), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(HoldBack(&disks, no), std::vector<size_t>()) << "held back as before, for the same reason";
  EXPECT_TRUE(TryHeldBack(&disks));
  EXPECT_EQ(HoldBack(&disks, Error(FsError::kExist, "never")), std::vector<size_t>{1});
}

TEST(AgentDisksTest, AReplyIsSpreadOverTheNumbersOfAll) {
  RegisterNodeReply reply;
  reply.targets = {TargetId(5), TargetId(6)};
  reply.disk_proofs = {"of 5", "of 6"};
  SpreadOver(4, {0, 2}, &reply);
  EXPECT_EQ(reply.targets, (std::vector<TargetId>{TargetId(5), TargetId(), TargetId(6), TargetId()}));
  EXPECT_EQ(reply.disk_proofs, (std::vector<std::string>{"of 5", "", "of 6", ""}));
  RegisterNodeReply without_proofs;
  without_proofs.targets = {TargetId(7)};
  SpreadOver(1, {0}, &without_proofs);
  EXPECT_EQ(without_proofs.targets, std::vector<TargetId>{TargetId(7)});
  EXPECT_EQ(without_proofs.disk_proofs, std::vector<std::string>{""});
}

}  // namespace
}  // namespace stria
