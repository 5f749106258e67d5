#include "meta/replica/replica_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "meta/backup/archive.h"
#include "meta/replica/replica_source.h"

namespace stria {
namespace {

KvBatch Put(const std::string& key, const std::string& value) {
  KvBatch b;
  b.Put(1, key, value);
  return b;
}

class ReplicaStoreTest : public testing::Test {
 protected:
  ReplicaStoreTest() { Open(); }
  void Open() {
    store_.reset();
    kv_ = std::make_shared<MemKv>(media_);
    store_ = std::move(ReplicaStore::Open(kv_, options_)).value();
  }
  void Crash(bool power) {
    store_.reset();
    kv_.reset();
    media_->Crash(rng_, power);
    Open();
  }
  void Begin() { ASSERT_TRUE(store_->Begin({CommitSeq(10), 2, 77}, 3).ok()); }
  std::string Value(const std::string& key) { return kv_->Get(1, key).value().value_or("(none)"); }

  SimExecutor ex_{1};
  Random rng_{1};
  std::shared_ptr<MemKvMedia> media_ = std::make_shared<MemKvMedia>(kReplicatedFamilies);
  ReplicaStoreOptions options_;
  std::shared_ptr<MemKv> kv_;
  std::unique_ptr<ReplicaStore> store_;
};

TEST_F(ReplicaStoreTest, AnEmptyOneHasNoLog) {
  EXPECT_FALSE(store_->begun());
  EXPECT_FALSE(store_->whole());
  EXPECT_EQ(store_->last(), LogPoint());
}

TEST_F(ReplicaStoreTest, TheLogGoesOnAfterACrash) {
  Begin();
  ASSERT_TRUE(store_->Add(3, 1, Put("a", "1")).ok());
  ASSERT_TRUE(store_->Add(3, 2, Put("a", "2")).ok());
  ASSERT_TRUE(store_->Add(5, 3, Put("b", "3")).ok());
  EXPECT_EQ(store_->Add(4, 4, Put("b", "4")).code(), FsError::kInval) << "terms do not fall";
  const LogPoint last = store_->last();
  EXPECT_EQ(last.seq, CommitSeq(13));
  EXPECT_EQ(last.term, 5u);
  Crash(false);
  EXPECT_EQ(store_->last(), last);
  EXPECT_EQ(store_->first(), CommitSeq(11));
  EXPECT_EQ(store_->incarnation(), 3u);
  EXPECT_TRUE(store_->whole());
  EXPECT_EQ(store_->history(), (std::vector<TermRun>{{2, CommitSeq(10)}, {3, CommitSeq(11)}, {5, CommitSeq(13)}}));
  EXPECT_TRUE(store_->Has({CommitSeq(10), 2, 77}));
  EXPECT_FALSE(store_->Has({CommitSeq(10), 2, 78}));
  EXPECT_FALSE(store_->Has({CommitSeq(14), 5, 0}));
  const std::vector<LogRow> rows = store_->Read(CommitSeq(10), 1 << 20, 100).value();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2].point, last);
  EXPECT_EQ(DecodeArchivedBatch(rows[1].encoded.view())->batch.ops[0].value, "2");
  EXPECT_EQ(store_->Read(CommitSeq(10), 1, 100)->size(), 1u) << "at least one";
  EXPECT_TRUE(store_->Read(CommitSeq(13), 1, 100)->empty());
}

TEST_F(ReplicaStoreTest, WhatIsTakenIsWhatWasAdded) {
  Begin();
  const auto media = std::make_shared<MemKvMedia>(kReplicatedFamilies);
  const auto kv = std::make_shared<MemKv>(media);
  const std::unique_ptr<ReplicaStore> other = std::move(ReplicaStore::Open(kv)).value();
  ASSERT_TRUE(other->Begin({CommitSeq(10), 2, 77}, 3).ok());
  for (int i = 0; i < 5; ++i) {
    const LogRow row = store_->Add(3, i, Put("k", std::to_string(i))).value();
    ASSERT_TRUE(other->Take(3, row.encoded.view()).ok());
    EXPECT_EQ(other->last(), store_->last());
    EXPECT_EQ(other->Take(3, row.encoded.view()).code(), FsError::kCorrupt) << "twice";
  }
  EXPECT_EQ(other->Take(3, "no batch").code(), FsError::kCorrupt);
  KvBatch strange;
  strange.Put(kReplicaStateFamily, "marker", "");
  EXPECT_EQ(other->Take(3, EncodeArchivedBatch(CommitSeq(16), 0, strange)).code(), FsError::kVersion)
      << "only the metadata's families";
  for (const KvFamily f : {KvFamily{1}, kReplicaLogFamily, kReplicaStateFamily}) {
    EXPECT_EQ(*kv->Scan(f, "", "", 100), *kv_->Scan(f, "", "", 100));
  }
}

TEST_F(ReplicaStoreTest, OldBatchesGoUnlessSomebodyNeedsThem) {
  options_.keep_bytes = 2000;
  options_.recent_bytes = 300;
  Open();
  Begin();
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(store_->Add(3, i, Put("k", std::string(20, 'v'))).ok());
  const CommitSeq first = store_->first();
  EXPECT_GT(first, CommitSeq(200));
  EXPECT_LT(kv_->Scan(kReplicaLogFamily, "", "", 1000)->size(), 100u);
  EXPECT_EQ(store_->Read(CommitSeq(first.v - 2), 1000, 10).code(), FsError::kNoEnt);
  EXPECT_EQ(store_->Read(CommitSeq(first.v - 1), 1000, 1)->size(), 1u);
  Crash(false);
  EXPECT_EQ(store_->first(), first);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(store_->Add(3, i, Put("k", std::string(20, 'v'))).ok());
  EXPECT_GT(store_->first(), CommitSeq(first.v + 200)) << "also those of the life before";
  const CommitSeq held(store_->first().v + 5);
  store_->HoldFrom(held);
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(store_->Add(3, i, Put("k", std::string(20, 'v'))).ok());
  EXPECT_LE(store_->first(), held);
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(store_->Add(3, i, Put("k", std::string(20, 'v'))).ok());
  EXPECT_GT(store_->first(), held) << "not for ever";
}

TEST_F(ReplicaStoreTest, ARewindIsOneStep) {
  Begin();
  ASSERT_TRUE(store_->Add(3, 1, Put("a", "old")).ok());
  const LogPoint to = store_->last();
  ASSERT_TRUE(RunSim(ex_, store_->Sync()).ok());
  ASSERT_TRUE(store_->Add(3, 2, Put("a", "mine")).ok());
  ASSERT_TRUE(store_->Add(4, 3, Put("b", "mine")).ok());
  const std::vector<FetchKey> keys = store_->KeysBeyond(to.seq).value();
  EXPECT_EQ(keys, (std::vector<FetchKey>{{1, "a"}, {1, "b"}}));
  KvBatch values = Put("a", "theirs");
  values.Delete(1, "b");
  const uint64_t changes = store_->changes();
  // A theirs-batch 12 of term 7 follows: then it is whole.
  const std::string next = EncodeArchivedBatch(CommitSeq(12), 0, Put("a", "theirs"));
  const LogPoint fetched{CommitSeq(12), 7, ChainAfter(to.chain, 7, next)};
  ASSERT_TRUE(store_->Rewind(to, values, fetched, keys).ok());
  EXPECT_GT(store_->changes(), changes);
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(store_->last(), to);
    EXPECT_FALSE(store_->whole());
    EXPECT_EQ(store_->marker()->keys, keys);
    EXPECT_EQ(Value("a"), "theirs");
    EXPECT_EQ(Value("b"), "(none)");
    EXPECT_EQ(store_->history().back().term, 3u);
    EXPECT_EQ(store_->KeysBeyond(to.seq).value(), keys) << "they stay until it is whole";
    Crash(false);
  }
  ASSERT_TRUE(store_->Take(7, next).ok());
  EXPECT_TRUE(store_->whole());
  Crash(false);
  EXPECT_TRUE(store_->whole());
  EXPECT_TRUE(store_->KeysBeyond(store_->last().seq)->empty());
}

TEST_F(ReplicaStoreTest, AnotherBatchInThePlaceOfTheFetchedOneMakesNothingWhole) {
  Begin();
  ASSERT_TRUE(store_->Add(3, 1, Put("a", "1")).ok());
  const LogPoint to = store_->last();
  ASSERT_TRUE(store_->Rewind(to, Put("a", "x"), {CommitSeq(12), 7, 123}, {{1, "a"}}).ok());
  ASSERT_TRUE(store_->Take(7, EncodeArchivedBatch(CommitSeq(12), 0, Put("b", "2"))).ok());
  EXPECT_FALSE(store_->whole());
}

TEST_F(ReplicaStoreTest, ASyncThatARewindOvertookPromisesNothing) {
  Begin();
  ASSERT_TRUE(store_->Add(3, 1, Put("a", "1")).ok());
  const LogPoint to = store_->last();
  ASSERT_TRUE(store_->Add(3, 1, Put("a", "2")).ok());
  std::optional<Result<LogPoint>> synced;
  TaskScope scope;
  scope.Spawn(store_->Sync(), [&synced](Result<LogPoint> r) { synced.emplace(std::move(r)); });
  ex_.RunFor(1);
  ASSERT_TRUE(store_->Rewind(to, Put("a", "1"), to, {{1, "a"}}).ok());
  EXPECT_TRUE(store_->whole()) << "fetched at the very point that it went back to";
  ex_.RunUntil([&] { return synced.has_value(); }, ex_.NowNs() + kSecond);
  EXPECT_EQ(synced->code(), FsError::kRetryLater);
}

TEST_F(ReplicaStoreTest, AFailureIsRemembered) {
  Begin();
  EXPECT_EQ(store_->Take(3, "no batch").code(), FsError::kCorrupt);
  EXPECT_TRUE(store_->failure().ok()) << "that was another one's fault";
  media_->FailNextWrite();
  EXPECT_EQ(store_->Add(3, 1, Put("a", "1")).code(), FsError::kIo);
  EXPECT_EQ(store_->failure().code, FsError::kIo);
  Crash(false);
  EXPECT_TRUE(store_->failure().ok());
  media_->FailNextSync();
  EXPECT_EQ(RunSim(ex_, store_->Sync()).code(), FsError::kIo);
  EXPECT_EQ(store_->failure().code, FsError::kIo);
}

TEST_F(ReplicaStoreTest, ACopyHasNoLogUntilItsEnd) {
  Begin();
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(store_->Add(3, i, Put("k" + std::to_string(i), "v")).ok());
  ASSERT_TRUE(store_->BeginCopy().ok());
  for (int life = 0; life < 2; ++life) {
    EXPECT_FALSE(store_->begun());
    EXPECT_EQ(store_->last(), LogPoint());
    EXPECT_EQ(store_->marker()->fetched, LogPoint());
    ASSERT_TRUE(store_->WipeStep().ok());
    Crash(false);
  }
  int steps = 0;
  while (!store_->WipeStep().value()) ASSERT_LT(++steps, 100);
  EXPECT_TRUE(kv_->Scan(1, "", "", 1)->empty());
  EXPECT_TRUE(kv_->Scan(kReplicaLogFamily, "", "", 1)->empty());
  ASSERT_TRUE(store_->TakePage(Put("new", "v")).ok());
  const LogPoint base{CommitSeq(50), 9, 5}, fetched{CommitSeq(52), 9, 6};
  EXPECT_EQ(store_->EndCopy(base, 4, {}, fetched).code(), FsError::kBadRequest);
  EXPECT_EQ(store_->EndCopy(base, 4, {{8, CommitSeq(1)}}, fetched).code(), FsError::kBadRequest) << "another term";
  ASSERT_TRUE(store_->EndCopy(base, 4, {{8, CommitSeq(1)}, {9, CommitSeq(40)}}, fetched).ok());
  Crash(false);
  EXPECT_TRUE(store_->begun());
  EXPECT_FALSE(store_->whole());
  EXPECT_TRUE(store_->marker()->all);
  EXPECT_EQ(store_->last(), base);
  EXPECT_EQ(store_->incarnation(), 4u);
}

TEST_F(ReplicaStoreTest, DamagedRecordsAreCorrupt) {
  Begin();
  ASSERT_TRUE(store_->Add(3, 1, Put("a", "1")).ok());
  KvBatch damage;
  damage.Put(kReplicaStateFamily, LogMarkerKey(), "nonsense");
  ASSERT_TRUE(kv_->Write(damage).ok());
  EXPECT_EQ(ReplicaStore::Open(kv_).code(), FsError::kCorrupt);
  KvBatch again;
  again.Delete(kReplicaStateFamily, LogMarkerKey());
  again.Delete(kReplicaStateFamily, LogHistoryKey());
  ASSERT_TRUE(kv_->Write(again).ok());
  EXPECT_EQ(ReplicaStore::Open(kv_).code(), FsError::kCorrupt);
}

// ---- How two logs compare

std::vector<TermRun> History(std::vector<std::pair<uint64_t, uint64_t>> runs) {
  std::vector<TermRun> out;
  for (const auto& [term, first] : runs) out.push_back({term, CommitSeq(first)});
  return out;
}

TEST(ReplicaLog, FindsTheLastCommonBatch) {
  const auto common = [](const std::vector<TermRun>& a, uint64_t last_a, const std::vector<TermRun>& b, uint64_t last_b) {
    const auto one = FindCommonEnd(a, CommitSeq(last_a), b, CommitSeq(last_b));
    const auto two = FindCommonEnd(b, CommitSeq(last_b), a, CommitSeq(last_a));
    EXPECT_EQ(one.has_value(), two.has_value());
    if (one && two) EXPECT_EQ(one->seq, two->seq);
    return one ? one->seq.v : UINT64_MAX;
  };
  EXPECT_EQ(common(History({{0, 0}}), 0, History({{0, 0}}), 0), 0u);
  EXPECT_EQ(common(History({{0, 0}, {1, 1}}), 9, History({{0, 0}, {1, 1}}), 7), 7u);
  // The deposed one has 6..9 of term 1, the other began term 2 at 6.
  EXPECT_EQ(common(History({{0, 0}, {1, 1}}), 9, History({{0, 0}, {1, 1}, {2, 6}}), 30), 5u);
  EXPECT_EQ(common(History({{0, 0}, {1, 1}, {3, 8}}), 9, History({{0, 0}, {1, 1}, {2, 6}, {4, 20}}), 30), 5u);
  // A log that was copied knows nothing of before.
  EXPECT_EQ(common(History({{2, 10}}), 12, History({{0, 0}, {1, 1}, {2, 6}}), 30), 12u);
  EXPECT_EQ(common(History({{2, 10}}), 12, History({{0, 0}, {1, 1}}), 30), UINT64_MAX);
  EXPECT_EQ(common({}, 0, History({{0, 0}}), 30), UINT64_MAX);
}

TEST(ReplicaLog, TheWayBackIsChosenByRule) {
  const JoinGround mine{1, {CommitSeq(30), 2, 0}, CommitSeq(4), History({{0, 0}, {1, 1}, {2, 6}})};
  ReplicaJoinRequest r;
  r.header.incarnation = 1;
  r.last = {CommitSeq(20), 2, 0};
  r.history = History({{0, 0}, {1, 1}, {2, 6}});
  const auto verdict = [&](bool believes, bool in_set) { return ChooseJoin(mine, r, believes, in_set).verdict; };
  EXPECT_EQ(verdict(true, false), JoinVerdict::kTail);
  EXPECT_EQ(verdict(true, true), JoinVerdict::kTail);
  EXPECT_EQ(verdict(false, false), JoinVerdict::kRewind) << "what it fetched is of a history that has ended";
  EXPECT_EQ(verdict(false, true), JoinVerdict::kWait);
  r.history = History({{0, 0}, {1, 1}});
  EXPECT_EQ(verdict(true, false), JoinVerdict::kRewind);
  EXPECT_EQ(ChooseJoin(mine, r, true, false).common.seq, CommitSeq(5));
  EXPECT_EQ(verdict(true, true), JoinVerdict::kWait);
  r.last.seq = CommitSeq(2);
  EXPECT_EQ(verdict(true, false), JoinVerdict::kCopy) << "batch 3 is not kept";
  r.last.seq = CommitSeq(3);
  EXPECT_EQ(verdict(true, false), JoinVerdict::kTail);
  r.header.incarnation = 2;
  EXPECT_EQ(verdict(true, false), JoinVerdict::kCopy);
  r.header.incarnation = 1;
  r.copy = true;
  EXPECT_EQ(verdict(true, false), JoinVerdict::kCopy);
  r.copy = false;
  r.history.clear();
  EXPECT_EQ(verdict(false, false), JoinVerdict::kCopy);
  r.history = History({{5, 9}, {4, 10}});
  EXPECT_EQ(verdict(true, false), JoinVerdict::kCopy) << "that is no history";
}

// What is on disks stays readable.
TEST(ReplicaLog, GoldenBytes) {
  const auto hex = [](const std::string& bytes) {
    std::string out;
    for (const char c : bytes) {
      out += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
      out += "0123456789abcdef"[static_cast<uint8_t>(c) & 15];
    }
    return out;
  };
  EXPECT_EQ(hex(LogRowKey(CommitSeq(258))), "0000000000000102");
  EXPECT_EQ(hex(LogRowRecord{1, 2, 3, "ab"}.Encode()), "011e000000010000000000000002000000000000000300000000000000020000006162");
  EXPECT_EQ(hex(LogBaseRecord{{CommitSeq(1), 2, 3}, 4}.Encode()),
            "01200000000100000000000000020000000000000003000000000000000400000000000000");
  EXPECT_EQ(hex(LogMarkerRecord{false, {CommitSeq(1), 2, 3}, {{4, "k"}}}.Encode()),
            "0123000000000100000000000000020000000000000003000000000000000100000004010000006b");
  EXPECT_EQ(hex(EncodeHistory({{2, CommitSeq(3)}})), "01140000000100000002000000000000000300000000000000");
  const LogMarkerRecord marker{true, {CommitSeq(1), 2, 3}, {{4, "k"}, {5, ""}}};
  EXPECT_EQ(LogMarkerRecord::Decode(marker.Encode())->keys, marker.keys);
  EXPECT_EQ(DecodeHistory(EncodeHistory({{3, CommitSeq(1)}, {2, CommitSeq(2)}})).code(), FsError::kCorrupt);
  EXPECT_EQ(LogRowRecord::Decode(CommitSeq(1), "x").code(), FsError::kCorrupt);
}

}  // namespace
}  // namespace stria
