#include "client/io/peers.h"

#include <optional>
#include <utility>

#include "common/exec/unless_pulsed.h"
#include "common/log.h"

namespace stria {

namespace {

constexpr int64_t kProbeAgainMinNs = 100 * kMillisecond;
constexpr int64_t kProbeAgainMaxNs = 500 * kMillisecond;
constexpr int64_t kProbeAgainLostNs = 4 * kSecond;

// Nothing came from the server, as far as one can tell.
bool IsSilence(FsError code) { return code == FsError::kUnavailable || code == FsError::kDeadline; }

bool NodeAnswers(const NodeInfo* n) {
  return n != nullptr && (n->state == NodeState::kUp || n->state == NodeState::kSuspect);
}

Readiness ByMap(const NodeInfo* node, const TargetInfo& t) {
  if (node == nullptr || t.state == TargetState::kRemoved) return Readiness::kGone;
  const bool readable = t.state == TargetState::kUp || t.state == TargetState::kDraining;
  return NodeAnswers(node) && readable ? Readiness::kGood : Readiness::kDown;
}

}  // namespace

namespace {
// Counts bytes while it lives.
class Pending {
 public:
  Pending(uint64_t* sum, uint64_t bytes) : sum_(sum), bytes_(bytes) { *sum_ += bytes_; }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending() { *sum_ -= bytes_; }

 private:
  uint64_t* sum_;
  uint64_t bytes_;
};
}  // namespace

// Tells the peer's health how a call went, also when the call is destroyed.
class DataPeers::Watch {
 public:
  // `tells`: an answer tells that the server is there.
  Watch(DataPeers* peers, std::shared_ptr<Peer> peer, int64_t give_ns, bool tells)
      : ex_(Executor::Current()),
        peers_(peers),
        peer_(std::move(peer)),
        sent_ns_(ex_.NowNs()),
        give_ns_(give_ns),
        tells_(tells) {
    peer_->health.Sent(sent_ns_);
    peer_->silence.Asked(sent_ns_);
    peers_->Expect(peer_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    if (!ended_ && ex_.NowNs() - sent_ns_ >= give_ns_) peer_->health.Slow(ex_.NowNs());
    peer_->silence.Ended();
  }
  void Ended(FsError code) {
    ended_ = true;
    if (IsSilence(code)) {
      peer_->health.Failed(ex_.NowNs());
      peer_->silence.Failed(ex_.NowNs());
      peers_->StartProbing(peer_);
      return;
    }
    if (tells_) peers_->Heard(*peer_);
    if (code == FsError::kRetryLater || code == FsError::kNotReady) return;
    peer_->health.Succeeded();
    peers_->give_ups_.Answered();
  }
  int64_t took_ns() const { return ex_.NowNs() - sent_ns_; }

 private:
  const Executor& ex_;
  DataPeers* const peers_;
  std::shared_ptr<Peer> peer_;
  int64_t sent_ns_;
  int64_t give_ns_;
  bool tells_;
  bool ended_ = false;
};

DataPeers::DataPeers(DataConnector& connector, DataPeersOptions options)
    : connector_(connector), options_(std::move(options)), map_(std::make_shared<ClusterMap>()) {}
DataPeers::DataPeers(DataConnector& connector) : DataPeers(connector, DataPeersOptions()) {}
DataPeers::~DataPeers() = default;

void DataPeers::SetMap(std::shared_ptr<const ClusterMap> map) {
  CHECK(map != nullptr);
  map_ = std::move(map);
  std::map<NodeId, std::shared_ptr<Peer>> peers;
  for (const NodeInfo& n : map_->nodes) {
    auto it = peers_.find(n.id);
    const bool known = it != peers_.end() && it->second->address == n.address;
    auto peer = known ? it->second : std::make_shared<Peer>(options_.inflight_bytes);
    peer->address = n.address;
    peer->expected = NodeAnswers(&n);
    peers.emplace(n.id, std::move(peer));
  }
  for (const auto& [id, peer] : peers_) {
    const auto now = peers.find(id);
    peer->in_map = now != peers.end() && now->second == peer;
  }
  peers_ = std::move(peers);
  local_node_ = NodeId();
  for (const NodeInfo& n : map_->nodes) {
    if (!options_.local_node.empty() && n.name == options_.local_node) local_node_ = n.id;
  }
  places_.clear();
  std::map<TargetId, Health> targets;
  for (const TargetInfo& t : map_->targets) {
    const NodeInfo* node = map_->FindNode(t.node);
    // As the metadata server sees it: nothing new where it does not hear the node.
    const bool takes_new = node != nullptr && node->state == NodeState::kUp && t.state == TargetState::kUp;
    places_[t.id] = Place{t.node, ByMap(node, t), takes_new};
    if (auto it = targets_.find(t.id); it != targets_.end()) targets.insert(*it);
  }
  targets_ = std::move(targets);
}

NodeId DataPeers::NodeOf(TargetId target) const {
  auto it = places_.find(target);
  return it == places_.end() ? NodeId() : it->second.node;
}

Readiness DataPeers::ReadinessOf(TargetId target) const {
  auto place = places_.find(target);
  if (place == places_.end()) return Readiness::kGone;
  if (place->second.by_map != Readiness::kGood) return place->second.by_map;
  const int64_t now_ns = Executor::Current().NowNs();
  auto peer = peers_.find(place->second.node);
  if (peer != peers_.end()) {
    if (peer->second->silence.lost() || peer->second->health.Avoided(now_ns)) return Readiness::kAvoided;
  }
  auto disk = targets_.find(target);
  if (disk != targets_.end() && disk->second.Avoided(now_ns)) return Readiness::kAvoided;
  return Readiness::kGood;
}

bool DataPeers::DownByMap(TargetId target) const {
  auto place = places_.find(target);
  return place != places_.end() && place->second.by_map != Readiness::kGood;
}

bool DataPeers::Writable(TargetId target) const {
  auto place = places_.find(target);
  return place != places_.end() && place->second.takes_new && ReadinessOf(target) == Readiness::kGood;
}

const DataPeers::Peer* DataPeers::Look(NodeId node) const {
  auto it = peers_.find(node);
  return it == peers_.end() ? nullptr : it->second.get();
}

bool DataPeers::IsLost(NodeId node) const {
  const Peer* peer = Look(node);
  return peer != nullptr && peer->silence.lost();
}

bool DataPeers::InDoubt(NodeId node) const {
  const Peer* peer = Look(node);
  return peer != nullptr && (peer->silence.lost() || peer->silence.InDoubt(Executor::Current().NowNs()));
}

std::vector<TargetId> DataPeers::LostTargets() const {
  std::vector<TargetId> out;
  for (const auto& [target, place] : places_) {
    if (place.takes_new && IsLost(place.node)) out.push_back(target);
  }
  return out;
}

std::vector<NodeId> DataPeers::LostNodes() const {
  std::vector<NodeId> out;
  for (const auto& [id, peer] : peers_) {
    if (peer->expected && peer->silence.lost()) out.push_back(id);
  }
  return out;
}

std::shared_ptr<DataPeers::Peer> DataPeers::Find(NodeId node) {
  auto it = peers_.find(node);
  if (it == peers_.end()) return nullptr;
  if (!it->second->service) it->second->service = connector_.Connect(it->second->address);
  return it->second->service ? it->second : nullptr;
}

// ---- Calls ----

void DataPeers::FillHeader(DataHeader* header, int64_t timeout_ns) const {
  header->cluster = map_->cluster;
  header->incarnation = map_->incarnation;
  header->seen_term = map_->term;
  header->seen_proof = map_->term_proof;
  header->timeout_ns = timeout_ns;
}

template <class Req, class Rep>
Task<Result<Rep>> DataPeers::RunOnce(std::shared_ptr<Peer> peer, Task<Result<Rep>> (DataService::*method)(Req),
                                     Req request, uint64_t bytes, int64_t timeout_ns, Kind kind) {
  const std::shared_ptr<DataService> service = peer->service;
  const Pending pending(&peer->pending_bytes, bytes);
  const SemaphoreHold held =
      co_await Hold(peer->inflight, std::min(static_cast<int64_t>(bytes), options_.inflight_bytes));
  FillHeader(&request.header, timeout_ns);
  const bool is_read = kind != Kind::kOther;
  Watch watch(this, peer, is_read ? peer->reads.HedgeAfterNs(bytes) : timeout_ns, kind != Kind::kLocalRead);
  std::optional<Result<Rep>> reply =
      co_await WithTimeout(timeout_ns, (service.get()->*method)(std::move(request)));
  const FsError code = reply ? reply->code() : FsError::kDeadline;
  watch.Ended(code);
  if (is_read && code == FsError::kOk) peer->reads.Add(watch.took_ns(), bytes);
  if (!reply) co_return Error(FsError::kDeadline, "the data server at " + peer->address + " does not answer");
  if (!reply->ok()) co_return reply->error().WithContext("data server at " + peer->address);
  co_return std::move(*reply);
}

template <class Req, class Rep>
Task<Result<Rep>> DataPeers::Run(NodeId node, Task<Result<Rep>> (DataService::*method)(Req), Req request,
                                 uint64_t bytes, int64_t timeout_ns, Kind kind) {
  const std::shared_ptr<Peer> peer = Find(node);
  if (!peer)
    co_return Error(FsError::kUnavailable, "node " + std::to_string(node.v) + " is not in the cluster map");
  if (peer->silence.lost()) {
    timeout_ns = std::min(timeout_ns, options_.lost_timeout_ns);
    co_return co_await RunOnce<Req, Rep>(peer, method, std::move(request), bytes, timeout_ns, kind);
  }
  Task<Result<Rep>> call = RunOnce<Req, Rep>(peer, method, std::move(request), bytes, timeout_ns, kind);
  std::optional<Result<Rep>> reply = co_await UnlessPulsed<Result<Rep>>(&call, &peer->lost);
  if (reply) co_return std::move(*reply);
  co_return Error(FsError::kUnavailable, "the data server at " + peer->address + " says nothing");
}

// ---- Silence ----

void DataPeers::Heard(Peer& peer) {
  if (peer.silence.lost()) {
    LogInfo("the data server at {} is heard again", peer.address);
    peer.health.Succeeded();
  }
  peer.silence.Heard(Executor::Current().NowNs());
}

void DataPeers::Expect(const std::shared_ptr<Peer>& peer) {
  const std::optional<int64_t> doubt_ns = peer->silence.DoubtNs();
  if (peer->doubt.pending() || peer->probing || !doubt_ns || !peer->Matters()) return;
  Executor::Current().StartTimer(&peer->doubt, *doubt_ns, [this, weak = std::weak_ptr<Peer>(peer)] {
    const std::shared_ptr<Peer> p = weak.lock();
    if (p && p->silence.InDoubt(Executor::Current().NowNs())) StartProbing(p);
    else if (p) Expect(p);
  });
}

void DataPeers::StartProbing(const std::shared_ptr<Peer>& peer) {
  if (std::exchange(peer->probing, true)) return;
  probes_.Spawn(Probe(peer));
}

// Asks it for nothing, again and again, until there is nothing to know.
Task<void> DataPeers::Probe(std::shared_ptr<Peer> peer) {
  const Executor& ex = Executor::Current();
  const std::shared_ptr<DataService> service = peer->service;
  int64_t pause_ns = kProbeAgainMinNs;
  while (peer->Matters() && peer->silence.WantsProbes(ex.NowNs())) {
    const int64_t sent_ns = ex.NowNs();
    const int64_t wait_ns = peer->silence.ProbeNs();
    SealRequest nothing;
    FillHeader(&nothing.header, wait_ns);
    const std::optional<Result<SealReply>> reply = co_await WithTimeout(wait_ns, service->Seal(std::move(nothing)));
    if (reply && !IsSilence(reply->code())) {
      peer->silence.ProbeAnswered(ex.NowNs() - sent_ns);
      Heard(*peer);
      break;
    }
    ProbeUnanswered(*peer);
    co_await Sleep(pause_ns);
    pause_ns = std::min(2 * pause_ns, peer->silence.lost() ? kProbeAgainLostNs : kProbeAgainMaxNs);
  }
  peer->probing = false;
  Expect(peer);
}

void DataPeers::ProbeUnanswered(Peer& peer) {
  const int64_t now_ns = Executor::Current().NowNs();
  if (!peer.silence.Unanswered(now_ns) || !peer.Matters()) return;
  size_t servers = 0, silent = 0;
  for (const auto& [id, p] : peers_) {
    if (!p->expected && p.get() != &peer) continue;
    ++servers;
    silent += p->silence.lost() || p->silence.InDoubt(now_ns);
  }
  if (!give_ups_.Take(silent, servers)) return;
  LogWarning("the data server at {} says nothing: going on without it until it does", peer.address);
  peer.silence.Lost(now_ns);
  peer.health.Failed(now_ns);
  peer.lost.Pulse();
}

Task<Result<ReadReply>> DataPeers::Read(NodeId node, ReadRequest request) {
  uint64_t bytes = 0;
  for (const ShardRead& r : request.items) bytes += r.length;  // the server reads this much for it
  hedge_credit_ = std::min(hedge_credit_ + 1, kHedgeBurst * kReadsPerHedge);
  return Run(node, &DataService::Read, std::move(request), bytes, options_.read_timeout_ns,
             node && node == local_node_ ? Kind::kLocalRead : Kind::kRead);
}
Task<Result<WriteReply>> DataPeers::Write(NodeId node, WriteRequest request) {
  const uint64_t bytes = request.payload.size();
  bool seals = false;
  for (const ShardWrite& w : request.items) seals = seals || w.seal;
  const int64_t timeout_ns = seals ? options_.seal_timeout_ns : options_.write_timeout_ns;
  return Run(node, &DataService::Write, std::move(request), bytes, timeout_ns, Kind::kOther);
}
Task<Result<SealReply>> DataPeers::Seal(NodeId node, SealRequest request) {
  return Run(node, &DataService::Seal, std::move(request), 0, options_.seal_timeout_ns, Kind::kOther);
}
Task<Result<DeleteReply>> DataPeers::Delete(NodeId node, DeleteRequest request) {
  return Run(node, &DataService::Delete, std::move(request), 0, options_.write_timeout_ns, Kind::kOther);
}

void DataPeers::TargetFailed(TargetId target) { targets_[target].Failed(Executor::Current().NowNs()); }

void DataPeers::TargetServed(TargetId target) { targets_.erase(target); }

int64_t DataPeers::HedgeAfterNs(NodeId node, uint64_t bytes) const {
  auto it = peers_.find(node);
  return it == peers_.end() ? 0 : it->second->reads.HedgeAfterNs(bytes + it->second->pending_bytes);
}

bool DataPeers::MayHedge() {
  if (hedge_credit_ < kReadsPerHedge) return false;
  hedge_credit_ -= kReadsPerHedge;
  return true;
}

}  // namespace stria
