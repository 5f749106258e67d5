// The coordinator on etcd (v3.4 or later): one key, over gRPC. It is read linearizably, and swapped in a transaction that compares the
// value itself. No lease, watch, lock, deletion or compaction of etcd is used.
//
// A call goes to the endpoint that answered last, and, when that fails, to the next ones while there is time. A swap may so be asked
// for several times: it is the same one, and only one of them can be carried out.
//
// One thread of its own moves bytes; all else is for the executor's thread. The executor outlives it. Destroying a call's task ends it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/coordinator.h"
#include "common/exec/executor.h"
#include "common/units.h"

namespace stria {

inline constexpr uint16_t kDefaultEtcdPort = 2379;

struct EtcdOptions {
  std::vector<std::string> endpoints;  // host:port, at least one; all of one etcd cluster
  std::string key;
  int64_t call_ns = 2 * kSecond;  // of a call, all its tries together
  struct Tls {
    std::string ca, certificate, private_key;  // PEM: who is believed; what it shows, or "" for nothing
  };
  std::optional<Tls> tls;  // without: plain, for the own machine or a network behind a firewall
};

class EtcdCoordinator final : public Coordinator {
 public:
  // Connects when it is asked. REQUIRES: at least one endpoint, and a key.
  EtcdCoordinator(Executor* executor, const EtcdOptions& options);
  // Calls under way end with kUnavailable.
  ~EtcdCoordinator() override;

  Task<Result<CoordinatorValue>> Read() override;
  Task<Result<CoordinatorValue>> Swap(CoordinatorValue old, std::string value) override;

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace stria
