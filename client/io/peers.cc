#include "client/io/peers.h"

#include <optional>
#include <utility>

namespace stria {

namespace {

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
  Watch(std::shared_ptr<Peer> peer, int64_t give_ns)
      : ex_(Executor::Current()), peer_(std::move(peer)), sent_ns_(ex_.NowNs()), give_ns_(give_ns) {
    peer_->health.Sent(sent_ns_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    if (!ended_ && ex_.NowNs() - sent_ns_ >= give_ns_) peer_->health.Slow(ex_.NowNs());
  }
  void Ended(FsError code) {
    ended_ = true;
    if (code == FsError::kUnavailable || code == FsError::kDeadline) {
      peer_->health.Failed(ex_.NowNs());
    } else if (code != FsError::kRetryLater && code != FsError::kNotReady) {
      peer_->health.Succeeded();
    }
  }
  int64_t took_ns() const { return ex_.NowNs() - sent_ns_; }

 private:
  const Executor& ex_;
  std::shared_ptr<Peer> peer_;
  int64_t sent_ns_;
  int64_t give_ns_;
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
    peers.emplace(n.id, std::move(peer));
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
    places_[t.id] = Place{t.node, ByMap(node, t), NodeAnswers(node) && t.state == TargetState::kUp};
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
  if (peer != peers_.end() && peer->second->health.Avoided(now_ns)) return Readiness::kAvoided;
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

std::shared_ptr<DataPeers::Peer> DataPeers::Find(NodeId node) {
  auto it = peers_.find(node);
  if (it == peers_.end()) return nullptr;
  if (!it->second->service) it->second->service = connector_.Connect(it->second->address);
  return it->second->service ? it->second : nullptr;
}

template <class Req, class Rep>
Task<Result<Rep>> DataPeers::Run(NodeId node, Task<Result<Rep>> (DataService::*method)(Req), Req request,
                                 uint64_t bytes, int64_t timeout_ns, bool is_read) {
  const std::shared_ptr<Peer> peer = Find(node);
  if (!peer)
    co_return Error(FsError::kUnavailable, "node " + std::to_string(node.v) + " is not in the cluster map");
  const std::shared_ptr<DataService> service = peer->service;
  const Pending pending(&peer->pending_bytes, bytes);
  const SemaphoreHold held =
      co_await Hold(peer->inflight, std::min(static_cast<int64_t>(bytes), options_.inflight_bytes));
  request.header.cluster = map_->cluster;
  request.header.incarnation = map_->incarnation;
  request.header.timeout_ns = timeout_ns;
  Watch watch(peer, is_read ? peer->reads.HedgeAfterNs(bytes) : timeout_ns);
  std::optional<Result<Rep>> reply =
      co_await WithTimeout(timeout_ns, (service.get()->*method)(std::move(request)));
  const FsError code = reply ? reply->code() : FsError::kDeadline;
  watch.Ended(code);
  if (is_read && code == FsError::kOk) peer->reads.Add(watch.took_ns(), bytes);
  if (!reply) co_return Error(FsError::kDeadline, "the data server at " + peer->address + " does not answer");
  if (!reply->ok()) co_return reply->error().WithContext("data server at " + peer->address);
  co_return std::move(*reply);
}

Task<Result<ReadReply>> DataPeers::Read(NodeId node, ReadRequest request) {
  uint64_t bytes = 0;
  for (const ShardRead& r : request.items) bytes += r.length;  // what the server reads for it
  hedge_credit_ = std::min(hedge_credit_ + 1, kHedgeBurst * kReadsPerHedge);
  return Run(node, &DataService::Read, std::move(request), bytes, options_.read_timeout_ns, true);
}
Task<Result<WriteReply>> DataPeers::Write(NodeId node, WriteRequest request) {
  const uint64_t bytes = request.payload.size();
  bool seals = false;
  for (const ShardWrite& w : request.items) seals = seals || w.seal;
  const int64_t timeout_ns = seals ? options_.seal_timeout_ns : options_.write_timeout_ns;
  return Run(node, &DataService::Write, std::move(request), bytes, timeout_ns, false);
}
Task<Result<SealReply>> DataPeers::Seal(NodeId node, SealRequest request) {
  return Run(node, &DataService::Seal, std::move(request), 0, options_.seal_timeout_ns, false);
}
Task<Result<DeleteReply>> DataPeers::Delete(NodeId node, DeleteRequest request) {
  return Run(node, &DataService::Delete, std::move(request), 0, options_.write_timeout_ns, false);
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
