// Doubts are shards that a reader says it could not use: a client, or a node that was to make another shard from it. Its word
// alone makes no shard bad: one that lies would have every shard that it may read made again, and one whose network spoils bytes,
// too. The shard's own node is asked with its heartbeats to read and check it; what it reports counts.
//
// Owns: the doubts, and which shards were found in order lately. Both bounded, and forgotten at a restart: the next reader says it
// again.
//
// Invariant: each doubt is of a column that had this shard when it was noted; one that has another by now is dropped.
//
// Called by Upkeep, by the handler of ReportShard (through Upkeep), and by the repairer for what nodes say of others' shards (wired
// in Upkeep). Sees the repairer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "api/meta_api.h"
#include "meta/upkeep/keeper.h"
#include "meta/upkeep/repairer.h"

namespace stria {

inline constexpr size_t kMaxDoubts = 4096;
inline constexpr size_t kMaxDoubtsOfOne = 256;  // reporter
inline constexpr size_t kDoubtsPerBeat = 16;
inline constexpr int64_t kDoubtNs = 600 * kSecond;  // then it is dropped: its node is away, and is another's business
inline constexpr int64_t kInOrderNs = 60 * kSecond;  // for so long nobody is asked again

class Doubts final : public Keeper {
 public:
  // The repairer outlives it.
  Doubts(const KeeperEnv& env, Repairer* repairer) : Keeper(env), repairer_(repairer) {}

  // ---- Keeper ----
  Task<Result<void>> Scan() override;
  // All that its disks have, at most kDoubtsPerBeat, again and again until it is reported. It takes no slot.
  Result<void> WorkFor(const std::set<TargetId>& here, uint32_t slots, NodeWork* work) override;
  // What its node has found. That of another node is nothing.
  Result<bool> TakeChecked(NodeId from, const CheckResult& result) override;
  void Forget(TargetId target) override;

  // Somebody (Peer::Holder of a client, the number of a node) could not use it. REQUIRES: the column has this shard, on `target`.
  void Note(const ReportedShard& said, TargetId target, uint64_t by);

  size_t size() const { return doubts_.size(); }

 private:
  using Key = std::pair<TargetId, ShardId>;
  struct Doubt {
    StripeId stripe;
    uint16_t column = 0;
    uint64_t by = 0;
    int64_t since_ns = 0;
  };
  using Doubted = std::map<Key, Doubt>;
  Doubted::iterator Drop(Doubted::iterator it);
  Result<std::optional<Column>> ColumnOf(Txn& txn, const Key& key, const Doubt& doubt) const;

  Repairer* const repairer_;
  Doubted doubts_;
  std::map<uint64_t, size_t> of_;         // reporters
  std::map<ShardId, int64_t> in_order_;  // until when
  int64_t look_ns_ = 0;                   // for what is over
};

}  // namespace stria
