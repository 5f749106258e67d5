// What the service orders when nothing is wrong: rebalancing, scrubs, fsck.
#include <gtest/gtest.h>

#include "meta/service/five_nodes_testing.h"

namespace stria {
namespace {

using UpkeepTest = FiveNodesTest;

TEST_F(UpkeepTest, RebalancingFillsNewDisks) {
  FileOf(1200);
  TestNode fresh(&h, 6, 2);
  fresh.Start();
  h.ex.RunFor(10 * kSecond);
  UpkeepRequest r;
  r.header.cluster = h.cluster;
  r.verb = UpkeepVerb::kRebalanceStart;
  r.dry_run = true;
  ASSERT_TRUE(a.Run(h.server->Upkeep(r)).ok());
  EXPECT_FALSE(a.Run(h.server->Upkeep(r))->rebalancing);
  r.dry_run = false;
  auto begun = a.Run(h.server->Upkeep(r));
  ASSERT_TRUE(begun.ok()) << begun.error();
  EXPECT_TRUE(begun->rebalancing);
  EXPECT_GT(begun->rebalance_bytes_left, 0u);
  h.ex.RunFor(3 * kSecond);
  fresh.Stop();
  RestartMeta(true);
  fresh.Start();
  r.verb = UpkeepVerb::kStatus;
  EXPECT_TRUE(a.Run(h.server->Upkeep(r))->rebalancing) << "it goes on after a restart";
  h.ex.RunFor(400 * kSecond);
  EXPECT_FALSE(a.Run(h.server->Upkeep(r))->rebalancing) << "it ends";
  CanRemoveRequest weigh;
  weigh.header.cluster = h.cluster;
  size_t least = SIZE_MAX, most = 0;
  for (const TargetInfo& t : Status().map.targets) {
    weigh.targets = {t.id};
    const size_t stripes = a.Run(h.server->CanRemove(weigh))->degraded_stripes;
    least = std::min(least, stripes);
    most = std::max(most, stripes);
  }
  EXPECT_GT(least, 180u);
  EXPECT_LE(most, 330u) << "300 each, and a tolerance of 8 MiB in shards of 512 KiB";
  EXPECT_EQ(Status().degraded_stripes, 0u);
  EXPECT_EQ(Status().crowded_stripes, 0u);
  EXPECT_TRUE(h.Fsck().empty());
  fresh.Stop();
}

TEST_F(UpkeepTest, ScrubsAreOrderedAndCompared) {
  const InodeId ino = FileOf(1);
  UpkeepRequest r;
  r.header.cluster = h.cluster;
  r.verb = UpkeepVerb::kScrubStart;
  r.number = 1000;
  ASSERT_TRUE(a.Run(h.server->Upkeep(r)).ok());
  ReportScrubRequest report;
  report.header.cluster = h.cluster;
  report.node = nodes[0]->id;
  report.epoch = nodes[0]->epoch;
  report.disks.resize(1);
  report.disks[0].target = nodes[0]->targets[0];
  auto order = a.Run(h.server->ReportScrub(report));
  ASSERT_TRUE(order.ok()) << order.error();
  EXPECT_EQ(order->targets, std::vector<TargetId>{nodes[0]->targets[0]});
  report.disks[0].order_s = order->start_s;
  report.disks[0].finished_s = order->start_s + 5;
  EXPECT_TRUE(a.Run(h.server->ReportScrub(report))->targets.empty()) << "done";
  report.disks[0].target = nodes[1]->targets[0];
  EXPECT_EQ(a.Run(h.server->ReportScrub(report)).code(), FsError::kBadRequest);

  GetExtentsRequest get;
  get.header = a.Header();
  get.ino = ino;
  get.length = kMiB;
  const Column c = a.Run(h.server->GetExtents(get))->stripes.at(0).info.columns[1];
  CompareShardsRequest compare;
  compare.header.cluster = h.cluster;
  compare.target = c.target;
  compare.last = ShardId(UINT64_MAX);
  EXPECT_EQ(a.Run(h.server->CompareShards(compare))->missing, std::vector<ShardId>{c.shard});
  compare.held = {{c.shard, c.digest}};
  EXPECT_TRUE(a.Run(h.server->CompareShards(compare))->missing.empty());
  EXPECT_TRUE(a.Run(h.server->CompareShards(compare))->wrong.empty());
  compare.held = {{c.shard, c.digest + 1}};
  EXPECT_EQ(a.Run(h.server->CompareShards(compare))->wrong, std::vector<ShardId>{c.shard});
  compare.after = c.shard;
  EXPECT_TRUE(a.Run(h.server->CompareShards(compare))->wrong.empty()) << "not asked for";
}

TEST_F(UpkeepTest, StripesAreListedByTheirFirstParityShard) {
  FileOf(200);
  std::map<StripeId, StripeInfo> listed;
  ListParityRequest r;
  r.header.cluster = h.cluster;
  for (const TargetInfo& t : Status().map.targets) {
    r.target = t.id;
    r.after = ShardId();
    r.last = ShardId(UINT64_MAX);
    while (r.after < r.last) {
      auto page = a.Run(h.server->ListParity(r));
      ASSERT_TRUE(page.ok()) << page.error();
      for (const StripeGrant& s : page->stripes) {
        EXPECT_TRUE(listed.emplace(s.info.id, s.info).second) << "twice";
        EXPECT_EQ(s.info.columns[s.info.shape.k].target, t.id);
        EXPECT_EQ(s.tokens.size(), s.info.columns.size());
      }
      ASSERT_GT(page->last, r.after);
      r.after = page->last;
    }
  }
  EXPECT_EQ(listed.size(), 200u);
  // Those that lack a column wait for their repair.
  const StripeInfo& one = listed.begin()->second;
  ReportShardRequest bad;
  bad.header.cluster = h.cluster;
  bad.stripe = one.id;
  bad.column = 0;
  bad.shard = one.columns[0].shard;
  ASSERT_TRUE(Admin(AdminVerb::kRepairPause, NodeId()).ok());
  ASSERT_TRUE(a.Run(h.server->ReportShard(bad)).ok());
  r.target = one.columns[one.shape.k].target;
  r.after = ShardId(one.columns[one.shape.k].shard.v - 1);
  r.last = one.columns[one.shape.k].shard;
  auto page = a.Run(h.server->ListParity(r));
  ASSERT_TRUE(page.ok()) << page.error();
  EXPECT_TRUE(page->stripes.empty());
  EXPECT_EQ(page->last, r.last);
}

TEST_F(UpkeepTest, FsckRepairsWhileItServes) {
  FileOf(3, "f");
  {
    Txn txn(*h.server->store());
    txn.AddCount(Counter::kLiveBytes, 5);
    ASSERT_TRUE(txn.Commit().ok());
  }
  EXPECT_EQ(h.Fsck().size(), 1u);
  FsckRepairRequest r;
  r.header.cluster = h.cluster;
  r.dry_run = true;
  EXPECT_EQ(a.Run(h.server->FsckRepair(r))->done.size(), 1u);
  EXPECT_EQ(h.Fsck().size(), 1u);
  r.header.uid = 1000;
  EXPECT_EQ(a.Run(h.server->FsckRepair(r)).code(), FsError::kPerm) << "it takes everybody's time";
  r.dry_run = false;
  EXPECT_EQ(a.Run(h.server->FsckRepair(r)).code(), FsError::kPerm);
  r.header.uid = 0;
  auto done = a.Run(h.server->FsckRepair(r));
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_TRUE(done->problems.empty());
  RestartMeta(true);
  EXPECT_TRUE(h.Fsck().empty()) << "it was durable";
  EXPECT_TRUE(a.Lookup("f").ok());
}

TEST_F(UpkeepTest, WhoMayListIsToldNames) {
  SetAttrRequest close;
  NamesRequest r;
  r.ino = FileOf(1, "data");
  close.header = a.Header();
  close.ino = kRootInode;
  close.mode = 0700;
  ASSERT_TRUE(a.Run(h.server->SetAttr(close)).ok());
  const std::vector<std::string> all = {"/data"}, none;
  const auto told = [&](uint32_t uid, bool session) {
    r.header = a.Header();
    if (!session) r.header.session = SessionId();
    r.header.uid = uid;
    const auto names = a.Run(h.server->Names(r));
    EXPECT_TRUE(names.ok()) << names.error();
    EXPECT_EQ(names->paths.size() + names->hidden, 1u) << "whose name is not told is counted";
    return names->paths;
  };
  EXPECT_EQ(told(0, false), all);
  EXPECT_EQ(told(0, true), all);
  EXPECT_EQ(told(1000, false), none);
  EXPECT_EQ(told(1000, true), none);
  h.options.root_squash = true;
  RestartMeta(true);
  EXPECT_EQ(told(0, true), none) << "root of a client is nobody";
  EXPECT_EQ(told(0, false), all) << "an admin is not";
}

TEST_F(UpkeepTest, SettingsChangeWhileItRuns) {
  UpkeepRequest r;
  r.header.cluster = h.cluster;
  const bool folds = a.Run(h.server->Upkeep(r))->folding.on;
  MetaServerOptions now = h.options;
  now.fold.enabled = !folds;
  now.cluster.out_ns = 20 * kSecond;
  h.server->TakeSettings(now);
  EXPECT_EQ(a.Run(h.server->Upkeep(r))->folding.on, !folds);
  nodes[4]->Stop();
  h.ex.RunFor(40 * kSecond);  // it was a minute
  size_t out = 0;
  for (const NodeInfo& n : Status().map.nodes) out += n.state == NodeState::kOut;
  EXPECT_EQ(out, 1u);
}

}  // namespace
}  // namespace stria
