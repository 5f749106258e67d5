// Other data servers for rebuilds and other background work of this one: a DataConnector whose calls end with kUnavailable when
// their server is silent (common/silence.h), or was so lately. A busy server answers probes, and calls wait for it.
//
// Callers can go on with other servers, or try again later, so any number of servers may be given up. For the executor's
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/data_api.h"
#include "common/exec/task.h"
#include "common/silence.h"

namespace stria {

class SilentPeers final : public DataConnector {
 public:
  // `inner` outlives it. It outlives its services.
  explicit SilentPeers(DataConnector* inner) : inner_(inner) {}
  std::shared_ptr<DataService> Connect(const std::string& address) override;
  std::vector<std::string> Lost() const;  // addresses

 private:
  class Service;
  struct Peer {
    std::string address;
    std::shared_ptr<DataService> service;
    Silence silence;
    Event lost;   // pulsed when it is
    Timer doubt;  // until it may be in doubt
    bool probing = false;
    int64_t asked_ns = 0;  // last
    Uuid cluster;          // the cluster in whose name probes go
    uint64_t incarnation = 0;
  };
  using PeerPtr = std::shared_ptr<Peer>;
  void Expect(const PeerPtr& peer);
  void StartProbing(const PeerPtr& peer);
  Task<void> Probe(PeerPtr peer);
  void Heard(Peer& peer);
  // True if the server has said something by that.
  bool Answered(const PeerPtr& peer, FsError code);
  template <class Rep, class Req>
  Task<Result<Rep>> Run(PeerPtr peer, Task<Result<Rep>> (DataService::*method)(Req), Req request);

  DataConnector* const inner_;
  std::map<std::string, PeerPtr> peers_;
  TaskScope probes_;
};

}  // namespace stria
