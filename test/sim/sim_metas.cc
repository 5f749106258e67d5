#include "test/sim/sim_metas.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "meta/replica/founding.h"
#include "meta/replica/register_client.h"
#include "meta/replica/register_text.h"
#include "meta/replica/replica_log.h"
#include "meta/replica/replica_store.h"
#include "proto/admin_stubs.h"

namespace stria {
namespace {

constexpr int64_t kLookAtMetasNs = 5 * kMillisecond;
constexpr uint64_t kCompareEvery = 100;  // looks, on average
constexpr int64_t kRestartNs = 5 * kSecond;  // as the unit's RestartSec

uint64_t DigestOf(KvStore& kv) {
  uint64_t digest = 0xcbf29ce484222325ULL;
  const auto mix = [&digest](const std::string& text) {
    for (const char c : text) digest = (digest ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
    digest = (digest ^ text.size()) * 0x100000001b3ULL;
  };
  for (size_t f = 0; f < kFamilies; ++f) {
    const Result<std::vector<KvEntry>> rows = kv.Scan(static_cast<KvFamily>(f), "", "", SIZE_MAX);
    CHECK(rows.ok(), "a memory store cannot be read");
    for (const KvEntry& row : *rows) {
      mix(row.first);
      mix(row.second);
    }
    mix("of a family");
  }
  return digest;
}

std::string SaidDurable(const LogPoint& point) {
  return "batch " + std::to_string(point.seq.v) + " of term " + std::to_string(point.term) + " was said to be durable, and ";
}

// What a log does not keep, as it was trimmed or begins with a copy, is in the values, which are compared as a whole elsewhere. Of the log
// there is left in which term it was written.
bool HasIn(const ReplicaStore& store, const LogPoint& point) {
  if (store.Has(point)) return true;
  if (!store.whole() || point.seq >= store.first()) return false;
  uint64_t term = 0;
  for (const TermRun& run : store.history()) {
    if (run.first <= point.seq) term = run.term;
  }
  return term == point.term;
}

}  // namespace

std::string MetaHost(size_t m) { return "meta" + std::to_string(m + 1); }
std::string MetaAddress(size_t m) { return MetaHost(m) + ":7"; }

// Looks at each answer that leaves a member.
class SimMetas::Door final : public Dispatcher {
 public:
  Door(SimMetas* metas, Member* member) : metas_(metas), member_(member) { member->process->AddTo(&router_); }
  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer> peer, std::string method, WireMessage request) override {
    Result<WireMessage> reply = co_await router_.Handle(std::move(peer), method, std::move(request));
    metas_->Answered(member_, method, reply);
    co_return std::move(reply);
  }

 private:
  SimMetas* const metas_;
  Member* const member_;
  Router router_;
};

SimMetas::SimMetas(SimMetasNeeds needs, size_t members)
    : needs_(std::move(needs)), rng_(needs_.rng->Next()), mac_(needs_.key, kRegisterPurpose), coordinator_(needs_.executor, {}) {
  for (size_t i = 0; i < members; ++i) {
    auto m = std::make_unique<Member>();
    m->number = i;
    m->host = MetaHost(i);
    m->store = FreshId();
    m->joins = i > 0;
    m->media = std::make_shared<MemKvMedia>(kReplicatedFamilies);
    m->contents = std::make_unique<MemKv>(m->media);
    m->coordinator = coordinator_.For(m->host);
    m->factory = needs_.network->MakeFactory(m->host);
    m->data = std::make_unique<TransportDataConnector>(m->factory.get());
    members_.push_back(std::move(m));
  }
}

SimMetas::~SimMetas() {
  scope_.CancelAll();
  for (size_t m = 0; m < members_.size(); ++m) Crash(m, false);
}

Uuid SimMetas::FreshId() { return {0x5ead, ++ids_}; }

std::vector<std::string> SimMetas::addresses() const {
  std::vector<std::string> out;
  for (size_t m = 0; m < members_.size(); ++m) out.push_back(MetaAddress(m));
  return out;
}

Task<Result<void>> SimMetas::Found() {
  Member& first = *members_[0];
  CO_ASSIGN_OR_RETURN(const std::unique_ptr<ReplicaStore> store, ReplicaStore::Open(std::make_shared<MemKv>(first.media)));
  FoundingStore founding;
  CO_RETURN_IF_ERROR(LookAtStore(store->kv(), &founding));
  founding.name = first.host;
  founding.member = {first.store, MetaAddress(0), "1", 0};
  founding.chain = rng_.Next();
  RegisterClient client(first.coordinator.get(), &mac_);
  CO_ASSIGN_OR_RETURN(const Register founded, co_await FoundMembers(store.get(), &client, founding, FreshId()));
  CHECK(founded.primary == first.host, "another member was founded");
  scope_.Spawn(Watch());
  co_return Ok();
}

// ---- Processes ------------------------------------------------------------------------------------

void SimMetas::Start(size_t number) {
  Member* const m = members_[number].get();
  if (m->process) return;
  if (m->full) m->media->FailNextWrite();
  MemKvOptions kv;
  kv.sync_latency_ns = static_cast<int64_t>(rng_.Between(50 * kMicrosecond, static_cast<uint64_t>(m->sync_ns)));
  OneOfSeveralParams p;
  p.ha.member = m->host;
  p.ha.address = MetaAddress(number);
  p.key = needs_.key;
  p.cluster = needs_.cluster;
  p.store = m->store;
  p.release = "1";
  p.address = MetaAddress(number);
  p.joins = m->joins;
  p.kv = std::make_shared<MemKv>(m->media, kv);
  p.coordinator = m->coordinator.get();
  p.transports = m->factory.get();
  p.served = [this, m] {
    ServedMetaParams s;
    s.server = needs_.server;
    s.keys = {needs_.key};
    s.cluster = needs_.cluster;
    s.admission = needs_.doors;
    s.data = m->data.get();
    s.seed = rng_.Next();
    return s;
  };
  p.admission = needs_.doors;
  p.nonce = [this] { return FreshId(); };
  m->process = std::make_unique<OneOfSeveral>(std::move(p));
  const Result<void> started = m->process->Start();
  CHECK(started.ok(), "a metadata server does not start: " + started.error().ToString());
  m->door = std::make_unique<Door>(this, m);
  needs_.network->Serve(MetaAddress(number), m->door.get());
  m->scope = std::make_unique<TaskScope>();
  m->scope->Spawn(m->process->WaitFatal(), [this, m](Error why) { Ended(m, why); });
}

void SimMetas::StartAll() {
  for (size_t m = 0; m < members_.size(); ++m) Start(m);
}

// As its machine does when the process has ended: starts it again.
void SimMetas::Ended(Member* m, const Error&) {
  ++counts_.ends;
  needs_.executor->Post([this, m, process = m->process.get()] {
    if (m->process.get() != process) return;
    Crash(m->number, false);
    if (m->full) scope_.Spawn(StartLater(m->number));
    else Start(m->number);
  });
}

Task<void> SimMetas::StartLater(size_t number) {
  co_await Sleep(kRestartNs);
  Start(number);
}

void SimMetas::SetFull(size_t number, bool full) {
  Member& m = *members_[number];
  m.full = full;
  if (full && m.process) m.media->FailNextWrite();
}

void SimMetas::Crash(size_t number, bool power_cut) {
  Member& m = *members_[number];
  if (!m.process) return;
  ++counts_.crashes;
  needs_.network->Stop(MetaAddress(number));
  m.scope.reset();
  m.process.reset();
  m.door.reset();
  m.media->Crash(rng_, power_cut);
}

void SimMetas::Wipe(size_t number) {
  Member& m = *members_[number];
  CHECK(!m.process, "a metadata server is wiped that runs");
  m.media = std::make_shared<MemKvMedia>(kReplicatedFamilies);
  m.contents = std::make_unique<MemKv>(m.media);
  m.store = FreshId();
  m.joins = true;
}

// ---- What is so -----------------------------------------------------------------------------------

std::optional<size_t> SimMetas::Primary() const {
  std::optional<size_t> best;
  for (const auto& m : members_) {
    const MetaServer* const server = ServerOf(*m);
    if (server == nullptr) continue;
    if (!best || server->term() > ServerOf(*members_[*best])->term()) best = m->number;
  }
  return best;
}

MetaServer* SimMetas::server() const {
  const std::optional<size_t> primary = Primary();
  return primary ? ServerOf(*members_[*primary]) : nullptr;
}

const Register& SimMetas::InForce() const {
  if (in_force_of_ != coordinator_.changes()) {
    in_force_ = DecodeRegister(*coordinator_.value(), mac_).value();
    in_force_of_ = coordinator_.changes();
  }
  return in_force_;
}

std::string SimMetas::PrimaryAddress() const {
  if (const std::optional<size_t> primary = Primary()) return MetaAddress(*primary);
  const auto named = InForce().members.find(InForce().primary);
  return named == InForce().members.end() ? MetaAddress(0) : named->second.address;
}

KvStore& SimMetas::Contents() {
  if (const std::optional<size_t> primary = Primary()) return *members_[*primary]->contents;
  for (const auto& m : members_) {
    if (m->host == InForce().primary) return *m->contents;
  }
  return *members_[0]->contents;
}

bool SimMetas::AllIn() const {
  const std::optional<size_t> primary = Primary();
  if (!primary) return false;
  const Register& r = InForce();
  if (r.primary != MetaHost(*primary) || r.term != ServerOf(*members_[*primary])->term()) return false;
  return r.in_sync.size() == members_.size() && std::all_of(members_.begin(), members_.end(), [&r](const auto& m) {
    const auto it = r.members.find(m->host);
    return m->process != nullptr && it != r.members.end() && it->second.uuid == m->store;
  });
}

bool SimMetas::AllEqual() {
  for (const auto& m : members_) {
    if (!m->process || !m->process->node().store().whole()) return false;
    if (m->process->node().store().last() != members_[0]->process->node().store().last()) return false;
  }
  for (const auto& m : members_) Compare(*m);
  return problem_.empty();
}

std::string SimMetas::Describe() const {
  std::string out;
  for (const auto& m : members_) {
    out += (out.empty() ? "" : "; ");
    if (!m->process) {
      out += m->host + " is down";
      continue;
    }
    const MemberState state = m->process->node().OwnState();
    out += m->process->Describe() + ", at " + std::to_string(state.last.v) + (state.problem.empty() ? "" : ", " + state.problem);
  }
  return out + "; the register: " + EncodeRegister(InForce(), mac_);
}

// ---- What may never be ----------------------------------------------------------------------------

void SimMetas::Fail(const std::string& what) {
  if (problem_.empty()) problem_ = "at " + std::to_string(needs_.executor->NowNs() / kMillisecond) + " ms: " + what;
}

Task<void> SimMetas::Watch() {
  while (true) {
    co_await Sleep(kLookAtMetasNs);
    Look();
  }
}

void SimMetas::Look() {
  std::string answers;
  for (const auto& m : members_) {
    MetaServer* const server = ServerOf(*m);
    if (server == nullptr) continue;
    Serves(m.get(), server->term());
    const PrimaryLife* const life = m->process->node().life();
    if (!m->process->node().serving() || life == nullptr || life->life().term != server->term()) continue;
    NoteDurable(m.get(), server);
    if (!life->gate()->MayLeave().ok()) continue;
    if (!answers.empty()) Fail(answers + " and " + m->host + " may answer at a time");
    answers = m->host;
  }
  if (rng_.OneIn(kCompareEvery)) Compare(*members_[rng_.Below(members_.size())]);
}

// It is seen to serve, perhaps for the first time in that term.
void SimMetas::Serves(Member* m, uint64_t term) {
  if (std::exchange(m->term, term) == term) return;
  ++counts_.terms;
  highest_ = std::max(highest_, term);
  const ReplicaStore& store = m->process->node().store();
  // One that opens too late has no promise, so nobody hears of it.
  if (durable_.seq.v != 0 && durable_.term <= term && !HasIn(store, durable_)) {
    Fail(SaidDurable(durable_) + m->host + ", which serves in term " + std::to_string(term) + ", does not have it");
  }
  Compare(*m);
}

// Of a member that is down: what its disk has.
bool SimMetas::HasPoint(const Member& m, const LogPoint& point) const {
  if (m.process) return HasIn(m.process->node().store(), point);
  const auto store = ReplicaStore::Open(std::make_shared<MemKv>(m.media));
  return store.ok() && HasIn(*store.value(), point);
}

void SimMetas::NoteDurable(Member* m, MetaServer* server) {
  const CommitSeq durable = server->store()->durable_seq();
  const Register& r = InForce();
  if (r.term != server->term() || r.primary != m->host || durable.v == 0) return;
  if (durable_.term == r.term && durable_.seq >= durable) return;
  const ReplicaStore& store = m->process->node().store();
  const Result<std::optional<LogPoint>> at = store.At(durable);
  if (!at.ok() || !*at) return;
  const LogPoint point = **at;
  ++counts_.durable;
  for (const auto& other : members_) {
    const auto listed = r.members.find(other->host);
    if (!r.in_sync.contains(other->host) || listed == r.members.end() || listed->second.uuid != other->store) continue;
    if (HasPoint(*other, point)) continue;
    Fail(SaidDurable(point) + other->host + " of the set does not have it");
  }
  if (durable_.seq.v != 0 && !HasIn(store, durable_)) {
    Fail(SaidDurable(durable_) + "is gone in " + m->host);
  }
  durable_ = point;
}

// With all that was seen of the same point before.
void SimMetas::Compare(const Member& m) {
  if (!m.process || !m.process->node().store().whole()) return;
  const LogPoint& last = m.process->node().store().last();
  if (last.chain == 0) return;
  ++counts_.compared;
  const uint64_t digest = DigestOf(*m.contents);
  const auto [known, fresh] = digests_.emplace(last.chain, digest);
  if (fresh || known->second == digest) return;
  Fail("the store of " + m.host + " at batch " + std::to_string(last.seq.v) + " of term " + std::to_string(last.term) +
       " differs from another one's, or its own of before");
}

void SimMetas::Answered(Member* m, const std::string& method, const Result<WireMessage>& reply) {
  const auto of = [&method](const std::string& service) { return method.starts_with("/" + service + "/"); };
  if (!of(kMetaServiceName) && !of(kAdminServiceName)) return;
  // What else can be an error says nothing of the metadata.
  const FsError code = reply.code();
  if (!reply.ok() && code != FsError::kNoEnt && code != FsError::kExist && code != FsError::kNotEmpty) return;
  ++counts_.answers;
  if (const MetaServer* const server = ServerOf(*m)) Serves(m, server->term());
  if (m->term >= highest_) return;
  Fail(m->host + " of term " + std::to_string(m->term) + " answers " + method + " although term " + std::to_string(highest_) +
       " has opened");
}

}  // namespace stria
