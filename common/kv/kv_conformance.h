// The rules for every KvStore. A test file includes this once and instantiates KvConformance with a maker of harnesses.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/kv/kv.h"
#include "common/random.h"

namespace stria {

inline constexpr size_t kKvTestFamilies = 3;

// One store, with kKvTestFamilies families, on a medium of its own.
class KvHarness {
 public:
  virtual ~KvHarness() = default;
  virtual KvStore& kv() = 0;
  // Ends the process (nothing flushed or synced on purpose) and opens the store again.
  virtual void Reopen() = 0;
};

struct KvMaker {
  std::string name;
  std::function<std::unique_ptr<KvHarness>()> make;
};

class KvConformance : public testing::TestWithParam<KvMaker> {
 protected:
  void SetUp() override { h_ = GetParam().make(); }
  KvStore& kv() { return h_->kv(); }
  void Put(KvFamily f, const std::string& key, const std::string& value) {
    KvBatch b;
    b.Put(f, key, value);
    ASSERT_TRUE(kv().Write(b).ok());
  }
  void Delete(KvFamily f, const std::string& key) {
    KvBatch b;
    b.Delete(f, key);
    ASSERT_TRUE(kv().Write(b).ok());
  }
  std::string Get(KvFamily f, const std::string& key) { return kv().Get(f, key).value().value_or("(none)"); }
  std::string Keys(KvFamily f, const std::string& begin, const std::string& end, size_t limit = 1000) {
    std::string out;
    const auto entries = kv().Scan(f, begin, end, limit);
    for (const KvEntry& e : *entries) out += e.first + " ";
    return out;
  }
  std::string LastKey(KvFamily f, const std::string& begin, const std::string& at) {
    auto e = kv().Last(f, begin, at).value();
    return e ? e->first : "(none)";
  }

  SimExecutor ex_{1};
  std::unique_ptr<KvHarness> h_;
};

TEST_P(KvConformance, PutGetDelete) {
  EXPECT_EQ(Get(0, "a"), "(none)");
  Put(0, "a", "1");
  Put(1, "a", "2");
  EXPECT_EQ(Get(0, "a"), "1");
  EXPECT_EQ(Get(1, "a"), "2");
  EXPECT_EQ(Get(2, "a"), "(none)");
  Delete(0, "a");
  Delete(0, "never there");
  EXPECT_EQ(Get(0, "a"), "(none)");
  Put(0, "empty", "");
  EXPECT_EQ(Get(0, "empty"), "");
  const std::string binary("\0\xff\0k", 4);
  Put(0, binary, binary);
  EXPECT_EQ(Get(0, binary), binary);
}

TEST_P(KvConformance, LastOpOfABatchWins) {
  KvBatch b;
  b.Put(0, "a", "1");
  b.Delete(0, "a");
  b.Put(0, "b", "1");
  b.Put(0, "b", "2");
  b.Delete(0, "c");
  b.Put(0, "c", "3");
  ASSERT_TRUE(kv().Write(b).ok());
  EXPECT_EQ(Get(0, "a"), "(none)");
  EXPECT_EQ(Get(0, "b"), "2");
  EXPECT_EQ(Get(0, "c"), "3");
  ASSERT_TRUE(kv().Write(KvBatch()).ok());
}

TEST_P(KvConformance, ScansInByteOrder) {
  for (const char* k : {"b", "a", "ab", "\xff", "c", "\x7f"}) Put(0, k, "v");
  EXPECT_EQ(Keys(0, "", ""), "a ab b c \x7f \xff ");
  EXPECT_EQ(Keys(0, "ab", "c"), "ab b ");
  EXPECT_EQ(Keys(0, "aa", "", 2), "ab b ");
  EXPECT_EQ(Keys(0, "", "", 0), "");
  EXPECT_EQ(Keys(0, "c", "b"), "");
  EXPECT_EQ(Keys(1, "", ""), "");
}

TEST_P(KvConformance, LastIsTheNearestBelow) {
  EXPECT_EQ(LastKey(0, "", "zz"), "(none)");
  for (const char* k : {"a1", "a5", "b3"}) Put(0, k, "v");
  EXPECT_EQ(LastKey(0, "a", "a5"), "a5");
  EXPECT_EQ(LastKey(0, "a", "a4"), "a1");
  EXPECT_EQ(LastKey(0, "a", "a0"), "(none)");
  EXPECT_EQ(LastKey(0, "b", "b2"), "(none)");
  EXPECT_EQ(LastKey(0, "b", "b9"), "b3");
  EXPECT_EQ(LastKey(0, "a1", "a1"), "a1");
  EXPECT_EQ(LastKey(0, "", "zz"), "b3");
  EXPECT_EQ(LastKey(1, "", "zz"), "(none)");
}

TEST_P(KvConformance, ASnapshotStaysAsItWas) {
  Put(0, "a", "1");
  Put(0, "c", "3");
  Put(1, "a", "other");
  const std::unique_ptr<KvStore> then = kv().Snapshot();
  ASSERT_NE(then, nullptr);
  Put(0, "a", "2");
  Put(0, "b", "new");
  Delete(0, "c");
  EXPECT_EQ(then->Get(0, "a").value(), "1");
  EXPECT_FALSE(then->Get(0, "b").value());
  EXPECT_EQ(then->Get(1, "a").value(), "other");
  EXPECT_EQ(then->Scan(0, "", "", 10).value(), (std::vector<KvEntry>{{"a", "1"}, {"c", "3"}}));
  EXPECT_EQ(then->Scan(0, "", "c", 10).value(), (std::vector<KvEntry>{{"a", "1"}}));
  EXPECT_EQ(then->Scan(0, "", "", 1).value(), (std::vector<KvEntry>{{"a", "1"}}));
  EXPECT_EQ(then->Last(0, "a", "z").value(), KvEntry("c", "3"));
  EXPECT_FALSE(then->Last(0, "d", "z").value());
  KvBatch batch;
  batch.Put(0, "d", "4");
  EXPECT_EQ(then->Write(batch).code(), FsError::kInval);
  EXPECT_EQ(RunSim(ex_, then->Sync()).code(), FsError::kInval);
  EXPECT_EQ(Keys(0, "", ""), "a b ");
}

TEST_P(KvConformance, SyncedDataSurvivesReopening) {
  Put(0, "a", "1");
  ASSERT_TRUE(RunSim(ex_, kv().Sync()).ok());
  Put(0, "b", "2");  // a process that is killed loses nothing
  Put(2, "c", std::string(300'000, 'x'));
  h_->Reopen();
  EXPECT_EQ(Get(0, "a"), "1");
  EXPECT_EQ(Get(0, "b"), "2");
  EXPECT_EQ(Get(2, "c").size(), 300'000u);
}

TEST_P(KvConformance, ManySyncsAtOnce) {
  auto write_and_sync = [](KvStore& kv, int i) -> Task<Result<void>> {
    KvBatch b;
    b.Put(0, "k" + std::to_string(i), "v");
    CO_RETURN_IF_ERROR(kv.Write(b));
    if (i % 3 == 0) co_await Yield();
    co_return co_await kv.Sync();
  };
  std::vector<Task<Result<void>>> all;
  for (int i = 0; i < 50; ++i) all.push_back(write_and_sync(kv(), i));
  for (const auto& r : RunSim(ex_, WhenAll(std::move(all)))) EXPECT_TRUE(r.ok());
  EXPECT_EQ(kv().Scan(0, "", "", 100)->size(), 50u);
}

TEST_P(KvConformance, ACancelledSyncHurtsNobody) {
  Put(0, "a", "1");
  {
    TaskScope scope;
    for (int i = 0; i < 3; ++i) {
      scope.Spawn([](KvStore& kv) -> Task<void> { (void)co_await kv.Sync(); }(kv()));
    }
    ex_.RunUntil([&] { return scope.running() < 3; }, ex_.NowNs() + 1);
  }
  EXPECT_TRUE(RunSim(ex_, kv().Sync()).ok());
}

TEST_P(KvConformance, AgreesWithAnOracle) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    h_ = GetParam().make();
    Random rng(seed);
    std::map<std::string, std::string> oracle[kKvTestFamilies];
    auto key = [&] {
      std::string k(1 + rng.Below(3), 'a');
      for (char& c : k) c = static_cast<char>('a' + rng.Below(4));
      return k;
    };
    for (int step = 0; step < 1500; ++step) {
      const auto f = static_cast<KvFamily>(rng.Below(kKvTestFamilies));
      switch (rng.Below(step % 100 == 99 ? 6 : 5)) {
        case 0:
        case 1: {
          KvBatch b;
          for (uint64_t i = rng.Below(6); i > 0; --i) {
            const auto g = static_cast<KvFamily>(rng.Below(kKvTestFamilies));
            const std::string k = key();
            if (rng.OneIn(3)) {
              b.Delete(g, k);
              oracle[g].erase(k);
            } else {
              const std::string v = std::to_string(rng.Next());
              b.Put(g, k, v);
              oracle[g][k] = v;
            }
          }
          ASSERT_TRUE(kv().Write(b).ok());
          break;
        }
        case 2: {
          const std::string k = key();
          auto it = oracle[f].find(k);
          ASSERT_EQ(Get(f, k), it == oracle[f].end() ? "(none)" : it->second);
          break;
        }
        case 3: {
          std::string lo = key(), hi = rng.OneIn(4) ? "" : key();
          const size_t limit = rng.Below(20);
          std::vector<KvEntry> want;
          for (auto it = oracle[f].lower_bound(lo); it != oracle[f].end() && want.size() < limit; ++it) {
            if (!hi.empty() && it->first >= hi) break;
            want.push_back(*it);
          }
          ASSERT_EQ(*kv().Scan(f, lo, hi, limit), want);
          break;
        }
        case 4: {
          const std::string lo = key(), at = key();
          auto it = oracle[f].upper_bound(at);
          const bool there = it != oracle[f].begin() && std::prev(it)->first >= lo;
          ASSERT_EQ(LastKey(f, lo, at), there ? std::prev(it)->first : "(none)");
          break;
        }
        case 5:
          if (rng.OneIn(2)) {
            ASSERT_TRUE(RunSim(ex_, kv().Sync()).ok());
          }
          h_->Reopen();
          break;
      }
    }
  }
}

}  // namespace stria
