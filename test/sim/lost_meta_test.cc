// What the metadata server kept is lost, and made again from what the data servers have of its backup, while messages
// are lost and nodes lose their power. What was archived is there, with all its bytes; what is younger is there as a
// prefix or not at all, and no shard of it is deleted; then the cluster goes on, and loses its metadata again.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "common/sanitized.h"
#include "test/sim/audit.h"
#include "test/sim/sim_cluster.h"

namespace stria {
namespace {

constexpr uint64_t kSeeds = kSanitized ? 8 : 20;
constexpr size_t kFiles = 8;           // written between two moments
constexpr int64_t kHeldNs = 300 * kSecond;  // sweeps of the simulated nodes delete what was unknown for 30 s
const Caller kRoot;

VfsHandle Flags(bool write) {
  VfsHandle h;
  h.read = true;
  h.write = write;
  return h;
}

class LostMeta {
 public:
  explicit LostMeta(uint64_t seed) : rng_(seed), cluster_(seed, Options()) {}

  size_t held = 0;        // shards that the restored metadata did not know
  size_t came_back = 0;   // files that were deleted after the restored moment

  void Run() {
    const Result<void> booted = cluster_.Boot();
    ASSERT_TRUE(booted.ok()) << booted.error();
    for (int life = 1; life <= 2; ++life) {
      SCOPED_TRACE("life " + std::to_string(life));
      Faults(true);
      for (size_t i = 0; i < kFiles; ++i) Change();
      ASSERT_TRUE(BackupNow()) << problem_;
      archived_ = files_;
      // Some of what follows is archived, or nothing.
      const bool cut_off = rng_.OneIn(2);
      if (cut_off) cluster_.network().Block({kBackupHost}, Hosts());
      for (size_t i = 0; i < kFiles; ++i) Change();
      if (rng_.OneIn(2)) Sleep(static_cast<int64_t>(rng_.Below(40)) * kSecond);
      cluster_.network().Heal();
      Faults(false);
      Lose();
      if (testing::Test::HasFatalFailure()) return;
      Compare();
    }
  }

 private:
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.nodes = 6;
    o.disks = 1;
    o.clients = 1;
    o.backups = true;
    return o;
  }
  std::set<std::string> Hosts() const {
    std::set<std::string> out;
    for (size_t n = 0; n < cluster_.nodes(); ++n) out.insert(NodeHost(n));
    return out;
  }
  void Sleep(int64_t ns) { cluster_.executor().RunUntil([] { return false; }, cluster_.executor().NowNs() + ns); }
  void Faults(bool on) {
    SimFaults f;
    if (on) {
      f.drop_request_ppm = f.drop_reply_ppm = 3000;
      f.duplicate_request_ppm = 3000;
      f.straggle_ppm = 10'000;
    }
    cluster_.network().SetFaults(f);
  }
  std::string Bytes(const std::string& name, size_t size) const {
    Random r(std::hash<std::string>()(name));
    std::string s(size, '\0');
    for (char& c : s) c = static_cast<char>(r.Next());
    return s;
  }
  // One file more, or one less; now and then a node or the metadata server dies meanwhile.
  void Change() {
    if (rng_.OneIn(12)) {
      cluster_.CrashMeta(rng_.OneIn(2));
      cluster_.StartMeta();
    }
    const size_t n = rng_.Below(cluster_.nodes());
    const bool cut = rng_.OneIn(5);
    if (cut) cluster_.CrashNode(n, rng_.OneIn(2));
    if (!files_.empty() && rng_.OneIn(4)) {
      auto it = std::next(files_.begin(), static_cast<ptrdiff_t>(rng_.Below(files_.size())));
      const std::string name = it->first;
      files_.erase(it);
      ASSERT_TRUE(cluster_.Run(Remove(name), 100 * kSecond));
    } else {
      const std::string name = "f" + std::to_string(next_++);
      const size_t size = rng_.OneIn(3) ? rng_.Below(100) : rng_.Below(900 * kKiB);
      all_[name] = size;
      ASSERT_TRUE(cluster_.Run(Write(name, size), 100 * kSecond));
      files_[name] = size;
    }
    if (cut) {
      Sleep(static_cast<int64_t>(rng_.Below(8)) * kSecond);
      cluster_.StartNode(n);
    }
  }
  Task<void> Write(std::string name, size_t size) {
    auto made = co_await cluster_.vfs(0).Create(kRoot, kRootInode, name, 0644, true, false, Flags(true));
    EXPECT_TRUE(made.ok()) << name << ": " << made.error();
    if (!made.ok()) co_return;
    const auto done = co_await cluster_.vfs(0).Write(kRoot, made->handle, 0, Buffer::FromString(Bytes(name, size)));
    EXPECT_TRUE(size == 0 || done.ok()) << name << ": " << done.error();
    const auto synced = co_await cluster_.vfs(0).Fsync(kRoot, made->handle);
    EXPECT_TRUE(synced.ok()) << name << ": " << synced.error();
    (void)co_await cluster_.vfs(0).Release(kRoot, made->handle);
    EXPECT_TRUE((co_await cluster_.vfs(0).SyncDir(kRoot, kRootInode)).ok());
  }
  Task<void> Remove(std::string name) {
    const auto done = co_await cluster_.vfs(0).Unlink(kRoot, kRootInode, name);
    EXPECT_TRUE(done.ok()) << name << ": " << done.error();
  }
  bool BackupNow() {
    Result<UpkeepReply> reply = Error(FsError::kTimedOut);
    const auto call = [](MetaServer* server, OpHeader header, Result<UpkeepReply>* out) -> Task<void> {
      UpkeepRequest r;
      r.header = std::move(header);
      r.header.timeout_ns = 60 * kSecond;
      r.verb = UpkeepVerb::kBackupNow;
      *out = co_await server->Upkeep(std::move(r));
    };
    for (int tries = 0; tries < 5 && !reply.ok(); ++tries) {
      (void)cluster_.Run(call(cluster_.meta_server(), cluster_.AdminHeader(), &reply), 100 * kSecond);
    }
    problem_ = reply.error().ToString();
    return reply.ok();
  }

  void Lose() {
    cluster_.CrashClient(0);
    cluster_.CrashMeta(false);
    for (size_t n = 0; n < cluster_.nodes(); ++n) {
      if (!rng_.OneIn(3)) continue;
      cluster_.CrashNode(n, true);
      cluster_.StartNode(n);
    }
    Sleep(5 * kSecond);
    const Result<RestoreResult> restored = cluster_.RestoreMeta();
    ASSERT_TRUE(restored.ok()) << restored.error();
    EXPECT_TRUE(restored->passed_over.empty()) << restored->passed_over.front();
    // Nothing that is restored lacks a shard.
    const ClusterAudit before = AuditCluster(cluster_, &memory_);
    size_t unknown = 0;
    for (const NodeAudit& n : before.nodes) {
      EXPECT_EQ(n.damaged, 0u) << n.first_damaged;
      unknown += n.unknown;
    }
    held += unknown;
    EXPECT_TRUE(before.problems.empty());
    cluster_.StartMeta();
    cluster_.StartClient(0);
    ASSERT_TRUE(cluster_.executor().RunUntil([&] { return cluster_.client(0).session().map()->incarnation > 1; },
                                             cluster_.executor().NowNs() + 100 * kSecond));
    Sleep(kHeldNs);
    const ClusterAudit after = AuditCluster(cluster_, &memory_);
    size_t still = 0;
    for (const NodeAudit& n : after.nodes) {
      EXPECT_EQ(n.damaged, 0u) << n.first_damaged;
      still += n.unknown;
    }
    EXPECT_EQ(still, unknown) << "shards that the restored metadata does not know were deleted";
    EXPECT_TRUE(after.problems.empty());
  }

  void Compare() {
    std::map<std::string, size_t> there;
    ASSERT_TRUE(cluster_.Run(ReadAll(&there), 600 * kSecond));
    for (const auto& [name, size] : archived_) {
      // Deleted later: that may be archived, too.
      if (files_.contains(name)) EXPECT_TRUE(there.contains(name)) << name;
      if (there.contains(name)) EXPECT_EQ(there[name], size) << name;
    }
    for (const auto& [name, size] : there) came_back += archived_.contains(name) && !files_.contains(name);
    files_ = std::move(there);
  }
  Task<void> ReadAll(std::map<std::string, size_t>* out) {
    for (const auto& [name, size] : all_) {
      auto found = co_await cluster_.vfs(0).Lookup(kRoot, kRootInode, name);
      if (found.code() == FsError::kNoEnt) continue;
      EXPECT_TRUE(found.ok()) << name << ": " << found.error();
      if (!found.ok() || found->attr.ino == InodeId()) continue;
      auto opened = co_await cluster_.vfs(0).Open(kRoot, found->attr.ino, false, Flags(false));
      EXPECT_TRUE(opened.ok()) << name << ": " << opened.error();
      if (!opened.ok()) continue;
      const auto bytes = co_await cluster_.vfs(0).Read(kRoot, opened->handle, 0, kMiB);
      EXPECT_TRUE(bytes.ok()) << name << ": " << bytes.error();
      (void)co_await cluster_.vfs(0).Release(kRoot, opened->handle);
      if (!bytes.ok()) continue;
      const std::string content(bytes->Flatten().view());
      EXPECT_TRUE(Bytes(name, size).starts_with(content)) << name << " has other bytes than were written";
      (*out)[name] = content.size();
    }
  }

  Random rng_;
  SimCluster cluster_;
  AuditMemory memory_;
  std::map<std::string, size_t> files_, archived_, all_;  // name, size
  uint64_t next_ = 0;
  std::string problem_;
};

TEST(LostMeta, ComesBackWithAllThatWasArchived) {
  size_t held = 0, came_back = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LostMeta world(seed);
    world.Run();
    if (testing::Test::HasFailure()) return;
    held += world.held;
    came_back += world.came_back;
  }
  EXPECT_GT(held, 10 * kSeeds);
  EXPECT_GT(came_back, kSeeds / 2);
}

}  // namespace
}  // namespace stria
