// The data servers as one client sees them: where a disk is, whether to ask it now, and calls with
// header, time limit and bounded bytes in flight. Executor's thread only; outlives its calls.
//
// A dead node costs one time limit, not one per read: see Health. Nothing is retried here. A server that says nothing is lost
// (see Silence): calls under way to it end, and writers keep away from it until it answers a probe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/data_api.h"
#include "client/io/health.h"
#include "common/exec/task.h"
#include "common/silence.h"

namespace stria {

struct DataPeersOptions {
  std::string local_node;                 // name of the node this client runs on, "" if none
  int64_t read_timeout_ns = 5 * kSecond;  // of one request, waiting for its turn not included
  int64_t write_timeout_ns = 8 * kSecond;
  int64_t seal_timeout_ns = 15 * kSecond;  // a sync of a busy disk
  int64_t lost_timeout_ns = 3 * kSecond;   // of a request to a node that is lost: there was no other
  int64_t inflight_bytes = 16 * kMiB;      // payload on its way to and from one node
};

// How promising it is to read from a disk.
enum class Readiness : uint8_t {
  kGood = 0,
  kAvoided = 1,  // its node or the disk failed a short while ago, or its node is lost
  kDown = 2,     // the cluster map says that it does not answer
  kGone = 3,     // not in the map, or removed: no server to ask
};

class DataPeers {
 public:
  DataPeers(DataConnector& connector, DataPeersOptions options);
  explicit DataPeers(DataConnector& connector);
  ~DataPeers();
  DataPeers(const DataPeers&) = delete;
  DataPeers& operator=(const DataPeers&) = delete;

  // A node whose address changed is connected anew. Wire to SessionHandlers::on_map.
  void SetMap(std::shared_ptr<const ClusterMap> map);
  const std::shared_ptr<const ClusterMap>& map() const { return map_; }

  NodeId NodeOf(TargetId target) const;  // 0 if unknown
  std::string TargetName(TargetId target) const { return map_->TargetName(target); }
  Readiness ReadinessOf(TargetId target) const;
  // The cluster map says that it will not answer soon.
  bool DownByMap(TargetId target) const;
  // A new stripe on it makes sense: it is up, has not just failed, and its node is not lost.
  bool Writable(TargetId target) const;
  // The server is silent: it is asked only where no other server can answer.
  bool IsLost(NodeId node) const;
  // That, or about to be found so.
  bool InDoubt(NodeId node) const;
  // The disks of lost nodes that the metadata server may put stripes on, as it knows nothing of it (yet).
  std::vector<TargetId> LostTargets() const;
  // Nodes that should answer by the map, and do not.
  std::vector<NodeId> LostNodes() const;

  // Calls fill the header. Errors: kUnavailable, kDeadline, the transport's, and kWrongCluster. kUnavailable also when the node
  // is found lost meanwhile. A call that is destroyed early counts as a slow one if it had its time.
  Task<Result<ReadReply>> Read(NodeId node, ReadRequest request);
  Task<Result<WriteReply>> Write(NodeId node, WriteRequest request);
  Task<Result<SealReply>> Seal(NodeId node, SealRequest request);
  Task<Result<DeleteReply>> Delete(NodeId node, DeleteRequest request);

  // A disk failed an item of a request that its node answered; or served one.
  void TargetFailed(TargetId target);
  void TargetServed(TargetId target);
  // A read of this size that took longer is worth racing; allows for reads that wait for the same node.
  int64_t HedgeAfterNs(NodeId node, uint64_t bytes) const;
  // Races are a small part of all reads, so that they never make a general slowness worse. True at most
  // kHedgeBurst times, and once more per kReadsPerHedge reads.
  bool MayHedge();
  NodeId local_node() const { return local_node_; }  // 0 if none

  static constexpr uint64_t kReadsPerHedge = 20;
  static constexpr uint64_t kHedgeBurst = 32;

 private:
  struct Peer {
    explicit Peer(int64_t inflight_bytes) : inflight(inflight_bytes) {}
    std::string address;
    std::shared_ptr<DataService> service;
    Semaphore inflight;
    uint64_t pending_bytes = 0;  // asked for, waiting or in flight
    Health health;
    Latency reads;
    Silence silence;
    Event lost;          // pulsed when it is
    Timer doubt;         // until it may be in doubt
    bool probing = false;
    bool expected = true;  // the map says that it answers
    bool in_map = true;
    // Else nobody is interested in whether it is there.
    bool Matters() const { return in_map || silence.Awaited(); }
  };
  struct Place {
    NodeId node;
    Readiness by_map = Readiness::kGood;
    bool takes_new = false;
  };
  class Watch;  // of one call
  enum class Kind : uint8_t {
    kOther,
    kRead,
    kLocalRead,  // from the own node, whose disks may answer without the server
  };

  std::shared_ptr<Peer> Find(NodeId node);
  const Peer* Look(NodeId node) const;
  void FillHeader(DataHeader* header, int64_t timeout_ns) const;
  void Heard(Peer& peer);
  // Looks again when it may have been silent for too long.
  void Expect(const std::shared_ptr<Peer>& peer);
  void StartProbing(const std::shared_ptr<Peer>& peer);
  Task<void> Probe(std::shared_ptr<Peer> peer);
  void ProbeUnanswered(Peer& peer);
  // Header, bytes in flight, time limit.
  template <class Req, class Rep>
  Task<Result<Rep>> RunOnce(std::shared_ptr<Peer> peer, Task<Result<Rep>> (DataService::*method)(Req), Req request,
                            uint64_t bytes, int64_t timeout_ns, Kind kind);
  template <class Req, class Rep>
  Task<Result<Rep>> Run(NodeId node, Task<Result<Rep>> (DataService::*method)(Req), Req request,
                        uint64_t bytes, int64_t timeout_ns, Kind kind);

  DataConnector& connector_;
  const DataPeersOptions options_;
  std::shared_ptr<const ClusterMap> map_;
  std::map<TargetId, Place> places_;
  std::map<NodeId, std::shared_ptr<Peer>> peers_;
  std::map<TargetId, Health> targets_;  // of those that failed lately
  NodeId local_node_;
  uint64_t hedge_credit_ = kHedgeBurst * kReadsPerHedge;  // in reads
  GiveUpBudget give_ups_;
  TaskScope probes_;
};

}  // namespace stria
