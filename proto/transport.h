// The seam between typed services and the wire. Bytes go through a Transport (client side) to a
// Dispatcher (server side); stubs.h puts types on both ends. Implementations: SimNetwork
// (sim_transport.h) and gRPC (grpc_transport.h). All on one executor's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/error.h"
#include "common/exec/task.h"
#include "proto/wire.h"
#include "trust/identity.h"

namespace stria {

// One peer's address. Reconnects by itself.
class Transport {
 public:
  virtual ~Transport() = default;
  // Sends `request` to `method` ("/stria.v1.Data/Write") and gives the reply's bytes, which may hold an
  // error (EncodeError). Errors of the call itself: kUnavailable (not reached or connection lost),
  // kDeadline (no reply within timeout_ns, > 0); the request may or may not have been executed.
  // Destroying the task abandons the call. REQUIRES: the transport outlives the task.
  virtual Task<Result<WireMessage>> Call(std::string method, WireMessage request, int64_t timeout_ns) = 0;
};

class TransportFactory {
 public:
  virtual ~TransportFactory() = default;
  // Never fails: a bad address makes calls fail with kUnavailable.
  virtual std::shared_ptr<Transport> Make(const std::string& address) = 0;
};

class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  // Executes a call that came from `peer`, as its certificate proved; null where nothing was proved. An Error is sent to the
  // caller as the reply. Runs to its end even if the caller is gone; destroyed only when the process stops. REQUIRES: the
  // dispatcher outlives the task.
  virtual Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer> peer, std::string method, WireMessage request) = 0;
};

// Several services at one address.
class Router final : public Dispatcher {
 public:
  // `service`: "stria.v1.Data". `dispatcher` must outlive the router.
  void Add(const std::string& service, Dispatcher* dispatcher) { by_service_[service] = dispatcher; }

  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer> peer, std::string method, WireMessage request) override {
    const size_t slash = method.rfind('/');
    const auto it = by_service_.find(slash == method.npos || slash == 0 ? "" : method.substr(1, slash - 1));
    if (it != by_service_.end()) co_return co_await it->second->Handle(std::move(peer), std::move(method), std::move(request));
    co_return Error(FsError::kVersion, "there is no service for " + method + " at this address");
  }

 private:
  std::map<std::string, Dispatcher*> by_service_;
};

}  // namespace stria
