#include "meta/replica/node_world.h"

#include <algorithm>
#include <type_traits>

#include "meta/model/families.h"
#include "meta/replica/founding.h"
#include "meta/replica/register_text.h"
#include "test/sim/replica/register_key.h"

namespace stria {
namespace {

constexpr uint64_t kKeys = 200;
constexpr KvFamily kUsedFamilies = 4;
constexpr uint64_t kUncommitted = 60;  // batches ahead of what is committed

}  // namespace

// ---- Who is served --------------------------------------------------------------------------------

// Writes and reads all the time.
class NodeWorld::House final : public ServingHouse {
 public:
  House(NodeWorld* world, Member* member) : world_(world), member_(member) {}

  Task<Result<void>> Open(HouseOpening opening) override {
    opening_ = std::move(opening);
    work_ = std::make_unique<TaskScope>();
    world_->Opens(*member_, opening_.life);
    KvBatch first;
    first.Put(0, "term", std::to_string(opening_.life.term));
    CO_RETURN_IF_ERROR(Write(first));
    CO_RETURN_IF_ERROR(co_await opening_.store->Sync());
    world_->highest_open_ = std::max(world_->highest_open_, opening_.life.term);
    work_->Spawn(Writer());
    work_->Spawn(Reader());
    co_return Ok();
  }
  Task<Error> WaitFatal() override {
    co_await failed_.Wait();
    co_return member_->node->store().failure();
  }
  Task<void> Close(std::string) override {
    work_.reset();
    opening_ = HouseOpening();
    co_return;
  }
  int64_t TokenTimeNs() const override { return world_->ex().WallNs(); }
  const std::shared_ptr<AnswerGate>& gate() const { return opening_.gate; }
  void Sync() { work_->Spawn(Durably(member_->node->store().last())); }

 private:
  Result<void> Write(const KvBatch& batch) {
    const LogPoint before = member_->node->store().last();
    RETURN_IF_ERROR(opening_.store->Write(batch));
    const LogPoint after = member_->node->store().last();
    world_->batches_[after.chain] = {before.chain, after, batch};
    return Ok();
  }

  // Of the own store; a life that is deposed meets errors, too.
  void SeeFailure() {
    if (!member_->node->store().failure().ok()) failed_.Set();
  }

  Task<void> Writer() {
    Random& rng = world_->rng_;
    while (true) {
      co_await Sleep(static_cast<int64_t>(rng.Below(20 * kMillisecond)));
      co_await world_->Hung(member_->name);
      const Result<void> entered = co_await opening_.gate->Enter();
      if (!entered.ok()) co_return;
      if (!world_->writing_) continue;
      if (member_->node->store().last().seq.v - opening_.primary->committed().v > kUncommitted) continue;
      KvBatch batch;
      for (uint64_t n = rng.Between(1, 3); n > 0; --n) {
        const auto family = static_cast<KvFamily>(rng.Below(kUsedFamilies));
        std::string key = "k" + std::to_string(rng.Below(kKeys));
        if (rng.OneIn(5)) batch.Delete(family, std::move(key));
        else batch.Put(family, std::move(key), "v" + std::to_string(++world_->written_));
      }
      if (!Write(batch).ok()) co_return SeeFailure();
      if (rng.OneIn(2)) work_->Spawn(Durably(member_->node->store().last()));
    }
  }

  Task<void> Durably(LogPoint point) {
    const std::shared_ptr<AnswerGate> gate = opening_.gate;
    const Result<void> synced = co_await opening_.store->Sync();
    co_await world_->Hung(member_->name);
    if (!synced.ok()) co_return SeeFailure();
    const Result<void> may = co_await gate->Leave();
    if (may.ok()) world_->Acknowledged(opening_.life, point);
  }

  Task<void> Reader() {
    while (true) {
      co_await Sleep(10 * kMillisecond);
      co_await world_->Hung(member_->name);
      if (!opening_.gate->MayLeave().ok()) continue;
      ++world_->counts_.reads;
      if (world_->highest_open_ > opening_.life.term) {
        world_->Fail(member_->name + " of term " + std::to_string(opening_.life.term) + " answers although term " +
                     std::to_string(world_->highest_open_) + " has opened");
      }
    }
  }

  NodeWorld* const world_;
  Member* const member_;
  HouseOpening opening_;
  Event failed_;
  std::unique_ptr<TaskScope> work_;
};

// ---- Messages -------------------------------------------------------------------------------------

class NodeWorld::Link final : public ReplicaService, public MemberService, public BeatService {
 public:
  Link(NodeWorld* world, std::string from, std::string to) : world_(world), from_(std::move(from)), to_(std::move(to)) {}
#define PASS(Service, Name, Request, Reply)                                                                    \
  Task<Result<Reply>> Name(Request request) override {                                                         \
    return world_->Call<Service, Reply, Request>(from_, to_, std::move(request), &Service::Name);              \
  }
  PASS(ReplicaService, Append, AppendRequest, AppendReply)
  PASS(ReplicaService, Join, ReplicaJoinRequest, ReplicaJoinReply)
  PASS(ReplicaService, FetchKeys, FetchKeysRequest, FetchKeysReply)
  PASS(ReplicaService, FetchPage, FetchPageRequest, FetchPageReply)
  PASS(MemberService, Locate, LocateRequest, LocateReply)
  PASS(MemberService, Ask, AskRequest, AskReply)
  PASS(MemberService, MemberStatus, MemberStatusRequest, MemberStatusReply)
  PASS(MemberService, ChangeMembers, ChangeMembersRequest, ChangeMembersReply)
  PASS(BeatService, Beat, BeatRequest, BeatReply)
#undef PASS

 private:
  NodeWorld* const world_;
  const std::string from_, to_;
};

// Those of one member to all others.
class NodeWorld::Links final : public ReplicaConnector, public MemberConnector, public BeatConnector {
 public:
  Links(NodeWorld* world, std::string from) : world_(world), from_(std::move(from)) {}
  std::shared_ptr<ReplicaService> ConnectReplica(const std::string& address) override { return Of(address); }
  std::shared_ptr<MemberService> ConnectMember(const std::string& address) override { return Of(address); }
  std::shared_ptr<BeatService> ConnectBeats(const std::string& address) override { return Of(address); }

 private:
  std::shared_ptr<Link> Of(const std::string& address) {
    std::shared_ptr<Link>& link = links_[address];
    if (!link) link = std::make_shared<Link>(world_, from_, address.substr(0, address.find(':')));
    return link;
  }
  NodeWorld* const world_;
  const std::string from_;
  std::map<std::string, std::shared_ptr<Link>> links_;
};

class NodeWorld::HeldCoordinator final : public Coordinator {
 public:
  HeldCoordinator(NodeWorld* world, std::string name) : world_(world), name_(name), inner_(world->coordinator_.For(std::move(name))) {}
  Task<Result<CoordinatorValue>> Read() override {
    co_await world_->Held(name_);
    Result<CoordinatorValue> value = co_await inner_->Read();
    co_await world_->Held(name_);
    co_return value;
  }
  Task<Result<CoordinatorValue>> Swap(CoordinatorValue old, std::string value) override {
    co_await world_->Held(name_);
    Result<CoordinatorValue> after = co_await inner_->Swap(std::move(old), std::move(value));
    co_await world_->Held(name_);
    co_return after;
  }

 private:
  NodeWorld* const world_;
  const std::string name_;
  const std::unique_ptr<Coordinator> inner_;
};

Task<void> NodeWorld::Held(std::string name, bool beat) {
  const Member& m = member(name);
  const auto until_ns = [&] { return beat ? m.stopped_until_ns : std::max(m.stopped_until_ns, m.hangs_until_ns); };
  while (until_ns() > ex_.NowNs()) co_await Sleep(until_ns() - ex_.NowNs());
}

Task<void> NodeWorld::Hung(std::string name) {
  const Member& m = member(name);
  while (m.hangs_until_ns > ex_.NowNs()) co_await Sleep(m.hangs_until_ns - ex_.NowNs());
}

int64_t NodeWorld::Delay() {
  const int64_t most = settings_.straggle_ns > 0 && rng_.OneIn(50) ? settings_.straggle_ns : settings_.max_delay_ns;
  return static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(most) + 1));
}

bool NodeWorld::Loses(const std::string& from, const std::string& to) {
  return cut_.contains({from, to}) || rng_.Percent(settings_.loss_percent);
}

template <>
ReplicaService* NodeWorld::ServiceOf<ReplicaService>(Member& m) {
  return m.node->replica();
}
template <>
MemberService* NodeWorld::ServiceOf<MemberService>(Member& m) {
  return m.desk.get();
}
template <>
BeatService* NodeWorld::ServiceOf<BeatService>(Member& m) {
  return m.answerer.get();
}

// What was sent arrives also when who has sent it is gone.
template <class Service, class Reply, class Request>
Task<Result<Reply>> NodeWorld::Call(std::string from, std::string to, Request request, Task<Result<Reply>> (Service::*call)(Request)) {
  OneShot<Result<Reply>> answer;
  if (rng_.Percent(settings_.double_percent)) scope_.Spawn(Carry<Service, Reply, Request>(from, to, request, call, answer));
  scope_.Spawn(Carry<Service, Reply, Request>(from, to, std::move(request), call, answer));
  co_return co_await answer.Take();  // for ever if it is lost: callers have deadlines
}

template <class Service, class Reply, class Request>
Task<void> NodeWorld::Carry(std::string from, std::string to, Request request, Task<Result<Reply>> (Service::*call)(Request),
                            OneShot<Result<Reply>> answer) {
  constexpr bool kBeat = std::is_same_v<Service, BeatService>;
  co_await Held(from, kBeat);
  co_await Sleep(Delay());
  if (Loses(from, to)) {
    if (rng_.OneIn(2)) answer.Set(Error(FsError::kUnavailable, "the connection is lost"));
    co_return;
  }
  co_await Held(to, kBeat);
  Member& there = member(to);
  if (!there.up) {
    answer.Set(Error(FsError::kUnavailable, "nobody is there"));
    co_return;
  }
  OneShot<Result<Reply>> done;
  there.answering->Spawn((ServiceOf<Service>(there)->*call)(std::move(request)), [done](Result<Reply> r) { done.Set(std::move(r)); });
  Result<Reply> reply = co_await done.Take();
  co_await Held(to, kBeat);
  co_await Sleep(Delay());
  if (Loses(to, from)) co_return;
  co_await Held(from, kBeat);
  answer.Set(std::move(reply));
}

void NodeWorld::Cut(const std::string& from, const std::string& to, bool cut) {
  if (cut) cut_.insert({from, to});
  else cut_.erase({from, to});
}

// ---- Members --------------------------------------------------------------------------------------

NodeWorld::NodeWorld(uint64_t seed, size_t members)
    : ex_(seed, 4), rng_(seed * 2 + 1), mac_(RegisterTestKey(), kRegisterPurpose), coordinator_(&ex_, {}) {
  for (size_t i = 0; i < members; ++i) {
    auto m = std::make_unique<Member>();
    m->name = "m" + std::to_string(i);
    m->uuid = {7, ++uuids_};
    m->media = std::make_shared<MemKvMedia>(kReplicatedFamilies);
    members_.push_back(std::move(m));
  }
  for (const auto& m : members_) {
    m->asks = std::make_unique<HeldCoordinator>(this, m->name);
    links_[m->name] = std::make_unique<Links>(this, m->name);
  }
  // By a person, on the first member; the others are entered into the register at once.
  Member& first = *members_[0];
  const LogPoint base{CommitSeq(0), 0, rng_.Next()};
  batches_[base.chain] = {0, base, {}};
  const auto kv = std::make_shared<MemKv>(first.media);
  const auto store = std::move(ReplicaStore::Open(kv)).value();
  RegisterClient client(first.asks.get(), &mac_);
  FoundingStore founding;
  founding.name = first.name;
  founding.member = {first.uuid, AddressOf(first.name), "1", 0};
  founding.chain = base.chain;
  std::optional<Register> founded;
  TaskScope scope;
  scope.Spawn([](NodeWorld* w, ReplicaStore* s, RegisterClient* c, FoundingStore f, std::optional<Register>* out) -> Task<void> {
    Result<Register> r = co_await FoundMembers(s, c, std::move(f), {3, ++w->nonce_});
    CHECK(r.ok(), "the members cannot be founded");
    Register next = *r;
    ++next.version;
    next.nonce = {3, ++w->nonce_};
    for (const auto& m : w->members_) next.members[m->name] = {m->uuid, AddressOf(m->name), "1", 0};
    next.min_in_sync = w->members_.size() > 2 && w->rng_.OneIn(2) ? 2 : 1;
    Result<Register> all = co_await c->Swap({*r, next});
    CHECK(all.ok() && *all == next, "the members cannot be entered");
    *out = *all;
  }(this, store.get(), &client, founding, &founded));
  CHECK(RunUntil([&] { return founded.has_value(); }, 10 * kSecond), "the members cannot be founded");
}

NodeWorld::~NodeWorld() {
  coordinator_.OnChange(nullptr);
  scope_.CancelAll();
  for (const auto& m : members_) Crash(*m, false);
}

NodeWorld::Member& NodeWorld::member(const std::string& name) {
  for (const auto& m : members_) {
    if (m->name == name) return *m;
  }
  CHECK(false, "no such member");
}

const Register& NodeWorld::in_force() const {
  if (in_force_of_ != coordinator_.changes()) {
    in_force_ = DecodeRegister(*coordinator_.value(), mac_).value();
    in_force_of_ = coordinator_.changes();
  }
  return in_force_;
}

// All times are a fifth of what is usual.
MetaNodeOptions NodeWorld::OptionsOf(Member& m) {
  MetaNodeOptions o;
  o.self = m.name;
  o.uuid = m.uuid;
  o.tick_ns = 20 * kMillisecond;
  o.election.grace_ns = 1 * kSecond;
  o.election.read_ns = 200 * kMillisecond;
  o.election.ask_ns = 40 * kMillisecond;
  o.election.courtesy_ns = 100 * kMillisecond;
  o.election.give_up_ns = 400 * kMillisecond;
  o.election.pause_ns = 140 * kMillisecond;
  o.election.again_ns = 100 * kMillisecond;
  o.life.in_sync.promise_ns = 600 * kMillisecond;
  o.life.in_sync.suspect_ns = 300 * kMillisecond;
  o.life.in_sync.ack_timeout_ns = 400 * kMillisecond;
  o.life.in_sync.handover_ns = 400 * kMillisecond;
  o.life.in_sync.again_ns = 100 * kMillisecond;
  o.life.in_sync.join_behind_ns = 200 * kMillisecond;
  o.life.shipper.beat_ns = 50 * kMillisecond;
  o.life.shipper.suspect_ns = 300 * kMillisecond;
  o.life.shipper.ack_timeout_ns = 400 * kMillisecond;
  o.life.shipper.call_timeout_ns = 500 * kMillisecond;
  o.life.shipper.retry_ns = 20 * kMillisecond;
  o.beats.beat_ns = 50 * kMillisecond;
  o.beats.answer_ns = 600 * kMillisecond;
  o.beats.watchdog_ns = 3 * kSecond;
  o.held = [this, name = m.name] { return Hung(name); };
  o.joiner.copy_bytes_per_s = settings_.copy_bytes_per_s;
  o.joiner.call_timeout_ns = 500 * kMillisecond;
  o.joiner.retry_ns = 20 * kMillisecond;
  o.nonce = [this] { return Uuid{1, ++nonce_}; };
  o.alarm = [this, name = m.name](const std::string& text) {
    if (expects_alarms_) alarms_.push_back(name + ": " + text);
    else Fail(name + " raises a false alarm: " + text);
  };
  return o;
}

void NodeWorld::Start(Member& m) {
  if (m.up) return;
  m.stopped_until_ns = m.hangs_until_ns = 0;
  MemKvOptions kv;
  kv.sync_latency_ns = static_cast<int64_t>(rng_.Between(50 * kMicrosecond, static_cast<uint64_t>(settings_.max_sync_ns)));
  m.house = std::make_unique<House>(this, &m);
  MetaNodeEnv env;
  env.kv = std::make_shared<MemKv>(m.media, kv);
  env.coordinator = m.asks.get();
  env.mac = &mac_;
  env.replicas = links_[m.name].get();
  env.members = links_[m.name].get();
  env.house = m.house.get();
  m.answering = std::make_unique<TaskScope>();
  m.node = std::make_unique<MetaNode>(OptionsOf(m), env);
  m.desk = std::make_unique<MemberDesk>(m.node.get(), links_[m.name].get());
  CHECK(m.node->Start().ok(), "a member does not start");
  m.answerer = std::make_unique<BeatAnswerer>(m.node->beats());
  m.sender = std::make_unique<BeatSender>(m.node->beats(), links_[m.name].get(), nullptr);
  m.beating = std::make_unique<TaskScope>();
  m.beating->Spawn(m.sender->Run());
  m.up = true;
}

void NodeWorld::StartAll() {
  for (const auto& m : members_) Start(*m);
}

void NodeWorld::Crash(Member& m, bool power) {
  if (!m.up) return;
  m.up = false;
  m.answering.reset();
  m.beating.reset();
  m.sender.reset();
  m.answerer.reset();
  m.desk.reset();
  m.node.reset();
  m.house.reset();
  m.media->Crash(rng_, power);
  ++counts_.crashes;
}

void NodeWorld::Wipe(Member& m) {
  CHECK(!m.up, "a member is wiped that runs");
  m.media = std::make_shared<MemKvMedia>(kReplicatedFamilies);
  m.uuid = {7, ++uuids_};
}

void NodeWorld::FailSync(Member& m) {
  CHECK(m.serves(), "who does not serve writes nothing");
  m.media->FailNextSync();
  m.house->Sync();
}

NodeWorld::Member* NodeWorld::Primary() {
  Member* best = nullptr;
  for (const auto& m : members_) {
    if (m->serves() && (best == nullptr || m->node->life()->life().term > best->node->life()->life().term)) best = m.get();
  }
  return best;
}

bool NodeWorld::AllIn() {
  Member* const primary = Primary();
  const Register& r = in_force();
  const bool all = std::all_of(members_.begin(), members_.end(), [&r](const auto& m) {
    return r.in_sync.contains(m->name) && r.members.at(m->name).uuid == m->uuid;
  });
  return all && primary != nullptr && primary->name == r.primary && primary->node->life()->life().term == r.term;
}

// ---- What is to hold ------------------------------------------------------------------------------

void NodeWorld::Fail(std::string what) {
  if (problem_.empty()) problem_ = std::to_string(ex_.NowNs() / kMillisecond) + " ms: " + std::move(what);
}

NodeWorld::Content NodeWorld::ContentOf(KvStore& kv) {
  Content out;
  for (size_t f = 0; f < kFamilies; ++f) {
    const auto family = static_cast<KvFamily>(f);
    const Result<std::vector<KvEntry>> entries = kv.Scan(family, "", "", SIZE_MAX);
    for (const KvEntry& e : entries.value()) out[{family, e.first}] = e.second;
  }
  return out;
}

NodeWorld::Content NodeWorld::ContentAt(const LogPoint& point) const {
  std::vector<const Batch*> path;
  for (uint64_t chain = point.chain; chain != 0;) {
    const auto it = batches_.find(chain);
    CHECK(it != batches_.end(), "a log has a batch that nobody has written");
    path.push_back(&it->second);
    chain = it->second.before;
  }
  Content out;
  for (auto it = path.rbegin(); it != path.rend(); ++it) {
    for (const KvOp& op : (*it)->batch.ops) {
      if (op.value) out[{op.family, op.key}] = *op.value;
      else out.erase({op.family, op.key});
    }
  }
  return out;
}

std::set<uint64_t> NodeWorld::PathTo(const LogPoint& point) const {
  std::set<uint64_t> out;
  for (uint64_t chain = point.chain; chain != 0;) {
    const auto it = batches_.find(chain);
    if (it == batches_.end()) break;
    out.insert(chain);
    chain = it->second.before;
  }
  return out;
}

// Also of a member that is down: what its disk has.
bool NodeWorld::HasPoint(Member& m, const LogPoint& point) {
  LogPoint last;
  if (m.up) last = m.node->store().last();
  else last = std::move(ReplicaStore::Open(std::make_shared<MemKv>(m.media))).value()->last();
  for (uint64_t chain = last.chain; chain != 0;) {
    const auto it = batches_.find(chain);
    if (it == batches_.end() || it->second.point.seq < point.seq) return false;
    if (chain == point.chain) return true;
    chain = it->second.before;
  }
  return false;
}

void NodeWorld::CheckWhole(Member& m) {
  const ReplicaStore& store = m.node->store();
  if (!store.whole()) return;
  if (!batches_.contains(store.last().chain)) return Fail(m.name + " has a log that nobody has written");
  MemKv kv(m.media);
  if (ContentOf(kv) != ContentAt(store.last())) Fail("the store of " + m.name + " is not what its log says");
}

void NodeWorld::Opens(Member& m, const MetaLife& life) {
  ++counts_.terms;
  const std::set<uint64_t> path = PathTo(m.node->store().last());
  for (const auto& [seq, point] : acked_) {
    if (point.term > life.term) continue;  // it opens too late: it has no promise, so nobody hears of it
    if (path.contains(point.chain)) continue;
    Fail("batch " + std::to_string(seq.v) + " of term " + std::to_string(point.term) + " was acknowledged, and " + m.name + " of term " +
         std::to_string(life.term) + " does not have it");
  }
  CheckWhole(m);
}

void NodeWorld::Acknowledged(const MetaLife& life, const LogPoint& point) {
  ++counts_.acked;
  acked_[point.seq] = point;
  const Register r = in_force();
  if (r.term != life.term) return;
  for (const std::string& name : r.in_sync) {
    if (r.members.at(name).uuid != member(name).uuid || HasPoint(member(name), point)) continue;
    Fail("batch " + std::to_string(point.seq.v) + " is acknowledged, and " + name + " of the set does not have it");
  }
}

}  // namespace stria
