#include "meta/replica/replica_world.h"

#include <algorithm>
#include <functional>

#include "meta/model/families.h"
#include "meta/replica/world_faults.h"

namespace stria {
namespace {

constexpr uint64_t kKeys = 200;
constexpr KvFamily kUsedFamilies = 4;
constexpr int64_t kActiveNs = 6 * kSecond;
constexpr int64_t kHealNs = 30 * kSecond;

}  // namespace

// ---- Members --------------------------------------------------------------------------------------

void ReplicaWorld::Member::AskDrop(const std::string& who, const std::string& why) { asked_drop[who] = why; }
void ReplicaWorld::Member::CaughtUp(const std::string& who) { caught_up.insert(who); }

void ReplicaWorld::Member::Drop(bool all) {
  roles.BeNothing();
  answering.reset();
  work.reset();
  top.reset();
  source.reset();
  primary.reset();
  joiner.reset();
  follower.reset();
  asked_drop.clear();
  caught_up.clear();
  deposed = changing = false;
  rewinds_seen = 0;
  ++life;
  if (!all) return;
  store.reset();
  kv.reset();
}

// ---- Messages -------------------------------------------------------------------------------------

class ReplicaWorld::Link final : public ReplicaService {
 public:
  Link(ReplicaWorld* world, std::string from, std::string to) : world_(world), from_(std::move(from)), to_(std::move(to)) {}
  Task<Result<AppendReply>> Append(AppendRequest request) override {
    return world_->Pass<AppendReply>(from_, to_, std::move(request), &ReplicaService::Append);
  }
  Task<Result<ReplicaJoinReply>> Join(ReplicaJoinRequest request) override {
    return world_->Pass<ReplicaJoinReply>(from_, to_, std::move(request), &ReplicaService::Join);
  }
  Task<Result<FetchKeysReply>> FetchKeys(FetchKeysRequest request) override {
    return world_->Pass<FetchKeysReply>(from_, to_, std::move(request), &ReplicaService::FetchKeys);
  }
  Task<Result<FetchPageReply>> FetchPage(FetchPageRequest request) override {
    return world_->Pass<FetchPageReply>(from_, to_, std::move(request), &ReplicaService::FetchPage);
  }

 private:
  ReplicaWorld* const world_;
  const std::string from_, to_;
};

int64_t ReplicaWorld::Delay() {
  const int64_t most = settings_.straggle_ns > 0 && rng_.OneIn(50) ? settings_.straggle_ns : settings_.max_delay_ns;
  return static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(most) + 1));
}

bool ReplicaWorld::Loses(const std::string& from, const std::string& to) {
  return cut_.contains({from, to}) || rng_.Percent(settings_.loss_percent);
}

template <class Reply, class Request>
Task<Result<Reply>> ReplicaWorld::Pass(std::string from, std::string to, Request request,
                                       Task<Result<Reply>> (ReplicaService::*call)(Request)) {
  co_await Sleep(Delay());
  const Error lost(FsError::kUnavailable, "the connection is lost");
  if (Loses(from, to)) {
    co_await Sleep(20 * settings_.max_delay_ns);
    co_return lost;
  }
  Member& there = member(to);
  if (!there.up || !there.answering) co_return lost;
  ReplicaService* const service = &there.roles;
  if (rng_.Percent(settings_.double_percent)) {
    const int64_t later = Delay();
    using Method = Task<Result<Reply>> (ReplicaService::*)(Request);
    there.answering->Spawn([](int64_t ns, ReplicaService* s, Request r, Method c) -> Task<void> {
      co_await Sleep(ns);
      (void)co_await (s->*c)(std::move(r));
    }(later, service, request, call));
  }
  OneShot<Result<Reply>> answer;
  there.answering->Spawn((service->*call)(std::move(request)), [answer](Result<Reply> r) { answer.Set(std::move(r)); });
  Result<Reply> reply = co_await answer.Take();  // for ever if it crashes: callers have deadlines
  co_await Sleep(Delay());
  if (Loses(to, from)) co_return lost;
  co_return std::move(reply);
}

void ReplicaWorld::Cut(const std::string& from, const std::string& to, bool cut) {
  if (cut) cut_.insert({from, to});
  else cut_.erase({from, to});
}

// ---- By hand --------------------------------------------------------------------------------------

ReplicaWorld::ReplicaWorld(uint64_t seed, size_t members) : ex_(seed, 4), rng_(seed * 2 + 1) {
  settings_.shipper.beat_ns = 50 * kMillisecond;
  settings_.shipper.suspect_ns = 300 * kMillisecond;
  settings_.shipper.ack_timeout_ns = 400 * kMillisecond;
  settings_.shipper.call_timeout_ns = 500 * kMillisecond;
  settings_.shipper.retry_ns = 20 * kMillisecond;
  for (size_t i = 0; i < members; ++i) members_.push_back(std::make_unique<Member>(this, "m" + std::to_string(i)));
  register_.primary = members_[0]->name;
  register_.in_sync = {members_[0]->name};
}

ReplicaWorld::~ReplicaWorld() {
  scope_.CancelAll();
  for (const auto& m : members_) m->Drop(true);
}

ReplicaWorld::Member& ReplicaWorld::member(const std::string& name) {
  for (const auto& m : members_) {
    if (m->name == name) return *m;
  }
  CHECK(false, "no such member");
}

void ReplicaWorld::Start(Member& m) {
  CHECK(!m.up, "a member is started twice");
  MemKvOptions kv;
  kv.sync_latency_ns = static_cast<int64_t>(rng_.Between(50 * kMicrosecond, static_cast<uint64_t>(settings_.max_sync_ns)));
  m.kv = std::make_shared<MemKv>(m.media, kv);
  m.store = std::move(ReplicaStore::Open(m.kv, settings_.store)).value();
  m.up = true;
  if (&m == members_[0].get() && !m.store->begun() && !m.store->marker() && nodes_.empty()) {
    const LogPoint base{CommitSeq(0), 0, rng_.Next()};
    m.store->Begin(base, 1).value();
    nodes_[base.chain] = {0, base, {}};
    bool synced = false;
    scope_.Spawn(m.kv->Sync(), [&synced](Result<void> r) { synced = r.ok(); });
    CHECK(ex_.RunUntil([&] { return synced; }, ex_.NowNs() + kHealNs), "a sync does not end");
  }
  Follow(m);
}

void ReplicaWorld::Follow(Member& m) {
  m.Drop(false);
  m.answering = std::make_unique<TaskScope>();
  m.work = std::make_unique<TaskScope>();
  m.follower = std::make_unique<Follower>(m.store.get(), &m, register_.term);
  JoinerOptions options;
  options.member = m.name;
  options.copy_bytes_per_s = 0;
  options.max_rewind_bytes = settings_.max_rewind_bytes;
  options.call_timeout_ns = settings_.shipper.call_timeout_ns;
  options.retry_ns = settings_.shipper.retry_ns;
  const auto connect = [this, from = m.name](const std::string& to) {
    std::shared_ptr<ReplicaService>& link = links_[{from, to}];
    if (!link) link = std::make_shared<Link>(this, from, to);
    return link;
  };
  m.joiner = std::make_unique<ReplicaJoiner>(m.store.get(), m.follower.get(), connect, options);
  m.work->Spawn(m.joiner->Run());
  m.roles.BeFollower(m.follower.get());
}

void ReplicaWorld::Open(Member& m, uint64_t term) {
  m.Drop(false);
  m.answering = std::make_unique<TaskScope>();
  m.work = std::make_unique<TaskScope>();
  ReplicaPrimaryOptions options;
  options.self = m.name;
  options.term = term;
  options.shipper = settings_.shipper;
  m.primary = std::make_unique<ReplicaPrimary>(m.store.get(), &m, options);
  m.source = std::make_unique<ReplicaSource>(m.primary.get(), settings_.source);
  m.top = std::make_unique<ReplicatedKv>(m.kv, m.primary.get());
  m.primary->Require(register_.in_sync, register_.in_sync, settings_.min_in_sync);
  for (const auto& other : members_) {
    if (other.get() == &m) continue;
    std::shared_ptr<ReplicaService>& link = links_[{m.name, other->name}];
    if (!link) link = std::make_shared<Link>(this, m.name, other->name);
    m.primary->Connect(other->name, link);
  }
  m.roles.BePrimary(m.primary.get(), m.source.get());
  ++counts_.terms;
  const std::set<uint64_t> path = PathTo(m.store->last());
  for (const auto& [seq, point] : acked_) {
    if (!path.contains(point.chain)) {
      Fail("batch " + std::to_string(seq.v) + " of term " + std::to_string(point.term) +
           " was acknowledged, and the primary of term " + std::to_string(term) + " does not have it");
    }
  }
  CheckWhole(m);
}

void ReplicaWorld::Crash(Member& m, bool power) {
  if (!m.up) return;
  m.Drop(true);
  m.up = false;
  m.media->Crash(rng_, power);
  ++counts_.crashes;
}

void ReplicaWorld::Write(Member& m, const KvBatch& batch) {
  const LogPoint before = m.store->last();
  const Result<void> written = m.top->Write(batch);
  if (written.ok()) nodes_[m.store->last().chain] = {before.chain, m.store->last(), batch};
}

bool ReplicaWorld::Syncs(Member& m, int64_t ns) {
  bool ok = false;
  m.work->Spawn(m.top->Sync(), [&ok](Result<void> r) { ok = r.ok(); });
  const LogPoint point = m.store->last();
  const bool done = RunUntil([&] { return ok; }, ns);
  if (done) acked_[point.seq] = point;
  // What waits still is not to find `ok` gone.
  if (!done) {
    m.work = std::make_unique<TaskScope>();
  }
  return done;
}

// ---- What stores are to be ------------------------------------------------------------------------

void ReplicaWorld::Fail(std::string what) {
  if (problem_.empty()) problem_ = std::to_string(ex_.NowNs() / kMillisecond) + " ms: " + std::move(what);
}

StoreContent ReplicaWorld::ContentOf(KvStore& kv) {
  StoreContent out;
  for (size_t f = 0; f < kFamilies; ++f) {
    const auto family = static_cast<KvFamily>(f);
    const Result<std::vector<KvEntry>> entries = kv.Scan(family, "", "", SIZE_MAX);
    for (const KvEntry& e : entries.value()) out[{family, e.first}] = e.second;
  }
  return out;
}

StoreContent ReplicaWorld::ContentAt(const LogPoint& point) const {
  std::vector<const Node*> path;
  for (uint64_t chain = point.chain; chain != 0;) {
    const auto it = nodes_.find(chain);
    CHECK(it != nodes_.end(), "a log has a batch that nobody has written");
    path.push_back(&it->second);
    chain = it->second.before;
  }
  StoreContent out;
  for (auto it = path.rbegin(); it != path.rend(); ++it) {
    for (const KvOp& op : (*it)->batch.ops) {
      if (op.value) out[{op.family, op.key}] = *op.value;
      else out.erase({op.family, op.key});
    }
  }
  return out;
}

std::set<uint64_t> ReplicaWorld::PathTo(const LogPoint& point) const {
  std::set<uint64_t> out;
  for (uint64_t chain = point.chain; chain != 0;) {
    const auto it = nodes_.find(chain);
    if (it == nodes_.end()) break;
    out.insert(chain);
    chain = it->second.before;
  }
  return out;
}

void ReplicaWorld::CheckWhole(Member& m) {
  if (!m.store->whole()) return;
  if (!nodes_.contains(m.store->last().chain)) return Fail(m.name + " has a log that nobody has written");
  if (ContentOf(*m.kv) != ContentAt(m.store->last())) Fail("the store of " + m.name + " is not what its log says");
}

// Also of a member that is down: what its disk has.
bool ReplicaWorld::HasPoint(Member& m, const LogPoint& point) {
  std::unique_ptr<ReplicaStore> opened;
  const ReplicaStore* store = m.store.get();
  if (store == nullptr) {
    opened = std::move(ReplicaStore::Open(std::make_shared<MemKv>(m.media), settings_.store)).value();
    store = opened.get();
  }
  for (uint64_t chain = store->last().chain; chain != 0;) {
    const auto it = nodes_.find(chain);
    if (it == nodes_.end() || it->second.point.seq < point.seq) return false;
    if (chain == point.chain) return true;
    chain = it->second.before;
  }
  return false;
}

// ---- The register ---------------------------------------------------------------------------------

// True if it was carried out. The issuer may be gone when it is.
Task<bool> ReplicaWorld::Swap(WorldRegister old, WorldRegister next) {
  OneShot<bool> done;
  scope_.Spawn([](ReplicaWorld* w, WorldRegister was, WorldRegister now, OneShot<bool> out) -> Task<void> {
    co_await Sleep(w->Delay() + (!w->quiet_ && w->rng_.OneIn(8) ? static_cast<int64_t>(w->rng_.Below(400 * kMillisecond)) : 0));
    const bool swapped = w->register_.version == was.version;
    if (swapped) {
      now.version = was.version + 1;
      w->register_ = now;
    }
    co_await Sleep(w->Delay());
    out.Set(swapped);
  }(this, std::move(old), std::move(next), done));
  co_return co_await done.Take();
}

Task<void> ReplicaWorld::Shrink(Member* m, std::string who) {
  const WorldRegister old = register_;
  WorldRegister next = old;
  next.in_sync.erase(who);
  if (old.term != m->primary->term() || !co_await Swap(old, next)) {
    m->changing = false;
    co_return;
  }
  ++counts_.shrinks;
  m->asked_drop.erase(who);
  m->primary->Require(next.in_sync, next.in_sync, settings_.min_in_sync);
  m->changing = false;
}

Task<void> ReplicaWorld::Grow(Member* m, std::string who) {
  const WorldRegister old = register_;
  if (old.term != m->primary->term()) {
    m->changing = false;
    co_return;
  }
  // Needed from before it is asked for.
  MemberSet required = old.in_sync;
  required.insert(who);
  m->primary->Require(old.in_sync, required, settings_.min_in_sync);
  const CommitSeq then = m->primary->may_be_committed();
  const int64_t until = ex_.NowNs() + kSecond;
  const auto has_all = [&] { return m->primary->rule().durable(who) >= then && m->primary->rule().durable(who).v != 0; };
  while (!has_all() && ex_.NowNs() < until) co_await Sleep(5 * kMillisecond);
  WorldRegister next = old;
  next.in_sync.insert(who);
  const bool asked = has_all();
  const bool grown = asked && co_await Swap(old, next);
  if (grown) ++counts_.grows;
  m->primary->Require(grown ? next.in_sync : old.in_sync, grown ? next.in_sync : old.in_sync, settings_.min_in_sync);
  m->asked_drop.erase(who);
  m->changing = false;
}

// Another primary, or the same one again.
Task<void> ReplicaWorld::Failover() {
  const WorldRegister old = register_;
  std::vector<Member*> fit;
  for (const auto& m : members_) {
    if (m->up && old.in_sync.contains(m->name) && m->follower && m->store->whole()) fit.push_back(m.get());
  }
  if (fit.empty()) co_return;
  Member* const c = fit[rng_.Below(fit.size())];
  const uint64_t life = c->life;
  c->follower->SetCandidate(true);
  WorldRegister next = old;
  next.term = std::max(old.term, c->follower->term()) + 1;
  next.primary = c->name;
  next.in_sync = {c->name};
  for (Member* m : fit) {
    if (m != c && c->store->Has(m->store->last()) && !rng_.OneIn(3)) next.in_sync.insert(m->name);
  }
  const bool swapped = co_await Swap(old, next);
  if (c->life != life) co_return;
  if (swapped && register_.term == next.term && register_.primary == c->name && c->store->whole()) Open(*c, next.term);
  else c->follower->SetCandidate(false);
}

// ---- By the seed ----------------------------------------------------------------------------------

Task<void> ReplicaWorld::Durably(Member* m, LogPoint point) {
  const Result<void> synced = co_await m->top->Sync();
  if (!synced.ok()) co_return;
  ++counts_.acked;
  acked_[point.seq] = point;
  if (register_.term != m->primary->term()) co_return;
  for (const std::string& name : register_.in_sync) {
    if (HasPoint(member(name), point)) continue;
    Fail("batch " + std::to_string(point.seq.v) + " is acknowledged, and " + name + " of the set does not have it");
  }
}

Task<void> ReplicaWorld::Writer(Member* m) {
  // As a server that opens: what it found in its log becomes committed although nobody waits for it.
  m->work->Spawn([](Member* at) -> Task<void> { (void)co_await at->top->Sync(); }(m));
  while (true) {
    co_await Sleep(static_cast<int64_t>(rng_.Below(20 * kMillisecond)));
    if (m->primary->deposed()) co_return;
    if (!writing_ || m->store->last().seq.v - m->primary->committed().v > 60) continue;
    KvBatch batch;
    for (uint64_t n = rng_.Between(1, 3); n > 0; --n) {
      const auto family = static_cast<KvFamily>(rng_.Below(kUsedFamilies));
      std::string key = "k" + std::to_string(rng_.Below(kKeys));
      if (rng_.OneIn(5)) batch.Delete(family, std::move(key));
      else batch.Put(family, std::move(key), "v" + std::to_string(++written_));
    }
    Write(*m, batch);
    if (rng_.OneIn(2)) m->work->Spawn(Durably(m, m->store->last()));
  }
}

Task<void> ReplicaWorld::Control() {
  int64_t missing_since = ex_.NowNs();
  int64_t patience = 0;
  while (true) {
    co_await Sleep(5 * kMillisecond);
    const int64_t now = ex_.NowNs();
    bool served = false;
    for (const auto& m : members_) {
      if (!m->up) continue;
      if (m->deposed) Follow(*m);
      if (m->primary) {
        const bool mine = register_.term == m->primary->term() && register_.primary == m->name;
        served = served || mine;
        // A deposed one learns of it from others; when all is well it also reads the register.
        if (!mine && quiet_) {
          Follow(*m);
          continue;
        }
        std::string out;
        for (const auto& [who, why] : m->asked_drop) {
          if (register_.in_sync.contains(who)) out = who;
        }
        m->asked_drop.clear();
        std::string in = m->caught_up.empty() ? "" : *m->caught_up.begin();
        m->caught_up.clear();
        if (m->changing || !mine) continue;
        m->changing = !out.empty() || (!in.empty() && !register_.in_sync.contains(in));
        if (!out.empty()) m->work->Spawn(Shrink(m.get(), out));
        else if (m->changing) m->work->Spawn(Grow(m.get(), in));
      } else if (m->joiner && m->joiner->rewinds() + m->joiner->copies() != m->rewinds_seen) {
        m->rewinds_seen = m->joiner->rewinds() + m->joiner->copies();
        CheckWhole(*m);
        ++(m->joiner->copies() > 0 ? counts_.copies : counts_.rewinds);
        // A good moment for it to lose power, and for who it has fetched from.
        if (!quiet_ && rng_.OneIn(4)) Crash(*m, true);
        if (!quiet_ && rng_.OneIn(4) && member(register_.primary).primary) Crash(member(register_.primary), rng_.OneIn(2));
      } else if (rng_.OneIn(100)) {
        CheckWhole(*m);
      }
    }
    if (served) {
      missing_since = now;
      patience = static_cast<int64_t>(rng_.Below(400 * kMillisecond));
    } else if (now - missing_since > patience && !failing_over_) {
      failing_over_ = true;
      missing_since = now;
      scope_.Spawn(Failover(), [this] { failing_over_ = false; });
    }
    for (const auto& m : members_) {
      if (m->primary && m->up && !m->primary->deposed() && m->rewinds_seen == 0) {
        m->rewinds_seen = 1;  // once in its life as primary
        m->work->Spawn(Writer(m.get()));
      }
    }
  }
}

Task<void> ReplicaWorld::Faults() {
  while (true) {
    co_await Sleep(static_cast<int64_t>(rng_.Below(500 * kMillisecond)));
    Member& m = *members_[rng_.Below(members_.size())];
    const uint64_t which = rng_.Below(kMemberFaults + 3);
    if (!FailMember(this, &rng_, which, m, [this]() -> Member& { return *members_[rng_.Below(members_.size())]; })) {
      if (which == kMemberFaults) cut_.clear();
      if (which == kMemberFaults + 1 && !failing_over_) {  // although the primary may be well
        failing_over_ = true;
        scope_.Spawn(Failover(), [this] { failing_over_ = false; });
      }
    }
    StartSomeMembers(this, &rng_);
  }
}

void ReplicaWorld::Heal() {
  quiet_ = true;
  cut_.clear();
  settings_.loss_percent = settings_.double_percent = 0;
  settings_.straggle_ns = 0;
  settings_.max_sync_ns = 1 * kMillisecond;
  for (const auto& m : members_) {
    Crash(*m, false);  // slow disks are replaced
    Start(*m);
  }
}

bool ReplicaWorld::Settled() {
  if (!problem_.empty()) return true;
  if (register_.in_sync.size() != members_.size()) return false;
  Member& p = member(register_.primary);
  if (!p.primary || p.primary->deposed() || p.primary->term() != register_.term) return false;
  if (p.primary->committed() != p.store->last().seq) return false;
  for (const auto& m : members_) {
    if (!m->up || !m->store->whole() || m->store->last() != p.store->last()) return false;
  }
  return true;
}

std::string ReplicaWorld::Run() {
  settings_.loss_percent = rng_.OneIn(2) ? 0 : rng_.Below(5);
  settings_.double_percent = rng_.Below(3);
  settings_.straggle_ns = rng_.OneIn(2) ? 0 : 800 * kMillisecond;
  settings_.min_in_sync = members_.size() > 2 && rng_.OneIn(2) ? 2 : 1;
  settings_.max_sync_ns = rng_.OneIn(3) ? 600 * kMillisecond : 3 * kMillisecond;
  if (rng_.OneIn(2)) settings_.store.keep_bytes = 4 * kKiB;
  settings_.store.recent_bytes = rng_.OneIn(2) ? 500 : 100 * kKiB;
  settings_.source.reply_bytes = 300;
  settings_.shipper.append_bytes = rng_.Between(100, 4000);
  settings_.shipper.window_bytes = 8000;
  for (const auto& m : members_) Start(*m);
  writing_ = true;
  scope_.Spawn(Control());
  TaskScope faults;
  faults.Spawn(Faults());
  ex_.RunUntil([&] { return !problem_.empty(); }, ex_.NowNs() + kActiveNs);
  faults.CancelAll();
  if (!problem_.empty()) return problem_;
  Heal();
  const uint64_t acked = counts_.acked;
  ex_.RunUntil([&] { return !problem_.empty() || counts_.acked > acked + 5; }, ex_.NowNs() + kHealNs);
  if (problem_.empty() && counts_.acked <= acked + 5) Fail("nothing is acknowledged although all is healed");
  writing_ = false;
  // The last batches are synced by nobody else.
  scope_.Spawn([](ReplicaWorld* w) -> Task<void> {
    while (true) {
      co_await Sleep(50 * kMillisecond);
      Member& m = w->member(w->register_.primary);
      if (m.primary && !m.primary->deposed()) m.work->Spawn([](Member* at) -> Task<void> { (void)co_await at->top->Sync(); }(&m));
    }
  }(this));
  if (!ex_.RunUntil([&] { return Settled(); }, ex_.NowNs() + kHealNs)) {
    std::string what = "did not come back: the set has " + std::to_string(register_.in_sync.size());
    for (const auto& m : members_) {
      what += "; " + m->name + (m->primary ? " primary" : " follower") + " at " + std::to_string(m->store->last().seq.v) +
              (m->store->whole() ? "" : " not whole") + (m->joiner ? " " + m->joiner->problem() : "");
    }
    Fail(what);
  }
  if (!problem_.empty()) return problem_;
  Member& last = member(register_.primary);
  const StoreContent want = ContentAt(last.store->last());
  for (const auto& m : members_) {
    if (ContentOf(*m->kv) != want) Fail("the store of " + m->name + " differs in the end");
  }
  const std::set<uint64_t> path = PathTo(last.store->last());
  for (const auto& [seq, point] : acked_) {
    if (!path.contains(point.chain)) Fail("batch " + std::to_string(seq.v) + " was acknowledged and is gone");
  }
  return problem_;
}

}  // namespace stria
