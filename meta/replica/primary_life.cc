#include "meta/replica/primary_life.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/kv/forwarding_kv.h"
#include "meta/replica/replicated_kv.h"

namespace stria {
namespace {

ReplicaPrimaryOptions ShippingOf(const MetaLife& life, const PrimaryLifeOptions& options) {
  ReplicaPrimaryOptions o;
  o.self = life.member;
  o.cluster = options.cluster;
  o.term = life.term;
  o.shipper = options.shipper;
  return o;
}

}  // namespace

// Tells the set what is written, and what somebody waits for.
class PrimaryLife::Store final : public ForwardingKv {
 public:
  Store(PrimaryLife* life, std::shared_ptr<KvStore> local)
      : ForwardingKv(std::make_shared<ReplicatedKv>(std::move(local), &life->primary_)), life_(life) {}
  Result<void> Write(const KvBatch& batch) override {
    RETURN_IF_ERROR(below().Write(batch));
    life_->set_.OnWritten(life_->store_->last().seq.v);
    return Ok();
  }
  Task<Result<void>> Sync() override {
    life_->set_.OnWanted(life_->store_->last().seq.v, life_->Now());
    return below().Sync();
  }

 private:
  PrimaryLife* const life_;
};

PrimaryLife::PrimaryLife(ReplicaStore* store, ReplicaConnector* connector, BeatDesk* beats, PrimaryLifeHost* host,
                         const std::string& self, const Register& named, const PrimaryLifeOptions& options)
    : store_(store),
      connector_(connector),
      beats_(beats),
      host_(host),
      life_{self, named.term},
      suspect_ns_(options.in_sync.suspect_ns),
      set_(life_, named, options.in_sync, store->last().seq.v, Executor::Current().NowNs()),
      gate_(std::make_shared<LifeGate>(&set_, [this] { TakeBeats(); })),
      primary_(store, this, ShippingOf(life_, options)),
      source_(&primary_, options.source) {
  Require();
  beats_->BeginLife(life_);
  Connect();
}

PrimaryLife::~PrimaryLife() {
  ended_ = true;
  beats_->EndLife();
  gate_->Shut("this metadata server has stopped");
}

std::unique_ptr<KvStore> PrimaryLife::MakeStore(std::shared_ptr<KvStore> local) { return std::make_unique<Store>(this, std::move(local)); }

// ---- The two ends ---------------------------------------------------------------------------------

void PrimaryLife::TakeBeats() {
  for (const BeatPromise& p : beats_->TakePromises()) set_.OnPromise(p.member, life_.term, p.sent_ns, p.heard_ns);
}

// Before whatever may change who counts: what was committed until then is committed in the eyes of both.
void PrimaryLife::Feed() {
  TakeBeats();
  set_.OnWritten(store_->last().seq.v);
  set_.OnSynced(primary_.rule().durable(life_.member).v);
  for (const auto& [name, member] : connected_) {
    const Shipper* const shipper = primary_.shipper(name);
    if (shipper == nullptr) continue;
    // It is durable, and whole, as far as it has said so of this log; a member that has gone back has said nothing.
    const uint64_t durable = primary_.rule().durable(name).v;
    if (shipper->needs_join()) set_.OnDiverged(name, life_.term);
    set_.OnAck({name, member.uuid, life_.term, durable, durable != 0});
  }
}

void PrimaryLife::Require() {
  MemberSet required = set_.Required();
  required.insert(set_.known().in_sync.begin(), set_.known().in_sync.end());
  primary_.Require(set_.known().in_sync, std::move(required), set_.known().min_in_sync);
}

void PrimaryLife::Connect() {
  const std::map<std::string, MetaMember>& members = set_.known().members;
  for (auto it = connected_.begin(); it != connected_.end();) {
    const auto now = members.find(it->first);
    if (now != members.end() && now->second.uuid == it->second.uuid && now->second.address == it->second.address) {
      ++it;
      continue;
    }
    primary_.Disconnect(it->first);
    beats_->Disconnect(it->first);
    problems_.erase(it->first);
    it = connected_.erase(it);
  }
  for (const auto& [name, member] : members) {
    if (name == life_.member || connected_.contains(name)) continue;
    connected_[name] = member;
    primary_.Connect(name, connector_->ConnectReplica(member.address));
    beats_->Connect(name, member.address);
  }
}

void PrimaryLife::Tick(int64_t step_ns) {
  if (ended_) return;
  // Answers that have come meanwhile are read after this; nobody is to leave the set, and this one not its place, for that.
  if (step_ns > suspect_ns_ / 2) set_.Excuse(step_ns, Now());
  Feed();
  if (set_.OwnDiskHangs(Now())) host_->OwnDiskHangs();
  if (ended_) return;
  set_.OnCoordinator(host_->CoordinatorAnswers());
  std::optional<RegisterSwap> swap = set_.Next(Now(), [this] { return host_->FreshNonce(); });
  Require();  // before it is asked for: who is to enter counts from here on
  gate_->Changed();
  Drain();
  if (swap) host_->AskSwap(std::move(*swap));
}

// What nobody waits for is to be durable at the next primary as well.
void PrimaryLife::Drain() {
  if (!set_.HoldsChanges() || set_.Stopped() || syncing_ || primary_.committed() == store_->last().seq) return;
  syncing_ = true;
  scope_.Spawn(SyncAll());
}

Task<void> PrimaryLife::SyncAll() {
  (void)co_await primary_.Sync();  // an error is met by all others, too
  syncing_ = false;
}

bool PrimaryLife::OnRegister(const Register& seen) {
  if (ended_) return false;
  Feed();
  if (!set_.OnRegister(seen)) return false;
  Connect();
  Require();
  gate_->Changed();
  return true;
}

void PrimaryLife::End(uint64_t term, const std::string& where) {
  if (ended_) return;
  ended_ = true;
  beats_->EndLife();
  gate_->Shut(where);
  primary_.Depose(term);
}

void PrimaryLife::Heard(const std::string& member, int64_t sent_ns) {
  if (ended_) return;
  set_.OnPromise(member, life_.term, sent_ns, Now());
  gate_->Changed();
}

void PrimaryLife::Deposed(uint64_t term) {
  if (!ended_) host_->SawTerm(term);
}

// ---- What people ask for --------------------------------------------------------------------------

Result<Register> PrimaryLife::Change(const MakeNext& make) {
  if (ended_) return Error(FsError::kNotLeader, "this metadata server is primary no more");
  Feed();
  ASSIGN_OR_RETURN(const Register next, make(set_.known(), life_, host_->FreshNonce()));
  ASSIGN_OR_RETURN(RegisterSwap swap, set_.Ask(next, Now()));
  host_->AskSwap(std::move(swap));
  return next;
}

Result<std::string> PrimaryLife::BeginHandOver(std::string to) {
  if (ended_) return Error(FsError::kNotLeader, "this metadata server is primary no more");
  if (to.empty()) {
    for (const std::string& name : set_.known().in_sync) {
      if (name == life_.member) continue;
      if (to.empty() || primary_.rule().durable(name) > primary_.rule().durable(to)) to = name;
    }
    if (to.empty()) {
      return Error(FsError::kConflict, "no other metadata server has everything now: the place cannot be given away without a loss");
    }
  }
  RETURN_IF_ERROR(set_.BeginHandOver(to, Now()));
  return to;
}

std::string PrimaryLife::ProblemOf(const std::string& member) const {
  const Shipper* const shipper = primary_.shipper(member);
  if (shipper == nullptr) return "";
  const int64_t silent_ns = Now() - shipper->heard_ns();
  if (silent_ns > suspect_ns_) return "it has not answered for " + std::to_string(silent_ns / kMillisecond) + " ms";
  if (shipper->needs_join()) return "its log does not go on where the primary's does: it goes back, or copies";
  const auto it = problems_.find(member);
  return it == problems_.end() ? std::string() : it->second;
}

}  // namespace stria
