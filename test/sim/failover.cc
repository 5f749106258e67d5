#include "test/sim/failover.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "test/sim/root_caller.h"

namespace stria {
namespace {

constexpr size_t kActors = 2;  // of each client
constexpr int64_t kLookOnNs = 5 * kMillisecond;
constexpr int64_t kSetupNs = 60 * kSecond;
constexpr int64_t kSettleNs = 60 * kSecond;
constexpr int64_t kEndNs = 600 * kSecond;
// Longer than a message is on its way, so that a circle in two looks is none that one side only has not heard the end of.
constexpr int64_t kStraggleNs = 6 * kSecond;  // beyond the grace
constexpr int64_t kApartNs = kStraggleNs + kSecond;
constexpr int64_t kLongestNs = 5 * kSecond;  // of a call, where nothing that it needs fails
constexpr int64_t kEndedNs = 60 * kSecond;  // of all calls that are under way, from when all is well
constexpr uint64_t kReadBytes = 512 * kKiB;

SimClusterOptions ClusterOf(const FailoverPlan& plan, uint64_t seed) {
  SimClusterOptions o;
  o.nodes = 6;
  o.disks = 1;
  o.clients = plan.clients;
  o.metas = plan.metas;
  o.client_timeout_ns = kEndNs;  // calls wait for a primary
  if (seed % 4 == 3) o.shuffle = 1;
  return o;
}

std::string BytesOf(const std::string& made_as, size_t size) {
  Random r(std::hash<std::string>()(made_as));
  std::string s(size, '\0');
  for (char& c : s) c = static_cast<char>(r.Next());
  return s;
}

}  // namespace

FailoverWorld::FailoverWorld(uint64_t seed, FailoverPlan plan)
    : plan_(std::move(plan)),
      tracing_(std::getenv("STRIA_SIM_TRACE") != nullptr),
      cluster_(seed, ClusterOf(plan_, seed)),
      circles_(&cluster_, kApartNs),
      progress_(&cluster_, kLongestNs),
      rng_(seed * 6271 + 5),
      mine_(plan_.clients) {}

FailoverWorld::~FailoverWorld() {
  scope_.CancelAll();
  timers_.clear();
  for (size_t c = 0; c < plan_.clients; ++c) {
    if (cluster_.client_up(c)) cluster_.scope(c).CancelAll();
  }
}

void FailoverWorld::Fail(const std::string& what) {
  if (!failure_.empty()) return;
  failure_ = "at " + std::to_string(cluster_.executor().NowNs() / kMillisecond) + " ms: " + what;
  Trace("FAILED: " + what);
}

void FailoverWorld::Trace(const std::string& what) const {
  if (!tracing_) return;
  std::fprintf(stderr, "%lld ms: %s\n", static_cast<long long>(Executor::Current().NowNs() / kMillisecond), what.c_str());
}

uint64_t FailoverWorld::count(const std::string& what) const {
  const auto it = counts_.find(what);
  return it == counts_.end() ? 0 : it->second;
}

std::string FailoverWorld::Summary() const {
  const SimMetas::Counts& m = const_cast<SimCluster&>(cluster_).several()->counts();
  std::string out = std::to_string(m.terms) + " terms, " + std::to_string(m.crashes) + " crashes, " + std::to_string(m.ends) + " ends, ";
  out += std::to_string(m.durable) + " durable points, " + std::to_string(m.answers) + " answers, ";
  out += std::to_string(m.compared) + " stores compared";
  for (const auto& [what, n] : counts_) out += ", " + std::to_string(n) + " " + what;
  return out;
}

uint64_t FailoverWorld::trace() const {
  auto& cluster = const_cast<SimCluster&>(cluster_);
  return cluster.network().trace_hash() * 31 + cluster.executor().steps();
}

void FailoverWorld::LookOn() {
  const int64_t now_ns = cluster_.executor().NowNs();
  if (now_ns < looked_ns_ + kLookOnNs) return;
  looked_ns_ = now_ns;
  if (!metas().problem().empty()) Fail(metas().problem());
  if (const std::string unknown = cluster_.UnknownLease(); !unknown.empty()) Fail("the primary does not know that " + unknown);
  const std::string waits = plan_.same_term && !faults_over_ ? progress_.Stalled() : circles_.Look();
  if (!waits.empty()) Fail(waits);
}

bool FailoverWorld::RunUntil(const std::function<bool()>& done, int64_t limit_ns) {
  SimExecutor& ex = cluster_.executor();
  (void)ex.RunUntil([&] { return LookOn(), !failure_.empty() || done(); }, ex.NowNs() + limit_ns);
  return failure_.empty() && done();
}

void FailoverWorld::After(int64_t ns, std::function<void()> fn) {
  std::erase_if(timers_, [](const auto& t) { return !t->pending(); });
  timers_.push_back(std::make_unique<Timer>());
  SimExecutor& ex = cluster_.executor();
  ex.StartTimer(timers_.back().get(), ex.NowNs() + ns, std::move(fn));
}

// ---- What clients do ------------------------------------------------------------------------------

Task<void> FailoverWorld::Setup() {
  for (size_t c = 0; c < plan_.clients; ++c) {
    const auto made = co_await cluster_.vfs(c).MakeNode(kRoot, kRootInode, "d" + std::to_string(c), FileType::kDirectory, 0755, 0, "");
    if (!made.ok()) co_return Fail("setup: " + made.error().ToString());
    mine_[c].dir = made->attr.ino;
    const Result<void> synced = co_await cluster_.vfs(c).SyncDir(kRoot, kRootInode);
    if (!synced.ok()) co_return Fail("setup: " + synced.error().ToString());
  }
}

void FailoverWorld::StartActors(size_t c) {
  for (size_t i = 0; i < kActors; ++i) {
    ++actors_;
    cluster_.scope(c).Spawn(Actor(c, rng_.Next()));
  }
}

Task<void> FailoverWorld::Actor(size_t c, uint64_t seed) {
  Random rng(seed);
  Mine& mine = mine_[c];
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(250 * kMillisecond)));
    const uint64_t era = EraOf(c);
    if (const uint64_t former = std::exchange(mine.era, era); former != era) {
      mine.untold = former != 0;  // 0: it has only begun
      if (former != 0) LostSession(c, "between two calls");
      Died(c);
    }
    std::vector<std::string> free;
    for (const auto& [name, file] : mine.files) {
      if (!mine.busy.contains(name)) free.push_back(name);
    }
    const uint64_t kind = only_make_ ? rng.OneIn(2) ? 0 : 6 : rng.Below(10);
    if (kind < 4 || free.empty()) {
      co_await Make(c, &rng);
      continue;
    }
    const std::string name = free[rng.Below(free.size())];
    if (kind == 4) co_await Remove(c, name);
    else if (kind == 5) co_await Rename(c, name);
    else if (kind < 8) co_await Look(c, name);
    else co_await MakeDurable(c);
  }
  --actors_;
}

// Nobody can say again what it alone knew: what it was not told to be durable may be there or not.
void FailoverWorld::Died(size_t c) {
  Mine& mine = mine_[c];
  for (const std::string& name : mine.busy) {
    mine.files.erase(name);
    mine.unsure.insert(name);
  }
  std::erase_if(mine.files, [&mine](const auto& entry) {
    const File& f = entry.second;
    if (f.stored && (f.named || f.changed <= mine.durable)) return false;
    mine.unsure.insert(entry.first);
    return true;
  });
  for (const auto& [name, answer] : mine.removed) {
    if (answer > mine.durable) mine.unsure.insert(name);
  }
  mine.removed.clear();
}

std::vector<std::set<std::string>> FailoverWorld::DurableNames() const {
  std::vector<std::set<std::string>> out;
  for (const Mine& mine : mine_) {
    out.emplace_back();
    for (const auto& [name, f] : mine.files) {
      if (f.stored && (f.named || f.changed <= mine.durable)) out.back().insert(name);
    }
  }
  return out;
}

void FailoverWorld::GiveUpAllBut(const std::vector<std::set<std::string>>& names) {
  for (size_t c = 0; c < mine_.size(); ++c) {
    CHECK(!cluster_.client_up(c), "a client lives that knows what is lost");
    Mine& mine = mine_[c];
    for (const auto& [name, answer] : mine.removed) mine.unsure.insert(name);
    mine.removed.clear();
    std::erase_if(mine.files, [&](const auto& entry) {
      if (names[c].contains(entry.first)) return false;
      mine.unsure.insert(entry.first);
      return true;
    });
  }
  metas().GiveUp();
}

void FailoverWorld::LostSession(size_t c, const std::string& seen) {
  ++counts_["answers when the session had lapsed"];
  if (plan_.KeepsSessions()) Fail(ClientHost(c) + " has lost its session, which nothing took; seen by: " + seen);
}

bool FailoverWorld::Judge(size_t c, uint64_t era, const Error& error, const std::string& what, const std::vector<std::string>& names,
                          bool changes) {
  Mine& mine = mine_[c];
  for (const std::string& name : names) mine.busy.erase(name);
  Trace(ClientHost(c) + " " + what + ": " + error.ToString());
  const bool same = EraOf(c) == era;
  if (same && error.ok()) return true;
  for (const std::string& name : names) {
    if (!changes) break;
    mine.files.erase(name);
    mine.unsure.insert(name);
  }
  if (!same) LostSession(c, what);
  else Fail(ClientHost(c) + " " + what + ": " + error.ToString());
  return false;
}

Task<Result<void>> FailoverWorld::WriteFile(size_t c, std::string name, size_t size, bool fsync) {
  Vfs& vfs = cluster_.vfs(c);
  VfsHandle flags;
  flags.read = flags.write = true;
  CO_ASSIGN_OR_RETURN(const Vfs::Opened made, co_await vfs.Create(kRoot, mine_[c].dir, name, 0644, true, false, flags));
  Error error;
  if (size > 0) {
    const auto wrote = co_await vfs.Write(kRoot, made.handle, 0, Buffer::FromString(BytesOf(name, size)));
    if (!wrote.ok()) error = wrote.error();
  }
  if (fsync && error.ok()) error = (co_await vfs.Fsync(kRoot, made.handle)).error();
  const Result<void> closed = co_await vfs.Release(kRoot, made.handle);
  if (error.ok()) error = closed.error();
  if (!error.ok()) co_return error;
  co_return Ok();
}

Task<void> FailoverWorld::Make(size_t c, Random* rng) {
  Mine& mine = mine_[c];
  const std::string name = "f" + std::to_string(mine.next++);
  const size_t size = rng->OneIn(3) ? rng->Below(300 * kKiB) : rng->Below(300);
  const bool fsync = rng->OneIn(2);
  const uint64_t era = EraOf(c);
  mine.busy.insert(name);
  const Result<void> made = co_await WriteFile(c, name, size, fsync);
  if (!Judge(c, era, made.error(), "makes " + name + " of " + std::to_string(size) + " bytes", {name})) co_return;
  ++counts_["files"];
  mine.files[name] = {name, size, ++mine.answers, fsync, fsync};
  if (fsync) MaybeStrike(c);
}

Task<void> FailoverWorld::Remove(size_t c, std::string name) {
  Mine& mine = mine_[c];
  const uint64_t era = EraOf(c);
  mine.busy.insert(name);
  const Result<void> done = co_await cluster_.vfs(c).Unlink(kRoot, mine.dir, name);
  if (!Judge(c, era, done.error(), "removes " + name, {name})) co_return;
  ++counts_["removals"];
  mine.files.erase(name);
  mine.removed[name] = ++mine.answers;
}

Task<void> FailoverWorld::Rename(size_t c, std::string name) {
  Mine& mine = mine_[c];
  const std::string to = "r" + std::to_string(mine.next++);
  const uint64_t era = EraOf(c);
  mine.busy.insert(name);
  mine.busy.insert(to);
  const Result<void> done = co_await cluster_.vfs(c).Rename(kRoot, mine.dir, name, mine.dir, to, true, false);
  if (!Judge(c, era, done.error(), "renames " + name + " to " + to, {name, to})) co_return;
  ++counts_["renames"];
  const auto moved = mine.files.extract(name);
  CHECK(!moved.empty(), "a file that was busy is not there");
  File file = moved.mapped();
  file.changed = ++mine.answers;
  file.named = false;
  mine.removed[name] = file.changed;
  mine.files[to] = std::move(file);
}

Task<Result<std::string>> FailoverWorld::ReadFile(size_t c, InodeId dir, std::string name) {
  Vfs& vfs = cluster_.vfs(c);
  CO_ASSIGN_OR_RETURN(const EntryOut found, co_await vfs.Lookup(kRoot, dir, name));
  if (found.attr.ino == InodeId()) co_return Error(FsError::kNoEnt, "there is no such name");
  VfsHandle flags;
  flags.read = true;
  CO_ASSIGN_OR_RETURN(const Vfs::Opened opened, co_await vfs.Open(kRoot, found.attr.ino, false, flags));
  const Result<BufferChain> bytes = co_await vfs.Read(kRoot, opened.handle, 0, kReadBytes);
  (void)co_await vfs.Release(kRoot, opened.handle);
  if (!bytes.ok()) co_return bytes.error();
  co_return std::string(bytes->Flatten().view());
}

Task<void> FailoverWorld::Look(size_t c, std::string name) {
  Mine& mine = mine_[c];
  const uint64_t era = EraOf(c);
  mine.busy.insert(name);
  const Result<std::string> bytes = co_await ReadFile(c, mine.dir, name);
  if (!Judge(c, era, bytes.error(), "reads " + name, {name}, false)) co_return;
  ++counts_["reads"];
  const File& file = mine.files.at(name);
  if (*bytes != BytesOf(file.made_as, file.size)) Fail(name + " of " + ClientHost(c) + " has other bytes than were written");
}

Task<void> FailoverWorld::MakeDurable(size_t c) {
  Mine& mine = mine_[c];
  const uint64_t era = EraOf(c);
  const uint64_t answers = mine.answers;
  const Result<void> done = co_await cluster_.vfs(c).SyncDir(kRoot, mine.dir);
  if (done.code() == FsError::kIo && era == EraOf(c) && std::exchange(mine.untold, false)) {
    ++counts_["syncs that told of a loss"];
    co_return;
  }
  if (!Judge(c, era, done.error(), "makes all durable", {})) co_return;
  ++counts_["durable answers"];
  mine.durable = std::max(mine.durable, answers);
  std::erase_if(mine.removed, [&mine](const auto& entry) { return entry.second <= mine.durable; });
  MaybeStrike(c);
}

// The worst moment for the primary to lose what is only in its memory, and for the client that could say it again.
void FailoverWorld::MaybeStrike(size_t c) {
  if (struck_ || faults_over_ || !rng_.Percent(plan_.strike_percent)) return;
  struck_ = true;
  const bool client_too = rng_.OneIn(2);
  After(Upto(3 * kMillisecond), [this, c, client_too] {
    struck_ = false;
    ++counts_["strikes"];
    if (const std::optional<size_t> primary = metas().Primary()) CrashFor(*primary, true, Upto(12 * kSecond));
    if (client_too) CrashClientNow(c);
  });
}

void FailoverWorld::CrashClientNow(size_t c) {
  if (!cluster_.client_up(c)) return;
  ++counts_["client deaths"];
  Trace(ClientHost(c) + " dies");
  actors_ -= cluster_.scope(c).running();
  Died(c);
  mine_[c].busy.clear();
  mine_[c].era = 0;
  cluster_.CrashClient(c);
  After(Upto(10 * kSecond), [this, c] {
    if (cluster_.client_up(c)) return;
    cluster_.StartClient(c);
    if (!stopping()) StartActors(c);
  });
}

// ---- The whole ------------------------------------------------------------------------------------

void FailoverWorld::Begin() {
  const Result<void> booted = cluster_.Boot();
  if (!booted.ok()) return Fail("boot: " + booted.error().ToString() + "; " + metas().Describe());
  if (!cluster_.Run(Setup(), kSetupNs)) Fail("setup took too long; " + metas().Describe());
  if (!failure_.empty()) return;
  term_ = cluster_.meta_server()->term();
  if (plan_.network && rng_.OneIn(2)) {
    SimFaults f;
    f.max_latency_ns = rng_.OneIn(3) ? 5 * kMillisecond : 300 * kMicrosecond;
    f.drop_request_ppm = static_cast<uint32_t>(rng_.Below(3000));
    f.drop_reply_ppm = static_cast<uint32_t>(rng_.Below(3000));
    f.duplicate_request_ppm = static_cast<uint32_t>(rng_.Below(20000));
    f.straggle_ppm = static_cast<uint32_t>(rng_.Below(5000));
    f.straggle_ns = kStraggleNs;
    cluster_.network().SetFaults(f);
  }
  FakeCoordinatorOptions faulty;
  faulty.lost_percent = rng_.Below(4);
  faulty.doubled_percent = 2;
  faulty.late_percent = plan_.late_coordinator && rng_.OneIn(2) ? 20 : 0;
  faulty.refused_percent = rng_.OneIn(3) ? 5 : 0;
  if (plan_.network || plan_.late_coordinator) metas().coordinator().SetOptions(faulty);
  for (size_t c = 0; c < plan_.clients; ++c) {
    mine_[c].era = EraOf(c);
    StartActors(c);
  }
}

void FailoverWorld::HealAll() {
  Trace("all is healed");
  faults_over_ = true;
  struck_ = false;
  timers_.clear();
  cluster_.network().Heal();
  cluster_.network().SetFaults(SimFaults());
  FakeCoordinator& coordinator = metas().coordinator();
  coordinator.SetOptions({});
  coordinator.SetUp(true);
  coordinator_away_ = false;
  cuts_to_coordinator_.clear();
  cuts_from_coordinator_.clear();
  full_.clear();
  for (size_t m = 0; m < metas().size(); ++m) {
    coordinator.CutTo(MetaHost(m), false);
    coordinator.CutFrom(MetaHost(m), false);
    metas().SetSyncNs(m, 2 * kMillisecond);
    metas().SetFull(m, false);
  }
  metas().StartAll();
  for (size_t c = 0; c < plan_.clients; ++c) {
    if (cluster_.client_up(c)) continue;
    cluster_.StartClient(c);
    StartActors(c);
  }
}

void FailoverWorld::Finish() {
  if (!failure_.empty()) return;
  if (plan_.same_term && (cluster_.meta_server() == nullptr || cluster_.meta_server()->term() != term_)) {
    return Fail("who serves has changed although nobody but the coordinator has failed; " + metas().Describe());
  }
  HealAll();
  if (!RunUntil([this] { return metas().AllIn(); }, kSettleNs)) {
    return Fail("not all are in the set although all is healed; " + metas().Describe());
  }
  stopping_ = true;
  if (!RunUntil([this] { return actors_ == 0; }, kEndedNs)) {
    return Fail(std::to_string(actors_) + " actors hang; " + metas().Describe() + WhatWaits(cluster_));
  }
  if (!RunUntil([this] { return metas().AllEqual(); }, kSettleNs)) return Fail("the stores do not become the same; " + metas().Describe());
  scope_.CancelAll();
  bool done = false;
  scope_.Spawn(FinalChecks(), [&done] { done = true; });
  if (!RunUntil([&done] { return done; }, kEndNs)) Fail("the final checks hang; " + metas().Describe());
  scope_.CancelAll();
}

std::string FailoverWorld::RunAll() {
  Begin();
  if (!failure_.empty()) return failure_;
  scope_.Spawn(Driver());
  RunFor(plan_.duration_ns);
  Finish();
  return failure_;
}

Task<void> FailoverWorld::FinalChecks() {
  for (size_t c = 0; c < plan_.clients; ++c) {
    for (size_t of = 0; of < plan_.clients; ++of) {
      const Mine& mine = mine_[of];
      std::set<std::string> there;
      for (uint64_t cookie = 0;;) {
        const auto page = co_await cluster_.vfs(c).ReadDir(kRoot, mine.dir, cookie, 100, false);
        if (!page.ok()) co_return Fail("the last listing: " + page.error().ToString());
        for (const DirEntry& e : page->entries) {
          cookie = e.cookie;
          if (!mine.unsure.contains(e.name)) there.insert(e.name);
        }
        if (page->end) break;
      }
      for (const std::string& name : there) {
        if (mine.files.contains(name)) continue;
        co_return Fail(ClientHost(c) + " sees " + name + " of " + ClientHost(of) + ", which was removed or never made");
      }
      for (const auto& [name, file] : mine.files) {
        if (!there.contains(name)) co_return Fail(name + " of " + ClientHost(of) + " is lost, as " + ClientHost(c) + " sees it");
        const Result<std::string> bytes = co_await ReadFile(c, mine.dir, name);
        if (!bytes.ok()) co_return Fail("the last read of " + name + " of " + ClientHost(of) + ": " + bytes.error().ToString());
        if (*bytes != BytesOf(file.made_as, file.size)) {
          co_return Fail(name + " of " + ClientHost(of) + " has other bytes than were written");
        }
        ++counts_["last reads"];
      }
    }
  }
  InodeRequest r;
  r.header = cluster_.AdminHeader();
  const std::unique_ptr<MetaService> admin = cluster_.hosts().MetaOf("admin");
  const Result<FsckReply> fsck = co_await admin->Fsck(r);
  if (!fsck.ok()) co_return Fail("fsck: " + fsck.error().ToString());
  if (!fsck->problems.empty()) co_return Fail("fsck: " + fsck->problems.front());
  const ClusterAudit audit = AuditCluster(cluster_, &memory_);
  for (const NodeAudit& n : audit.nodes) {
    if (n.damaged > 0) co_return Fail("a file lacks a shard: " + n.first_damaged);
  }
  if (!audit.problems.empty()) Fail(audit.problems.front());
}

}  // namespace stria
