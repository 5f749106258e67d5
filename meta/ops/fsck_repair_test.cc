// The repairs of fsck, and what it leaves alone.
#include <gtest/gtest.h>

#include <algorithm>

#include "meta/ops/test_store.h"

namespace stria {
namespace {

using Dump = std::map<std::pair<size_t, std::string>, std::string>;

Dump DumpOf(KvStore& kv) {
  Dump out;
  for (size_t f = 0; f < kFamilies; ++f) {
    if (f == static_cast<size_t>(Family::kState)) continue;  // every commit changes it
    const auto rows = kv.Scan(static_cast<KvFamily>(f), {}, {}, 1000000).value();
    for (const KvEntry& row : rows) out[{f, row.first}] = row.second;
  }
  return out;
}

bool IsOf(const std::pair<size_t, std::string>& key, Family f) { return key.first == static_cast<size_t>(f); }

class FsckRepairTest : public testing::Test {
 protected:
  FsckRepairTest() {
    ctx_.touched = &touched_;
    ctx_.session = SessionId(1);
    Txn txn(store_.store());
    dir_ = Make(txn, kRootInode, "dir", FileType::kDirectory);
    file_ = Make(txn, dir_, "file", FileType::kFile);
    Make(txn, dir_, "empty", FileType::kFile);
    XattrRequest x;
    x.ino = dir_;
    x.name = "user.a";
    EXPECT_TRUE(OpSetXattr(txn, ctx_, x).ok());
    NewStripe s;
    s.shape = {.k = 1, .m = 1, .codec = Codec::kCopy, .unit_bytes = 4096};
    s.targets = {TargetId(1), TargetId(2)};
    CommitRequest c;
    c.ino = file_;
    c.stripes = OpAllocate(txn, ctx_, file_, Layout(), {s}).value();
    stripe_ = c.stripes[0];
    c.stripes[0].shape.payload_bytes = 10;
    for (Column& column : c.stripes[0].columns) column.length = 10;
    c.extents = {{.file_offset = 0, .length = 5, .stripe = stripe_.id},
                 {.file_offset = 5, .length = 3, .inline_bytes = "abc"},
                 {.file_offset = 8, .length = 5, .stripe = stripe_.id, .stripe_offset = 5}};
    EXPECT_TRUE(OpCommit(txn, ctx_, c).ok());
    EXPECT_TRUE(OpAllocate(txn, ctx_, file_, Layout(), {s}).ok());
    EXPECT_TRUE(txn.Commit().ok());
    EXPECT_EQ(store_.Fsck(), std::vector<std::string>());
  }
  InodeId Make(Txn& txn, InodeId dir, const std::string& name, FileType type) {
    MakeNodeRequest m;
    m.parent = dir;
    m.name = name;
    m.type = type;
    return OpMakeNode(txn, ctx_, m).value().node.attr.ino;
  }
  void Delete(Family f, const std::string& key) {
    KvBatch batch;
    batch.Delete(static_cast<KvFamily>(f), key);
    ASSERT_TRUE(store_.store().kv().Write(batch).ok());
  }
  FsckRepairs Repair(bool dry_run = false) {
    Touched touched;
    return RepairStore(store_.store(), dry_run, &touched).value();
  }

  TestStore store_;
  Touched touched_;
  OpCtx ctx_;
  InodeId dir_, file_;
  StripeInfo stripe_;
};

TEST_F(FsckRepairTest, NothingIsDoneToACleanStore) {
  const Dump before = DumpOf(store_.store().kv());
  EXPECT_TRUE(Repair().done.empty());
  EXPECT_EQ(DumpOf(store_.store().kv()), before);
}

// Any single record may be lost: what follows from others comes back as it was, what does not is not made worse.
TEST_F(FsckRepairTest, NoBytesAreGivenUp) {
  const Dump all = DumpOf(store_.store().kv());
  const std::set<Family> derived = {Family::kParents, Family::kStripeRefs, Family::kRefBytes, Family::kTargetStripes};
  int came_back = 0;
  for (const auto& [key, value] : all) {
    const Family family = static_cast<Family>(key.first);
    SCOPED_TRACE(std::string(FamilyName(family)) + " " + KeyToString(family, key.second));
    Delete(family, key.second);
    const Dump damaged = DumpOf(store_.store().kv());
    const FsckRepairs would = Repair(true);
    EXPECT_EQ(DumpOf(store_.store().kv()), damaged) << "a dry run";
    const FsckRepairs r = Repair();
    EXPECT_LE(would.done.size(), r.done.size());
    const Dump after = DumpOf(store_.store().kv());
    if (derived.count(family)) {
      ++came_back;
      EXPECT_EQ(after, all);
      EXPECT_EQ(r.problems, std::vector<std::string>());
    }
    for (const auto& [k, v] : damaged) {
      const bool bytes = IsOf(k, Family::kExtents) || IsOf(k, Family::kStripes) || IsOf(k, Family::kXattrs) ||
                         IsOf(k, Family::kInodes) || IsOf(k, Family::kTargetStripes);
      // An inode without commits has no bytes of files: its shards may go when its record has gone.
      const bool uncommitted = family == Family::kStripes && key.second != StripeKey(stripe_.id);
      if (bytes && !uncommitted) {
        EXPECT_TRUE(after.contains(k)) << KeyToString(static_cast<Family>(k.first), k.second) << " was given up";
      }
    }
    if (family == Family::kInodes) {  // names of inodes with bytes or attributes are traces of them
      EXPECT_EQ(after.contains({static_cast<size_t>(Family::kDentries), DentryKey(dir_, "file")}), true);
      EXPECT_EQ(after.contains({static_cast<size_t>(Family::kDentries), DentryKey(kRootInode, "dir")}), true);
    }
    for (const auto& [k, v] : after) {
      if (!all.contains(k)) Delete(static_cast<Family>(k.first), k.second);
    }
    KvBatch restore;
    for (const auto& [k, v] : all) restore.Put(static_cast<KvFamily>(k.first), k.second, v);
    ASSERT_TRUE(store_.store().kv().Write(restore).ok());
    Repair();  // counters
    ASSERT_EQ(store_.Fsck(), std::vector<std::string>());
  }
  EXPECT_GE(came_back, 3 + 2 + 1 + 4);
}

TEST_F(FsckRepairTest, AnEntryOfNothingIsRemoved) {
  Txn txn(store_.store());
  const InodeId gone = OpLookup(txn, ctx_, {{}, dir_, "empty"}).value().attr.ino;
  Delete(Family::kInodes, InodeKey(gone));
  const FsckRepairs r = Repair();
  EXPECT_EQ(r.problems, std::vector<std::string>());
  ASSERT_FALSE(r.done.empty());
  EXPECT_EQ(r.done[0], "entry 'empty' of directory " + std::to_string(dir_.v) + " is removed: it names nothing");
  Txn again(store_.store());
  EXPECT_EQ(OpLookup(again, ctx_, {{}, dir_, "empty"}).code(), FsError::kNoEnt);
}

TEST_F(FsckRepairTest, CountersAreCountedAgain) {
  {
    Txn txn(store_.store());
    txn.AddCount(Counter::kLiveBytes, 1000);
    txn.AddCount(Counter::kFiles, -2);
    txn.Put(Family::kOrphans, InodeKey(InodeId(999)), OrphanRecord().Encode());
    ASSERT_TRUE(txn.Commit().ok());
  }
  const FsckRepairs would = Repair(true);
  EXPECT_EQ(would.done.size(), 3u);
  EXPECT_EQ(would.problems.size(), 3u);
  const FsckRepairs r = Repair();
  EXPECT_EQ(r.done, would.done);
  EXPECT_EQ(r.problems, std::vector<std::string>());
}

// Possible leftovers of crashed software: shards that nothing will ever delete.
TEST_F(FsckRepairTest, UnusedShardsBecomeGarbage) {
  const std::string leaked = TargetShardKey(TargetId(7), ShardId(1));
  {
    Txn txn(store_.store());
    txn.Write(leaked, TargetStripeRecord{StripeId(12345), 0, false});
    ASSERT_TRUE(txn.Commit().ok());
  }
  // And a whole stripe: its extents went, and with them all that speaks of them.
  for (uint64_t at : {0, 8}) {
    Delete(Family::kExtents, ExtentKey(file_, at));
    Delete(Family::kStripeRefs, StripeRefKey(stripe_.id, file_, at));
  }
  {
    Txn txn(store_.store());
    InodeRecord rec = txn.Read<InodeRecord>(InodeKey(file_)).value().value();
    rec.extent_count = 1;
    rec.attr.allocated_bytes = 3;
    txn.Write(InodeKey(file_), rec);
    ASSERT_TRUE(txn.Commit().ok());
  }
  EXPECT_FALSE(Repair().problems.empty()) << "ref_bytes still says that there are bytes in use";
  Txn look(store_.store());
  EXPECT_TRUE(look.Has<StripeRecord>(StripeKey(stripe_.id)).value());
  Delete(Family::kRefBytes, StripeKey(stripe_.id));
  EXPECT_EQ(Repair().problems, std::vector<std::string>());
  Txn txn(store_.store());
  EXPECT_TRUE(txn.Has<GarbageRecord>(leaked).value());
  for (const Column& c : stripe_.columns) EXPECT_TRUE(txn.Has<GarbageRecord>(TargetShardKey(c.target, c.shard)).value());
  EXPECT_FALSE(txn.Has<StripeRecord>(StripeKey(stripe_.id)).value());
}

TEST_F(FsckRepairTest, WhatIsInUseIsNoGarbage) {
  const std::string key = TargetShardKey(stripe_.columns[1].target, stripe_.columns[1].shard);
  {
    Txn txn(store_.store());
    txn.Write(key, GarbageRecord{stripe_.id, txn.seq()});
    ASSERT_TRUE(txn.Commit().ok());
  }
  EXPECT_EQ(Repair().problems, std::vector<std::string>());
  Txn txn(store_.store());
  EXPECT_FALSE(txn.Has<GarbageRecord>(key).value());
}

// A record that cannot be read may have been the one that uses something.
TEST_F(FsckRepairTest, NothingIsUnusedWhileSomethingIsUnreadable) {
  KvBatch garble;
  garble.Put(static_cast<KvFamily>(Family::kExtents), ExtentKey(file_, 0), "garbled");
  ASSERT_TRUE(store_.store().kv().Write(garble).ok());
  const std::string leaked = TargetShardKey(TargetId(7), ShardId(1));
  {
    Txn txn(store_.store());
    txn.Write(leaked, TargetStripeRecord{StripeId(12345), 0, false});
    ASSERT_TRUE(txn.Commit().ok());
  }
  EXPECT_FALSE(Repair().problems.empty());
  Txn txn(store_.store());
  EXPECT_FALSE(txn.Has<GarbageRecord>(leaked).value());
  EXPECT_TRUE(txn.Has<StripeRecord>(StripeKey(stripe_.id)).value());
}

}  // namespace
}  // namespace stria
