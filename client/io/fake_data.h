// For tests: data servers in memory, which check the protocol and fail on demand.
//
// Checked: tokens are for the shard, target and right; offsets are whole blocks; CRCs fit the bytes; nothing is written after
// the seal; a seal finds every byte; requests stay within their limits. violations() lists what a client did wrong. Executor's
// thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/data_api.h"
#include "common/random.h"
#include "stripe/types.h"

namespace stria {

class FakeDataCluster final : public DataConnector {
 public:
  struct NodeFaults {
    bool down = false;                  // kUnavailable at once
    bool hung = false;                  // no answer, ever
    uint64_t hung_after = UINT64_MAX;   // requests until `hung`; the last of them is done
    int64_t delay_ns = 0;               // of each answer, on top of a random bit
    int64_t disk_delay_ns = 0;          // of each answer that takes its disks
    uint32_t lost_request_percent = 0;  // not done, kUnavailable
    uint32_t lost_reply_percent = 0;    // done, kUnavailable
    uint32_t duplicate_percent = 0;     // done twice
    uint32_t busy_percent = 0;          // not done, kRetryLater
    uint64_t down_after = UINT64_MAX;   // requests until `down`
  };
  struct TargetFaults {
    FsError read = FsError::kOk;  // of each item
    FsError write = FsError::kOk;
    bool lies_at_seal = false;  // answers with another digest
  };
  struct Counters {
    uint64_t reads = 0, writes = 0, seals = 0, deletes = 0;  // requests, by node or in all
    uint64_t total() const { return reads + writes + seals + deletes; }
  };

  FakeDataCluster(uint64_t seed, uint32_t nodes, uint32_t disks_per_node);
  ~FakeDataCluster() override;

  std::shared_ptr<DataService> Connect(const std::string& address) override;
  std::shared_ptr<const ClusterMap> Map() const;
  // Changes the map's opinion of a node; the caller hands the new map on.
  void SetState(NodeId node, NodeState state);

  // A stripe of this shape to write: distinct targets, on distinct nodes while there are enough. kNoSpace
  // if all but the avoided ones are too few.
  Result<StripeGrant> Allocate(const StripeShape& shape, const std::vector<TargetId>& avoid = {});
  // The same stripe with read tokens.
  SharedGrant ReadGrant(const StripeInfo& info) const;
  static std::string Token(char right, ShardId shard, TargetId target);

  NodeFaults& node(NodeId id) { return nodes_[id]; }
  TargetFaults& target(TargetId id) { return targets_[id]; }
  NodeId NodeOf(TargetId target) const { return NodeId((target.v - 1) / disks_per_node_ + 1); }
  void ExpireTokens(bool expired) { tokens_expired_ = expired; }

  bool Has(ShardId shard) const { return shards_.count(shard) > 0; }
  bool IsSealed(ShardId shard) const;
  const std::vector<uint8_t>& Bytes(ShardId shard) const { return shards_.at(shard).bytes; }
  void Erase(ShardId shard) { shards_.erase(shard); }
  void FlipBit(ShardId shard, uint64_t offset) { shards_.at(shard).bytes[offset] ^= 1; }

  const std::vector<std::string>& violations() const { return violations_; }
  const Counters& counters(NodeId node) { return counters_[node]; }
  Counters Total() const;
  size_t in_service() const { return in_service_; }  // requests being served
  bool IsGivenBack(StripeId id) const { return given_back_.count(id) > 0; }
  void NoteGivenBack(StripeId id) { given_back_.insert(id); }

 private:
  class Service;
  class Serving;
  struct Shard {
    TargetId target;
    std::vector<uint8_t> bytes;
    std::map<uint64_t, uint32_t> crcs;         // by block
    std::map<uint64_t, uint64_t> block_bytes;  // by block
    bool sealed = false;
    uint64_t digest = 0;
  };

  // kOk if the request is to be served; waits as the faults want.
  Task<FsError> Arrive(NodeId node, const DataHeader& header);
  Task<void> Delay(NodeId node, bool of_disk);
  SealResult WriteItem(NodeId node, const ShardWrite& w, const BufferChain& bytes);
  SealResult SealItem(NodeId node, ShardId shard, TargetId target, uint64_t length);
  ReadItem ReadOne(NodeId node, const ShardRead& r, BufferChain* payload);
  FsError CheckToken(NodeId node, char right, ShardId shard, TargetId target, const std::string& token);
  void Violation(std::string what) { violations_.push_back(std::move(what)); }

  Random rng_;
  const uint32_t disks_per_node_;
  ClusterMap map_;
  std::map<NodeId, NodeFaults> nodes_;
  std::map<TargetId, TargetFaults> targets_;
  std::map<NodeId, Counters> counters_;
  std::map<ShardId, Shard> shards_;
  std::set<StripeId> given_back_;
  std::vector<std::string> violations_;
  bool tokens_expired_ = false;
  uint64_t next_shard_ = 1;
  uint64_t next_stripe_ = 1;
  uint64_t next_start_ = 0;
  size_t in_service_ = 0;
};

}  // namespace stria
