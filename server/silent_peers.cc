#include "server/silent_peers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/exec/unless_pulsed.h"
#include "common/log.h"

namespace stria {
namespace {

constexpr int64_t kProbeAgainMinNs = 100 * kMillisecond;
constexpr int64_t kProbeAgainMaxNs = 500 * kMillisecond;
constexpr int64_t kProbeAgainLostNs = 4 * kSecond;
constexpr int64_t kForgetNs = 60 * kSecond;  // a peer that was not asked for so long is forgotten

bool IsSilence(FsError code) { return code == FsError::kUnavailable || code == FsError::kDeadline; }

// While it lives an answer is owed.
class Owed {
 public:
  explicit Owed(Silence* silence) : silence_(silence) { silence_->Asked(Executor::Current().NowNs()); }
  Owed(const Owed&) = delete;
  Owed& operator=(const Owed&) = delete;
  ~Owed() { silence_->Ended(); }

 private:
  Silence* const silence_;
};

}  // namespace

class SilentPeers::Service final : public DataService {
 public:
  Service(SilentPeers* all, PeerPtr peer) : all_(all), peer_(std::move(peer)) {}
  Task<Result<WriteReply>> Write(WriteRequest r) override { return all_->Run(peer_, &DataService::Write, std::move(r)); }
  Task<Result<SealReply>> Seal(SealRequest r) override { return all_->Run(peer_, &DataService::Seal, std::move(r)); }
  Task<Result<ReadReply>> Read(ReadRequest r) override { return all_->Run(peer_, &DataService::Read, std::move(r)); }
  Task<Result<DeleteReply>> Delete(DeleteRequest r) override { return all_->Run(peer_, &DataService::Delete, std::move(r)); }
  Task<Result<InventoryReply>> Inventory(InventoryRequest r) override {
    return all_->Run(peer_, &DataService::Inventory, std::move(r));
  }

 private:
  SilentPeers* const all_;
  const PeerPtr peer_;
};

std::shared_ptr<DataService> SilentPeers::Connect(const std::string& address) {
  const int64_t now_ns = Executor::Current().NowNs();
  std::erase_if(peers_, [&](const auto& p) {
    return p.first != address && p.second.use_count() == 1 && now_ns - p.second->asked_ns >= kForgetNs;
  });
  PeerPtr& peer = peers_[address];
  if (!peer) {
    std::shared_ptr<DataService> service = inner_->Connect(address);
    if (!service) {
      peers_.erase(address);
      return nullptr;
    }
    peer = std::make_shared<Peer>();
    peer->address = address;
    peer->service = std::move(service);
  }
  return std::make_shared<Service>(this, peer);
}

std::vector<std::string> SilentPeers::Lost() const {
  std::vector<std::string> out;
  for (const auto& [address, peer] : peers_) {
    if (peer->silence.lost()) out.push_back(address);
  }
  return out;
}

template <class Rep, class Req>
Task<Result<Rep>> SilentPeers::Run(PeerPtr peer, Task<Result<Rep>> (DataService::*method)(Req), Req request) {
  const Error nothing(FsError::kUnavailable, "the data server at " + peer->address + " says nothing");
  peer->asked_ns = Executor::Current().NowNs();
  peer->cluster = request.header.cluster;
  peer->incarnation = request.header.incarnation;
  if (peer->silence.lost()) co_return nothing;
  const Owed owed(&peer->silence);
  Expect(peer);
  Task<Result<Rep>> call = (peer->service.get()->*method)(std::move(request));
  std::optional<Result<Rep>> reply = co_await UnlessPulsed<Result<Rep>>(&call, &peer->lost);
  if (!reply) co_return nothing;
  if (!Answered(peer, reply->code())) StartProbing(peer);
  co_return std::move(*reply);
}

bool SilentPeers::Answered(const PeerPtr& peer, FsError code) {
  if (IsSilence(code)) {
    peer->silence.Failed(Executor::Current().NowNs());
    return false;
  }
  Heard(*peer);
  return true;
}

void SilentPeers::Heard(Peer& peer) {
  if (peer.silence.lost()) LogInfo("the data server at {} is heard again", peer.address);
  peer.silence.Heard(Executor::Current().NowNs());
}

void SilentPeers::Expect(const PeerPtr& peer) {
  const std::optional<int64_t> doubt_ns = peer->silence.DoubtNs();
  if (peer->doubt.pending() || peer->probing || !doubt_ns) return;
  Executor::Current().StartTimer(&peer->doubt, *doubt_ns, [this, weak = std::weak_ptr<Peer>(peer)] {
    const PeerPtr p = weak.lock();
    if (p && p->silence.InDoubt(Executor::Current().NowNs())) StartProbing(p);
    else if (p) Expect(p);
  });
}

void SilentPeers::StartProbing(const PeerPtr& peer) {
  if (std::exchange(peer->probing, true)) return;
  probes_.Spawn(Probe(peer));
}

// Probes it, again and again, until it answers or no caller is interested any more.
Task<void> SilentPeers::Probe(PeerPtr peer) {
  const Executor& ex = Executor::Current();
  int64_t pause_ns = kProbeAgainMinNs;
  while (peer->silence.WantsProbes(ex.NowNs()) && ex.NowNs() - peer->asked_ns < kForgetNs) {
    const int64_t sent_ns = ex.NowNs();
    const int64_t wait_ns = peer->silence.ProbeNs();
    SealRequest nothing;
    nothing.header.cluster = peer->cluster;
    nothing.header.incarnation = peer->incarnation;
    nothing.header.timeout_ns = wait_ns;
    const std::optional<Result<SealReply>> reply = co_await WithTimeout(wait_ns, peer->service->Seal(std::move(nothing)));
    if (reply && Answered(peer, reply->code())) {
      peer->silence.ProbeAnswered(ex.NowNs() - sent_ns);
      break;
    }
    if (peer->silence.Unanswered(ex.NowNs())) {
      LogWarning("the data server at {} says nothing: going on without it until it does", peer->address);
      peer->silence.Lost(ex.NowNs());
      peer->lost.Pulse();
    }
    co_await Sleep(pause_ns);
    pause_ns = std::min(2 * pause_ns, peer->silence.lost() ? kProbeAgainLostNs : kProbeAgainMaxNs);
  }
  if (ex.NowNs() - peer->asked_ns >= kForgetNs) Heard(*peer);
  peer->probing = false;
  Expect(peer);
}

}  // namespace stria
