// Allocation, commit, masks and trimming, garbage, columns.
#include <gtest/gtest.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>

#include "common/random.h"
#include "meta/ops/data_testing.h"
#include "meta/ops/nodes.h"
#include "meta/ops/extents.h"

namespace stria {
namespace {

TEST_P(DataTest, CommitTakesOnlyWhatWasAllocatedToTheSession) {
  const InodeId ino = MakeFile("f");
  const StripeInfo info = Sealed(Allocate(ino, OneColumn()), 100);
  CommitRequest r;
  r.ino = ino;
  r.stripes = {info};
  r.extents = {{.length = 100, .stripe = info.id}};

  ctx_.session = SessionId(8);
  EXPECT_EQ(Commit(r).code(), FsError::kConflict);
  ctx_.session = SessionId(7);

  CommitRequest bad = r;
  bad.stripes[0].columns[1].shard.v += 1;
  EXPECT_EQ(Commit(bad).code(), FsError::kConflict);
  bad = r;
  bad.stripes[0].columns[1].length = 99;
  EXPECT_EQ(Commit(bad).code(), FsError::kBadRequest);
  bad = r;
  bad.stripes[0].shape.unit_bytes = 8192;
  EXPECT_EQ(Commit(bad).code(), FsError::kConflict);
  bad = r;
  bad.extents[0].length = 101;
  EXPECT_EQ(Commit(bad).code(), FsError::kBadRequest);
  bad = r;
  bad.extents[0].stripe.v += 1;
  EXPECT_EQ(Commit(bad).code(), FsError::kConflict);

  EXPECT_EQ(Count(Counter::kAllocated), 1u);
  auto reply = Commit(r);
  ASSERT_TRUE(reply.ok()) << reply.error();
  EXPECT_EQ(reply->attr.size, 100u);
  EXPECT_EQ(reply->attr.allocated_bytes, 100u);
  EXPECT_EQ(touched_.data, std::set<InodeId>{ino});
  EXPECT_EQ(Count(Counter::kAllocated), 0u);
  EXPECT_EQ(Count(Counter::kStripes), 1u);
  EXPECT_EQ(Commit(r).code(), FsError::kConflict) << "it is live already";
}

TEST_P(DataTest, ACommitMayBeSplitAndUseAStripeOfTheFileAgain) {
  const InodeId ino = MakeFile("f");
  const InodeId other = MakeFile("g");
  const StripeInfo info = Write(ino, 0, 1000);
  CommitRequest r;
  r.ino = ino;
  r.extents = {{.file_offset = 5000, .length = 10, .stripe = info.id, .stripe_offset = 990}};
  EXPECT_TRUE(Commit(r).ok());
  r.ino = other;
  EXPECT_EQ(Commit(r).code(), FsError::kConflict) << "no other file may use it";
  // The last old reference may go in the same commit that brings a new one.
  r.ino = ino;
  r.punch = {{0, 6000}};
  EXPECT_TRUE(Commit(r).ok());
  EXPECT_EQ(Extents(ino).size(), 1u);
  EXPECT_TRUE(touched_.freed.empty());
}

TEST_P(DataTest, OverwrittenStripesBecomeGarbageOfThatCommit) {
  const InodeId ino = MakeFile("f");
  const StripeInfo a = Write(ino, 0, 1000);
  Write(ino, 0, 500);
  EXPECT_EQ(Count(Counter::kGarbageShards), 0u) << "half of it is still in use";
  Write(ino, 500, 500);
  EXPECT_EQ(Count(Counter::kGarbageShards), 2u);
  const uint64_t seq = store_.store().last_seq().v;
  EXPECT_TRUE(Garbage(1, seq - 1).empty());
  const auto garbage = Garbage(1, seq);
  ASSERT_EQ(garbage.size(), 1u);
  EXPECT_EQ(garbage[0].shard, a.columns[0].shard);
  EXPECT_EQ(garbage[0].stripe, a.id);
  EXPECT_TRUE(Do([&](Txn& t) { return IsShardKnown(t, TargetId(1), garbage[0].shard); }).value());
  ASSERT_TRUE(Do([&](Txn& t) { return OpGarbageDeleted(t, TargetId(1), garbage[0].shard); }).ok());
  ASSERT_TRUE(Do([&](Txn& t) { return OpGarbageDeleted(t, TargetId(1), garbage[0].shard); }).ok());
  EXPECT_FALSE(Do([&](Txn& t) { return IsShardKnown(t, TargetId(1), garbage[0].shard); }).value());
  EXPECT_EQ(Count(Counter::kGarbageShards), 1u);
}

TEST_P(DataTest, WhatWasNeverLiveWaitsForNoReader) {
  const InodeId ino = MakeFile("f");
  const CommitSeq before = store_.store().last_seq();
  const StripeInfo failed = Allocate(ino, OneColumn());
  ASSERT_TRUE(Do([&](Txn& t) { return OpFreeStripe(t, failed.id, &touched_); }).ok());
  const CommitSeq seq = store_.store().last_seq();
  EXPECT_TRUE(Garbage(1, {CommitSeq(), CommitSeq(seq.v - 1), before}).empty()) << "a power cut could bring it back";
  ASSERT_EQ(Garbage(1, {CommitSeq(), seq, before}).size(), 1u);
  EXPECT_EQ(Garbage(1, {CommitSeq(), seq, before})[0].shard, failed.columns[0].shard);
  EXPECT_TRUE(Garbage(1, {CommitSeq(), seq, seq}).empty()) << "it may have been live before a power cut";
}

TEST_P(DataTest, AppendsGoToTheEnd) {
  const InodeId ino = MakeFile("f");
  CommitRequest r;
  r.ino = ino;
  r.append = true;
  r.extents = {{.length = 3, .inline_bytes = "abc"}};
  EXPECT_EQ(Commit(r)->append_offset, 0u);
  auto second = Commit(r);
  EXPECT_EQ(second->append_offset, 3u);
  EXPECT_EQ(second->attr.size, 6u);
  ASSERT_TRUE(Truncate(ino, 100).ok());
  EXPECT_EQ(Commit(r)->append_offset, 100u);
}

TEST_P(DataTest, CapabilitiesGoWithAnyChangeOfBytesOrOwners) {
  const InodeId ino = MakeFile("f");
  XattrRequest x;
  x.ino = ino;
  x.name = kCapabilityXattr;
  x.value = "caps";
  CommitRequest write;
  write.ino = ino;
  write.append = true;
  write.extents = {{.length = 3, .inline_bytes = "abc"}};
  SetAttrRequest cut, owner, times;
  cut.ino = owner.ino = times.ino = ino;
  cut.size = 1;
  owner.gid = 5;
  times.mtime_ns = 1;
  const auto set = [&] { EXPECT_TRUE(Do([&](Txn& t) { return OpSetXattr(t, ctx_, x); }).ok()); };
  const auto there = [&] { return Do([&](Txn& t) { return OpGetXattr(t, ctx_, x); }).ok(); };
  const auto attr = [&](const SetAttrRequest& r) { return Do([&](Txn& t) { return OpSetAttr(t, ctx_, r); }).ok(); };
  set();
  EXPECT_TRUE(attr(times) && there());
  EXPECT_TRUE(Commit(write).ok() && !there());
  set();
  EXPECT_TRUE(attr(cut) && !there());
  set();
  EXPECT_TRUE(attr(owner) && !there());
  // The kernel removes them itself for a writer: not only root.
  set();
  ctx_.uid = ctx_.gid = 1000;
  EXPECT_EQ(Do([&](Txn& t) { return OpSetXattr(t, ctx_, x); }).code(), FsError::kPerm);
  ctx_.open = nullptr;
  EXPECT_EQ(Do([&](Txn& t) { return OpRemoveXattr(t, ctx_, x); }).code(), FsError::kPerm);
  ctx_.open = &open_;
  EXPECT_TRUE(Do([&](Txn& t) { return OpRemoveXattr(t, ctx_, x); }).ok());
}

TEST_P(DataTest, InlineBytesAreBounded) {
  const InodeId ino = MakeFile("f");
  CommitRequest r;
  r.ino = ino;
  r.append = true;
  r.extents = {{.length = kMaxInlineBytes, .inline_bytes = std::string(kMaxInlineBytes, 'x')}};
  uint64_t n = 0;
  while (Commit(r).ok()) ++n;
  EXPECT_EQ(n, kMaxInlinePerInode / kMaxInlineBytes);
  EXPECT_EQ(Commit(r).code(), FsError::kTooBig);
  EXPECT_EQ(Extents(ino).size(), n);
}

TEST_P(DataTest, ASessionThatEndsLeavesNothing) {
  const InodeId ino = MakeFile("f");
  std::vector<NewStripe> many(16, OneColumn());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Do([&](Txn& t) { return OpAllocate(t, ctx_, ino, Layout(), many); }).ok());
  }
  CommitRequest r;
  r.ino = ino;
  const StripeInfo unused = Allocate(ino, OneColumn());
  r.give_back = {unused.id, StripeId(12345)};
  ASSERT_TRUE(Commit(r).ok());
  EXPECT_EQ(touched_.freed, std::set<StripeId>{unused.id});
  EXPECT_EQ(Count(Counter::kAllocated), 48u);
  int steps = 1;
  while (Do([&](Txn& t) { return OpCollectSession(t, ctx_.session, &touched_); }).value()) ++steps;
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(Count(Counter::kAllocated), 0u);
  EXPECT_EQ(Count(Counter::kGarbageShards), 98u);
}

TEST_P(DataTest, TruncateMasksAtOnceAndTrimsLater) {
  const InodeId ino = MakeFile("f");
  Fragment(ino, 5000);
  ASSERT_EQ(Extents(ino).size(), 5000u);
  ASSERT_TRUE(Truncate(ino, 31).ok());
  EXPECT_EQ(touched_.trim, std::set<InodeId>{ino});
  EXPECT_EQ(Extents(ino).size(), 11u);
  EXPECT_GT(GetAttr(ino).allocated_bytes, 22u) << "not trimmed yet";
  ASSERT_TRUE(Truncate(ino, 100000).ok());
  EXPECT_EQ(Extents(ino).size(), 11u) << "what was cut off stays a hole";
  // A write into the masked range is seen; the rest of the range stays masked.
  const StripeInfo info = Write(ino, 12000, 50);
  auto extents = Extents(ino);
  ASSERT_EQ(extents.size(), 12u);
  EXPECT_EQ(extents.back(), (Extent{.file_offset = 12000, .length = 50, .stripe = info.id}));
  for (const std::string& problem : store_.Fsck()) ADD_FAILURE() << problem;
  store_.Crash(false);
  EXPECT_GT(TrimAll(), 2);
  EXPECT_EQ(Extents(ino), extents);
  EXPECT_EQ(GetAttr(ino).allocated_bytes, 22u + 50u - 1);
}

TEST_P(DataTest, UnlinkOfAHugeFileIsTrimmedLater) {
  const InodeId ino = MakeFile("f");
  Fragment(ino, 4500);
  ASSERT_TRUE(Unlink("f").ok());
  InodeRequest r;
  r.ino = ino;
  EXPECT_EQ(Do([&](Txn& t) { return OpGetAttr(t, ctx_, r); }).code(), FsError::kStale);
  EXPECT_EQ(Count(Counter::kFiles), 1u);
  EXPECT_GT(TrimAll(), 1);
  EXPECT_EQ(Count(Counter::kFiles), 0u);
  EXPECT_EQ(Count(Counter::kStripes), 0u);
  EXPECT_EQ(Count(Counter::kLiveBytes), 0u);
}

// A store passes deleted keys one by one until it is compacted: no step may begin before the leftovers of earlier ones, or look
// for more behind the end. The store in memory forgets at once, and passes nothing.
TEST_P(DataTest, TrimmingDoesNotPassWhatItRemoved) {
  const InodeId ino = MakeFile("f");
  Fragment(ino, 12000);
  const auto passed = [](auto work) {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    const uint64_t before = rocksdb::get_perf_context()->internal_delete_skipped_count;
    work();
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
    return rocksdb::get_perf_context()->internal_delete_skipped_count - before;
  };
  const auto most_passed = [&] {
    uint64_t most = 0;
    for (bool more = true; more;) {
      most = std::max(most, passed([&] { more = Do([&](Txn& t) { return TrimStep(t, ino, &touched_); }).value(); }));
    }
    return most;
  };
  ASSERT_TRUE(Truncate(ino, 6000 * 3 + 1).ok());  // amid an extent
  EXPECT_EQ(touched_.trim, std::set<InodeId>{ino});
  EXPECT_LT(most_passed(), 100u);
  EXPECT_EQ(Extents(ino).size(), 6001u);
  for (uint64_t n = 6000; n > 5900; --n) {
    EXPECT_LT(passed([&] { ASSERT_TRUE(Truncate(ino, n * 3).ok()); }), 100u);
    ASSERT_TRUE(touched_.trim.empty());
  }
  EXPECT_EQ(Extents(ino).size(), 5901u);
  ASSERT_TRUE(Unlink("f").ok());
  EXPECT_LT(most_passed(), 100u);
  EXPECT_EQ(Count(Counter::kFiles), 0u);
  EXPECT_EQ(Count(Counter::kStripes), 0u);
}

TEST_P(DataTest, UnlinkedButOpenStaysUntilClosed) {
  const InodeId ino = MakeFile("f");
  Write(ino, 0, 10);
  open_.open.insert(ino);
  ASSERT_TRUE(Unlink("f").ok());
  EXPECT_EQ(touched_.orphaned, std::set<InodeId>{ino});
  EXPECT_EQ(GetAttr(ino).nlink, 0u);
  Write(ino, 10, 10);
  EXPECT_EQ(Do([&](Txn& t) { return ListOrphans(t, InodeId(), 10); }).value(), std::vector<InodeId>{ino});
  open_.open.clear();
  ASSERT_TRUE(Do([&](Txn& t) { return OpReapOrphan(t, ino, 1, &touched_); }).ok());
  ASSERT_TRUE(Do([&](Txn& t) { return OpReapOrphan(t, ino, 1, &touched_); }).ok());
  EXPECT_EQ(Count(Counter::kStripes), 0u);
  EXPECT_EQ(Count(Counter::kFiles), 0u);
}

TEST_P(DataTest, APunchTooFragmentedIsMasked) {
  const InodeId ino = MakeFile("f");
  Fragment(ino, 2400);
  CommitRequest r;
  r.ino = ino;
  r.punch = {{30, 6000}};
  ASSERT_TRUE(Commit(r).ok());
  EXPECT_EQ(Extents(ino).size(), 2400u - 2000u);
  EXPECT_GE(TrimAll(), 1);
  EXPECT_EQ(Extents(ino).size(), 400u);
}

TEST_P(DataTest, CommitsTooBigAreRefusedWhole) {
  const InodeId ino = MakeFile("f");
  Fragment(ino, 2400);
  StripeInfo info = Sealed(Allocate(ino, OneColumn()), 9000);
  CommitRequest r;
  r.ino = ino;
  r.stripes = {info};
  r.extents = {{.length = 9000, .stripe = info.id}};
  EXPECT_EQ(Commit(r).code(), FsError::kTooBig);
  EXPECT_EQ(Extents(ino).size(), 2400u);
  r.extents = {{.length = 3000, .stripe = info.id}};
  EXPECT_TRUE(Commit(r).ok());
  for (const uint64_t at : {3000, 6000}) {
    info = Sealed(Allocate(ino, OneColumn()), 3000);
    r.stripes = {info};
    r.extents = {{.file_offset = at, .length = 3000, .stripe = info.id}};
    EXPECT_TRUE(Commit(r).ok());
  }
  EXPECT_EQ(Extents(ino).size(), 3u);
}

TEST_P(DataTest, ASessionHasSoManyStripesAllocated) {
  const InodeId ino = MakeFile("f");
  const auto may = [&](SessionId s, size_t more) { return Do([&](Txn& t) { return MayAllocate(t, s, more); }).value(); };
  std::vector<NewStripe> stripes(kMaxAllocateStripes, OneColumn(0));
  StripeId last;
  for (size_t n = 0; n < kMaxAllocatedPerSession; n += stripes.size()) {
    ASSERT_TRUE(may(ctx_.session, stripes.size())) << n;
    const auto infos = Do([&](Txn& t) { return OpAllocate(t, ctx_, ino, Layout(), stripes); });
    if (infos.code() == FsError::kRetryLater) {  // the next range of ids first
      store_.Sync();
      n -= stripes.size();
      continue;
    }
    ASSERT_TRUE(infos.ok()) << infos.error();
    last = infos->back().id;
  }
  EXPECT_FALSE(may(ctx_.session, 1));
  EXPECT_TRUE(may(SessionId(8), 1)) << "each has its own";
  CommitRequest r;
  r.give_back = {last};
  ASSERT_TRUE(Commit(r).ok());
  EXPECT_TRUE(may(ctx_.session, 1));
  EXPECT_FALSE(may(ctx_.session, 2));
}

// What a file maps of a stripe it may show elsewhere too; the rest of the stripe is not its own.
TEST_P(DataTest, ACommitShowsOnlyWhatTheFileMapsOfAStripe) {
  const InodeId ino = MakeFile("f");
  const StripeInfo info = Write(ino, 0, 1000);
  Write(ino, 200, 100);  // [200, 300) of the first stripe is not mapped any more
  const auto show = [&](uint64_t from, uint64_t length) {
    CommitRequest r;
    r.ino = ino;
    r.extents = {{.file_offset = 5000, .length = length, .stripe = info.id, .stripe_offset = from}};
    return Commit(r).code();
  };
  EXPECT_EQ(show(0, 200), FsError::kOk);
  EXPECT_EQ(show(300, 700), FsError::kOk);
  EXPECT_EQ(show(300, 701), FsError::kBadRequest) << "beyond the stripe's end";
  EXPECT_EQ(show(200, 1), FsError::kBadRequest) << "overwritten";
  EXPECT_EQ(show(100, 300), FsError::kBadRequest) << "with the overwritten part in it";
  ASSERT_TRUE(Truncate(ino, 250).ok());
  EXPECT_EQ(show(400, 10), FsError::kBadRequest) << "cut off";
  EXPECT_EQ(show(50, 150), FsError::kOk);
  CommitRequest r;
  r.ino = ino;
  r.extents = {{.length = 10, .stripe = StripeId(info.id.v + 1000)}};
  EXPECT_EQ(Commit(r).code(), FsError::kConflict);
}

TEST_P(DataTest, SwapColumn) {
  const InodeId ino = MakeFile("f");
  const StripeInfo info = Write(ino, 0, 1000);
  const ShardId shard = Do([&](Txn& t) { return OpReserveShard(t, info.id, 1, TargetId(9)); }).value();
  EXPECT_TRUE(Do([&](Txn& t) { return IsShardKnown(t, TargetId(9), shard); }).value());
  Column c = info.columns[1];
  c.shard = shard;
  c.target = TargetId(9);
  auto swap = [&](uint16_t column, ShardId old, Column to) {
    return Do([&](Txn& t) { return OpSwapColumn(t, info.id, column, old, to, true); }).code();
  };
  Column bad = c;
  bad.length -= 1;
  EXPECT_EQ(swap(1, info.columns[1].shard, bad), FsError::kConflict);
  EXPECT_EQ(swap(0, info.columns[0].shard, c), FsError::kConflict) << "reserved for another column";
  EXPECT_EQ(swap(1, info.columns[0].shard, c), FsError::kConflict);
  EXPECT_EQ(swap(1, info.columns[1].shard, c), FsError::kOk);
  EXPECT_EQ(swap(1, info.columns[1].shard, c), FsError::kConflict) << "done already";
  EXPECT_EQ(Count(Counter::kCrowded), 1u);
  EXPECT_EQ(Garbage(2, UINT64_MAX).size(), 1u);
  auto on = Do([&](Txn& t) { return ListTargetShards(t, TargetId(9), ShardId(), 10); }).value();
  ASSERT_EQ(on.size(), 1u);
  EXPECT_EQ(on[0].record, (TargetStripeRecord{info.id, 1, false}));
  // An extent whose stripe goes meanwhile.
  const ShardId late = Do([&](Txn& t) { return OpReserveShard(t, info.id, 0, TargetId(9)); }).value();
  ASSERT_TRUE(Unlink("f").ok());
  EXPECT_EQ(swap(0, info.columns[0].shard, {late, TargetId(9), 1000, 3}), FsError::kNoEnt);
  ASSERT_TRUE(Do([&](Txn& t) { return OpDropReservedShard(t, TargetId(9), late); }).ok());
  EXPECT_EQ(Garbage(9, UINT64_MAX).size(), 2u);
}

TEST_P(DataTest, StripeUsesAndPaths) {
  const InodeId ino = MakeFile("f");
  const StripeInfo info = Write(ino, 0, 100);
  Write(ino, 40, 10);
  auto uses = Do([&](Txn& t) { return ListStripeUses(t, info.id, 10); }).value();
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[1].file_offset, 50u);
  uses = Do([&](Txn& t) { return ListStripeUses(t, info.id, 10, &uses[0]); }).value();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].file_offset, 50u);
  EXPECT_EQ(Do([&](Txn& t) { return OpPaths(t, ctx_, ino); })->paths, std::vector<std::string>{"/f"});
  EXPECT_EQ(Do([&](Txn& t) { return OpPaths(t, ctx_, kRootInode); })->paths, std::vector<std::string>{"/"});
}

TEST_P(DataTest, LayoutsAreInheritedAndSetForWhatIsWrittenNext) {
  Layout two{.k = 2, .m = 1};
  two.stripe_bytes = 2 * kDefaultUnitBytes;
  LayoutRequest set;
  set.ino = kRootInode;
  set.layout = two;
  ASSERT_TRUE(Do([&](Txn& t) { return OpSetLayout(t, ctx_, set); }).ok());
  const InodeId ino = MakeFile("f");
  LayoutRequest get;
  get.ino = ino;
  auto got = Do([&](Txn& t) { return OpGetLayout(t, ctx_, get); }).value();
  EXPECT_EQ(got.layout, two);
  EXPECT_TRUE(got.inherited);
  set.ino = ino;
  set.layout->m = 77;
  EXPECT_EQ(Do([&](Txn& t) { return OpSetLayout(t, ctx_, set); }).code(), FsError::kInval);
  set.layout = two;
  ASSERT_TRUE(Do([&](Txn& t) { return OpSetLayout(t, ctx_, set); }).ok());
  Write(ino, 0, 10);
  set.layout->arrangement = Arrangement::kGathered;
  ASSERT_TRUE(Do([&](Txn& t) { return OpSetLayout(t, ctx_, set); }).ok());
  EXPECT_EQ(Do([&](Txn& t) { return OpGetLayout(t, ctx_, get); })->layout, *set.layout);
  auto fs = Do([&](Txn& t) { return OpStatFs(t, kRootInode, 300, 30); }).value();
  EXPECT_EQ(fs.total_bytes, 200u);
  EXPECT_EQ(fs.free_bytes, 20u);
  EXPECT_EQ(fs.files, 2u);
  for (const InodeId other : {ino, InodeId(), InodeId(1 << 20)}) {
    EXPECT_EQ(Do([&](Txn& t) { return OpStatFs(t, other, 300, 30); }).value().total_bytes, 200u) << "the root's, where it is no directory";
  }
}

TEST_P(DataTest, SpaceIsCountedByTheLayoutOfTheDirectory) {
  MakeNodeRequest make;
  make.parent = kRootInode;
  make.name = "dir";
  make.type = FileType::kDirectory;
  make.mode = 0755;
  const InodeId dir = Do([&](Txn& t) { return OpMakeNode(t, ctx_, make); }).value().node.attr.ino;
  LayoutRequest set;
  set.ino = dir;
  set.layout = Layout{.k = 4, .m = 1};
  set.layout->stripe_bytes = 4 * kDefaultUnitBytes;
  ASSERT_TRUE(Do([&](Txn& t) { return OpSetLayout(t, ctx_, set); }).ok());
  EXPECT_EQ(Do([&](Txn& t) { return OpStatFs(t, dir, 300, 30); }).value().total_bytes, 240u);
  EXPECT_EQ(Do([&](Txn& t) { return OpStatFs(t, dir, 300, 30); }).value().free_bytes, 24u);
}

// Random edits of masks against one bit per byte.
TEST(Masks, MatchBits) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random rng(seed);
    std::vector<MaskRange> masks;
    std::vector<bool> bits(200);
    for (int i = 0; i < 200; ++i) {
      const uint64_t begin = rng.Below(199);
      const MaskRange range{begin, rng.Between(begin + 1, 200)};
      const bool add = rng.OneIn(2);
      masks = add ? AddMask(masks, range) : SubtractMask(masks, range);
      for (uint64_t b = range.begin; b < range.end; ++b) bits[b] = add;
      const Extent all{.length = 200, .stripe = StripeId(1)};
      std::vector<bool> seen(200, true);
      for (const Extent& e : VisibleExtents({all}, masks)) {
        EXPECT_EQ(e.stripe_offset, e.file_offset);
        for (uint64_t b = e.file_offset; b < e.end(); ++b) seen[b] = false;
      }
      ASSERT_EQ(seen, bits);
      for (size_t m = 1; m < masks.size(); ++m) ASSERT_GE(masks[m].begin, masks[m - 1].end);
    }
  }
}

STRIA_DATA_TEST_STORES;

}  // namespace
}  // namespace stria
