// Readers and a writer on a cluster whose administrator does all that one does: a node is lost and given up, others join,
// take its place, are emptied, removed and let in again; disks too; repair is slowed and stopped, scrubs and a rebalance are
// ordered. Nobody waits long for any of it, and every byte is right. With every other seed there are as many nodes as a stripe
// has columns, so that stripes become narrow or crowded while one is missing, and are spread again when one joins.
// STRIA_VERBS_SEEDS=100 runs more seeds, STRIA_VERBS_FIRST=17 begins with that one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
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
constexpr size_t kWritten = 7;  // as which the writer's files are filled
const Caller kRoot;

char ByteAt(size_t file, uint64_t offset) { return static_cast<char>((offset * 2654435761u + file * 40503u) >> 11); }

class Verbs {
 public:
  explicit Verbs(uint64_t seed) : rng_(seed), cluster_(seed, Options(seed)) {}

  uint64_t reads() const { return reads_; }
  std::string Run() {
    if (const auto booted = cluster_.Boot(); !booted.ok()) return "boot: " + booted.error().ToString();
    Do("setup", Setup());
    for (size_t c = 0; c < 2; ++c) {
      for (int i = 0; i < 3; ++i) cluster_.scope(c).Spawn(Reader(c, Random(rng_.Next())));
    }
    cluster_.scope(1).Spawn(Writer(Random(rng_.Next())));
    struct Step {
      const char* what;
      Task<void> (Verbs::*take)();
    };
    std::vector<Step> order = {{"a node is lost, given up and removed; another joins", &Verbs::LoseAndRemove},
                               {"a node is emptied and removed; another joins", &Verbs::DrainAndRemove},
                               {"a node takes another's place", &Verbs::Replace},
                               {"a disk is emptied", &Verbs::DrainDisk},
                               {"a disk is given up, removed and used again", &Verbs::OutDisk},
                               {"a disk takes another's place", &Verbs::ReplaceDisk},
                               {"a node is being emptied, and used again", &Verbs::DrainAndUndrain},
                               {"a scrub and a rebalance are ordered", &Verbs::ScrubAndRebalance}};
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng_.Below(i)]);
    for (const Step& step : order) {
      if (wrong_.empty()) Do(step.what, (this->*step.take)());
    }
    Do("all is whole", Whole());
    stop_ = true;
    Until("all end", [this] { return running_ == 0; });
    if (wrong_.empty() && reads_ < 100) wrong_ = "only " + std::to_string(reads_) + " reads";
    for (size_t c = 0; c < 2 && wrong_.empty(); ++c) Do("all is read", ReadAll(c));
    return wrong_;
  }

 private:
  static SimClusterOptions Options(uint64_t seed) {
    SimClusterOptions o;
    o.nodes = seed % 2 == 0 ? 5 : 6;
    o.clients = 2;
    o.kernel_ns = seed % 4 < 2 ? 5 * kMillisecond : 0;
    o.scrub_pause_ns = 3600 * kSecond;
    o.scrub_orders = true;
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
      const auto made = co_await Write(1, kWritten, name);
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

  // Every byte, of the writer's files too.
  Task<void> ReadAll(size_t c) {
    Vfs& vfs = cluster_.vfs(c);
    const auto all = co_await vfs.ReadDir(kRoot, kRootInode, 0, 1000, true);
    if (!all.ok()) co_return Failed("readdir", all.error());
    size_t files = 0;
    for (const DirEntry& e : all->entries) {
      if (e.name.size() != 2) continue;
      const size_t f = e.name[0] == 'f' ? static_cast<size_t>(e.name[1] - '0') : kWritten;
      VfsHandle flags;
      flags.read = true;
      const auto opened = co_await vfs.Open(kRoot, e.ino, false, flags);
      if (!opened.ok()) co_return Failed("open of " + e.name, opened.error());
      const auto got = co_await vfs.Read(kRoot, opened->handle, 0, kFileBytes + 1);
      (void)co_await vfs.Release(kRoot, opened->handle);
      if (!got.ok()) co_return Failed("read of " + e.name, got.error());
      const Buffer flat = got->Flatten();
      bool right = flat.size() == kFileBytes;
      for (uint64_t i = 0; right && i < kFileBytes; ++i) right = static_cast<char>(flat.data()[i]) == ByteAt(f, i);
      if (!right) co_return Failed("read of all of " + e.name, Error(FsError::kCorrupt, "wrong bytes"));
      ++files;
    }
    if (files < kFiles) Failed("readdir", Error(FsError::kCorrupt, "files are missing"));
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
      InodeRequest ask;
      ask.header = cluster_.AdminHeader();
      if (const auto s = co_await cluster_.admin().Status(ask); s.ok()) {
        refused_ += "; " + std::to_string(s->crowded_stripes) + " crowded, repairs:";
        for (const RepairProgress& p : s->repairs) {
          refused_ += " " + std::to_string(p.target.v) + " " + std::to_string(p.stripes_done) + "/" + std::to_string(p.stripes_total) + " stuck " + std::to_string(p.stuck);
        }
        refused_ += ";" + DisksOf(s->map);
      }
      co_await Sleep(2 * kSecond);
    }
  }
  Task<void> OnRepair(AdminVerb verb, uint64_t number = 0) {
    AdminRequest r;
    r.verb = verb;
    r.number = number;
    co_await Verb(r);
  }
  Task<void> OnTarget(AdminVerb verb, TargetId target, TargetId other = TargetId(), bool force = false) {
    AdminRequest r;
    r.verb = verb;
    r.target = target;
    r.new_target = other;
    r.force = force;
    co_await Verb(r);
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
  // A disk that takes shards, of any other node than that.
  Task<TargetInfo> PickDisk(NodeId not_of = NodeId()) {
    while (true) {
      InodeRequest ask;
      ask.header = cluster_.AdminHeader();
      const auto map = co_await cluster_.admin().GetMap(ask);
      std::vector<TargetInfo> some;
      for (const TargetInfo& t : map.ok() ? map->targets : std::vector<TargetInfo>()) {
        if (t.state == TargetState::kUp && t.node != not_of) some.push_back(t);
      }
      if (!some.empty()) co_return some[rng_.Below(some.size())];
      co_await Sleep(kSecond);
    }
  }
  Task<UpkeepReply> Upkeep(UpkeepVerb verb) {
    while (true) {
      UpkeepRequest r;
      r.header = cluster_.AdminHeader();
      r.verb = verb;
      const auto done = co_await cluster_.meta_server()->Upkeep(r);
      if (done.ok()) co_return *done;
      refused_ = done.error().ToString();
      co_await Sleep(2 * kSecond);
    }
  }
  Task<void> Pause(int64_t most_ns) { co_await Sleep(static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(most_ns)))); }
  static std::string DisksOf(const ClusterMap& map) {
    std::string out;
    for (const NodeInfo& n : map.nodes) {
      out += " " + n.name + "(" + std::to_string(static_cast<int>(n.state)) + ")";
      for (const TargetInfo& t : map.targets) {
        if (t.node == n.id) out += " " + std::to_string(t.id.v) + ":" + std::to_string(static_cast<int>(t.state));
      }
      out += ";";
    }
    return out;
  }
  // No shard is missing any more, and no node has more than one of a stripe.
  Task<void> Whole() {
    while (true) {
      InodeRequest ask;
      ask.header = cluster_.AdminHeader();
      const auto s = co_await cluster_.admin().Status(ask);
      const bool repairs = !s.ok() || std::any_of(s->repairs.begin(), s->repairs.end(), [](const RepairProgress& p) {
        return p.stripes_done < p.stripes_total || p.stuck > 0;
      });
      if (!repairs && s->degraded_stripes == 0 && s->lost_stripes == 0 && s->crowded_stripes == 0) co_return;
      refused_ = !s.ok() ? s.error().ToString()
                         : std::to_string(s->degraded_stripes) + " stripes are degraded, " + std::to_string(s->lost_stripes) +
                               " lost, " + std::to_string(s->crowded_stripes) + " crowded, " + std::to_string(s->repairs.size()) +
                               " repairs;" + DisksOf(s->map);
      co_await Sleep(2 * kSecond);
    }
  }
  Task<void> LoseAndRemove() {
    co_await Whole();
    const size_t n = Pick();
    const NodeId id = co_await IdOf(n);
    cluster_.CrashNode(n, true);
    const bool joins_first = rng_.OneIn(2), slowly = rng_.OneIn(2);
    if (slowly) co_await OnRepair(AdminVerb::kRepairLimit, rng_.Between(64, 2048) * kKiB);
    if (joins_first) (void)co_await IdOf(cluster_.AddNode());
    co_await Pause(5 * kSecond);
    co_await OnNode(AdminVerb::kOut, id);
    co_await Pause(20 * kSecond);
    if (slowly) {
      co_await OnRepair(AdminVerb::kRepairPause);
      co_await Pause(20 * kSecond);
      co_await OnRepair(AdminVerb::kRepairResume);
    }
    if (!joins_first) (void)co_await IdOf(cluster_.AddNode());
    co_await Pause(10 * kSecond);
    if (slowly) co_await OnRepair(AdminVerb::kRepairLimit, 0);
    co_await OnNode(AdminVerb::kRemove, id);
  }
  // Or it comes back itself.
  Task<void> DrainAndRemove() {
    co_await Whole();
    const size_t n = Pick();
    const NodeId id = co_await IdOf(n);
    const bool comes_back = rng_.OneIn(2);
    if (!comes_back) (void)co_await IdOf(cluster_.AddNode());
    co_await OnNode(AdminVerb::kDrain, id);
    co_await OnNode(AdminVerb::kRemove, id);
    const bool stays_up = comes_back && rng_.OneIn(3);
    if (!stays_up) cluster_.CrashNode(n, true);
    if (!comes_back) co_return;
    co_await Pause(20 * kSecond);
    if (!stays_up) cluster_.StartNode(n);
    co_await Pause(5 * kSecond);
    co_await OnNode(AdminVerb::kAdmit, id);
    (void)co_await IdOf(n);
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
  // In the end each disk takes shards again. (A node without one would be no place for the fifth column of a stripe.)
  Task<void> DrainDisk() {
    co_await Whole();
    const TargetInfo disk = co_await PickDisk();
    co_await OnTarget(AdminVerb::kDrain, disk.id);
    co_await Pause(20 * kSecond);
    co_await OnTarget(AdminVerb::kUndrain, disk.id);
  }
  Task<void> OutDisk() {
    co_await Whole();
    const TargetInfo disk = co_await PickDisk();
    co_await OnTarget(AdminVerb::kOut, disk.id, TargetId(), /*force=*/true);
    co_await Pause(10 * kSecond);
    co_await OnTarget(AdminVerb::kRemove, disk.id);
    co_await Pause(10 * kSecond);
    co_await OnTarget(AdminVerb::kAdmit, disk.id);
    co_await Pause(20 * kSecond);
  }
  Task<void> ReplaceDisk() {
    co_await Whole();
    const TargetInfo disk = co_await PickDisk(), other = co_await PickDisk(disk.node);
    co_await OnTarget(AdminVerb::kReplaceTarget, disk.id, other.id);
    co_await OnTarget(AdminVerb::kRemove, disk.id);
    co_await Pause(10 * kSecond);
    co_await OnTarget(AdminVerb::kAdmit, disk.id);
  }
  Task<void> DrainAndUndrain() {
    co_await Whole();
    const NodeId id = co_await IdOf(Pick());
    co_await OnNode(AdminVerb::kDrain, id);
    co_await Pause(15 * kSecond);
    co_await OnNode(AdminVerb::kUndrain, id);
    co_await Pause(5 * kSecond);
  }
  // Both end, and the scrub finds nothing.
  Task<void> ScrubAndRebalance() {
    (void)co_await Upkeep(UpkeepVerb::kScrubStart);
    (void)co_await Upkeep(UpkeepVerb::kRebalanceStart);
    while (true) {
      co_await Sleep(2 * kSecond);
      const UpkeepReply now = co_await Upkeep(UpkeepVerb::kStatus);
      const auto owing = std::ranges::count_if(now.scrubs, [](const ScrubProgress& p) { return p.running; });
      refused_ = std::to_string(owing) + " disks are not scrubbed" + (now.rebalancing ? ", it rebalances" : "");
      if (now.rebalancing || owing > 0 || now.scrubs.empty()) continue;
      const bool damaged = std::ranges::any_of(now.scrubs, [](const ScrubProgress& p) { return p.damaged > 0; });
      if (damaged || !now.unfit.empty()) Failed("scrub", Error(FsError::kCorrupt, "it has found damage"));
      co_return;
    }
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
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    Verbs verbs(seed);
    EXPECT_EQ(verbs.Run(), "") << "seed " << seed;
    std::printf("seed %llu: %llu reads\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(verbs.reads()));
    std::fflush(stdout);
  }
}

// A node is used again while shards of it are on their way to where they crowd a stripe: that stripe is spread again.
TEST(Verbs, WhatBecomesCrowdedLateIsSpread) { EXPECT_EQ(Verbs(10).Run(), ""); }

}  // namespace
}  // namespace stria
