#include "test/sim/replica/replica_model.h"

#include <algorithm>
#include <optional>

#include "meta/replica/register_text.h"
#include "test/sim/replica/register_key.h"
#include "test/sim/replica/replica_member.h"

namespace stria {
namespace {

constexpr double kBeatS = 0.25;
constexpr int64_t kPromiseNs = 2 * kSecond;
constexpr int64_t kGraceNs = 3 * kSecond;
constexpr uint64_t kUnacked = 200;  // batches ahead of what is committed
constexpr size_t kBatchesAtOnce = 50;
constexpr uint32_t kKeys = 400, kHotKeys = 8;

}  // namespace

void ReplicaStats::Add(const ReplicaStats& o) {
  acks += o.acks, reads += o.reads, stalls += o.stalls, terms += o.terms, rewinds += o.rewinds, joins += o.joins;
  shrinks += o.shrinks, offers += o.offers, at_once += o.at_once, crashes += o.crashes;
}

std::string ReplicaStats::ToString() const {
  const auto say = [](const char* what, uint64_t n) { return std::to_string(n) + " " + what; };
  return say("acknowledged, ", acks) + say("reads, ", reads) + say("stalls, ", stalls) + say("terms, ", terms) + say("rewinds, ", rewinds) +
         say("joins, ", joins) + say("shrinks, ", shrinks) + say("offers, ", offers) + say("openings without a wait, ", at_once) +
         say("crashes", crashes);
}

ReplicaModel::ReplicaModel(uint64_t seed) : ex_(seed), mac_(RegisterTestKey(), kRegisterPurpose), etcd_(&ex_, {}) {
  const size_t count = Chance(0.33) ? 2 : 3;
  lost_ = std::vector<double>{0, 0.01, 0.05}[ex_.rng().Below(3)];
  straggle_ = std::vector<double>{0, 0.01, 0.05}[ex_.rng().Below(3)];
  for (size_t i = 0; i < count; ++i) {
    auto m = std::make_unique<Member>();
    m->i = i;
    m->name = "m" + std::to_string(i + 1);
    m->uuid = {9, i + 1};
    m->rate = Unit(0.9, 1.1);
    m->coordinator = etcd_.For(m->name);
    members_.push_back(std::move(m));
  }
}

ReplicaModel::~ReplicaModel() {
  for (auto& m : members_) {
    if (m->scope) m->scope->CancelAll();
  }
}

void ReplicaModel::Bad(std::string what) {
  if (bad_.empty()) bad_ = "after " + std::to_string(static_cast<double>(ex_.NowNs()) / 1e9) + " s: " + std::move(what);
}

int64_t ReplicaModel::Now(const Member* m) const { return static_cast<int64_t>(static_cast<double>(ex_.NowNs()) * m->rate); }

void ReplicaModel::At(double delay_s, std::function<void()> fn) {
  scope_.Spawn([](int64_t ns, std::function<void()> f) -> Task<void> {
    co_await Sleep(ns);
    f();
  }(ModelNs(delay_s), std::move(fn)));
}

// What a process does: not after it has ended, and not while it is paused.
void ReplicaModel::Deliver(Member* to, std::function<void()> fn) {
  if (!to->up) return;
  if (to->paused_until_ns <= ex_.NowNs()) return fn();
  AtMember(static_cast<double>(to->paused_until_ns - ex_.NowNs()) / 1e9 + Unit(0, 0.001), to, std::move(fn));
}

void ReplicaModel::AtMember(double delay_s, Member* m, std::function<void()> fn) {
  At(delay_s, [this, m, boot = m->boot, fn = std::move(fn)] {
    if (m->up && m->boot == boot) Deliver(m, fn);
  });
}

double ReplicaModel::MessageDelay() { return Chance(straggle_) ? Unit(0, 6) : Unit(0.0001, 0.004); }

void ReplicaModel::Send(Member* from, Member* to, std::function<void()> fn) {
  if (Chance(lost_)) return;
  for (int copies = Chance(0.01) ? 2 : 1; copies > 0; --copies) {
    At(MessageDelay(), [this, from, to, fn] {
      if (!cut_.contains({from->i, to->i})) Deliver(to, fn);
    });
  }
}

void ReplicaModel::Start(Member* m) {
  if (m->up) return;
  m->up = true;
  ++m->boot;
  m->paused_until_ns = 0;
  m->promises = std::make_unique<Promises>(Now(m));
  m->client = std::make_unique<RegisterClient>(m->coordinator.get(), &mac_);
  ElectionOptions o;
  o.self = m->name;
  o.uuid = m->uuid;
  o.grace_ns = kGraceNs;
  m->election = std::make_unique<Election>(o, m->promises.get(), Now(m), [this] { return Uuid{1, ++nonce_}; });
  m->set.reset();
  m->reading = m->syncing = m->sync_again = false;
  m->after_sync.clear();
  m->waiting.clear();
  m->scope = std::make_unique<TaskScope>();
  Loop(m);
}

void ReplicaModel::Crash(Member* m, bool power) {
  if (!m->up) return;
  ++stats_.crashes;
  m->up = false;
  m->scope->CancelAll();
  m->set.reset();
  if (power) m->store.PowerCut(&ex_.rng());  // otherwise the kernel has what was written
}

void ReplicaModel::Strike(Member* m) {
  if (quiet_) return;
  if (Chance(0.5)) {
    const bool power = Chance(0.8);
    At(std::vector<double>{0.01, 0.1, 0.5}[ex_.rng().Below(3)] * Unit(0, 1), [this, m, power] {
      if (quiet_) return;
      Crash(m, power);
      At(std::vector<double>{0.05, 0.5, 3}[ex_.rng().Below(3)] * Unit(0, 1), [this, m] { Start(m); });
    });
  } else if (Chance(0.3)) {
    m->paused_until_ns = ex_.NowNs() + ModelNs((Chance(0.5) ? 1 : 5) * Unit(0, 1));
  }
}

// ---- A member ----

void ReplicaModel::Loop(Member* m) {
  Do(m, m->election->Tick(Now(m), m->Own()));
  if (m->set) PrimaryTick(m);
  AtMember(kBeatS * Unit(0.8, 1.2) / m->rate, m, [this, m] { Loop(m); });
}

void ReplicaModel::Do(Member* m, std::vector<ElectionAction> actions) {
  for (ElectionAction& a : actions) {
    switch (a.kind) {
      case ElectionAction::Kind::kRead:
        if (!std::exchange(m->reading, true)) m->scope->Spawn(ReadRegister(m));
        break;
      case ElectionAction::Kind::kSwap:
        m->scope->Spawn(SwapRegister(m, a.swap));
        break;
      case ElectionAction::Kind::kAsk:
        Poll(m, a.attempt);
        break;
      case ElectionAction::Kind::kOpen:
        m->life = a.life;
        Open(m, a.reg);
        break;
      case ElectionAction::Kind::kStop:
        m->set.reset();
        m->waiting.clear();
        break;
      case ElectionAction::Kind::kAlarm:
        Bad("a false alarm: " + a.text);
        break;
    }
  }
}

Task<void> ReplicaModel::ReadRegister(Member* m) {
  Result<std::optional<Register>> r = co_await m->client->Read();
  while (m->paused_until_ns > ex_.NowNs()) co_await Sleep(m->paused_until_ns - ex_.NowNs());
  m->reading = false;
  if (r.ok() && *r) OnRegister(m, **r);
}

Task<void> ReplicaModel::SwapRegister(Member* m, RegisterSwap swap) {
  Result<Register> r = co_await m->client->Swap(std::move(swap));
  while (m->paused_until_ns > ex_.NowNs()) co_await Sleep(m->paused_until_ns - ex_.NowNs());
  if (r.ok()) OnRegister(m, *r);
}

void ReplicaModel::OnRegister(Member* m, const Register& r) {
  const size_t in_sync = m->set ? m->set->known().in_sync.size() : 0;
  Do(m, m->election->OnRegister(Now(m), r, m->Own()));
  if (!m->set) return;
  if (!m->set->OnRegister(r)) return Bad(m->name + " goes on as primary although the register says otherwise");
  const size_t now = m->set->known().in_sync.size();
  stats_.joins += now > in_sync;
  stats_.shrinks += now < in_sync;
  Flush(m);
}

void ReplicaModel::Poll(Member* m, uint64_t attempt) {
  for (auto& other : members_) {
    Member* o = other.get();
    if (o == m) continue;
    Send(m, o, [this, m, o, attempt, boot = m->boot] {
      AskedMember answer;
      answer.shape = o->store.shape();
      answer.whole = !o->store.marker();
      answer.silent_ns = Now(o) - o->promises->Last().at_ns;
      Send(o, m, [m, o, attempt, boot, answer] {
        if (m->boot == boot) m->election->OnAsked(attempt, o->name, answer);
      });
    });
  }
}

void ReplicaModel::Open(Member* m, const Register& r) {
  const uint64_t term = m->life.term;
  if (m->store.opened != term && Now(m) - m->promises->Last().at_ns < kGraceNs) ++stats_.at_once;
  m->store.opened = term;
  InSyncOptions o;
  o.promise_ns = kPromiseNs;
  o.suspect_ns = 1 * kSecond;
  o.join_lag = 5;
  m->set = std::make_unique<InSyncSet>(m->life, r, o, m->store.last(), Now(m));
  m->waiting.clear();
  m->next.clear();
  ++stats_.terms;
  for (const auto& [seq, acked] : acked_) {
    const auto& [acked_term, op] = acked;
    if (acked_term > term) continue;  // it opens too late: it has no promise, so nobody hears of it
    if (!m->store.Has(seq, acked_term) || m->store.log()[seq - 1].puts.front().second != op) {
      return Bad("operation " + std::to_string(op) + ", acknowledged as " + std::to_string(seq) + " of term " + std::to_string(acked_term) +
                 ", is not in " + m->name + " of term " + std::to_string(term));
    }
  }
  if (m->store.marker()) Bad(m->name + " opens although its store is not whole");
  if (m->store.Replayed() != m->store.values()) Bad("the store of the new primary " + m->name + " is not what its log says");
  opened_.emplace_back(term, m->i);
  m->store.Append(term, {});
  m->set->OnWritten(m->store.last());
  PrimaryTick(m);
}

// ---- A primary ----

void ReplicaModel::Client(Member* m) {
  if (!m->up || !m->set || m->paused_until_ns > ex_.NowNs()) return;
  const int64_t now = Now(m);
  if (!m->set->HoldsChanges() && m->store.last() - std::min(m->store.last(), m->set->committed()) < kUnacked) {
    const uint64_t op = ++op_;
    m->store.Append(m->life.term, {{static_cast<uint32_t>(ex_.rng().Below(kKeys)), op}, {static_cast<uint32_t>(ex_.rng().Below(kHotKeys)), op}});
    const uint64_t seq = m->store.last();
    m->set->OnWritten(seq);
    if (Chance(0.5)) {
      m->waiting.emplace_back(seq, op);
      m->set->OnWanted(seq, now);
      Sync(m);
      ShipAll(m);
    }
  }
  if (!m->set->HasAuthority(now)) {
    ++stats_.stalls;
    return;
  }
  ++stats_.reads;
  for (const auto& [term, member] : opened_) {
    if (term > m->life.term) {
      return Bad(m->name + " of term " + std::to_string(m->life.term) + " answers a read although term " + std::to_string(term) + " is open");
    }
  }
}

void ReplicaModel::Flush(Member* m) {
  const Register r = InForce();
  while (!m->waiting.empty() && m->waiting.front().first <= m->set->committed()) {
    const auto [seq, op] = m->waiting.front();
    m->waiting.pop_front();
    acked_[seq] = {m->life.term, op};
    ++stats_.acks;
    if (r.term != m->life.term) continue;
    for (const auto& o : members_) {
      if (r.in_sync.contains(o->name) && !o->store.HasDurably(seq, m->life.term)) {
        Bad("operation " + std::to_string(op) + " is acknowledged, and " + o->name + " of the set does not have it durably");
      }
    }
  }
}

void ReplicaModel::PrimaryTick(Member* m) {
  ShipAll(m);
  Sync(m);
  if (!quiet_ && Chance(0.04)) {
    for (const std::string& name : m->set->known().in_sync) {
      if (name != m->name && m->set->BeginHandOver(name, Now(m)).ok()) break;
    }
  }
  std::optional<RegisterSwap> swap = m->set->Next(Now(m), [this] { return Uuid{2, ++nonce_}; });
  Flush(m);
  if (!swap) return;
  stats_.offers += swap->value.handed.has_value();
  m->scope->Spawn(SwapRegister(m, std::move(*swap)));
}

void ReplicaModel::ShipAll(Member* m) {
  for (auto& o : members_) {
    if (o.get() != m) Ship(m, o.get());
  }
}

void ReplicaModel::Ship(Member* m, Member* to) {
  Append a{m->boot, m->life.term, true, 0, 0, {}, Now(m)};
  if (const std::optional<uint64_t>& next = m->next[to->i]) {
    const auto& log = m->store.log();
    a.probe = false;
    a.prev = *next;
    a.prev_term = a.prev > 0 ? log[a.prev - 1].term : 0;
    const size_t end = std::min<size_t>(log.size(), a.prev + kBatchesAtOnce);
    a.batches.assign(log.begin() + static_cast<ptrdiff_t>(a.prev), log.begin() + static_cast<ptrdiff_t>(end));
  }
  Send(m, to, [this, m, to, a = std::move(a)] { OnAppend(to, m, a); });
}

void ReplicaModel::OnReply(Member* m, Member* from, Reply reply) {
  if (m->boot != reply.boot || !m->set) return;
  if (reply.kind == Reply::Kind::kLowerTerm) return Do(m, m->election->OnTerm(Now(m), reply.term));
  if (m->life.term != reply.term) return;
  m->set->OnPromise(from->name, reply.term, reply.sent_ns, Now(m));
  std::optional<uint64_t>& next = m->next[from->i];
  if (reply.kind == Reply::Kind::kAck) {
    m->set->OnAck({from->name, from->uuid, reply.term, reply.last, reply.whole});
    next = std::max(next.value_or(0), reply.last);
    return Flush(m);
  }
  if (reply.kind != Reply::Kind::kShape) return;
  const uint64_t common = CommonSeq(reply.shape, m->store.shape());
  // What it fetched when it was rewound last is of a history that this primary may not have.
  const bool marker_holds = !reply.marker || m->store.Has(reply.marker->whole_from, reply.marker->term);
  if (common == reply.shape.last && marker_holds) {
    m->set->OnRewound(from->name, reply.term);
    next = common;
    return;
  }
  m->set->OnDiverged(from->name, reply.term);
  if (!m->set->Required().contains(from->name)) Rewind(m, from, reply, common);
}

void ReplicaModel::Rewind(Member* m, Member* to, const Reply& reply, uint64_t common) {
  std::set<uint32_t> keys;
  if (reply.marker) keys = reply.marker->keys;
  for (size_t i = common; i < reply.puts.size(); ++i) {
    for (const auto& [key, value] : reply.puts[i]) keys.insert(key);
  }
  ModelStore::Values values;
  for (const uint32_t key : keys) {
    if (const auto it = m->store.values().find(key); it != m->store.values().end()) values[key] = it->second;
  }
  if (!quiet_ && Chance(0.4)) {
    At(0.006 * Unit(0, 1), [this, m] {
      Crash(m, true);
      At(std::vector<double>{0.05, 0.5, 3}[ex_.rng().Below(3)] * Unit(0, 1), [this, m] { Start(m); });
    });
  }
  Send(m, to, [this, m, to, keys, values, common, shape = reply.shape, term = m->life.term, from = m->store.last()] {
    if (to->election->role() != MetaRole::kStandby || to->promises->term() != term || to->store.shape() != shape) return;
    to->store.Rewind(common, keys, values, from, term);
    ++stats_.rewinds;
    Sync(to);
    if (!quiet_ && Chance(0.6)) Strike(to), Strike(m);
  });
}

// ---- A follower ----

void ReplicaModel::OnAppend(Member* o, Member* m, const Append& a) {
  Reply reply{Reply::Kind::kBeat, a.boot, a.term, a.sent_ns};
  const auto answer = [this, o, m](Reply r) { Send(o, m, [this, m, o, r = std::move(r)] { OnReply(m, o, r); }); };
  switch (o->promises->OnBeat({m->name, a.term}, Now(o))) {
    case BeatAnswer::kSilent:
      return;
    case BeatAnswer::kHigherTerm:
      return Do(o, o->election->OnTerm(Now(o), a.term));
    case BeatAnswer::kLowerTerm:
      reply.kind = Reply::Kind::kLowerTerm;
      reply.term = o->promises->term();
      return answer(std::move(reply));
    case BeatAnswer::kPromised:
      break;
  }
  ModelStore& store = o->store;
  const auto shape = [&] {
    reply.kind = Reply::Kind::kShape;
    reply.shape = store.shape();
    for (const auto& e : store.log()) reply.puts.push_back(e.puts);
    if (store.marker()) reply.marker = *store.marker();
    answer(std::move(reply));
  };
  if (a.probe || a.prev > store.last() || (a.prev > 0 && !store.Has(a.prev, a.prev_term))) return shape();
  uint64_t seq = a.prev;
  for (const ModelStore::Entry& batch : a.batches) {
    ++seq;
    if (seq > store.last()) {
      store.Append(batch.term, batch.puts);
    } else if (!store.Has(seq, batch.term)) {
      return shape();
    }
  }
  reply.whole = !store.marker();
  answer(reply);
  reply.kind = Reply::Kind::kAck;
  reply.last = seq;
  // An answer of before a rewind, or to a primary that is none any more, acknowledges nothing.
  const size_t need = store.records();
  const auto synced = [o, answer, reply, need, rewinds = store.rewinds](auto&& again, size_t upto) -> void {
    if (o->store.rewinds != rewinds || o->promises->term() != reply.term) return;
    if (upto >= need) return answer(reply);
    o->after_sync.push_back([again](size_t later) { again(again, later); });
    o->sync_again = true;
  };
  o->after_sync.push_back([synced](size_t upto) { synced(synced, upto); });
  Sync(o);
}

void ReplicaModel::Sync(Member* m) {
  if (m->syncing) {
    m->sync_again = true;
    return;
  }
  m->syncing = true;
  const size_t records = m->store.records();
  const uint64_t last = m->store.last(), rewinds = m->store.rewinds;
  const double took = quiet_ || Chance(0.97) ? Unit(0.0001, 0.003) : Unit(0, 4);
  AtMember(took, m, [this, m, records, last, rewinds] {
    m->syncing = false;
    m->store.SyncUpTo(records);
    if (m->set && rewinds == m->store.rewinds) {
      m->set->OnSynced(last);
      Flush(m);
    }
    std::vector<std::function<void(size_t)>> after;
    after.swap(m->after_sync);
    for (const auto& fn : after) fn(records);
    if (std::exchange(m->sync_again, false)) Sync(m);
  });
}

}  // namespace stria
