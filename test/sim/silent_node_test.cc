// A node vanishes, and nothing refuses: for everybody (its power fails) or for one client (a bad cable); or one of its disks hangs,
// while the node and its other disks answer. What that client writes durably, and what others read, stalls for seconds at most,
// and only once; the node, or the disk, is used again when it is back.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "client/vfs/inode.h"
#include "common/sanitized.h"
#include "test/sim/sim_cluster.h"

namespace stria {
namespace {

constexpr int64_t kMostNs = 3 * kSecond;    // that a call may take
constexpr int64_t kStallNs = 500 * kMillisecond;
constexpr int64_t kGapNs = 40 * kSecond;
constexpr int64_t kHangNs = 15 * kSecond;  // it is not taken for failed yet
constexpr uint64_t kFileBytes = 175'000;  // small, for the sanitizers: most of the time goes into bytes
constexpr uint64_t kSeeds = kSanitized ? 1 : 2;
const Caller kRoot;

struct Seen {
  int64_t longest_ns = 0;
  int stalls = 0;
  int done = 0;
  std::string error;

  void Took(int64_t ns) {
    longest_ns = std::max(longest_ns, ns);
    stalls += ns > kStallNs;
    ++done;
  }
};

// Client 0 writes and syncs file after file, client 1 reads them.
struct Busy {
  explicit Busy(uint64_t seed) : cluster(seed, Options()) {}
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.layout = "raid5:3+1,unit=16K,stripe=96K";
    return o;
  }

  bool stop = false;
  Seen writes, reads;
  SimCluster cluster;
};

class SilentNode : public testing::Test {
 protected:
  // Until some moment of the work, at which what goes wrong may begin.
  void Begin(Busy* busy) {
    SimCluster& c = busy->cluster;
    const Result<void> booted = c.Boot();
    ASSERT_TRUE(booted.ok()) << booted.error();
    c.scope(0).Spawn(Write(&c, &busy->stop, &busy->writes));
    c.scope(1).Spawn(Read(&c, &busy->stop, &busy->writes.done, &busy->reads));
    c.executor().RunFor(5 * kSecond + static_cast<int64_t>(c.rng().Below(300 * kMillisecond)));
    EXPECT_EQ(busy->writes.stalls + busy->reads.stalls, 0);
  }
  void End(Busy* busy) {
    busy->stop = true;
    busy->cluster.executor().RunFor(10 * kSecond);
    EXPECT_EQ(busy->writes.error, "");
    EXPECT_EQ(busy->reads.error, "");
  }
  void RunWithHungDisk(uint64_t seed) {
    Busy busy(seed);
    auto& [stop, writes, reads, cluster] = busy;
    SimExecutor& ex = cluster.executor();
    ASSERT_NO_FATAL_FAILURE(Begin(&busy));
    SimDiskMedia& disk = cluster.disks().media(seed % cluster.nodes(), seed % cluster.options().disks);
    disk.faults.hung = true;
    ex.RunFor(kHangNs);
    EXPECT_LE(writes.longest_ns, kMostNs);
    EXPECT_LE(reads.longest_ns, kMostNs);
    EXPECT_LE(writes.stalls, 2) << "later writes keep away from it";
    EXPECT_GE(writes.done, 80);
    disk.faults.hung = false;
    ex.RunFor(40 * kSecond);
    const uint64_t before = disk.used_bytes();
    ex.RunFor(5 * kSecond);
    EXPECT_GT(disk.used_bytes(), before) << "it is not used again";
    End(&busy);
  }
  void Run(uint64_t seed, bool for_everybody) {
    Busy busy(seed);
    auto& [stop, writes, reads, cluster] = busy;
    SimExecutor& ex = cluster.executor();
    ASSERT_NO_FATAL_FAILURE(Begin(&busy));
    const std::set<std::string> node = {NodeHost(seed % cluster.nodes())};
    std::set<std::string> others = {ClientHost(0)};
    if (for_everybody) {
      others.insert({"meta", ClientHost(1)});
      for (size_t n = 0; n < cluster.nodes(); ++n) others.insert(NodeHost(n));
      others.erase(*node.begin());
    }
    cluster.network().Partition(node, others);
    ex.RunFor(kGapNs);
    EXPECT_LE(writes.longest_ns, kMostNs);
    EXPECT_LE(reads.longest_ns, kMostNs);
    EXPECT_LE(writes.stalls, 2) << "later writes keep away from it";
    EXPECT_GE(writes.done, 100);
    cluster.network().Heal();
    ex.RunFor(20 * kSecond);
    const uint64_t before = cluster.Figures(seed % cluster.nodes()).written_bytes;
    ex.RunFor(5 * kSecond);
    EXPECT_GT(cluster.Figures(seed % cluster.nodes()).written_bytes, before) << "it is not used again";
    End(&busy);
  }

 private:
  static Task<void> Write(SimCluster* c, bool* stop, Seen* seen) {
    VfsHandle flags;
    flags.write = true;
    for (int i = 0; !*stop; ++i) {
      auto made = co_await c->vfs(0).Create(kRoot, kRootInode, "f" + std::to_string(i), 0644, true, false, flags);
      if (!made.ok()) co_return void(seen->error = made.error().ToString());
      const int64_t began_ns = Executor::Current().NowNs();
      const auto wrote = co_await c->vfs(0).Write(
          kRoot, made->handle, 0, Buffer::Copy(std::vector<uint8_t>(kFileBytes, static_cast<uint8_t>(i))));
      if (!wrote.ok()) co_return void(seen->error = wrote.error().ToString());
      const Result<void> synced = co_await c->vfs(0).Fsync(kRoot, made->handle);
      if (!synced.ok()) co_return void(seen->error = synced.error().ToString());
      seen->Took(Executor::Current().NowNs() - began_ns);
      (void)co_await c->vfs(0).Release(kRoot, std::move(made->handle));
      co_await Sleep(100 * kMillisecond);
    }
  }
  static Task<void> Read(SimCluster* c, bool* stop, const int* written, Seen* seen) {
    VfsHandle flags;
    flags.read = true;
    for (int i = 0; !*stop; ++i) {
      while (*written <= i && !*stop) co_await Sleep(50 * kMillisecond);
      if (*stop) co_return;
      const int64_t began_ns = Executor::Current().NowNs();
      auto found = co_await c->vfs(1).Lookup(kRoot, kRootInode, "f" + std::to_string(i));
      if (!found.ok()) co_return void(seen->error = found.error().ToString());
      auto opened = co_await c->vfs(1).Open(kRoot, found->attr.ino, false, flags);
      if (!opened.ok()) co_return void(seen->error = opened.error().ToString());
      const auto bytes = co_await c->vfs(1).Read(kRoot, opened->handle, 0, kFileBytes);
      if (!bytes.ok()) co_return void(seen->error = bytes.error().ToString());
      seen->Took(Executor::Current().NowNs() - began_ns);
      const Buffer flat = bytes->Flatten();
      const bool right = flat.size() == kFileBytes &&
                         std::ranges::all_of(flat.span(), [i](uint8_t b) { return b == static_cast<uint8_t>(i); });
      if (!right) co_return void(seen->error = "f" + std::to_string(i) + " is not what was written");
      (void)co_await c->vfs(1).Release(kRoot, std::move(opened->handle));
    }
  }
};

TEST_F(SilentNode, WhosePowerFailsStallsNobodyForLong) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Run(seed, true);
  }
}

TEST_F(SilentNode, ThatOneClientCannotReachStallsItOnceForSeconds) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Run(seed, false);
  }
}

// Clients' reports are no help here: they reach both. The two read each other's columns when those of a third are rebuilt.
TEST_F(SilentNode, ThatItsNeighbourCannotReachIsToldByThatNeighbour) {
  Busy busy(1);
  SimCluster& c = busy.cluster;
  ASSERT_NO_FATAL_FAILURE(Begin(&busy));
  const auto told = [&] {
    InodeRequest ask;
    ask.header = c.AdminHeader();
    std::string all;
    const Result<StatusReply> status = c.Do(c.admin().Status(ask), 10 * kSecond);
    for (const Advice& a : status.value().advice) all += a.what + "\n";
    return all;
  };
  EXPECT_EQ(told().find("cannot reach"), std::string::npos) << told();
  c.network().Partition({NodeHost(0)}, {NodeHost(1)});
  c.CrashNode(2, true);
  InodeRequest ask;
  ask.header = c.AdminHeader();
  const Result<ClusterMap> map = c.Do(c.admin().GetMap(ask), 10 * kSecond);
  AdminRequest out;
  out.header = c.AdminHeader();
  out.verb = AdminVerb::kOut;
  for (const NodeInfo& n : map.value().nodes) {
    if (n.name == NodeHost(2)) out.node = n.id;
  }
  c.executor().RunFor(5 * kSecond);  // it is missed
  const Result<AdminReply> rebuilds = c.Do(c.admin().Admin(out), 10 * kSecond);
  ASSERT_TRUE(rebuilds.ok()) << rebuilds.error();
  const auto said = [&](size_t by, size_t of) {
    return told().find("Node " + NodeHost(of) + " is heard, but node " + NodeHost(by) + " cannot reach it at ") != std::string::npos;
  };
  bool seen = false;
  for (int i = 0; i < 60 && !seen; ++i) {
    c.executor().RunFor(kSecond);
    seen = said(0, 1) || said(1, 0);
  }
  EXPECT_TRUE(seen) << told();
  c.network().Heal();
  for (int i = 0; i < 60 && seen; ++i) {
    c.executor().RunFor(kSecond);
    seen = told().find("cannot reach") != std::string::npos;
  }
  EXPECT_FALSE(seen) << told();
  End(&busy);
}

TEST_F(SilentNode, ADiskThatHangsStallsNobodyForLong) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    RunWithHungDisk(seed);
  }
}

}  // namespace
}  // namespace stria
