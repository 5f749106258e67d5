// Folding: columns of several stripes become one stripe, and nothing that a file reads changes its place.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "common/random.h"
#include "meta/ops/data_testing.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kManyRefs = 1000;

class FoldTest : public DataTest {
 protected:
  // A gathered stripe of one column on `target`, with a copy on the next one.
  StripeInfo WriteAt(InodeId ino, uint64_t offset, uint64_t bytes, uint32_t target) {
    NewStripe s = OneColumn();
    s.targets = {TargetId(target), TargetId(target % 6 + 1)};
    StripeInfo info = Sealed(Allocate(ino, s), bytes);
    info.shape.column_bytes = {bytes};
    CommitRequest r;
    r.ino = ino;
    r.stripes = {info};
    r.extents = {{.file_offset = offset, .length = bytes, .stripe = info.id}};
    const auto reply = Commit(r);
    EXPECT_TRUE(reply.ok()) << reply.error();
    return info;
  }
  StripeRecord Record(StripeId id) {
    const auto rec = Do([&](Txn& t) { return GetStripeRecord(t, id); }).value();
    CHECK(rec.has_value());
    return *rec;
  }
  bool IsThere(StripeId id) { return Do([&](Txn& t) { return GetStripeRecord(t, id); }).value().has_value(); }
  StripeUsage Usage(StripeId id) {
    const StripeInfo info = Record(id).info;
    return Do([&](Txn& t) { return ReadStripeUsage(t, info, kManyRefs); }).value();
  }
  // The plan, its parity reserved on `parity`, as if it had been made.
  FoldPlan Plan(const std::vector<FoldMember>& members, uint32_t parity = 6) {
    FoldPlan plan;
    plan.members = members;
    StripeShape& shape = plan.fold.shape;
    shape = {.k = static_cast<uint8_t>(members.size()), .m = 1, .codec = DefaultCodec(members.size(), 1), .unit_bytes = 4096};
    uint64_t longest = 0;
    for (const FoldMember& m : members) {
      const Column c = Record(m.stripe).info.columns[m.column];
      plan.fold.columns.push_back(c);
      shape.column_bytes.push_back(c.length);
      shape.payload_bytes += c.length;
      longest = std::max(longest, c.length);
    }
    plan.fold.columns.push_back({.target = TargetId(parity), .length = longest});
    EXPECT_TRUE(Do([&](Txn& t) -> Result<void> {
                  ASSIGN_OR_RETURN(plan.fold.id, t.NewStripe());
                  return OpReserveStripe(t, &plan.fold);
                }).ok());
    plan.fold.columns.back().digest = 99;
    return plan;
  }
  Result<std::vector<Column>> Fold(const FoldPlan& plan, size_t max_refs = kManyRefs) {
    return Do([&](Txn& t) { return OpFold(t, plan, max_refs, &touched_); });
  }
  void Drop(const std::vector<Column>& columns) {
    for (const Column& c : columns) EXPECT_TRUE(Do([&](Txn& t) { return OpDropReservedShard(t, c.target, c.shard); }).ok());
  }
  void DropParity(const FoldPlan& plan) {
    Drop({plan.fold.columns.begin() + plan.fold.shape.data_columns(), plan.fold.columns.end()});
  }
  // Where the bytes of a file are: file offset -> (length, shard, offset in it), neighbours merged.
  using Places = std::map<uint64_t, std::tuple<uint64_t, ShardId, uint64_t>>;
  Places Where(InodeId ino) {
    Places out;
    for (const Extent& e : Extents(ino)) {
      const StripeInfo info = Record(e.stripe).info;
      for (const ShardRange& r : MapRange(info.shape, e.stripe_offset, e.length)) {
        const uint64_t at = e.file_offset + (r.payload_offset - e.stripe_offset);
        const ShardId shard = info.columns[r.column.v].shard;
        if (!out.empty()) {
          auto& [begin, last] = *out.rbegin();
          auto& [length, last_shard, from] = last;
          if (begin + length == at && last_shard == shard && from + length == r.shard_offset) {
            length += r.length;
            continue;
          }
        }
        out[at] = {r.length, shard, r.shard_offset};
      }
    }
    return out;
  }
  bool IsGarbage(const Column& c) {
    const auto garbage = Garbage(c.target.v, UINT64_MAX - 1);
    return std::ranges::any_of(garbage, [&](const GarbageShard& g) { return g.shard == c.shard; });
  }
};

TEST_P(FoldTest, FourFilesUnderOneParity) {
  std::vector<InodeId> files;
  std::vector<StripeInfo> stripes;
  std::vector<FoldMember> members;
  for (uint32_t i = 1; i <= 4; ++i) {
    files.push_back(MakeFile("f" + std::to_string(i)));
    stripes.push_back(WriteAt(files.back(), 10 * i, 1000 * i, i));
    members.push_back({stripes.back().id, 0});
  }
  std::vector<Places> before;
  std::vector<Attr> attrs;
  for (InodeId f : files) before.push_back(Where(f)), attrs.push_back(GetAttr(f));
  const FoldPlan plan = Plan(members);
  const auto left = Fold(plan);
  ASSERT_TRUE(left.ok()) << left.error();
  EXPECT_EQ(touched_.data, std::set<InodeId>(files.begin(), files.end()));
  EXPECT_EQ(Count(Counter::kStripes), 1u);
  EXPECT_EQ(Count(Counter::kLiveBytes), 10000u);
  EXPECT_EQ(Count(Counter::kGarbageShards), 0u) << "the copies wait until everybody was told";
  const StripeRecord fold = Record(plan.fold.id);
  EXPECT_EQ(fold.info, plan.fold);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(fold.info.columns[i], stripes[i].columns[0]) << "a data column never moves";
    EXPECT_EQ(Where(files[i]), before[i]);
    EXPECT_EQ(GetAttr(files[i]), attrs[i]);
    EXPECT_FALSE(IsThere(stripes[i].id));
  }
  ASSERT_EQ(left->size(), 4u);
  Drop(*left);
  for (const StripeInfo& s : stripes) {
    EXPECT_TRUE(IsGarbage(s.columns[1]));
    EXPECT_FALSE(IsGarbage(s.columns[0]));
  }
  // Its dead stay while others live.
  EXPECT_TRUE(Unlink("f1").ok());
  EXPECT_TRUE(Unlink("f3").ok());
  TrimAll();
  EXPECT_EQ(Usage(plan.fold.id).column_bytes, (std::vector<uint64_t>{0, 2000, 0, 4000}));
  EXPECT_FALSE(IsGarbage(stripes[0].columns[0]));
  EXPECT_TRUE(Unlink("f2").ok());
  EXPECT_TRUE(Unlink("f4").ok());
  TrimAll();
  EXPECT_FALSE(IsThere(plan.fold.id));
  EXPECT_EQ(Count(Counter::kGarbageShards), 9u);
}

TEST_P(FoldTest, NotWhatHasChangedMeanwhile) {
  const InodeId a = MakeFile("a"), b = MakeFile("b");
  const StripeInfo sa = WriteAt(a, 0, 1000, 1);
  const StripeInfo sb = WriteAt(b, 0, 1000, 2);
  const FoldPlan plan = Plan({{sa.id, 0}, {sb.id, 0}});
  FoldPlan bad = plan;
  bad.fold.columns[0].digest ^= 1;
  EXPECT_EQ(Fold(bad).code(), FsError::kConflict);
  bad = plan;
  bad.fold.columns[2].shard.v += 1000;
  EXPECT_EQ(Fold(bad).code(), FsError::kConflict) << "no such parity";
  bad = plan;
  bad.members[1] = bad.members[0];
  bad.fold.columns[1] = bad.fold.columns[0];
  EXPECT_EQ(Fold(bad).code(), FsError::kConflict);
  bad = plan;
  bad.members.pop_back();
  EXPECT_EQ(Fold(bad).code(), FsError::kConflict);
  // The column has been moved to another disk.
  const ShardId moved = Do([&](Txn& t) { return OpReserveShard(t, sa.id, 0, TargetId(5)); }).value();
  const Column is{moved, TargetId(5), 1000, 7};
  ASSERT_TRUE(Do([&](Txn& t) { return OpSwapColumn(t, sa.id, 0, sa.columns[0].shard, is, false); }).ok());
  EXPECT_EQ(Fold(plan).code(), FsError::kConflict);
  DropParity(plan);
  // A file is gone.
  const FoldPlan again = Plan({{sa.id, 0}, {sb.id, 0}});
  EXPECT_TRUE(Unlink("b").ok());
  EXPECT_EQ(Fold(again).code(), FsError::kConflict);
  DropParity(again);
  EXPECT_EQ(Fold(again).code(), FsError::kConflict) << "nor is its parity there";
}

TEST_P(FoldTest, TheParityOfAPlanThatFailedIsGarbage) {
  const StripeInfo sa = WriteAt(MakeFile("a"), 0, 1000, 1);
  const StripeInfo sb = WriteAt(MakeFile("b"), 0, 900, 2);
  const FoldPlan plan = Plan({{sa.id, 0}, {sb.id, 0}});
  DropParity(plan);
  EXPECT_TRUE(IsGarbage(plan.fold.columns[2]));
}

TEST_P(FoldTest, InTooManyPieces) {
  const InodeId a = MakeFile("a"), b = MakeFile("b");
  const StripeInfo sa = WriteAt(a, 0, 10000, 1);
  const StripeInfo sb = WriteAt(b, 0, 10000, 2);
  for (uint64_t i = 0; i < 5; ++i) WriteAt(a, 1000 + i * 2000, 10, 3);
  const FoldPlan plan = Plan({{sa.id, 0}, {sb.id, 0}});
  EXPECT_EQ(Fold(plan, 6).code(), FsError::kTooBig);
  const Places before = Where(a);
  EXPECT_TRUE(Fold(plan, 7).ok());
  EXPECT_EQ(Where(a), before);
}

TEST_P(FoldTest, WhatIsLeftOfAFoldIsFoldedAgain) {
  std::vector<InodeId> files;
  std::vector<StripeInfo> stripes;
  for (uint32_t i = 1; i <= 5; ++i) {
    files.push_back(MakeFile("f" + std::to_string(i)));
    stripes.push_back(WriteAt(files.back(), 0, 1000 + i, i % 3 + 1));
  }
  const FoldPlan first = Plan({{stripes[0].id, 0}, {stripes[1].id, 0}, {stripes[2].id, 0}}, 4);
  ASSERT_TRUE(Fold(first).ok());
  ASSERT_TRUE(Unlink("f2").ok());
  TrimAll();
  EXPECT_EQ(Usage(first.fold.id).column_bytes, (std::vector<uint64_t>{1001, 0, 1003}));
  // Not one without the other: the rest could not be decoded any more.
  const FoldPlan torn = Plan({{stripes[3].id, 0}, {first.fold.id, 2}});
  EXPECT_EQ(Fold(torn).code(), FsError::kConflict);
  DropParity(torn);
  std::vector<Places> before;
  for (int i : {0, 2, 3}) before.push_back(Where(files[i]));
  const FoldPlan second = Plan({{first.fold.id, 2}, {stripes[3].id, 0}, {first.fold.id, 0}});
  const auto left = Fold(second);
  ASSERT_TRUE(left.ok()) << left.error();
  EXPECT_FALSE(IsThere(first.fold.id));
  EXPECT_EQ(Where(files[0]), before[0]);
  EXPECT_EQ(Where(files[2]), before[1]);
  EXPECT_EQ(Where(files[3]), before[2]);
  Drop(*left);
  EXPECT_TRUE(IsGarbage(stripes[1].columns[0])) << "the dead column";
  EXPECT_TRUE(IsGarbage(first.fold.columns[3])) << "the old parity";
  EXPECT_FALSE(IsGarbage(stripes[0].columns[0]));
}

TEST_P(FoldTest, WhatIsMaskedIsTrimmedAllTheSame) {
  const InodeId a = MakeFile("a"), b = MakeFile("b");
  Fragment(a, 3000);
  const StripeInfo sa = WriteAt(a, 1000000, 5000, 1);
  const StripeInfo sb = WriteAt(b, 0, 5000, 2);
  EXPECT_TRUE(Truncate(a, 0).ok());  // too many at once: some wait
  if (!IsThere(sa.id)) return;
  const FoldPlan plan = Plan({{sa.id, 0}, {sb.id, 0}});
  ASSERT_TRUE(Fold(plan).ok());
  TrimAll();
  EXPECT_EQ(Usage(plan.fold.id).column_bytes, (std::vector<uint64_t>{0, 5000}));
}

// After any writes, clones, cuts and removals a fold leaves every byte where it is.
TEST_P(FoldTest, Random) {
  Random rng(4711);
  std::map<std::string, InodeId> files;
  std::vector<StripeId> known;
  int folds = 0;
  for (int step = 0; step < 400; ++step) {
    const std::string name = "f" + std::to_string(rng.Below(8));
    if (!files.contains(name)) files[name] = MakeFile(name);
    const InodeId ino = files[name];
    switch (rng.Below(8)) {
      case 0:
        EXPECT_TRUE(Unlink(name).ok());
        files.erase(name);
        break;
      case 1: EXPECT_TRUE(Truncate(ino, rng.Below(20000)).ok()); break;
      case 2: {
        const std::string to = "f" + std::to_string(rng.Below(8));
        if (to == name || !files.contains(to)) break;
        CloneRequest r;
        r.from = ino;
        r.to = files[to];
        r.from_offset = rng.Below(5000);
        r.to_offset = rng.Below(5000);
        r.length = rng.Between(1, 8000);
        EXPECT_TRUE(Do([&](Txn& t) { return OpClone(t, ctx_, r); }).ok());
        break;
      }
      case 3:
      case 4: {
        // Live columns of any stripes, whole stripes only.
        std::vector<FoldMember> members;
        std::erase_if(known, [&](StripeId id) { return !IsThere(id); });
        for (StripeId id : known) {
          if (rng.OneIn(2)) continue;
          const StripeUsage usage = Usage(id);
          for (uint16_t c = 0; c < usage.column_bytes.size(); ++c) {
            if (usage.column_bytes[c] > 0) members.push_back({id, c});
          }
          if (members.size() >= 4) break;
        }
        if (members.size() < 2) break;
        std::map<InodeId, Places> before;
        for (const auto& [_, f] : files) before[f] = Where(f);
        const FoldPlan plan = Plan(members);
        const auto left = Fold(plan);
        ASSERT_TRUE(left.ok()) << left.error();
        for (const auto& [_, f] : files) EXPECT_EQ(Where(f), before[f]);
        Drop(*left);
        known.push_back(plan.fold.id);
        ++folds;
        break;
      }
      default:
        known.push_back(WriteAt(ino, rng.Below(10000), rng.Between(1, 6000), static_cast<uint32_t>(rng.Between(1, 6))).id);
    }
    if (step % 50 == 0) {
      TrimAll();
      EXPECT_EQ(store_.Fsck(), std::vector<std::string>()) << "step " << step;
    }
  }
  TrimAll();
  EXPECT_GT(folds, 20);
}

INSTANTIATE_TEST_SUITE_P(Stores, FoldTest, testing::Values(StoreKind::kMemory, StoreKind::kRocks),
                         [](const testing::TestParamInfo<StoreKind>& info) {
                           return info.param == StoreKind::kMemory ? "Memory" : "Rocks";
                         });

}  // namespace
}  // namespace stria
