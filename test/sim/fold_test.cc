// What folding is for: many files of different length, written evenly from all nodes, end as parity asks for, and no
// data column has moved; every file is what it was with any one node dead; and the same when half of them were deleted and
// written again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "common/sanitized.h"
#include "meta/ops/ops.h"
#include "stripe/fold_plan.h"
#include "stripe/layout.h"
#include "test/sim/audit.h"
#include "test/sim/sim_cluster.h"

namespace stria {
namespace {

constexpr size_t kFiles = 240;
constexpr size_t kNodes = 5;
constexpr uint64_t kMinBytes = 70'000;  // shorter ones have no stripe
constexpr uint64_t kMaxBytes = 1'000'000;
const Caller kRoot;

class Folding {
 public:
  explicit Folding(uint64_t seed) : rng_(seed), cluster_(seed, Options()) {}

  void Run() {
    const Result<void> booted = cluster_.Boot();
    ASSERT_TRUE(booted.ok()) << booted.error();
    for (size_t i = 0; i < kFiles; ++i) WriteOne("f" + std::to_string(i), i % kNodes);
    const auto before = DataColumns();
    AwaitFolded();
    ExpectWithinBound();
    ExpectUnmoved(before);
    ReadAllWithEachNodeDead();
    // Half of them go, and come again with other bytes, half of those while what is left is folded again.
    size_t n = 0;
    std::map<std::string, size_t> again;
    for (const auto& [name, writer] : std::map<std::string, size_t>(writers_)) {
      if (rng_.OneIn(2)) again[name] = writer;
    }
    for (const auto& [name, writer] : again) {
      ASSERT_TRUE(cluster_.Run(Remove(name), 100 * kSecond));
      if (++n == again.size() / 2) Sleep(30 * kSecond);
    }
    ReadAllWithEachNodeDead();
    for (const auto& [name, writer] : again) WriteOne(name, writer);
    const auto rewritten = DataColumns();
    AwaitFolded();
    ExpectWithinBound();
    ExpectUnmoved(rewritten);
    ReadAllWithEachNodeDead();
  }

 private:
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.nodes = kNodes;
    o.disks = 1;
    o.clients = kNodes;
    o.layout = "raid5:4+1,unit=64K,stripe=8M,arrange=gathered,place=local";
    o.meta.fold = {.age_ns = 10 * kSecond, .rest_ns = 5 * kSecond};
    return o;
  }
  void Sleep(int64_t ns) { cluster_.executor().RunUntil([] { return false; }, cluster_.executor().NowNs() + ns); }
  std::string BytesOf(const std::string& name) const {
    const auto& [seed, size] = contents_.at(name);
    Random r(seed);
    std::string s(size, '\0');
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
      const uint64_t word = r.Next();
      std::memcpy(s.data() + at, &word, std::min<size_t>(sizeof word, size - at));
    }
    return s;
  }
  void WriteOne(const std::string& name, size_t writer) {
    contents_[name] = {rng_.Next(), rng_.Between(kMinBytes, kMaxBytes)};
    writers_[name] = writer;
    ASSERT_TRUE(cluster_.Run(Write(name, writer), 100 * kSecond)) << name;
  }
  Task<void> Write(std::string name, size_t writer) {
    VfsHandle flags;
    flags.read = flags.write = true;
    Vfs& vfs = cluster_.vfs(writer);
    auto made = co_await vfs.Create(kRoot, kRootInode, name, 0644, true, false, flags);
    EXPECT_TRUE(made.ok()) << name << ": " << made.error();
    if (!made.ok()) co_return;
    const auto done = co_await vfs.Write(kRoot, made->handle, 0, Buffer::FromString(BytesOf(name)));
    EXPECT_TRUE(done.ok()) << name << ": " << done.error();
    const auto synced = co_await vfs.Fsync(kRoot, made->handle);
    EXPECT_TRUE(synced.ok()) << name << ": " << synced.error();
    (void)co_await vfs.Release(kRoot, made->handle);
  }
  Task<void> Remove(std::string name) {
    const auto done = co_await cluster_.vfs(rng_.Below(kNodes)).Unlink(kRoot, kRootInode, name);
    EXPECT_TRUE(done.ok()) << name << ": " << done.error();
    contents_.erase(name);
    writers_.erase(name);
  }
  Task<void> ReadAll(size_t client) {
    VfsHandle flags;
    flags.read = true;
    for (const auto& [name, content] : contents_) {
      const auto found = co_await cluster_.vfs(client).Lookup(kRoot, kRootInode, name);
      EXPECT_TRUE(found.ok()) << name << ": " << found.error();
      if (!found.ok()) co_return;
      const auto opened = co_await cluster_.vfs(client).Open(kRoot, found->attr.ino, false, flags);
      EXPECT_TRUE(opened.ok()) << name << ": " << opened.error();
      if (!opened.ok()) co_return;
      const auto bytes = co_await cluster_.vfs(client).Read(kRoot, opened->handle, 0, 64 * kMiB);
      EXPECT_TRUE(bytes.ok()) << name << ": " << bytes.error();
      if (bytes.ok()) EXPECT_TRUE(bytes->Flatten().view() == BytesOf(name)) << name << " has other bytes";
      (void)co_await cluster_.vfs(client).Release(kRoot, opened->handle);
    }
  }
  void ReadAllWithEachNodeDead() {
    // Under sanitizers the nodes take turns, two at each call: three calls are enough for all.
    const size_t count = kSanitized ? 2 : kNodes;
    for (size_t i = 0; i < count; ++i) {
      const size_t n = next_dead_++ % kNodes;
      SCOPED_TRACE(NodeHost(n) + " is dead");
      cluster_.CrashNode(n, true);
      ASSERT_TRUE(cluster_.Run(ReadAll((n + 1) % kNodes), 3000 * kSecond));
      cluster_.StartNode(n);
      Sleep(20 * kSecond);
    }
  }

  std::vector<StripeRecord> Stripes() {
    std::vector<StripeRecord> out;
    const auto rows = cluster_.MetaContents().Scan(static_cast<KvFamily>(Family::kStripes), "", "", SIZE_MAX);
    EXPECT_TRUE(rows.ok());
    for (const KvEntry& row : *rows) {
      out.push_back(StripeRecord::Decode(row.first, row.second).value());
      if (out.back().state != StripeState::kLive) out.pop_back();
    }
    return out;
  }
  // Of all stripes, where each shard of them is.
  std::map<ShardId, TargetId> DataColumns() {
    std::map<ShardId, TargetId> out;
    for (const StripeRecord& s : Stripes()) {
      for (uint16_t c = 0; c < s.info.shape.data_columns(); ++c) out[s.info.columns[c].shard] = s.info.columns[c].target;
    }
    return out;
  }
  void ExpectUnmoved(const std::map<ShardId, TargetId>& before) {
    for (const auto& [shard, target] : DataColumns()) {
      const auto was = before.find(shard);
      ASSERT_NE(was, before.end()) << "data was copied into shard " << shard.v;
      EXPECT_EQ(was->second, target) << "shard " << shard.v << " has moved";
    }
  }
  void ExpectWithinBound() {
    uint64_t stored = 0, live = 0;
    for (const StripeRecord& s : Stripes()) {
      for (const Column& c : s.info.columns) stored += c.length;
    }
    for (const auto& [name, content] : contents_) live += content.second;
    const double overhead = static_cast<double>(stored) / static_cast<double>(live);
    EXPECT_LE(overhead, 1.25 + 0.05);
    EXPECT_GE(overhead, 1.25);
    std::printf("%zu files, %.4f of their length stored\n", contents_.size(), overhead);
  }
  void AwaitFolded() {
    Sleep(60 * kSecond);
    const auto quiet = [&] {
      for (const auto& [kind, units] : cluster_.meta_server()->upkeep()->folder().queue().Ripe(INT64_MAX)) {
        if (!PlanFolds(units, kind, 1, FoldRule::kSaving).empty()) return false;
      }
      return cluster_.meta_server()->repair_summary().folds == 0 &&
             cluster_.meta_server()->store()->Count(Counter::kGarbageShards) == 0;
    };
    for (int i = 0; i < 60 && !quiet(); ++i) Sleep(10 * kSecond);
    EXPECT_TRUE(quiet()) << cluster_.meta_server()->repair_summary().folds;
    AuditMemory memory;
    const ClusterAudit audit = AuditCluster(cluster_, &memory);
    EXPECT_TRUE(audit.problems.empty()) << audit.problems[0];
    for (const NodeAudit& n : audit.nodes) {
      EXPECT_EQ(n.damaged, 0u) << n.first_damaged;
      EXPECT_EQ(n.unknown, 0u) << n.first_unknown;
    }
  }

  Random rng_;
  SimCluster cluster_;
  std::map<std::string, std::pair<uint64_t, uint64_t>> contents_;  // seed and length
  std::map<std::string, size_t> writers_;
  size_t next_dead_ = 0;
};

TEST(SimFolding, OverheadIsThatOfParity) {
  for (uint64_t seed = 1; seed <= (kSanitized ? 1 : 2); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Folding(seed).Run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace stria
