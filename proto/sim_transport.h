// A simulated network in virtual time: every message becomes its wire bytes, waits a random while, and
// may be lost, doubled, overtaken, or find its server gone. One seed gives one history (trace_hash()).
//
// Names: an address is "host:port"; partitions and latency are between hosts.
//
// A lost request, or one whose reply is lost, ends in kDeadline at the caller's timeout. A request to a reachable host without
// a server, or to one whose server stops while it handles the request, ends in kUnavailable a network delay later.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/exec/sim_executor.h"
#include "proto/transport.h"
#include "trust/identity.h"

namespace stria {

struct SimFaults {
  // Every message takes a uniformly random time in this range, so messages overtake each other.
  int64_t min_latency_ns = 50 * kMicrosecond;
  int64_t max_latency_ns = 300 * kMicrosecond;
  // Parts of a million messages:
  uint32_t drop_request_ppm = 0;       // never arrive
  uint32_t drop_reply_ppm = 0;         // were executed, but the caller is not told
  uint32_t duplicate_request_ppm = 0;  // are executed twice; the caller gets the reply that comes first
  uint32_t straggle_ppm = 0;           // take up to straggle_ns longer
  int64_t straggle_ns = 2 * kSecond;
};

struct SimNetworkStats {
  uint64_t requests = 0;
  uint64_t replies = 0;
  uint64_t lost = 0;       // dropped or partitioned, requests and replies
  uint64_t duplicated = 0;
  uint64_t refused = 0;
  std::map<std::string, uint64_t> calls;  // requests by method ("/stria.v1.Meta/Lookup")
};

// The executor outlives the network. Dispatchers outlive Stop of their address; transports and callers
// may be destroyed before or after the network (calls then fail: at once, or if under way in time).
class SimNetwork {
 public:
  SimNetwork(SimExecutor* executor, uint64_t seed);
  ~SimNetwork();  // stops all servers

  void SetFaults(const SimFaults& faults);

  // Starts answering at `address`. REQUIRES: nothing is served there; `dispatcher` outlives Stop.
  void Serve(const std::string& address, Dispatcher* dispatcher);
  // The process there crashes (or has ended): handlers that run are destroyed. No-op if not served.
  // REQUIRES: not called from one of those handlers.
  void Stop(const std::string& address);
  bool Serving(const std::string& address) const;
  // Handlers that are running there.
  size_t Running(const std::string& address) const;

  // Calls from a process on `from_host` to `address`.
  std::shared_ptr<Transport> MakeTransport(const std::string& from_host, const std::string& address);
  std::unique_ptr<TransportFactory> MakeFactory(const std::string& from_host);

  // What processes on `host` prove of themselves from now on, in place of a handshake. Null: nothing, as at first.
  void SetPeer(const std::string& host, std::shared_ptr<const Peer> peer);
  std::shared_ptr<const Peer> PeerOf(const std::string& host) const;
  // Whether a connection comes about from a host that proves `peer` (null: nothing) to another, or is kept; asked for each message.
  // Where it does not, the caller hears kUnavailable, as of a handshake that breaks.
  using Judge = std::function<Result<void>(const std::string& from, const Peer* peer, const std::string& to)>;
  void SetJudge(Judge judge);

  // Messages from any of `from` to any of `to` are lost until healed, also those under way. Who blocks twice unblocks twice: the
  // end of one fault does not end another.
  void Block(const std::set<std::string>& from, const std::set<std::string>& to);
  // Both ways.
  void Partition(const std::set<std::string>& a, const std::set<std::string>& b);
  void Unblock(const std::set<std::string>& from, const std::set<std::string>& to);
  void Heal();  // all of them
  bool Blocked(const std::string& from, const std::string& to) const;
  bool AnyBlocked() const;

  // Over (virtual time, event, from, to, method, size) of all events so far.
  uint64_t trace_hash() const;
  const SimNetworkStats& stats() const;

 private:
  class State;
  class Endpoint;
  class Factory;
  std::shared_ptr<State> state_;
};

}  // namespace stria
