// A metadata server goes on although another was started on a copy of its store: its machine was stopped and continued, or an
// admin restored an image. Everybody went over to the new one and wrote. Then only the old one can be reached: nobody listens to it,
// and it ends when it hears of its successor; no shard that it does not know is deleted. Then all goes on with the new one.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "common/sabotage.h"
#include "common/sabotage_testing.h"
#include "test/sim/audit.h"
#include "test/sim/sim_cluster.h"

namespace stria {
namespace {

constexpr uint64_t kSeeds = 2;
constexpr uint64_t kFileBytes = 300'000;
constexpr int64_t kMoveNs = 100 * kSecond;
constexpr int64_t kAloneNs = 200 * kSecond;  // sweeps of the simulated nodes delete what was unknown for 30 s
const Caller kRoot;

class FormerMeta {
 public:
  explicit FormerMeta(uint64_t seed) : cluster_(seed, Options()) {}

  FsError former_answers = FsError::kOk;  // to an admin who asks for the map, at the end of its time
  bool listened = false;                  // a client took it for the right one
  size_t damaged = 0;                     // shards of live stripes that are not as written
  std::string error;                      // of what the client did and read

  void Run() {
    const Result<void> booted = cluster_.Boot();
    ASSERT_TRUE(booted.ok()) << booted.error();
    Write("before");
    cluster_.ServeCopy();
    cluster_.network().Partition({"meta"}, Hosts());
    const auto moved = [this] {
      for (size_t c = 0; c < cluster_.options().clients; ++c) {
        if (cluster_.client(c).session().term() != 2) return false;
      }
      return true;
    };
    ASSERT_TRUE(cluster_.executor().RunUntil(moved, cluster_.executor().NowNs() + kMoveNs));
    ASSERT_EQ(cluster_.former_meta()->term(), 1u);
    cluster_.executor().RunFor(30 * kSecond);  // the nodes, too
    Write("after");
    cluster_.executor().RunFor(5 * kSecond);
    cluster_.network().Heal();
    cluster_.network().Partition({kOtherMetaHost}, Hosts());
    cluster_.executor().RunFor(kAloneNs);
    for (size_t c = 0; c < cluster_.options().clients; ++c) {
      const MetaSession& session = cluster_.client(c).session();
      listened = listened || session.term() != 2 || session.LeaseLeftNs() > 0;
    }
    InodeRequest ask;
    ask.header = cluster_.AdminHeader();
    former_answers = cluster_.Do(cluster_.former_service().GetMap(ask), kMoveNs).code();
    for (const NodeAudit& n : AuditCluster(cluster_, &memory_).nodes) damaged += n.damaged;
    cluster_.network().Heal();
    cluster_.executor().RunFor(60 * kSecond);
    if (listened || damaged > 0) return;
    for (const char* name : {"before", "after"}) Read(name);
    Write("at last");
    Read("at last");
    const ClusterAudit audit = AuditCluster(cluster_, &memory_);
    for (const NodeAudit& n : audit.nodes) damaged += n.damaged;
    EXPECT_TRUE(audit.problems.empty());
  }

 private:
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.disks = 1;
    o.two_metas = true;
    return o;
  }
  // All but the metadata servers and the admin.
  std::set<std::string> Hosts() const {
    std::set<std::string> out;
    for (size_t n = 0; n < cluster_.nodes(); ++n) out.insert(NodeHost(n));
    for (size_t c = 0; c < cluster_.options().clients; ++c) out.insert(ClientHost(c));
    return out;
  }
  static std::string Bytes(const std::string& name) {
    Random r(std::hash<std::string>()(name));
    std::string s(kFileBytes, '\0');
    for (char& c : s) c = static_cast<char>(r.Next());
    return s;
  }
  void Write(const std::string& name) {
    if (!cluster_.Run(DoWrite(&cluster_, name, &error), kMoveNs)) error += name + " is not written in time; ";
  }
  void Read(const std::string& name) {
    if (!cluster_.Run(DoRead(&cluster_, name, &error), kMoveNs)) error += name + " is not read in time; ";
  }
  static Task<void> DoWrite(SimCluster* c, std::string name, std::string* wrong) {
    VfsHandle flags;
    flags.write = true;
    auto made = co_await c->vfs(0).Create(kRoot, kRootInode, name, 0644, true, false, flags);
    if (!made.ok()) co_return void(*wrong += made.error().ToString());
    const auto wrote = co_await c->vfs(0).Write(kRoot, made->handle, 0, Buffer::FromString(Bytes(name)));
    if (!wrote.ok()) co_return void(*wrong += wrote.error().ToString());
    const Result<void> synced = co_await c->vfs(0).Fsync(kRoot, made->handle);
    if (!synced.ok()) co_return void(*wrong += synced.error().ToString());
    (void)co_await c->vfs(0).Release(kRoot, std::move(made->handle));
  }
  // By the client that has not written it.
  static Task<void> DoRead(SimCluster* c, std::string name, std::string* wrong) {
    VfsHandle flags;
    flags.read = true;
    auto found = co_await c->vfs(1).Lookup(kRoot, kRootInode, name);
    if (!found.ok()) co_return void(*wrong += found.error().ToString());
    auto opened = co_await c->vfs(1).Open(kRoot, found->attr.ino, false, flags);
    if (!opened.ok()) co_return void(*wrong += name + ": " + opened.error().ToString());
    const auto bytes = co_await c->vfs(1).Read(kRoot, opened->handle, 0, kFileBytes);
    if (!bytes.ok()) *wrong += name + ": " + bytes.error().ToString();
    else if (bytes->Flatten().view() != Bytes(name)) *wrong += name + " is not what was written; ";
    (void)co_await c->vfs(1).Release(kRoot, std::move(opened->handle));
  }

  SimCluster cluster_;
  AuditMemory memory_;
};

void RunWith(Sabotage bug, const std::function<void(const FormerMeta&)>& check) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::optional<ScopedSabotage> on;
    if (bug != Sabotage::kNone) on.emplace(bug);
    FormerMeta world(seed);
    world.Run();
    if (testing::Test::HasFatalFailure()) return;
    check(world);
  }
}

TEST(FormerMetaTest, EndsAndNobodyListensToIt) {
  RunWith(Sabotage::kNone, [](const FormerMeta& w) {
    EXPECT_EQ(w.former_answers, FsError::kNotLeader);
    EXPECT_FALSE(w.listened);
    EXPECT_EQ(w.damaged, 0u);
    EXPECT_EQ(w.error, "");
  });
}

// It is of a release that does not end.
TEST(FormerMetaTest, NobodyListensToItEvenIfItGoesOn) {
  RunWith(Sabotage::kServeDeposed, [](const FormerMeta& w) {
    EXPECT_EQ(w.former_answers, FsError::kOk);
    EXPECT_FALSE(w.listened);
    EXPECT_EQ(w.damaged, 0u);
    EXPECT_EQ(w.error, "");
  });
}

// What the tests above would see if nobody looked at terms.
TEST(FormerMetaTest, OtherwiseItIsListenedToAndDataIsDeleted) {
  RunWith(Sabotage::kIgnoreTerms, [](const FormerMeta& w) {
    EXPECT_EQ(w.former_answers, FsError::kOk);
    EXPECT_TRUE(w.listened);
    EXPECT_GT(w.damaged, 0u);
  });
}

}  // namespace
}  // namespace stria
