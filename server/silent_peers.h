// Other data servers as this one asks them, for rebuilds and other work in the background: a DataConnector whose calls end with
// kUnavailable when the server that they go to says nothing at all (common/silence.h), or has said nothing lately. One that has
// much to do answers probes, and is waited for.
//
// Whoever asks can go on with other servers, or try again later: so nobody counts how many are given up. For the executor's thread.
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
    Uuid cluster;          // by whose word
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
