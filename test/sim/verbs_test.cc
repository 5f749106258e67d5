// Readers and a writer on a cluster whose administrator does all that one does: a node is lost and given up, others join,
// take its place, are emptied, removed; disks too. Nobody waits long for any of it, and every byte is right.
// STRIA_VERBS_SEEDS=100 runs more seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/vfs/inode.h"
#include "test/sim/progress.h"

namespace stria {
namespace {

// A node that is gone is noticed by who asks it, and one that is silent is raced; far below any timeout.
constexpr int64_t kLongestNs = 8 * kSecond;
constexpr uint64_t kFileBytes = 3 * kMiB + 12'345;
constexpr size_t kFiles = 6;
const Caller kRoot;

char ByteAt(size_t file, uint64_t offset) { return static_cast<char>((offset * 2654435761u + file * 40503u) >> 11); }

class Verbs {
 public:
  explicit Verbs(uint64_t seed) : rng_(seed), cluster_(seed, Options(seed)) {}

  std::string Run() {
    if (const auto booted = cluster_.Boot(); !booted.ok()) return "boot: " + booted.error().ToString();
    Do("setup", Setup());
    for (size_t c = 0; c < 2; ++c) {
      for (int i = 0; i < 3; ++i) cluster_.scope(c).Spawn(Reader(c, Random(rng_.Next())));
    }
    cluster_.scope(1).Spawn(Writer(Random(rng_.Next())));
    std::vector<size_t> order = {0, 1, 2, 3};
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng_.Below(i)]);
    for (const size_t step : order) {
      if (!wrong_.empty()) break;
      switch (step) {
        case 0: Do("a node is lost, given up and removed; another joins", LoseAndRemove()); break;
        case 1: Do("a node is emptied and removed; another joins", DrainAndRemove()); break;
        case 2: Do("a node takes another's place", Replace()); break;
        case 3: Do("a disk is emptied", DrainDisk()); break;
      }
    }
    stop_ = true;
    Until("all end", [this] { return running_ == 0; });
    if (wrong_.empty() && reads_ < 100) wrong_ = "only " + std::to_string(reads_) + " reads";
    return wrong_;
  }

 private:
  static SimClusterOptions Options(uint64_t seed) {
    SimClusterOptions o;
    o.nodes = 6;
    o.clients = 2;
    o.kernel_ns = seed % 2 == 1 ? 5 * kMillisecond : 0;
    o.meta.fold.age_ns = 2 * kSecond;
    o.meta.fold.rest_ns = kSecond;
    if (seed % 3 == 0) o.layout = "raid5:4+1,unit=64K,stripe=512K,arrange=gathered";
    return o;
  }

  bool Wrong() {
    if (wrong_.empty()) wrong_ = progress_.Stalled();
    return !wrong_.empty();
  }
  void Until(const std::string& what, const std::function<bool()>& done) {
    SimExecutor& ex = cluster_.executor();
    const int64_t end_ns = ex.NowNs() + 600 * kSecond;
    (void)ex.RunUntil([&] { return Wrong() || done(); }, end_ns);
    if (wrong_.empty() && !done()) wrong_ = what + ": does not end; last refused: " + refused_;
    if (!wrong_.empty() && wrong_.rfind(what, 0) != 0) wrong_ = what + ": " + wrong_;
  }
  void Do(const std::string& what, Task<void> task) {
    bool done = false;
    TaskScope scope;
    scope.Spawn([](Task<void> t, bool* d) -> Task<void> {
      co_await std::move(t);
      *d = true;
    }(std::move(task), &done));
    Until(what, [&done] { return done; });
    scope.CancelAll();
  }
  void Failed(const std::string& what, const Error& error) {
    if (wrong_.empty()) wrong_ = what + ": " + error.ToString();
  }

  Task<void> Setup() {
    for (size_t f = 0; f < kFiles; ++f) {
      if (const auto made = co_await Write(0, f, "f" + std::to_string(f)); made.ok()) files_.push_back(*made);
      else Failed("setup", made.error());
    }
  }
  Task<Result<InodeId>> Write(size_t c, size_t f, std::string name) {
    VfsHandle flags;
    flags.write = true;
    CO_ASSIGN_OR_RETURN(const Vfs::Opened made,
                        co_await cluster_.vfs(c).Create(kRoot, kRootInode, name, 0666, false, true, flags));
    std::string bytes(kFileBytes, '\0');
    for (uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = ByteAt(f, i);
    auto written = co_await cluster_.vfs(c).Write(kRoot, made.handle, 0, Buffer::FromString(std::move(bytes)));
    if (written.ok()) {
      if (const auto flushed = co_await cluster_.vfs(c).Flush(kRoot, made.handle); !flushed.ok()) written = flushed.error();
    }
    (void)co_await cluster_.vfs(c).Release(kRoot, made.handle);
    if (!written.ok()) co_return written.error();
    co_return made.entry.attr.ino;
  }

  Task<void> Writer(Random rng) {
    ++running_;
    while (!stop_ && wrong_.empty()) {
      const std::string name = "w" + std::to_string(rng.Below(4));
      const auto made = co_await Write(1, 7, name);
      if (!made.ok()) Failed("write of " + name, made.error());
      if (rng.OneIn(3)) {
        const auto gone = co_await cluster_.vfs(1).Unlink(kRoot, kRootInode, name);
        if (!gone.ok()) Failed("unlink of " + name, gone.error());
      }
      co_await Sleep(static_cast<int64_t>(rng.Below(2 * kSecond)));
    }
    --running_;
  }

  Task<void> Reader(size_t c, Random rng) {
    ++running_;
    while (!stop_ && wrong_.empty()) {
      const size_t f = rng.Below(files_.size());
      VfsHandle flags;
      flags.read = true;
      const auto opened = co_await cluster_.vfs(c).Open(kRoot, files_[f], false, flags);
      if (!opened.ok()) {
        Failed("open", opened.error());
        break;
      }
      cluster_.kernel(c).pages().Opened(opened->handle);
      const bool direct = rng.OneIn(2);
      for (uint64_t i = rng.Between(1, 30); i > 0 && wrong_.empty(); --i) co_await ReadSome(c, f, opened->handle, direct, rng);
      (void)co_await cluster_.vfs(c).Release(kRoot, opened->handle);
    }
    --running_;
  }

  Task<void> ReadSome(size_t c, size_t f, VfsHandlePtr h, bool direct, Random& rng) {
    const uint64_t offset = rng.Below(kFileBytes);
    const uint64_t length = std::min<uint64_t>(rng.Between(1, 300'000), kFileBytes - offset);
    const auto got = co_await (direct ? cluster_.vfs(c).Read(kRoot, h, offset, length) : cluster_.Read(c, h, offset, length));
    if (!got.ok()) co_return Failed("read of f" + std::to_string(f), got.error());
    const Buffer flat = got->Flatten();
    bool right = flat.size() == length;
    for (uint64_t i = 0; right && i < flat.size(); i += 97) right = static_cast<char>(flat.data()[i]) == ByteAt(f, offset + i);
    if (!right) co_return Failed("read of f" + std::to_string(f), Error(FsError::kCorrupt, "wrong bytes"));
    ++reads_;
    co_await Sleep(static_cast<int64_t>(rng.Below(100 * kMillisecond)));
  }

  // ---- What an administrator does

  Task<NodeId> IdOf(size_t n) {
    while (true) {
      InodeRequest ask;
      ask.header = cluster_.AdminHeader();
      const auto map = co_await cluster_.admin().GetMap(ask);
      if (map.ok()) {
        for (const NodeInfo& i : map->nodes) {
          if (i.name == NodeHost(n)) co_return i.id;
        }
      }
      co_await Sleep(kSecond);
    }
  }
  // Until it is done: it may be refused while something needs what goes.
  Task<void> Verb(AdminRequest r) {
    while (true) {
      r.header = cluster_.AdminHeader();
      const auto done = co_await cluster_.admin().Admin(r);
      if (done.ok() || (r.verb == AdminVerb::kRemove && done.code() == FsError::kNoEnt)) co_return;
      refused_ = done.error().ToString();
      co_await Sleep(2 * kSecond);
    }
  }
  Task<void> OnNode(AdminVerb verb, NodeId node, NodeId other = NodeId()) {
    AdminRequest r;
    r.verb = verb;
    r.node = node;
    r.new_node = other;
    co_await Verb(r);
  }
  size_t Pick() {
    std::vector<size_t> up;
    for (size_t n = 0; n < cluster_.nodes(); ++n) {
      if (cluster_.node_up(n)) up.push_back(n);
    }
    return up[rng_.Below(up.size())];
  }
  // No shard is missing any more.
  Task<void> Whole() {
    while (true) {
      InodeRequest ask;
      ask.header = cluster_.AdminHeader();
      const auto s = co_await cluster_.admin().Status(ask);
      const bool repairs = !s.ok() || std::any_of(s->repairs.begin(), s->repairs.end(), [](const RepairProgress& p) {
        return p.stripes_done < p.stripes_total || p.stuck > 0;
      });
      if (!repairs && s->degraded_stripes == 0 && s->lost_stripes == 0) co_return;
      co_await Sleep(2 * kSecond);
    }
  }
  Task<void> LoseAndRemove() {
    co_await Whole();
    const size_t n = Pick();
    const NodeId id = co_await IdOf(n);
    cluster_.CrashNode(n, true);
    const bool joins_first = rng_.OneIn(2);
    if (joins_first) (void)co_await IdOf(cluster_.AddNode());
    co_await Sleep(static_cast<int64_t>(rng_.Below(5 * kSecond)));
    co_await OnNode(AdminVerb::kOut, id);
    co_await Sleep(static_cast<int64_t>(rng_.Below(20 * kSecond)));
    if (!joins_first) (void)co_await IdOf(cluster_.AddNode());
    co_await OnNode(AdminVerb::kRemove, id);
  }
  Task<void> DrainAndRemove() {
    co_await Whole();
    const size_t n = Pick();
    const NodeId id = co_await IdOf(n);
    (void)co_await IdOf(cluster_.AddNode());
    co_await OnNode(AdminVerb::kDrain, id);
    co_await OnNode(AdminVerb::kRemove, id);
    cluster_.CrashNode(n, true);
  }
  Task<void> Replace() {
    co_await Whole();
    const size_t n = Pick();
    const NodeId id = co_await IdOf(n);
    if (rng_.OneIn(2)) cluster_.CrashNode(n, true);
    const NodeId other = co_await IdOf(cluster_.AddNode());
    co_await OnNode(AdminVerb::kReplaceNode, id, other);
    co_await OnNode(AdminVerb::kRemove, id);
    if (cluster_.node_up(n)) cluster_.CrashNode(n, true);
  }
  Task<void> DrainDisk() {
    co_await Whole();
    const size_t n = Pick();
    AdminRequest r;
    r.verb = AdminVerb::kDrain;
    r.target = cluster_.disks().target(n, 0);
    co_await Verb(r);
    co_await Sleep(static_cast<int64_t>(rng_.Below(20 * kSecond)));
  }

  Random rng_;
  std::string wrong_, refused_;
  bool stop_ = false;
  size_t running_ = 0;
  uint64_t reads_ = 0;
  std::vector<InodeId> files_;
  SimCluster cluster_;
  Progress progress_{&cluster_, kLongestNs};
};

TEST(Verbs, NobodyWaitsLongForThem) {
  const char* wanted = std::getenv("STRIA_VERBS_SEEDS");
  const char* from = std::getenv("STRIA_VERBS_FIRST");
  const uint64_t first = from ? std::strtoull(from, nullptr, 10) : 1;
  const uint64_t seeds = wanted ? std::strtoull(wanted, nullptr, 10) : 3;
  for (uint64_t seed = first; seed < first + seeds; ++seed) EXPECT_EQ(Verbs(seed).Run(), "") << "seed " << seed;
}

}  // namespace
}  // namespace stria
