// Repair, drains and what is lost, of the whole service.
#include <gtest/gtest.h>

#include <algorithm>

#include "meta/service/five_nodes_testing.h"

namespace stria {
namespace {

using RepairTest = FiveNodesTest;

TEST_F(RepairTest, ReadTokensAreGoodForTheirShards) {
  const InodeId ino = FileOf(1);
  GetExtentsRequest r;
  r.header = a.Header();
  r.ino = ino;
  r.length = kMiB;
  auto extents = a.Run(h.server->GetExtents(r));
  ASSERT_TRUE(extents.ok());
  const StripeGrant& g = extents->stripes.at(0);
  const TokenVerifier verifier({TestKey()});
  const int64_t now_s = h.ex.WallNs() / kSecond;
  const Column& c = g.info.columns[0];
  EXPECT_TRUE(verifier.Check(g.tokens[0], c.shard, c.target, kTokenRead, now_s).ok());
  EXPECT_FALSE(verifier.Check(g.tokens[0], c.shard, c.target, kTokenWrite, now_s).ok());
  EXPECT_EQ(verifier.Check(g.tokens[0], c.shard, c.target, kTokenRead, now_s + 3700).code(), FsError::kTokenExpired);
}

TEST_F(RepairTest, ANodeThatIsGoneIsRebuiltElsewhere) {
  FileOf(40);
  const StatusReply before = Status();
  EXPECT_EQ(before.degraded_stripes, 0u);
  const std::vector<TargetId> gone = nodes[0]->targets;
  nodes[0]->Stop();
  h.ex.RunFor(20 * kSecond);
  EXPECT_GT(Status().degraded_stripes, 0u);
  EXPECT_EQ(Status().lost_stripes, 0u);
  EXPECT_TRUE(Status().repairs.empty()) << "the grace period runs";
  h.ex.RunFor(60 * kSecond);
  ASSERT_EQ(Status().repairs.size(), 2u);
  EXPECT_EQ(Status().repairs[0].reason, "n1 is out");
  dead.insert(nodes[0].get());
  RestartMeta(false);
  h.ex.RunFor(120 * kSecond);
  const StatusReply after = Status();
  EXPECT_EQ(after.degraded_stripes, 0u);
  EXPECT_EQ(after.crowded_stripes, 0u);
  EXPECT_TRUE(h.Fsck().empty());
  size_t workers = 0;
  for (auto& n : nodes) workers += !n->rebuilt.empty();
  EXPECT_EQ(workers, 4u) << "every node takes part";
  // The node returns: what it has is garbage, and is deleted there.
  nodes[0]->Start();
  h.ex.RunFor(30 * kSecond);
  EXPECT_EQ(Status().garbage_shards, 0u);
  EXPECT_FALSE(nodes[0]->deleted.empty());
  EXPECT_TRUE(Status().repairs.empty());
}

TEST_F(RepairTest, RepairSurvivesRestartsAtAnyTime) {
  FileOf(30);
  for (auto& n : nodes) n->does_work = false;
  nodes[1]->Stop();
  dead.insert(nodes[1].get());
  h.ex.RunFor(15 * kSecond);
  ASSERT_TRUE(Admin(AdminVerb::kOut, nodes[1]->id).ok());
  for (int i = 0; i < 6; ++i) {
    h.ex.RunFor((1 + static_cast<int64_t>(h.rng.Below(5))) * kSecond);
    RestartMeta(i % 2 == 0);
    nodes[static_cast<size_t>(2 + i % 3)]->does_work = true;
  }
  for (auto& n : nodes) n->does_work = true;
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(Status().degraded_stripes, 0u);
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(RepairTest, DrainThenRemove) {
  FileOf(30);
  const TargetId t = nodes[2]->targets[0];
  EXPECT_EQ(Admin(AdminVerb::kRemove, NodeId(), t).code(), FsError::kBusy);
  EXPECT_EQ(Admin(AdminVerb::kOut, NodeId(), t).code(), FsError::kBusy) << "it is up";
  auto drain = Admin(AdminVerb::kDrain, NodeId(), t);
  ASSERT_TRUE(drain.ok());
  EXPECT_GT(drain->stripes, 0u);
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(Status().degraded_stripes, 0u);
  ASSERT_EQ(Status().repairs.size(), 1u);
  EXPECT_EQ(Status().repairs[0].stripes_done, drain->stripes);
  bool copied = false;
  for (auto& n : nodes) {
    for (const auto& [id, w] : n->rebuilt) copied = copied || w.copy;
  }
  EXPECT_TRUE(copied);
  h.ex.RunFor(10 * kSecond);
  ASSERT_TRUE(Admin(AdminVerb::kRemove, NodeId(), t).ok()) << Admin(AdminVerb::kRemove, NodeId(), t).error();
  EXPECT_EQ(Status().map.FindTarget(t)->state, TargetState::kRemoved);
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(RepairTest, ADeadNodeIsRemovedAlthoughClientsHoldStripesToFillThere) {
  const InodeId ino = FileOf(1);
  auto held = a.Allocate(ino, 8);
  ASSERT_TRUE(held.ok());
  nodes[1]->Stop();
  h.ex.RunFor(90 * kSecond);  // out, and what was live is rebuilt
  ASSERT_TRUE(Admin(AdminVerb::kRemove, nodes[1]->id).ok()) << Admin(AdminVerb::kRemove, nodes[1]->id).error();
  CommitRequest r;
  r.header = a.Mutation();
  r.ino = ino;
  r.stripes = {TestClient::Sealed(held->stripes[0].info, kMiB)};
  Extent e;
  e.length = kMiB;
  e.stripe = r.stripes[0].id;
  r.extents = {e};
  EXPECT_EQ(a.Run(h.server->Commit(r)).code(), FsError::kConflict);
  EXPECT_TRUE(a.WriteStripe(ino, 0, kMiB).ok());
  EXPECT_TRUE(h.Fsck().empty());
}

// It was acknowledged when all of its shards were there.
TEST_F(RepairTest, ARepeatedCommitIsTakenThoughADiskIsGone) {
  const InodeId ino = FileOf(1);
  auto held = a.Allocate(ino, 8);
  ASSERT_TRUE(held.ok());
  TestNode* gone = nullptr;
  CommitRequest r;
  r.ino = ino;
  r.stripes = {TestClient::Sealed(held->stripes[0].info, kMiB)};
  for (auto& n : nodes) {
    if (std::ranges::count(n->targets, r.stripes[0].columns[0].target) > 0) gone = n.get();
  }
  ASSERT_NE(gone, nullptr);
  Extent e;
  e.length = kMiB;
  e.stripe = r.stripes[0].id;
  r.extents = {e};
  gone->Stop();
  dead.insert(gone);
  h.ex.RunFor(15 * kSecond);
  ASSERT_TRUE(Admin(AdminVerb::kOut, gone->id).ok());
  h.ex.RunFor(10 * kSecond);  // what was live there has been found, and rebuilt
  r.header = a.Mutation();
  EXPECT_EQ(a.Run(h.server->Commit(r)).code(), FsError::kConflict) << "not a repeated one";
  a.replay_next = 10;
  RestartMeta(false);
  AdminRequest remove;
  remove.header = a.Header();
  remove.header.session = SessionId();
  remove.header.timeout_ns = kSecond;
  remove.verb = AdminVerb::kRemove;
  remove.node = gone->id;
  EXPECT_EQ(a.Run(h.server->Admin(remove)).code(), FsError::kRetryLater) << "its stripes may be needed yet";
  r.header = a.Mutation();
  r.header.replay_order = 10;
  const auto again = a.Run(h.server->Commit(r));
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_TRUE(a.Run(h.server->Sync(a.Ino(InodeId()))).ok());
  EXPECT_EQ(Status().degraded_stripes, 1u);
  EXPECT_EQ(Admin(AdminVerb::kRemove, gone->id).code(), FsError::kBusy);
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(Status().degraded_stripes, 0u);
  EXPECT_TRUE(Admin(AdminVerb::kRemove, gone->id).ok());
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(RepairTest, ADeadNodeIsReplacedWithoutWaiting) {
  FileOf(20);
  nodes[1]->Stop();
  h.ex.RunFor(15 * kSecond);
  const uint64_t degraded = Status().degraded_stripes;
  EXPECT_GT(degraded, 0u);
  TestNode fresh(&h, 6, 2);
  fresh.Start();
  h.ex.RunFor(2 * kSecond);
  AdminRequest r;
  r.header.cluster = h.cluster;
  r.verb = AdminVerb::kReplaceNode;
  r.node = nodes[1]->id;
  r.new_node = fresh.id;
  r.dry_run = true;
  auto dry = a.Run(h.server->Admin(r));
  ASSERT_TRUE(dry.ok()) << dry.error();
  EXPECT_EQ(dry->stripes, degraded);
  r.dry_run = false;
  ASSERT_TRUE(a.Run(h.server->Admin(r)).ok());
  h.ex.RunFor(40 * kSecond);
  EXPECT_EQ(Status().degraded_stripes, 0u);
  ASSERT_TRUE(Admin(AdminVerb::kRemove, nodes[1]->id).ok());
  EXPECT_EQ(Status().map.FindNode(nodes[1]->id), nullptr);
  fresh.Stop();
  RestartMeta(true);
  fresh.Start();
  h.ex.RunFor(5 * kSecond);
  EXPECT_TRUE(h.Fsck().empty());
  fresh.Stop();
}

TEST_F(RepairTest, NothingIsCommittedWithAShardThatIsLostAlready) {
  const InodeId ino = FileOf(1);
  auto held = a.Allocate(ino, 1);
  ASSERT_TRUE(held.ok());
  const StripeInfo sealed = TestClient::Sealed(held->stripes[0].info, kMiB);
  nodes[1]->Stop();
  h.ex.RunFor(90 * kSecond);  // out
  CommitRequest r;
  r.header = a.Mutation();
  r.ino = ino;
  r.stripes = {sealed};
  Extent e;
  e.length = kMiB;
  e.stripe = sealed.id;
  r.extents = {e};
  EXPECT_EQ(a.Run(h.server->Commit(r)).code(), FsError::kConflict);
  EXPECT_EQ(Status().degraded_stripes, 0u);
}

TEST_F(RepairTest, PauseAndLimit) {
  FileOf(20);
  ASSERT_TRUE(Admin(AdminVerb::kRepairPause, NodeId()).ok());
  ASSERT_TRUE(Admin(AdminVerb::kDrain, nodes[0]->id).ok());
  h.ex.RunFor(30 * kSecond);
  EXPECT_EQ(Status().repairs[0].stripes_done, 0u);
  EXPECT_TRUE(Status().repairs[0].paused);
  RestartMeta(true);
  h.ex.RunFor(30 * kSecond);
  EXPECT_EQ(Status().repairs[0].stripes_done, 0u) << "still paused";
  ASSERT_TRUE(Admin(AdminVerb::kRepairLimit, NodeId(), TargetId(), false, 64 * kKiB).ok());
  ASSERT_TRUE(Admin(AdminVerb::kRepairResume, NodeId()).ok());
  h.ex.RunFor(30 * kSecond);
  uint64_t done = 0;
  for (const RepairProgress& p : Status().repairs) done += p.bytes_done;
  EXPECT_GT(done, 0u);
  EXPECT_LE(done, 64 * kKiB * 30 + kMiB);
  ASSERT_TRUE(Admin(AdminVerb::kRepairLimit, NodeId()).ok());
  h.ex.RunFor(40 * kSecond);
  for (const RepairProgress& p : Status().repairs) EXPECT_EQ(p.stripes_done, p.stripes_total);
}

TEST_F(RepairTest, ABadShardIsRebuiltAlthoughItsDiskIsUp) {
  const InodeId ino = FileOf(1);
  GetExtentsRequest get;
  get.header = a.Header();
  get.ino = ino;
  get.length = kMiB;
  const StripeGrant grant = a.Run(h.server->GetExtents(get))->stripes.at(0);
  const StripeInfo& was = grant.info;
  ReportShardRequest r;
  r.header = a.Header();
  r.stripe = was.id;
  r.column = 1;
  r.shard = was.columns[1].shard;
  for (const std::string& token : {std::string(), grant.tokens[0]}) {
    r.token = token;
    EXPECT_EQ(a.Run(h.server->ReportShard(r)).code(), FsError::kBadToken) << "nobody had it to read";
  }
  EXPECT_EQ(Status().degraded_stripes, 0u);
  r.token = grant.tokens[1];
  ASSERT_TRUE(a.Run(h.server->ReportShard(r)).ok());
  EXPECT_EQ(Status().degraded_stripes, 1u);
  RestartMeta(false);
  h.ex.RunFor(20 * kSecond);
  EXPECT_EQ(Status().degraded_stripes, 0u);
  get.header = a.Header();
  const StripeInfo now = a.Run(h.server->GetExtents(get))->stripes.at(0).info;
  EXPECT_NE(now.columns[1].shard, was.columns[1].shard);
  EXPECT_EQ(now.columns[0], was.columns[0]);
  ASSERT_TRUE(a.Run(h.server->ReportShard(r)).ok());
  EXPECT_EQ(Status().degraded_stripes, 0u) << "old news";
}

TEST_F(RepairTest, AReadersWordIsAskedOfTheShardsNode) {
  const InodeId ino = FileOf(1);
  TestClient b(&h, 2);
  b.peer = TestPeer(Role::kClient, "wn7");
  b.Open();
  ASSERT_TRUE(b.OpenFile(ino, false).ok());
  GetExtentsRequest get;
  get.header = b.Header();
  get.ino = ino;
  get.length = kMiB;
  const StripeGrant grant = b.Run(h.server->GetExtents(get))->stripes.at(0);
  const StripeInfo& was = grant.info;
  const Column& column = was.columns[1];
  TestNode* owner = nullptr;
  for (auto& n : nodes) {
    if (std::ranges::count(n->targets, column.target) > 0) owner = n.get();
  }
  ASSERT_NE(owner, nullptr);
  ReportShardRequest r;
  r.header = b.Header();
  r.stripe = was.id;
  r.column = 1;
  r.shard = column.shard;
  r.token = grant.tokens[1];
  const auto looked = [&] {
    size_t n = 0;
    for (auto& node : nodes) n += node->looked_at.size();
    return n;
  };
  // It lies, or its network does.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(b.Run(h.server->ReportShard(r)).ok());
  h.ex.RunFor(5 * kSecond);
  ASSERT_EQ(owner->looked_at.size(), 1u);
  EXPECT_EQ(owner->looked_at[0].shard, column.shard);
  EXPECT_EQ(owner->looked_at[0].digest, column.digest);
  EXPECT_EQ(looked(), 1u) << "no other node is asked";
  EXPECT_EQ(Status().degraded_stripes, 0u);
  ASSERT_TRUE(b.Run(h.server->ReportShard(r)).ok());
  h.ex.RunFor(5 * kSecond);
  EXPECT_EQ(looked(), 1u) << "not at once again";
  // It is right.
  h.ex.RunFor(60 * kSecond);
  owner->on_check = [](const CheckWork&) { return FsError::kNoSuchShard; };
  r.header = b.Header();
  ASSERT_TRUE(b.Run(h.server->ReportShard(r)).ok());
  EXPECT_EQ(Status().degraded_stripes, 0u);
  h.ex.RunFor(30 * kSecond);
  EXPECT_EQ(Status().degraded_stripes, 0u);
  get.header = a.Header();
  const StripeInfo now = a.Run(h.server->GetExtents(get))->stripes.at(0).info;
  EXPECT_NE(now.columns[1].shard, column.shard) << "made again";
  EXPECT_EQ(now.columns[0], was.columns[0]);
  b.Stop();
}

TEST_F(RepairTest, ADataServersWordCountsForItsOwnDisks) {
  const InodeId ino = FileOf(1);
  GetExtentsRequest get;
  get.header = a.Header();
  get.ino = ino;
  get.length = kMiB;
  const StripeInfo was = a.Run(h.server->GetExtents(get))->stripes.at(0).info;
  const ClusterMap map = Status().map;
  const auto node_of = [&](uint16_t column) { return map.FindNode(map.FindTarget(was.columns[column].target)->node); };
  ReportShardRequest r;
  r.header.cluster = h.cluster;
  r.header.peer = TestPeer(Role::kData, node_of(1)->name);
  r.shard = was.columns[0].shard;
  ASSERT_TRUE(a.Run(h.server->ReportShard(r)).ok());
  EXPECT_EQ(Status().degraded_stripes, 0u) << "of another node's disk";
  h.ex.RunFor(5 * kSecond);
  size_t looked = 0;
  for (auto& n : nodes) looked += n->id == node_of(0)->id ? n->looked_at.size() : 100 * n->looked_at.size();
  EXPECT_EQ(looked, 1u) << "that one is asked";
  r.shard = was.columns[1].shard;
  ASSERT_TRUE(a.Run(h.server->ReportShard(r)).ok());
  EXPECT_EQ(Status().degraded_stripes, 1u);
  for (const Role role : {Role::kAdmin, Role::kClient, Role::kMeta, Role::kMonitor}) {
    r.header.peer = TestPeer(role, node_of(1)->name);
    EXPECT_EQ(a.Run(h.server->ReportShard(r)).code(), FsError::kAccess) << RoleName(role);
  }
}

TEST_F(RepairTest, AScrubNamesOnlyTheShard) {
  const InodeId ino = FileOf(1);
  GetExtentsRequest get;
  get.header = a.Header();
  get.ino = ino;
  get.length = kMiB;
  const StripeInfo was = a.Run(h.server->GetExtents(get))->stripes.at(0).info;
  ReportShardRequest r;
  r.header = a.Header();
  r.header.session = SessionId();
  r.shard = was.columns[2].shard;
  ASSERT_TRUE(a.Run(h.server->ReportShard(r)).ok());
  EXPECT_EQ(Status().degraded_stripes, 1u);
  h.ex.RunFor(20 * kSecond);
  EXPECT_EQ(Status().degraded_stripes, 0u);
}

TEST_F(RepairTest, LostFilesAreListed) {
  FileOf(12, "data");
  std::vector<NodeId> gone;
  for (int i = 0; i < 2; ++i) {
    nodes[static_cast<size_t>(i)]->Stop();
    gone.push_back(nodes[static_cast<size_t>(i)]->id);
  }
  h.ex.RunFor(15 * kSecond);
  const StatusReply s = Status();
  EXPECT_GT(s.lost_stripes, 0u);
  ASSERT_FALSE(s.lost_files.empty());
  EXPECT_EQ(s.lost_files[0].path, "/data");
  EXPECT_EQ(s.lost_files[0].length, kMiB);
  EXPECT_GT(s.degraded_stripes, s.lost_stripes);
  // All of them, too; and nobody but an admin is told which files they are.
  FilesRequest all;
  all.header = a.Header();
  all.header.session = SessionId();
  const auto listed = a.Run(h.server->Files(all));
  ASSERT_TRUE(listed.ok()) << listed.error();
  EXPECT_EQ(listed->files.size(), s.lost_files.size());
  EXPECT_EQ(listed->next, "");
  all.after = "nowhere";
  EXPECT_EQ(a.Run(h.server->Files(all)).code(), FsError::kBadRequest);
  all.after.clear();
  all.header.uid = 1000;
  EXPECT_EQ(a.Run(h.server->Files(all)).code(), FsError::kPerm);
  InodeRequest user;
  user.header = all.header;
  const auto told = a.Run(h.server->Status(user));
  EXPECT_EQ(told->lost_stripes, s.lost_stripes);
  EXPECT_TRUE(told->lost_files.empty());
  EXPECT_EQ(a.Run(h.server->Fsck(user)).code(), FsError::kPerm) << "everybody waits meanwhile";
  // They come back before anything was given up.
  for (auto& n : nodes) n->Start();
  h.ex.RunFor(20 * kSecond);
  EXPECT_EQ(Status().lost_stripes, 0u);
}

TEST_F(RepairTest, StatusIsForWhomItConcerns) {
  FileOf(12, "data");
  for (size_t i : {0, 1}) nodes[i]->Stop();
  h.ex.RunFor(15 * kSecond);
  InodeRequest ask;
  ask.header.cluster = h.cluster;
  const auto as = [&](Role role, uint32_t uid) {
    ask.header.peer = TestPeer(role, "pc1");
    ask.header.uid = uid;
    return a.Run(h.server->Status(ask)).value();
  };
  const StatusReply admin = as(Role::kAdmin, 1000);
  EXPECT_FALSE(admin.lost_files.empty());
  EXPECT_FALSE(admin.sessions.empty());
  const StatusReply monitor = as(Role::kMonitor, 0);
  EXPECT_TRUE(monitor.lost_files.empty());
  EXPECT_EQ(monitor.sessions.size(), admin.sessions.size());
  const StatusReply client = as(Role::kClient, 0);
  EXPECT_TRUE(client.lost_files.empty());
  EXPECT_TRUE(client.sessions.empty()) << "others'";
  EXPECT_GT(admin.lost_stripes, 0u);
  EXPECT_EQ(client.lost_stripes, 0u) << "others' files are none of its business";
  EXPECT_EQ(client.map.nodes, admin.map.nodes);
  // A monitor sees how far work is, and orders nothing.
  UpkeepRequest order;
  order.header = ask.header;
  order.header.peer = TestPeer(Role::kMonitor, "pc1");
  EXPECT_TRUE(a.Run(h.server->Upkeep(order)).ok());
  order.verb = UpkeepVerb::kScrubPause;
  EXPECT_EQ(a.Run(h.server->Upkeep(order)).code(), FsError::kAccess);
  EXPECT_FALSE(a.Run(h.server->Upkeep({order.header})).value().scrub_paused);
}

TEST_F(RepairTest, FailedRebuildsAreTriedAgain) {
  FileOf(10);
  for (auto& n : nodes) n->rebuild_result = FsError::kIo;
  ASSERT_TRUE(Admin(AdminVerb::kDrain, nodes[0]->id).ok());
  h.ex.RunFor(30 * kSecond);
  EXPECT_EQ(Status().repairs[0].stripes_done, 0u);
  for (auto& n : nodes) n->rebuild_result = FsError::kOk;
  h.ex.RunFor(90 * kSecond);
  for (const RepairProgress& p : Status().repairs) EXPECT_EQ(p.stripes_done, p.stripes_total);
  EXPECT_EQ(Status().garbage_shards, 0u) << "abandoned shards are collected too";
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(RepairTest, ProgressSurvivesARestart) {
  FileOf(30);
  ASSERT_TRUE(Admin(AdminVerb::kRepairLimit, NodeId(), TargetId(), false, 512 * kKiB).ok());
  ASSERT_TRUE(Admin(AdminVerb::kDrain, NodeId(), nodes[0]->targets[0]).ok());
  h.ex.RunFor(6 * kSecond);
  ASSERT_TRUE(Admin(AdminVerb::kRepairPause, NodeId()).ok());
  h.ex.RunFor(5 * kSecond);
  const RepairProgress before = Status().repairs.at(0);
  EXPECT_GT(before.stripes_done, 0u);
  EXPECT_LT(before.stripes_done, before.stripes_total);
  RestartMeta(true);
  h.ex.RunFor(5 * kSecond);
  const RepairProgress after = Status().repairs.at(0);
  EXPECT_EQ(after.stripes_done, before.stripes_done);
  EXPECT_EQ(after.bytes_done, before.bytes_done);
  EXPECT_EQ(after.stripes_total, before.stripes_total);
  // The admin changes his mind: nothing of it is left.
  ASSERT_TRUE(Admin(AdminVerb::kUndrain, NodeId(), nodes[0]->targets[0]).ok());
  h.ex.RunFor(2 * kSecond);
  EXPECT_TRUE(Status().repairs.empty());
  RestartMeta(true);
  h.ex.RunFor(2 * kSecond);
  EXPECT_TRUE(Status().repairs.empty());
}

TEST_F(RepairTest, CrowdedStripesSpreadAgainWhenANodeComes) {
  auto made = a.Make(kRootInode, "wide");
  ASSERT_TRUE(made.ok());
  LayoutRequest layout;
  layout.header = a.Mutation();
  layout.ino = made->node.attr.ino;
  layout.layout.emplace();
  layout.layout->k = 4;
  layout.layout->stripe_bytes = 4 * kDefaultUnitBytes * 4;
  ASSERT_TRUE(a.Run(h.server->SetLayout(layout)).ok());
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(a.WriteStripe(made->node.attr.ino, static_cast<uint64_t>(i) * kMiB, kMiB).ok());
  }
  nodes[4]->Stop();
  h.ex.RunFor(120 * kSecond);  // out, and rebuilt where another column is
  EXPECT_EQ(Status().degraded_stripes, 0u);
  EXPECT_EQ(Status().crowded_stripes, 8u);
  TestNode fresh(&h, 6, 2);
  fresh.Start();
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(Status().crowded_stripes, 0u);
  EXPECT_EQ(Status().degraded_stripes, 0u);
  for (const auto& [id, w] : fresh.rebuilt) EXPECT_TRUE(w.copy) << "nothing needs decoding";
  EXPECT_EQ(fresh.rebuilt.size(), 8u);
  EXPECT_TRUE(h.Fsck().empty());
  fresh.Stop();
}

TEST_F(RepairTest, WhatFailedDisksStillGiveIsTheLastResort) {
  FileOf(30);
  for (size_t n : {0, 1}) {
    for (DiskHello& d : nodes[n]->disks()) d.failed = true;
  }
  h.ex.RunFor(3 * kSecond);
  EXPECT_EQ(Status().lost_stripes, 0u);
  EXPECT_GT(Status().degraded_stripes, 0u);
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(Status().degraded_stripes, 0u);
  bool copied = false, decoded = false;
  for (auto& n : nodes) {
    for (const auto& [id, w] : n->rebuilt) (w.copy ? copied : decoded) = true;
  }
  EXPECT_TRUE(copied) << "of stripes with columns on both";
  EXPECT_TRUE(decoded) << "the others do not touch the failed disks";
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(RepairTest, ADiskWithManyErrorsIsDrainedByItself) {
  FileOf(20);
  nodes[1]->disks()[0].checksum_errors = 300;
  h.ex.RunFor(3 * kSecond);
  const TargetId t = nodes[1]->targets[0];
  EXPECT_EQ(Status().map.FindTarget(t)->state, TargetState::kDraining);
  EXPECT_EQ(Status().repairs.at(0).reason, "too many errors");
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(Status().repairs.at(0).stripes_done, Status().repairs.at(0).stripes_total);
  EXPECT_TRUE(Admin(AdminVerb::kRemove, NodeId(), t).ok());
}

TEST_F(RepairTest, CanRemoveNamesFiles) {
  FileOf(12, "data");
  CanRemoveRequest r;
  r.header.cluster = h.cluster;
  r.targets = {nodes[0]->targets[0]};
  auto one = a.Run(h.server->CanRemove(r));
  ASSERT_TRUE(one.ok()) << one.error();
  EXPECT_EQ(one->lost_stripes, 0u);
  EXPECT_GT(one->degraded_stripes, 0u);
  ASSERT_EQ(one->files.size(), one->degraded_stripes);
  EXPECT_EQ(one->files[0].path, "/data");
  EXPECT_FALSE(one->files[0].lost);
  for (size_t n : {0, 1, 2}) r.targets.insert(r.targets.end(), nodes[n]->targets.begin(), nodes[n]->targets.end());
  auto many = a.Run(h.server->CanRemove(r));
  EXPECT_GT(many->lost_stripes, 0u);
  EXPECT_TRUE(many->files[0].lost);
  EXPECT_EQ(Status().degraded_stripes, 0u) << "nothing was done";
  // An emptied disk can go.
  ASSERT_TRUE(Admin(AdminVerb::kDrain, NodeId(), nodes[0]->targets[0]).ok());
  h.ex.RunFor(60 * kSecond);
  r.targets = {nodes[0]->targets[0]};
  EXPECT_EQ(a.Run(h.server->CanRemove(r))->degraded_stripes, 0u);
  r.targets = {TargetId(999)};
  EXPECT_EQ(a.Run(h.server->CanRemove(r)).code(), FsError::kNoEnt);
}

TEST_F(RepairTest, NarrowStripesAreCounted) {
  for (size_t i = 0; i < 3; ++i) nodes[i]->Stop();
  h.ex.RunFor(5 * kSecond);
  FileOf(1);
  EXPECT_EQ(Status().narrow_stripes, 1u);
}

}  // namespace
}  // namespace stria
