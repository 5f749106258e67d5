// The data service of one node over the shard stores of its disks. Checks every request (protocol,
// cluster, incarnation, bounds) and every item (token, target), spreads items over disks in parallel
// and gives a result per item. Items of one shard are done in their order.
//
// Reads, writes and seals of background work wait at the gate until the others leave room (server/background_share.h). That is work
// of the cluster's own: a client's is none, whatever it says, and what comes without a good token does not wait there.
// Writes, seals and deletes run to their end even if the caller goes away. For the executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "api/data_api.h"
#include "server/background.h"
#include "server/heard_terms.h"
#include "common/token_clock.h"
#include "server/peer_room.h"
#include "server/shard_store.h"
#include "server/token_gate.h"

namespace stria {

// Of each, one peer has its share only (server/peer_room.h).
struct DataServerOptions {
  uint64_t max_write_bytes = 256 * kMiB;  // of requests being carried out; more are kRetryLater
  uint64_t max_read_bytes = 256 * kMiB;
  int64_t max_requests = 4096;  // being carried out, of all kinds
  int64_t max_background = 1024;  // waiting and being carried out
  BackgroundOptions background;
  // Is told of each token that is not good, of peers that have proved who they are. Whoever writes that down bounds it.
  std::function<void(const Peer& peer, const Error& why)> denied = {};
};

struct DataServerStats {
  uint64_t requests = 0;
  uint64_t refused_requests = 0;  // header, bounds, overload
  uint64_t refused_tokens = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
};

class DataServer final : public DataService {
 public:
  // `gate` and the stores outlive the server.
  explicit DataServer(const TokenGate* gate, DataServerOptions options = {});

  // The node's identity; kNotReady before. Called again when the metadata server changes it.
  void SetCluster(const Uuid& cluster, uint64_t incarnation) {
    cluster_ = cluster;
    incarnation_ = incarnation;
  }
  // The metadata server's time, just heard (0: it said none).
  void SetTokenTime(int64_t token_ns) {
    if (token_ns != 0) token_clock_.Set(token_ns, Executor::Current().NowNs());
  }
  // Seconds by which tokens expire.
  int64_t TokenTimeS() const { return TokenTimeNs() / kSecond; }
  int64_t TokenTimeNs() const { return token_clock_.At(Executor::Current()); }  // the metadata server's; its own before that is known
  void SetTarget(TargetId target, ShardStore* store) { stores_[target] = store; }
  void DropStore(const ShardStore* store) {
    std::erase_if(stores_, [store](const auto& s) { return s.second == store; });
  }
  // nullptr if the target is another node's.
  ShardStore* FindStore(TargetId target) const {
    auto it = stores_.find(target);
    return it == stores_.end() ? nullptr : it->second;
  }
  const std::map<TargetId, ShardStore*>& stores() const { return stores_; }
  const Uuid& cluster() const { return cluster_; }  // 0: not registered yet
  uint64_t incarnation() const { return incarnation_; }
  const DataServerStats& stats() const { return stats_; }
  // Requests that are being carried out, and background ones that wait for their turn or are.
  int64_t running() const { return options_.max_requests - requests_.available(); }
  int64_t background() const { return options_.max_background - background_.available(); }
  // All work on this node's disks goes through it, also work that is no request.
  BackgroundGate& gate() { return gate_; }
  // Lives of the metadata server, as this node has heard of them.
  HeardTerms& terms() { return terms_; }

  Task<Result<WriteReply>> Write(WriteRequest request) override;
  Task<Result<SealReply>> Seal(SealRequest request) override;
  Task<Result<ReadReply>> Read(ReadRequest request) override;
  Task<Result<DeleteReply>> Delete(DeleteRequest request) override;
  // Carries no token: it tells ids and lengths, never bytes.
  Task<Result<InventoryReply>> Inventory(InventoryRequest request) override;

 private:
  // The memory that a request takes while it is carried out.
  struct Admission {
    PeerRoom::Hold background;
    GateUse use;
    PeerRoom::Hold request;
    PeerRoom::Hold bytes;
  };
  // The store for an item, after its token was checked. `end`: of what is to be written of the shard.
  Result<ShardStore*> CheckItem(const DataHeader& header, ShardId shard, TargetId target, const std::string& token, TokenRight right,
                                uint64_t end = 0);
  Result<void> CheckHeader(const DataHeader& header);
  Result<Admission> Admit(const DataHeader& header, size_t items, uint64_t bytes, PeerRoom* room);
  // As Admit, after the gate: for calls that move bytes, or make them durable. REQUIRES: header.background is what KeepsBackground says.
  Task<Result<Admission>> AdmitUse(const DataHeader& header, size_t items, uint64_t bytes, PeerRoom* room);
  // Whether the request waits for its turn behind others: it says so, is of the cluster's own, and may do some of what it asks for.
  template <class Request>
  bool KeepsBackground(const Request& request, TokenRight right) const;

  Task<Result<WriteReply>> DoWrite(WriteRequest request, Admission admission);
  Task<SealResult> WriteItem(const DataHeader& header, const ShardWrite& item, BufferChain bytes, bool keep);
  Task<Result<SealReply>> DoSeal(SealRequest request, Admission admission);
  Task<SealResult> SealItem(const DataHeader& header, const ShardSeal& item);
  Task<Result<DeleteReply>> DoDelete(DeleteRequest request, Admission admission);
  Task<void> DeleteOn(ShardStore* store, std::vector<std::pair<size_t, ShardId>> shards, DeleteReply* reply);
  Task<Result<ShardBytes>> ReadItem(const DataHeader& header, const ShardRead& item);
  Task<bool> ReadItems(const ReadRequest* request, std::vector<Result<ShardBytes>>* results);

  const TokenGate* const tokens_;
  const DataServerOptions options_;
  Uuid cluster_;
  uint64_t incarnation_ = 0;
  HeardTerms terms_;
  TokenClock token_clock_;
  std::map<TargetId, ShardStore*> stores_;
  PeerRoom write_bytes_;
  PeerRoom read_bytes_;
  PeerRoom requests_;
  PeerRoom background_;
  BackgroundGate gate_;
  DataServerStats stats_;
  TaskScope scope_;  // last
};

}  // namespace stria
