// Random work on one simulated disk with crashes at random moments. Sealed shards that were not deleted are there, whole;
// nothing wrong is ever read; leftovers are removed; the counts are exact.
#include <gtest/gtest.h>

#include <map>

#include "common/sanitized.h"
#include "server/shard_testing.h"

namespace stria {
namespace {

constexpr uint64_t kBlock = kChecksumBlockBytes;

class Workload {
 public:
  Workload(uint64_t seed, bool faults) : rng_(seed), ex_(seed, 4), sim_(seed), faults_(faults) {}

  void Run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      sim_.Start(ex_);
      Check();
      if (::testing::Test::HasFatalFailure()) return;
      {
        TaskScope scope;
        for (int i = 0; i < 12; ++i) scope.Spawn(Writer());
        for (int i = 0; i < 3; ++i) scope.Spawn(Reader());
        scope.Spawn(Deleter());
        scope.Spawn(Compacter());
        if (faults_) Break();
        ex_.RunFor(static_cast<int64_t>(rng_.Between(1, 60)) * kMillisecond);
      }
      sim_.disk_media->faults = SimDiskFaults();
      (void)RunSim(ex_, sim_.kv->Sync());  // takes a failure that is still waiting
      sim_.Crash(rng_, rng_.Percent(70));
    }
    EXPECT_GT(sealed_, (faults_ ? 5u : 20u) * static_cast<uint64_t>(rounds));
    EXPECT_GT(deleted_, 0u);
  }

 private:
  enum class State { kWriting, kSealed, kDeleting, kDeleted };
  struct Model {
    uint64_t length = 0;
    State state = State::kWriting;
  };

  void Break() {
    SimDiskFaults& f = sim_.disk_media->faults;
    f.read_error_percent = static_cast<uint32_t>(rng_.Below(3));
    f.write_error_percent = static_cast<uint32_t>(rng_.Below(3));
    if (rng_.OneIn(2)) f.lose_write_in = static_cast<uint32_t>(rng_.Between(1, 50));
    if (rng_.OneIn(2)) f.misdirect_write_in = static_cast<uint32_t>(rng_.Between(1, 50));
    if (rng_.OneIn(3)) f.fail_sync_in = static_cast<uint32_t>(rng_.Between(1, 50));
    if (rng_.OneIn(4)) sim_.kv_media->FailNextSync();
  }
  // An answer that only a broken disk gives; then nothing is known of the shard, but its bytes are never
  // wrong.
  bool Excused(const Error& e) const {
    return faults_ &&
           (e.code == FsError::kDiskFailed || e.code == FsError::kChecksum || e.code == FsError::kIo);
  }

  uint64_t RandomLength() {
    switch (rng_.Below(4)) {
      case 0:
        return rng_.Between(1, 5000);
      case 1:
        return rng_.Between(1, 4 * kBlock);
      case 2:
        return rng_.Between(1, 4) * kBlock;
      default:
        return rng_.Between(4 * kBlock, 7 * kBlock);
    }
  }

  Task<void> Writer() {
    while (true) {
      const ShardId id(next_id_++);
      Model& m = model_[id];
      m.length = RandomLength();
      const uint64_t blocks = ChecksumBlocks(m.length);
      const std::string bytes = BytesOf(id, m.length);
      const std::vector<uint32_t> table = TableOf(id, bytes);
      std::vector<uint64_t> order(blocks);
      for (uint64_t i = 0; i < blocks; ++i) order[i] = i;
      for (uint64_t i = blocks - 1; i > 0; --i) std::swap(order[i], order[rng_.Below(i + 1)]);
      bool ok = true;
      for (const uint64_t b : order) {
        const uint64_t n = rng_.OneIn(4) ? 3 : 1;  // overlaps others now and then
        Result<void> w = co_await WriteBlocks(sim_.store.get(), id, bytes, table, b, std::min(n, blocks - b));
        EXPECT_TRUE(w.ok() || Excused(w.error())) << w.error();
        ok = ok && w.ok();
      }
      if (rng_.OneIn(20)) continue;  // never sealed
      Result<Sealed> sealed = co_await sim_.store->Seal(id, m.length);
      EXPECT_TRUE(sealed.ok() || !ok || Excused(sealed.error())) << sealed.error();
      if (!sealed.ok()) {
        co_await Sleep(kMillisecond);
        continue;
      }
      EXPECT_EQ(sealed->digest, TableDigest(table, m.length));
      m.state = State::kSealed;
      ++sealed_;
    }
  }
  ShardId RandomShard() { return ShardId(1 + rng_.Below(next_id_ - 1)); }

  Task<void> Reader() {
    while (true) {
      co_await Sleep(static_cast<int64_t>(rng_.Below(300)) * kMicrosecond);
      if (next_id_ == 1) continue;
      const ShardId id = RandomShard();
      const State before = model_[id].state;
      const uint64_t blocks = ChecksumBlocks(model_[id].length);
      const uint64_t first = rng_.Below(blocks);
      const uint64_t offset = first * kBlock;
      const uint64_t length = std::min(rng_.Between(1, blocks - first) * kBlock, model_[id].length - offset);
      Result<ShardBytes> got = co_await sim_.store->Read(id, offset, length);
      if (got.ok()) {
        EXPECT_TRUE(Flat(got->bytes) == BytesOf(id, model_[id].length).substr(offset, length));
      } else if (Excused(got.error())) {
        continue;
      } else if (before == State::kSealed && model_[id].state == State::kSealed) {
        ADD_FAILURE() << "shard " << id << ": " << got.error();
      } else {
        EXPECT_EQ(got.code(), FsError::kNoSuchShard);
      }
    }
  }
  Task<void> Deleter() {
    while (true) {
      co_await Sleep(static_cast<int64_t>(rng_.Below(3000)) * kMicrosecond);
      if (next_id_ == 1) continue;
      std::map<ShardId, bool> some;
      for (uint64_t n = rng_.Between(1, 20); n > 0; --n) {
        const ShardId id = RandomShard();
        if (model_[id].state == State::kWriting) continue;
        model_[id].state = State::kDeleting;
        some[id] = true;
      }
      std::vector<ShardId> ids;
      for (const auto& [id, _] : some) ids.push_back(id);
      Result<void> done = co_await sim_.store->Delete(ids);
      EXPECT_TRUE(done.ok() || Excused(done.error())) << done.error();
      if (!done.ok()) continue;
      for (const ShardId id : ids) model_[id].state = State::kDeleted;
      deleted_ += ids.size();
    }
  }
  Task<void> Compacter() {
    while (true) {
      co_await Sleep(5 * kMillisecond);
      Result<bool> r = co_await sim_.store->CompactOne();
      EXPECT_TRUE(r.ok() || Excused(r.error())) << r.error();
    }
  }

  void Check() {
    ShardStore* store = sim_.store.get();
    ex_.RunFor(kSecond);
    ASSERT_TRUE(store->leftovers_removed());
    uint64_t used = 0, shards = 0;
    std::map<std::string, bool> raw_files;
    for (auto& [id, m] : model_) {
      Result<ShardBytes> got = RunSim(ex_, store->Read(id, 0, m.length));
      const ShardRecordPtr record = RunSim(ex_, store->index().Get(id)).value();
      if (!record) {
        ASSERT_EQ(got.code(), FsError::kNoSuchShard) << id << ": " << got.error();
        ASSERT_NE(m.state, State::kSealed) << id;
        m.state = State::kDeleted;
        continue;
      }
      ASSERT_NE(m.state, State::kDeleted) << id;
      ASSERT_TRUE(got.ok() || Excused(got.error())) << id << ": " << got.error();
      if (got.ok()) ASSERT_TRUE(Flat(got->bytes) == BytesOf(id, m.length)) << id;
      m.state = State::kSealed;  // if its reply was lost, it is there nevertheless
      used += m.length;
      ++shards;
      if (record->kind == ShardKind::kRaw) raw_files[RawShardName(id)] = true;
    }
    EXPECT_EQ(store->index().totals().used_bytes, used);
    EXPECT_EQ(store->index().totals().shards, shards);
    for (const DiskFile& f : sim_.disk_media->Files("shards/")) {
      EXPECT_TRUE(raw_files.contains(f.name)) << f.name << " is a leftover";
    }
    // The segments' live bytes are exact: count them again.
    std::map<uint64_t, uint64_t> live;
    const std::vector<ShardIndex::Listed> all =
        RunSim(ex_, store->index().List(ShardId(), 1'000'000)).value();
    for (const ShardIndex::Listed& item : all) {
      const ShardRecord& r = item.record.value();
      if (r.place.segment != 0) live[r.place.segment] += SegmentEntryBytes(r.kind, r.length);
    }
    EXPECT_EQ(live, store->index().segment_live_bytes());
  }

  Random rng_;
  SimExecutor ex_;
  SimStore sim_;
  const bool faults_;
  std::map<ShardId, Model> model_;
  uint64_t next_id_ = 1;
  uint64_t sealed_ = 0;
  uint64_t deleted_ = 0;
};

TEST(ShardCrashTest, NothingSealedIsLostAndNothingWrongIsRead) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(seed);
    Workload(seed, false).Run(5);
    if (HasFailure()) return;
  }
}

TEST(ShardCrashTest, ABrokenDiskNeverGivesWrongBytes) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Workload(seed, true).Run(5);
    if (HasFailure()) return;
  }
}

// A deletion that ends while compaction empties the segment: the file stays until the moves are durable.
TEST(ShardCrashTest, ADeletionBesideACompactionTakesNoSegmentAway) {
  for (uint64_t seed = 1; seed <= (kSanitized ? 1000 : 4000); ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    SimExecutor ex(seed, 4);
    SimStore sim(seed);
    sim.Start(ex, false);
    for (uint64_t id = 1; id <= 12; ++id) {
      ASSERT_TRUE(RunSim(ex, StoreWhole(sim.store.get(), ShardId(id), 5000)).ok());
    }
    sim.Stop();
    sim.Start(ex, false);  // that segment is appended to no more
    std::vector<ShardId> most;
    for (uint64_t id = 1; id <= 10; ++id) most.push_back(ShardId(id));
    ASSERT_TRUE(RunSim(ex, sim.store->Delete(most)).ok());
    {
      TaskScope scope;
      const int64_t first = static_cast<int64_t>(rng.Below(4000)) * kMicrosecond;
      scope.Spawn([](ShardStore* store, int64_t wait) -> Task<void> {
        co_await Sleep(wait);
        (void)co_await store->Delete({ShardId(11)});
      }(sim.store.get(), first));
      scope.Spawn([](ShardStore* store) -> Task<void> { (void)co_await store->CompactOne(); }(sim.store.get()));
      ex.RunFor(static_cast<int64_t>(rng.Below(5000)) * kMicrosecond);
    }
    sim.Crash(rng, true);
    sim.Start(ex, false);
    Result<ShardBytes> got = RunSim(ex, sim.store->Read(ShardId(12), 0, 5000));
    ASSERT_TRUE(got.ok()) << got.error();
    ASSERT_TRUE(Flat(got->bytes) == BytesOf(ShardId(12), 5000));
  }
}

}  // namespace
}  // namespace stria
