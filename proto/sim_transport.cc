#include "proto/sim_transport.h"

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <utility>

#include "common/random.h"

namespace stria {
namespace {

using Reply = Result<WireMessage>;

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// Sender, receiver and method of a message; for the trace and for partitions.
struct Route {
  std::string from_host;
  std::string address;
  std::string to_host;
  std::string method;
  std::shared_ptr<const Peer> peer;  // what was proved of the sender when it was sent
};

Buffer Flat(const WireMessage& message) { return Buffer::Copy(message.Bytes().Flatten().span()); }

}  // namespace

class SimNetwork::State {
 public:
  State(SimExecutor* executor, uint64_t seed) : executor_(executor), rng_(seed) {}

  void Close() {
    closed_ = true;
    while (!servers_.empty()) Stop(servers_.begin()->first);
    in_flight_.clear();
  }

  void SetFaults(const SimFaults& faults) {
    CHECK(faults.min_latency_ns >= 0 && faults.min_latency_ns <= faults.max_latency_ns);
    CHECK(faults.straggle_ns >= 0);
    faults_ = faults;
  }

  void Serve(const std::string& address, Dispatcher* dispatcher) {
    CHECK(!servers_.contains(address), "something is served at this address already");
    auto server = std::make_unique<Server>();
    server->dispatcher = dispatcher;
    servers_[address] = std::move(server);
  }

  void Stop(const std::string& address) {
    const auto it = servers_.find(address);
    if (it == servers_.end()) return;
    const auto stopped = servers_.extract(it);
    stopped.mapped()->scope.CancelAll();
    for (const auto& [id, waiting] : stopped.mapped()->waiting) {
      SendReply(waiting.route, Error(FsError::kUnavailable, "connection to " + stopped.key() + " lost"),
                waiting.reply);
    }
  }

  bool Serving(const std::string& address) const { return servers_.contains(address); }
  size_t Running(const std::string& address) const {
    const auto it = servers_.find(address);
    return it == servers_.end() ? 0 : it->second->scope.running();
  }

  static Task<Reply> Call(std::shared_ptr<State> state, Route route, WireMessage request,
                          int64_t timeout_ns) {
    if (state->closed_) co_return Error(FsError::kUnavailable, "the network is gone");
    OneShot<Reply> reply;
    state->SendRequest(route, Flat(request), reply);
    std::optional<Reply> got = co_await WithTimeout(std::max<int64_t>(timeout_ns, 1), reply.Take());
    if (got) co_return std::move(*got);
    co_return Error(FsError::kDeadline, route.address + " did not answer in time");
  }

  void Block(const std::set<std::string>& from, const std::set<std::string>& to) {
    for (const std::string& f : from) for (const std::string& t : to) ++blocked_[{f, t}];
  }
  void Unblock(const std::set<std::string>& from, const std::set<std::string>& to) {
    for (const std::string& f : from) {
      for (const std::string& t : to) {
        const auto it = blocked_.find({f, t});
        if (it != blocked_.end() && --it->second == 0) blocked_.erase(it);
      }
    }
  }
  void Heal() { blocked_.clear(); }
  void SetPeer(const std::string& host, std::shared_ptr<const Peer> peer) { peers_[host] = std::move(peer); }
  void SetJudge(Judge judge) { judge_ = std::move(judge); }
  std::shared_ptr<const Peer> PeerOf(const std::string& host) const {
    const auto it = peers_.find(host);
    return it == peers_.end() ? nullptr : it->second;
  }
  bool Blocked(const std::string& from, const std::string& to) const { return blocked_.contains({from, to}); }
  bool AnyBlocked() const { return !blocked_.empty(); }

  uint64_t trace_hash() const { return hash_; }
  const SimNetworkStats& stats() const { return stats_; }

 private:
  enum Event : uint8_t { kSend = 1, kArrive, kLost, kRefused, kReplySend, kReplyArrive };

  struct Waiting {  // a request that is being handled
    Route route;
    OneShot<Reply> reply;
  };
  struct Server {
    Dispatcher* dispatcher = nullptr;
    std::map<uint64_t, Waiting> waiting;
    TaskScope scope;
  };
  struct InFlight {
    Timer timer;
    std::function<void()> arrive;
  };

  void SendRequest(const Route& route, Buffer bytes, OneShot<Reply> reply) {
    ++stats_.requests;
    ++stats_.calls[route.method];
    Trace(kSend, route, bytes.size());
    const bool doubled = Happens(faults_.duplicate_request_ppm);
    stats_.duplicated += doubled;
    for (int copy = 0; copy <= (doubled ? 1 : 0); ++copy) {
      if (Happens(faults_.drop_request_ppm)) {
        Lose(route, bytes.size());
        continue;
      }
      After(Latency(), [this, route, bytes, reply] { Arrive(route, bytes, reply); });
    }
  }

  void Arrive(const Route& route, const Buffer& bytes, const OneShot<Reply>& reply) {
    if (Blocked(route.from_host, route.to_host)) return Lose(route, bytes.size());
    const auto it = servers_.find(route.address);
    if (it == servers_.end()) {
      ++stats_.refused;
      Trace(kRefused, route, bytes.size());
      SendReply(route, Error(FsError::kUnavailable, "nothing answers at " + route.address), reply);
      return;
    }
    if (const Result<void> may = judge_ ? judge_(route.from_host, route.peer.get(), route.to_host) : Ok(); !may.ok()) {
      ++stats_.refused;
      Trace(kRefused, route, bytes.size());
      const std::string why = "the connection to " + route.address + " broke in the handshake: " + may.error().message;
      SendReply(route, Error(FsError::kUnavailable, why), reply);
      return;
    }
    Trace(kArrive, route, bytes.size());
    Server* server = it->second.get();
    const uint64_t id = ++next_id_;
    server->waiting.emplace(id, Waiting{route, reply});
    server->scope.Spawn(HandleOne(this, server, id, route.peer, route.method, Cut(bytes)));
  }

  // Lives in the server's scope, so `server` (and this) live as long.
  static Task<void> HandleOne(State* state, Server* server, uint64_t id, std::shared_ptr<const Peer> peer,
                              std::string method, WireMessage request) {
    Reply reply = co_await server->dispatcher->Handle(std::move(peer), std::move(method), std::move(request));
    auto waiting = server->waiting.extract(id);
    if (!reply.ok()) reply = EncodeError(reply.error());
    if (state->Happens(state->faults_.drop_reply_ppm)) {
      state->Lose(waiting.mapped().route, reply.value().size());
    } else {
      state->SendReply(waiting.mapped().route, std::move(reply), waiting.mapped().reply);
    }
  }

  // `reply` holds bytes, or the error that the caller's side of the connection reports.
  void SendReply(const Route& route, Reply reply, const OneShot<Reply>& to) {
    ++stats_.replies;
    Buffer bytes;
    Error error;
    if (reply.ok()) {
      bytes = Flat(reply.value());
    } else {
      error = reply.error();
    }
    Trace(kReplySend, route, bytes.size());
    After(Latency(), [this, route, bytes, error, to] {
      if (Blocked(route.to_host, route.from_host)) return Lose(route, bytes.size());
      Trace(kReplyArrive, route, bytes.size());
      to.Set(error.ok() ? Reply(Cut(bytes)) : Reply(error));
    });
  }

  // Receivers must not care how bytes are cut into slices.
  WireMessage Cut(const Buffer& bytes) {
    WireMessage message;
    size_t at = 0;
    for (int i = 0; i < 2 && at < bytes.size(); ++i) {
      const size_t n = rng_.Below(bytes.size() - at + 1);
      message.payload.Append(bytes.Slice(at, n));
      at += n;
    }
    message.payload.Append(bytes.Slice(at, bytes.size() - at));
    return message;
  }

  void After(int64_t ns, std::function<void()> arrive) {
    const auto it = in_flight_.emplace(in_flight_.end());
    it->arrive = std::move(arrive);
    executor_->StartTimer(&it->timer, executor_->NowNs() + ns, [this, it] {
      const std::function<void()> fn = std::move(it->arrive);
      in_flight_.erase(it);
      fn();
    });
  }

  int64_t Latency() {
    const auto between = [this](int64_t lo, int64_t hi) {
      return static_cast<int64_t>(rng_.Between(static_cast<uint64_t>(lo), static_cast<uint64_t>(hi)));
    };
    int64_t ns = between(faults_.min_latency_ns, faults_.max_latency_ns);
    if (Happens(faults_.straggle_ppm)) ns += between(0, faults_.straggle_ns);
    return ns;
  }
  bool Happens(uint32_t ppm) { return ppm > 0 && rng_.Below(1'000'000) < ppm; }

  void Lose(const Route& route, size_t size) {
    ++stats_.lost;
    Trace(kLost, route, size);
  }

  void Trace(Event event, const Route& route, size_t size) {
    const auto mix = [this](uint64_t v) {
      hash_ ^= v;
      hash_ *= 0x9e3779b97f4a7c15ULL;
      hash_ ^= hash_ >> 29;
    };
    const auto mix_text = [&](const std::string& text) {
      for (const char c : text) mix(static_cast<uint8_t>(c));
    };
    mix(static_cast<uint64_t>(executor_->NowNs()));
    mix(event);
    mix_text(route.from_host);
    mix_text(route.address);
    mix_text(route.method);
    mix(size);
  }

  SimExecutor* executor_;
  Random rng_;
  SimFaults faults_;
  SimNetworkStats stats_;
  uint64_t hash_ = 0xcbf29ce484222325ULL;
  uint64_t next_id_ = 0;
  bool closed_ = false;
  std::map<std::pair<std::string, std::string>, uint32_t> blocked_;  // how often
  std::map<std::string, std::shared_ptr<const Peer>> peers_;  // by host
  Judge judge_;
  std::list<InFlight> in_flight_;
  std::map<std::string, std::unique_ptr<Server>> servers_;
};

class SimNetwork::Endpoint final : public Transport {
 public:
  Endpoint(std::shared_ptr<State> state, std::string from_host, std::string address)
      : state_(std::move(state)), from_host_(std::move(from_host)), address_(std::move(address)) {}
  Task<Reply> Call(std::string method, WireMessage request, int64_t timeout_ns) override {
    return State::Call(state_, Route{from_host_, address_, HostOf(address_), std::move(method), state_->PeerOf(from_host_)},
                       std::move(request), timeout_ns);
  }

 private:
  std::shared_ptr<State> state_;
  std::string from_host_;
  std::string address_;
};

class SimNetwork::Factory final : public TransportFactory {
 public:
  Factory(std::shared_ptr<State> state, std::string from_host)
      : state_(std::move(state)), from_host_(std::move(from_host)) {}
  std::shared_ptr<Transport> Make(const std::string& address) override {
    return std::make_shared<Endpoint>(state_, from_host_, address);
  }

 private:
  std::shared_ptr<State> state_;
  std::string from_host_;
};

SimNetwork::SimNetwork(SimExecutor* executor, uint64_t seed)
    : state_(std::make_shared<State>(executor, seed)) {}
SimNetwork::~SimNetwork() { state_->Close(); }

void SimNetwork::SetFaults(const SimFaults& faults) { state_->SetFaults(faults); }
void SimNetwork::Serve(const std::string& address, Dispatcher* dispatcher) {
  state_->Serve(address, dispatcher);
}
void SimNetwork::Stop(const std::string& address) { state_->Stop(address); }
bool SimNetwork::Serving(const std::string& address) const { return state_->Serving(address); }
size_t SimNetwork::Running(const std::string& address) const { return state_->Running(address); }

std::shared_ptr<Transport> SimNetwork::MakeTransport(const std::string& from_host,
                                                     const std::string& address) {
  return std::make_shared<Endpoint>(state_, from_host, address);
}
std::unique_ptr<TransportFactory> SimNetwork::MakeFactory(const std::string& from_host) {
  return std::make_unique<Factory>(state_, from_host);
}

void SimNetwork::SetPeer(const std::string& host, std::shared_ptr<const Peer> peer) { state_->SetPeer(host, std::move(peer)); }
void SimNetwork::SetJudge(Judge judge) { state_->SetJudge(std::move(judge)); }
std::shared_ptr<const Peer> SimNetwork::PeerOf(const std::string& host) const { return state_->PeerOf(host); }
void SimNetwork::Block(const std::set<std::string>& from, const std::set<std::string>& to) {
  state_->Block(from, to);
}
void SimNetwork::Partition(const std::set<std::string>& a, const std::set<std::string>& b) {
  state_->Block(a, b);
  state_->Block(b, a);
}
void SimNetwork::Unblock(const std::set<std::string>& from, const std::set<std::string>& to) {
  state_->Unblock(from, to);
}
void SimNetwork::Heal() { state_->Heal(); }
bool SimNetwork::Blocked(const std::string& from, const std::string& to) const { return state_->Blocked(from, to); }
bool SimNetwork::AnyBlocked() const { return state_->AnyBlocked(); }
uint64_t SimNetwork::trace_hash() const { return state_->trace_hash(); }
const SimNetworkStats& SimNetwork::stats() const { return state_->stats(); }

}  // namespace stria
