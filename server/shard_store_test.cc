#include "server/shard_store.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/kv/forwarding_kv.h"
#include "server/shard_testing.h"

namespace stria {
namespace {

constexpr uint64_t kBlock = kChecksumBlockBytes;

class ShardStoreTest : public ::testing::Test {
 protected:
  ShardStoreTest() : ex_(1), sim_(1) { sim_.Start(ex_); }
  ShardStore* store() { return sim_.store.get(); }
  template <class T>
  T Run(Task<T> task) {
    return RunSim(ex_, std::move(task));
  }
  void Put(uint64_t id, uint64_t length) {
    Result<Sealed> sealed = Run(StoreWhole(store(), ShardId(id), length));
    ASSERT_TRUE(sealed.ok()) << sealed.error();
    EXPECT_EQ(sealed->digest, DigestOf(ShardId(id), BytesOf(ShardId(id), length)));
  }
  FsError ReadCode(uint64_t id, uint64_t length) {
    Result<ShardBytes> got = Run(store()->Read(ShardId(id), 0, length));
    if (got.ok()) EXPECT_TRUE(Flat(got->bytes) == BytesOf(ShardId(id), length));
    return got.code();
  }
  void Restart(bool power_cut = true) {
    Random rng(99);
    sim_.Crash(rng, power_cut);
    sim_.Start(ex_);
    ex_.RunFor(1 * kSecond);
  }

  SimExecutor ex_;
  SimStore sim_;
};

TEST_F(ShardStoreTest, WritesSealsAndReadsShardsOfAllSizes) {
  const std::vector<uint64_t> lengths = {1,          4095,       kBlock - 1,     kBlock,
                                         kBlock + 1, 4 * kBlock, 4 * kBlock + 1, 20 * kBlock + 17};
  for (size_t i = 0; i < lengths.size(); ++i) Put(i + 1, lengths[i]);
  for (int round = 0; round < 2; ++round) {
    uint64_t used = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      EXPECT_EQ(ReadCode(i + 1, lengths[i]), FsError::kOk) << lengths[i];
      used += lengths[i];
    }
    EXPECT_EQ(store()->Usage().used_bytes, used);
    Restart();
  }
  // Small ones are packed, large ones are files of nothing but payload.
  EXPECT_EQ(sim_.disk_media->Files("shards/").size(), 2u);
  EXPECT_EQ(sim_.disk_media->Content(RawShardName(ShardId(8))), BytesOf(ShardId(8), lengths[7]));
  Result<ShardBytes> part = Run(store()->Read(ShardId(8), 2 * kBlock, 3 * kBlock));
  EXPECT_TRUE(Flat(part->bytes) == BytesOf(ShardId(8), lengths[7]).substr(2 * kBlock, 3 * kBlock));
  EXPECT_EQ(part->crcs.size(), 3u);
}

TEST_F(ShardStoreTest, RefusesMalformedRequests) {
  Put(1, 3 * kBlock + 5);
  auto code = [&](uint64_t offset, uint64_t length) {
    return Run(store()->Read(ShardId(1), offset, length)).code();
  };
  EXPECT_EQ(code(1, kBlock), FsError::kBadRequest);
  EXPECT_EQ(code(0, 10), FsError::kBadRequest);
  EXPECT_EQ(code(0, 0), FsError::kBadRequest);
  EXPECT_EQ(code(kBlock, UINT64_MAX - kBlock + 1), FsError::kBadRequest);
  EXPECT_EQ(code(0, 4 * kBlock), FsError::kBadRequest);
  EXPECT_EQ(code(3 * kBlock, 5), FsError::kOk);
  EXPECT_EQ(Run(store()->Read(ShardId(2), 0, kBlock)).code(), FsError::kNoSuchShard);
  const BufferChain data(Buffer::FromString(std::string(10, 'x')));
  EXPECT_EQ(Run(store()->Write(ShardId(2), 5, data, {0}, false)).code(), FsError::kBadRequest);
  EXPECT_EQ(Run(store()->Write(ShardId(2), 0, data, {0, 0}, false)).code(), FsError::kBadRequest);
  EXPECT_EQ(Run(store()->Write(ShardId(2), 0, data, {0}, false)).code(), FsError::kChecksum);
  EXPECT_EQ(Run(store()->Write(ShardId(2), kMaxStripeBytes, data, {0}, false)).code(), FsError::kBadRequest);
  EXPECT_EQ(Run(store()->Seal(ShardId(2), 10)).code(), FsError::kNoSuchShard);
}

TEST_F(ShardStoreTest, RepeatsAreFineAndOtherBytesAreNot) {
  const ShardId id(5);
  const uint64_t length = 10 * kBlock + 3;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Run(WriteBlocksOf(store(), id, length, 4, 7)).ok());
    EXPECT_TRUE(Run(WriteBlocksOf(store(), id, length, 0, 2)).ok());
  }
  EXPECT_EQ(Run(store()->Seal(id, length)).code(), FsError::kNoSuchShard);  // blocks 2 and 3 are missing
  EXPECT_TRUE(Run(WriteBlocksOf(store(), id, length, 1, 4)).ok());
  EXPECT_EQ(Run(store()->Seal(id, 10 * kBlock)).code(), FsError::kNoSuchShard);  // more was written
  const std::string other(kBlock, 'o');
  EXPECT_EQ(
      Run(store()->Write(id, 0, BufferChain(Buffer::FromString(other)), TableOf(id, other), false)).code(),
      FsError::kConflict);
  const Result<Sealed> first = Run(store()->Seal(id, length));
  const Result<Sealed> again = Run(store()->Seal(id, length));
  EXPECT_EQ(first.value().digest, again.value().digest);
  EXPECT_EQ(Run(store()->Seal(id, length - 1)).code(), FsError::kConflict);
  EXPECT_TRUE(Run(WriteBlocksOf(store(), id, length, 4, 7)).ok());  // a late repeat
  EXPECT_EQ(
      Run(store()->Write(id, 0, BufferChain(Buffer::FromString(other)), TableOf(id, other), false)).code(),
      FsError::kShardSealed);
  EXPECT_EQ(ReadCode(5, length), FsError::kOk);
}

TEST_F(ShardStoreTest, ConcurrentDuplicatesAndGroupCommit) {
  std::vector<Task<Result<Sealed>>> tasks;
  for (uint64_t i = 0; i < 200; ++i)
    tasks.push_back(StoreWhole(store(), ShardId(1 + i / 2), 1000 * (1 + i / 2)));
  const uint64_t syncs = sim_.kv_media->syncs();
  for (const Result<Sealed>& r : Run(WhenAll(std::move(tasks)))) EXPECT_TRUE(r.ok()) << r.error();
  EXPECT_LT(sim_.kv_media->syncs() - syncs, 20u);
  for (uint64_t i = 1; i <= 100; ++i) EXPECT_EQ(ReadCode(i, 1000 * i), FsError::kOk);
  EXPECT_EQ(store()->Usage().shards, 100u);
}

TEST_F(ShardStoreTest, DeletesAreIdempotentAndDurable) {
  for (uint64_t i = 1; i <= 6; ++i) Put(i, i * 2 * kBlock);
  EXPECT_TRUE(Run(WriteBlocksOf(store(), ShardId(7), 9 * kBlock, 0, 9)).ok());  // unsealed
  for (int i = 0; i < 2; ++i) {
    std::vector<ShardId> all;
    for (uint64_t s = 1; s <= 8; ++s) all.push_back(ShardId(s));
    EXPECT_TRUE(Run(store()->Delete(all)).ok());
  }
  EXPECT_EQ(ReadCode(2, 4 * kBlock), FsError::kNoSuchShard);
  EXPECT_EQ(store()->Usage().used_bytes, 0u);
  EXPECT_TRUE(sim_.disk_media->Files("shards/").empty());
  Restart();
  EXPECT_TRUE(sim_.disk_media->Files("shards/").empty());
  EXPECT_TRUE(Run(store()->Inventory(ShardId(), 10)).value().shards.empty());
}

TEST_F(ShardStoreTest, InventoryPagesSealedAndOpen) {
  for (uint64_t i = 1; i <= 9; i += 2) Put(i, 100 * i);
  EXPECT_TRUE(Run(WriteBlocksOf(store(), ShardId(4), kBlock, 0, 1)).ok());
  std::vector<uint64_t> seen;
  ShardId after;
  for (bool more = true; more;) {
    const ShardStore::Page page = Run(store()->Inventory(after, 2)).value();
    for (const StoredShard& s : page.shards) {
      seen.push_back(s.shard.v);
      EXPECT_EQ(s.sealed, s.shard.v != 4);
      after = s.shard;
    }
    more = page.more;
  }
  EXPECT_EQ(seen, (std::vector<uint64_t>{1, 3, 4, 5, 7, 9}));
}

TEST_F(ShardStoreTest, UnsealedShardsDoNotSurvive) {
  EXPECT_TRUE(Run(WriteBlocksOf(store(), ShardId(1), 9 * kBlock, 0, 9)).ok());
  Restart(false);
  EXPECT_TRUE(store()->leftovers_removed());
  EXPECT_TRUE(sim_.disk_media->Files("shards/").empty());
  EXPECT_EQ(Run(store()->Seal(ShardId(1), 9 * kBlock)).code(), FsError::kNoSuchShard);
  EXPECT_TRUE(Run(WriteBlocksOf(store(), ShardId(2), 9 * kBlock, 0, 9)).ok());
  ex_.RunFor(kOpenShardIdleNs + 2 * 60 * kSecond);
  EXPECT_EQ(store()->open_shards(), 0u);
  EXPECT_TRUE(sim_.disk_media->Files("shards/").empty());
}

TEST_F(ShardStoreTest, SaysHowLongItsReadsTakeLately) {
  Put(1, 9 * kBlock);
  const auto read = [this](size_t times) {
    for (size_t i = 0; i < times; ++i) EXPECT_EQ(ReadCode(1, 9 * kBlock), FsError::kOk);
    return store()->Usage().read_us;
  };
  EXPECT_EQ(read(ReadTimes::kFewestReads - 1), 0u);
  const uint64_t fine = read(1);
  EXPECT_GT(fine, 0u);
  sim_.disk_media->faults.slow_factor = 1000;
  EXPECT_LT(read(2), 2 * fine) << "a few slow ones are not what is usual";
  EXPECT_GT(read(ReadTimes::kMostReads), 100 * fine);
  sim_.disk_media->faults.slow_factor = 1;
  EXPECT_LT(read(ReadTimes::kMostReads), 2 * fine);
  sim_.disk_media->faults.hung = true;
  {
    TaskScope scope;
    for (size_t i = 0; i < ReadTimes::kMostReads; ++i) {
      scope.Spawn([](ShardStore* s) -> Task<void> { (void)co_await s->Read(ShardId(1), 0, 9 * kBlock); }(store()));
    }
    ex_.RunFor(5 * kSecond);
    EXPECT_GT(store()->Usage().read_us, 4'000'000u) << "they have not ended yet";
  }
  sim_.disk_media->faults.hung = false;
  sim_.disk_media->faults.slow_factor = 1;
  EXPECT_LT(read(ReadTimes::kMostReads), 2 * fine);
  ex_.RunFor(ReadTimes::kLatelyNs);
  EXPECT_EQ(store()->Usage().read_us, 0u);
}

TEST_F(ShardStoreTest, FlippedBitsAreFound) {
  Put(1, 100);
  Put(2, 9 * kBlock);
  Put(3, 200);
  Random rng(5);
  const ShardRecord packed = *Run(store()->index().Get(ShardId(1))).value();
  EXPECT_TRUE(sim_.disk_media->FlipBit(SegmentName(packed.place.segment),
                                       SegmentPayloadOffset(packed.place, 100) + 50, 3));
  EXPECT_TRUE(sim_.disk_media->FlipBit(RawShardName(ShardId(2)), 5 * kBlock + 77, 0));
  EXPECT_TRUE(Run(store()->index().Sync()).ok());
  EXPECT_TRUE(sim_.kv_media->CorruptValue(kIndexShards, ShardKey(ShardId(3)), rng));
  Restart();
  EXPECT_EQ(ReadCode(1, 100), FsError::kChecksum);
  EXPECT_EQ(ReadCode(2, 9 * kBlock), FsError::kChecksum);
  EXPECT_EQ(Run(store()->Read(ShardId(2), 0, 5 * kBlock)).code(), FsError::kOk);
  EXPECT_EQ(ReadCode(3, 200), FsError::kChecksum);
  EXPECT_EQ(Run(store()->Verify(ShardId(2))).code(), FsError::kChecksum);
  EXPECT_EQ(store()->Usage().checksum_errors, 4u);
  EXPECT_EQ(store()->TakeBadShards(10), (std::vector<ShardId>{ShardId(1), ShardId(2), ShardId(3)}));
  EXPECT_TRUE(store()->TakeBadShards(10).empty());
  EXPECT_TRUE(Run(store()->Delete({ShardId(1), ShardId(2), ShardId(3)})).ok());  // repair replaced them
  EXPECT_TRUE(Run(store()->Inventory(ShardId(), 10)).value().shards.empty());
}

// A part that was read lately is read and checked without the rest of its block, packed or not.
TEST_F(ShardStoreTest, PartsOfBlocksAreReadAndCheckedAlone) {
  const std::map<uint64_t, uint64_t> lengths = {{1, 50'000}, {2, 9 * kBlock + 20'000}};
  for (const auto& [id, length] : lengths) Put(id, length);
  struct Part {
    uint64_t id, offset, length;
    Omit omit;
  };
  const auto read = [this](const Part& p) {
    return Run(store()->Read(ShardId(p.id), p.offset, p.length, false, p.omit));
  };
  const auto flip = [this](uint64_t id, uint64_t at) {
    const ShardRecord record = *Run(store()->index().Get(ShardId(id))).value();
    const bool packed = record.kind == ShardKind::kPacked;
    EXPECT_TRUE(packed ? sim_.disk_media->FlipBit(SegmentName(record.place.segment), SegmentPayloadOffset(record.place, record.length) + at, 3)
                       : sim_.disk_media->FlipBit(RawShardName(ShardId(id)), at, 3));
  };
  const std::vector<Part> parts = {{1, 0, 50'000, {8192, 50'000 - 3 * 4096}},
                                   {1, 0, 50'000, {49'500, 0}},
                                   {2, 3 * kBlock, kBlock, {5000, kBlock - 5100}},
                                   {2, 9 * kBlock, 20'000, {4096, 20'000 - 8192}},
                                   {2, 4 * kBlock, 3 * kBlock, {kBlock - 1, kBlock - 1}}};
  for (int again = 0; again < 3; ++again) {
    for (const Part& p : parts) {
      const Result<ShardBytes> got = read(p);
      ASSERT_TRUE(got.ok()) << got.error();
      BufferChain whole(Buffer::FromString(BytesOf(ShardId(p.id), lengths.at(p.id)).substr(p.offset, p.length)));
      EXPECT_EQ(got->left_out, CutEnds(&whole, p.omit.head_bytes, p.omit.tail_bytes));
      EXPECT_TRUE(Flat(got->bytes) == Flat(whole));
      EXPECT_EQ(got->crcs.size(), DivCeil(p.length, kBlock));
    }
  }
  flip(1, 100);
  flip(2, 3 * kBlock + 20'000);
  for (const Part& p : parts) EXPECT_TRUE(read(p).ok()) << "the rest of a block was looked at";
  flip(1, 8192 + 17);
  flip(2, 3 * kBlock + 5050);
  flip(2, 5 * kBlock + 5);  // between the two ends of a range
  EXPECT_EQ(read(parts[0]).code(), FsError::kChecksum);
  EXPECT_EQ(read(parts[1]).code(), FsError::kOk);
  EXPECT_EQ(read(parts[2]).code(), FsError::kChecksum);
  EXPECT_EQ(read(parts[3]).code(), FsError::kOk);
  EXPECT_EQ(read(parts[4]).code(), FsError::kChecksum);
  EXPECT_EQ(store()->TakeBadShards(10), (std::vector<ShardId>{ShardId(1), ShardId(2)}));
  EXPECT_EQ(Run(store()->Verify(ShardId(1))).code(), FsError::kChecksum);
}

TEST_F(ShardStoreTest, DamagedTotalsAreCountedAgain) {
  for (uint64_t i = 1; i <= 20; ++i) Put(i, 1000 * i);
  const DiskUsage before = store()->Usage();
  const auto live = store()->index().segment_live_bytes();
  Random rng(6);
  EXPECT_TRUE(sim_.kv_media->CorruptValue(kIndexState, "T", rng));
  Restart();
  EXPECT_EQ(store()->Usage().used_bytes, before.used_bytes);
  EXPECT_EQ(store()->Usage().shards, before.shards);
  EXPECT_EQ(store()->index().segment_live_bytes(), live);
}

// Small shards are acknowledged when their segment is durable; the index may lose them in a power cut.
TEST_F(ShardStoreTest, WhatTheIndexLosesIsFoundInSegments) {
  uint64_t next = 1;
  std::map<uint64_t, uint64_t> there;
  std::vector<uint64_t> gone;
  uint64_t unsynced = 0;
  Random rng(3);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    const bool deletes = round % 3 == 1;
    for (int i = 0; i < 6; ++i, ++next) {
      there[next] = rng.Between(1, 3 * kBlock);
      Put(next, there[next]);
    }
    if (deletes) {
      for (const uint64_t id : {next - 6, next - 1}) {
        EXPECT_TRUE(Run(store()->Delete({ShardId(id)})).ok());
        there.erase(id);
        gone.push_back(id);
      }
    }
    const bool unsealed = Run(WriteBlocksOf(store(), ShardId(next), 100, 0, 1)).ok();
    EXPECT_TRUE(unsealed);
    gone.push_back(next++);
    unsynced += sim_.kv_media->unsynced_batches();
    sim_.Crash(rng, true);
    sim_.Start(ex_);
    for (const auto& [id, length] : there) ASSERT_EQ(ReadCode(id, length), FsError::kOk) << id;
    for (const uint64_t id : gone) ASSERT_EQ(ReadCode(id, 1), FsError::kNoSuchShard) << id;
    uint64_t used = 0;
    for (const auto& [id, length] : there) used += length;
    EXPECT_EQ(store()->Usage().used_bytes, used);
    EXPECT_EQ(store()->Usage().shards, there.size());
    EXPECT_TRUE(store()->TakeBadShards(10).empty());
  }
  EXPECT_GT(unsynced, 40u);
}

TEST_F(ShardStoreTest, ADiskIsOpenedAlthoughASegmentCannotBeRead) {
  for (uint64_t id = 1; id <= 3; ++id) Put(id, 1000);
  sim_.Stop();
  KvBatch batch;
  batch.Delete(kIndexShards, ShardKey(ShardId(3)));
  ASSERT_TRUE(MemKv(sim_.kv_media).Write(batch).ok());
  sim_.disk_media->faults.read_error_percent = 100;
  sim_.Start(ex_);
  sim_.disk_media->faults.read_error_percent = 0;
  EXPECT_EQ(store()->Usage().read_errors, 1u);
  EXPECT_EQ(ReadCode(1, 1000), FsError::kOk);
  EXPECT_EQ(ReadCode(3, 1000), FsError::kNoSuchShard);
}

// With an index from before segments could tell, deleted shards do not come back; where the place to look from is damaged, all
// segments are looked through.
TEST_F(ShardStoreTest, SegmentsAreLookedThroughFromAKnownPlace) {
  for (uint64_t id = 1; id <= 3; ++id) Put(id, 1000);
  EXPECT_TRUE(Run(store()->Delete({ShardId(2)})).ok());
  const auto begin_without = [this](bool place_too, bool damaged) {
    sim_.Stop();
    KvBatch batch;
    if (place_too) batch.Delete(kIndexState, "U");
    batch.Delete(kIndexShards, ShardKey(ShardId(3)));
    MemKv kv(sim_.kv_media);
    EXPECT_TRUE(kv.Write(batch).ok());
    Random rng(6);
    if (damaged) EXPECT_TRUE(sim_.kv_media->CorruptValue(kIndexState, "U", rng));
    sim_.Start(ex_);
  };
  begin_without(true, false);
  EXPECT_EQ(ReadCode(2, 1000), FsError::kNoSuchShard);
  EXPECT_EQ(ReadCode(3, 1000), FsError::kNoSuchShard);
  begin_without(false, true);
  EXPECT_EQ(ReadCode(1, 1000), FsError::kOk);
  EXPECT_EQ(ReadCode(2, 1000), FsError::kOk) << "for the quarantine";
  EXPECT_EQ(ReadCode(3, 1000), FsError::kOk);
  begin_without(false, false);
  EXPECT_EQ(ReadCode(3, 1000), FsError::kNoSuchShard);
}

TEST_F(ShardStoreTest, LostAndMisdirectedWritesAreFound) {
  sim_.disk_media->faults.lose_write_in = 1;
  Result<Sealed> sealed = Run(StoreWhole(store(), ShardId(1), 9 * kBlock));
  sim_.disk_media->faults.lose_write_in = 0;
  if (sealed.ok()) EXPECT_EQ(ReadCode(1, 9 * kBlock), FsError::kChecksum);
  Put(2, 9 * kBlock);
  EXPECT_EQ(ReadCode(2, 9 * kBlock), FsError::kOk);
}

TEST_F(ShardStoreTest, AFailedSyncFencesTheDisk) {
  Put(1, 9 * kBlock);
  EXPECT_TRUE(Run(WriteBlocksOf(store(), ShardId(2), 9 * kBlock, 0, 9)).ok());
  sim_.disk_media->faults.fail_sync_in = 1;
  EXPECT_EQ(Run(store()->Seal(ShardId(2), 9 * kBlock)).code(), FsError::kDiskFailed);
  EXPECT_EQ(Run(store()->Seal(ShardId(2), 9 * kBlock)).code(), FsError::kDiskFailed);
  EXPECT_EQ(Run(StoreWhole(store(), ShardId(3), 5)).code(), FsError::kDiskFailed);
  EXPECT_TRUE(store()->Usage().failed);
  EXPECT_EQ(ReadCode(1, 9 * kBlock), FsError::kOk);
}

TEST_F(ShardStoreTest, ADiskThatHangsIsRefusedWorkUntilItAnswers) {
  Put(1, 9 * kBlock);
  sim_.disk_media->faults.hung = true;
  ex_.RunFor(kDiskHungNs + 5 * kSecond);
  EXPECT_TRUE(store()->Usage().failed);
  EXPECT_EQ(ReadCode(1, 9 * kBlock), FsError::kDiskFailed);
  EXPECT_EQ(Run(StoreWhole(store(), ShardId(2), 9 * kBlock)).code(), FsError::kDiskFailed);
  EXPECT_EQ(Run(store()->Delete({ShardId(1)})).code(), FsError::kDiskFailed);
  sim_.disk_media->faults.hung = false;
  ex_.RunFor(5 * kSecond);
  EXPECT_FALSE(store()->Usage().failed);
  EXPECT_EQ(ReadCode(1, 9 * kBlock), FsError::kOk);
  Put(2, 9 * kBlock);
}

TEST_F(ShardStoreTest, AFailedIndexSyncFencesTheDisk) {
  sim_.kv_media->FailNextSync();
  EXPECT_EQ(Run(StoreWhole(store(), ShardId(3), 5)).code(), FsError::kDiskFailed);
  EXPECT_TRUE(store()->failed());
}

TEST_F(ShardStoreTest, AReadErrorFailsOnlyThatRead) {
  Put(1, 9 * kBlock);
  sim_.disk_media->faults.fail_read_in = 1;
  EXPECT_EQ(ReadCode(1, 9 * kBlock), FsError::kDiskFailed);
  EXPECT_EQ(ReadCode(1, 9 * kBlock), FsError::kOk);
  EXPECT_EQ(store()->Usage().read_errors, 1u);
  EXPECT_FALSE(store()->failed());
  sim_.disk_media->faults.fail_write_in = 1;
  EXPECT_EQ(Run(StoreWhole(store(), ShardId(2), 9 * kBlock)).code(), FsError::kDiskFailed);
  Put(2, 9 * kBlock);
}

// Answers the next question as of when it is asked, but late.
class LateKv final : public ForwardingKv, public Pool {
 public:
  explicit LateKv(std::shared_ptr<MemKvMedia> media) : ForwardingKv(std::make_shared<MemKv>(std::move(media))) {}
  void HoldNext() { hold_ = true; }
  bool holds() const { return held_ != nullptr; }
  void Answer() { std::exchange(held_, nullptr)(); }

  Result<std::optional<std::string>> Get(KvFamily family, std::string_view key) override {
    if (late_) return *std::exchange(late_, std::nullopt);
    return below().Get(family, key);
  }
  std::optional<Result<std::optional<std::string>>> GetIfCached(KvFamily family, std::string_view key) override {
    if (!hold_) return below().GetIfCached(family, key);
    late_ = below().Get(family, key);
    return std::nullopt;
  }
  void Submit(std::function<void()> work) override {
    if (std::exchange(hold_, false)) held_ = std::move(work);
    else work();
  }

 private:
  bool hold_ = false;
  std::optional<Result<std::optional<std::string>>> late_;
  std::function<void()> held_;
};

// A client that got no answer sends a write again. One of the two asks for the shard's record, which is not there yet, and hears
// so only when the other has opened the shard, written and sealed it: it does not begin the shard anew, which would take its
// file away.
TEST(ShardStoreRepeatTest, ALateLookAtTheIndexBeginsNoSealedShardAnew) {
  SimExecutor ex(1);
  InlinePool cpu_pool;
  auto media = std::make_shared<SimDiskMedia>(1, SimDiskOptions());
  SimDisk disk(media);
  LateKv kv(std::make_shared<MemKvMedia>(kIndexFamilies));
  ShardStore store(&disk, &kv, &kv, &cpu_pool, ShardStoreOptions{.disk = Uuid{7, 9}});
  ASSERT_TRUE(RunSim(ex, store.Open()).ok());
  ex.RunFor(kSecond);
  for (const uint64_t length : {8 * kBlock, 2 * kBlock}) {
    const ShardId shard(length);
    std::optional<Result<void>> late;
    std::optional<Result<Sealed>> whole;
    TaskScope scope;
    kv.HoldNext();
    scope.Spawn([](Task<Result<void>> t, std::optional<Result<void>>* out) -> Task<void> {
      *out = co_await std::move(t);
    }(WriteBlocksOf(&store, shard, length, 0, ChecksumBlocks(length)), &late));
    ex.RunFor(kSecond);
    ASSERT_TRUE(kv.holds());
    scope.Spawn([](Task<Result<Sealed>> t, std::optional<Result<Sealed>>* out) -> Task<void> {
      *out = co_await std::move(t);
    }(StoreWhole(&store, shard, length), &whole));
    ex.RunFor(kSecond);
    kv.Answer();
    ex.RunFor(kSecond);
    ASSERT_TRUE(late && whole);
    EXPECT_TRUE(late->ok()) << late->error();
    ASSERT_TRUE(whole->ok()) << whole->error();
    EXPECT_EQ(store.open_shards(), 0u);
    ex.RunFor(kOpenShardIdleNs + 60 * kSecond);
    Result<ShardBytes> got = RunSim(ex, store.Read(shard, 0, length));
    ASSERT_TRUE(got.ok()) << got.error();
    EXPECT_TRUE(Flat(got->bytes) == BytesOf(shard, length));
  }
}

// Something else has filled the disk: it is not a failed one, takes nothing, and is read; opened anew it is as before.
TEST(ShardStoreSpaceTest, ADiskWhoseIndexFindsNoRoomIsNoFailedOne) {
  SimExecutor ex(1);
  InlinePool pool;
  auto media = std::make_shared<SimDiskMedia>(1, SimDiskOptions());
  auto kv_media = std::make_shared<MemKvMedia>(kIndexFamilies);
  const auto full = std::make_shared<std::atomic<bool>>(false);
  constexpr uint64_t kSmall = kBlock, kRaw = 8 * kBlock;
  for (const bool by_delete : {false, true}) {
    *full = false;
    SimDisk disk(media);
    FullKv kv(std::make_shared<MemKv>(kv_media), full);
    ShardStore store(&disk, &kv, &pool, &pool, ShardStoreOptions{.disk = Uuid{7, 9}});
    ASSERT_TRUE(RunSim(ex, store.Open()).ok());
    ex.RunFor(kSecond);
    const ShardId small(by_delete ? 11 : 1), raw(by_delete ? 12 : 2), refused(3);
    ASSERT_TRUE(RunSim(ex, StoreWhole(&store, small, kSmall)).ok());
    ASSERT_TRUE(RunSim(ex, StoreWhole(&store, raw, kRaw)).ok());
    EXPECT_GT(store.Usage().free_bytes, 0u);
    *full = true;
    if (by_delete) EXPECT_EQ(RunSim(ex, store.Delete({small})).code(), FsError::kDiskFailed);
    else EXPECT_EQ(RunSim(ex, StoreWhole(&store, refused, kRaw)).code(), FsError::kDiskFailed);
    EXPECT_TRUE(store.failed() && store.out_of_room());
    EXPECT_FALSE(store.Usage().failed) << "it would be rebuilt elsewhere, for good";
    EXPECT_EQ(store.Usage().free_bytes, 0u) << "nothing is to be put there";
    EXPECT_NE(store.failure().message.find("filled by something else"), std::string::npos) << store.failure();
    EXPECT_GT(store.room_for_index(), 0u);
    EXPECT_TRUE(RunSim(ex, store.Read(raw, 0, kRaw)).ok());
  }
  *full = false;
  SimDisk disk(media);
  MemKv kv(kv_media);
  ShardStore store(&disk, &kv, &pool, &pool, ShardStoreOptions{.disk = Uuid{7, 9}});
  ASSERT_TRUE(RunSim(ex, store.Open()).ok());
  for (const uint64_t id : {1, 11}) EXPECT_TRUE(RunSim(ex, store.Read(ShardId(id), 0, kSmall)).ok()) << id;
  for (const uint64_t id : {2, 12}) EXPECT_TRUE(RunSim(ex, store.Read(ShardId(id), 0, kRaw)).ok()) << id;
  EXPECT_TRUE(RunSim(ex, StoreWhole(&store, ShardId(3), kRaw)).ok());
  EXPECT_FALSE(store.failed());
}

TEST(ShardStoreSpaceTest, RepairHasItsReserve) {
  SimExecutor ex(1);
  SimDiskOptions options;
  options.capacity_bytes = 100 * kMiB;
  SimStore sim(3, options);
  sim.Start(ex);
  uint64_t id = 1;
  Result<Sealed> last = Sealed();
  while (last.ok() && id < 200) last = RunSim(ex, StoreWhole(sim.store.get(), ShardId(id++), kMiB));
  EXPECT_EQ(last.code(), FsError::kNoSpace);
  EXPECT_GE(id, 93u);
  EXPECT_LE(id, 97u);
  EXPECT_EQ(sim.store->Usage().free_bytes, 0u);
  EXPECT_TRUE(RunSim(ex, StoreWhole(sim.store.get(), ShardId(1000), kMiB, true)).ok());
  id = 1001;
  last = Sealed();
  while (last.ok() && id < 1100) last = RunSim(ex, StoreWhole(sim.store.get(), ShardId(id++), kMiB, true));
  EXPECT_EQ(last.code(), FsError::kNoSpace);
  EXPECT_TRUE(
      RunSim(ex, sim.store->Delete({ShardId(1), ShardId(2), ShardId(3), ShardId(4), ShardId(5)})).ok());
  EXPECT_FALSE(sim.store->failed());
  EXPECT_TRUE(RunSim(ex, StoreWhole(sim.store.get(), ShardId(2000), 1000)).ok());
}

TEST(ShardStoreCompactionTest, KeepsLiveShardsAndFreesSpace) {
  SimExecutor ex(1);
  SimStore sim(4);
  sim.Start(ex, false);
  ShardStore* store = sim.store.get();
  constexpr uint64_t kShards = 700, kLength = 200 * kKiB;  // more than two segments
  for (uint64_t i = 1; i <= kShards; ++i)
    ASSERT_TRUE(RunSim(ex, StoreWhole(store, ShardId(i), kLength)).ok());
  ASSERT_TRUE(RunSim(ex, StoreWhole(store, ShardId(5000), 3 * kMiB)).ok());  // its table is in a segment
  const uint64_t full = sim.disk_media->used_bytes();
  EXPECT_FALSE(RunSim(ex, store->CompactOne()).value());
  std::vector<ShardId> dead;
  for (uint64_t i = 1; i <= kShards; ++i) {
    if (i % 5 != 0) dead.push_back(ShardId(i));
  }
  ASSERT_TRUE(RunSim(ex, store->Delete(dead)).ok());
  int compacted = 0;
  while (RunSim(ex, store->CompactOne()).value()) ++compacted;
  EXPECT_GE(compacted, 2);
  EXPECT_LT(sim.disk_media->used_bytes(), full / 2);
  Random rng(1);
  sim.Crash(rng, true);
  sim.Start(ex, true);
  ex.RunFor(3600 * kSecond);
  for (uint64_t i = 5; i <= kShards; i += 5) {
    const Result<ShardBytes> got = RunSim(ex, sim.store->Read(ShardId(i), 0, kLength));
    ASSERT_TRUE(got.ok()) << got.error();
    ASSERT_TRUE(Flat(got->bytes) == BytesOf(ShardId(i), kLength));
  }
  EXPECT_TRUE(RunSim(ex, sim.store->Verify(ShardId(5000))).ok());
}

}  // namespace
}  // namespace stria
