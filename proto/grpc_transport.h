// The real transport: gRPC over TCP ("host:port", "[v6]:port") or a Unix socket ("unix:/path"), with the generic API, so that
// payloads go in and out as slices without a copy or parsing.
//
// Threads: a few poller threads of each GrpcClient and GrpcServer take gRPC's events and only move bytes; everything else
// happens on the executor's thread. Members are for that thread. The executor outlives both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/exec/executor.h"
#include "proto/transport.h"
#include "trust/credentials.h"

namespace stria {

// Connections to each peer; calls take turns, so that small calls are not stuck behind bulk on one
// connection. More, and more pollers, did not raise throughput where it was measured (README.md).
inline constexpr int kConnectionsPerPeer = 2;
inline constexpr int kMaxConnectionsPerPeer = 16;
inline constexpr int kClientPollers = 1;
inline constexpr int kServerPollers = 1;
inline constexpr int kMaxGrpcStreams = 256;  // calls under way on one connection; more wait with the client
// A server answers kRetryLater beyond either. Waiting Polls count as requests, one per session.
inline constexpr size_t kMaxServerRequests = 8192;
inline constexpr uint64_t kMaxServerRequestBytes = 512 * kMiB;

struct GrpcClientOptions {
  int connections_per_peer = kConnectionsPerPeer;  // 1 .. kMaxConnectionsPerPeer
  int pollers = kClientPollers;
};

// Makes transports to peers. A call: kUnavailable at once if the peer refuses, is unreachable, or the
// connection breaks; kDeadline in time; kBadRequest if a message is too large. Connections that were
// lost are made again after 0.1 to 1 s; dead peers are found by keepalive pings within 15 s.
class GrpcClient final : public TransportFactory {
 public:
  explicit GrpcClient(Executor* executor, const GrpcClientOptions& options = {});
  // Calls under way end with kUnavailable; transports remain valid and answer so from now on.
  ~GrpcClient() override;
  std::shared_ptr<Transport> Make(const std::string& address) override;

 private:
  class State;
  class Peer;
  std::shared_ptr<State> state_;
  int connections_;
};

struct GrpcServerOptions {
  int pollers = kServerPollers;
  size_t max_requests = kMaxServerRequests;
  uint64_t max_request_bytes = kMaxServerRequestBytes;
  // With it: TLS, and clients show a certificate that the bundle's authorities have signed. They do not change: who gets others
  // makes another server. Without: no TLS, and nothing is proved.
  std::shared_ptr<const Credentials> credentials;
  // With credentials: who shows that certificate, as the handler hears it; an error is the answer to each of its calls. Executor's thread.
  std::function<Result<Peer>(const Certificate& shown, const std::string& address)> judge;
  // Is told of each call of one whom `judge` does not let in. Executor's thread. Whoever writes that down bounds it.
  std::function<void(const std::string& address, const Error& why)> refused = {};
};

// Serves `dispatcher` (which outlives it) on one address.
class GrpcServer {
 public:
  GrpcServer(Executor* executor, Dispatcher* dispatcher, const GrpcServerOptions& options = {});
  // As Stop().
  ~GrpcServer();

  // Begins to listen and serve. Port 0 takes a free one. Returns the address with the bound port, or kUnavailable with a
  // sentence. REQUIRES: called once.
  Result<std::string> Start(const std::string& address);
  // Serves connections that someone else accepted, and no address. REQUIRES: called once, instead of Start.
  Result<void> StartWithoutAddress();
  // Takes the connected, non-blocking socket `fd`. Any thread. REQUIRES: started, not stopped.
  void Adopt(int fd);

  // Refuses new calls, gives those under way up to grace_ns to end, then Stop().
  Task<void> Shutdown(int64_t grace_ns);
  // Destroys running handlers, tells their callers kUnavailable, closes all connections. Blocks for
  // at most about a second. REQUIRES: not called from a handler.
  void Stop();

  size_t running() const;  // handlers

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace stria
