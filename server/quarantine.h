// Shards that the metadata does not know. They are leftovers of writers that died, of lost deletes, of
// disks that were away. One is marked when it is first found unknown, and deleted when it still is after
// the hold time, under the same incarnation of the cluster: a restore of metadata from a backup starts
// every quarantine anew, and for 30 days after one the metadata server says of
// no shard that it does not know it.
#pragma once

#include <cstdint>
#include <optional>

#include "common/exec/task.h"
#include "server/meta_link.h"
#include "server/shard_store.h"

namespace stria {

inline constexpr int64_t kQuarantineHoldNs = 24 * 3600 * kSecond;
inline constexpr size_t kQuarantinePage = 1000;

enum class QuarantineStep : uint8_t { kNothing, kMark, kUnmark, kDelete };

QuarantineStep DecideQuarantine(const std::optional<QuarantineMark>& mark, bool unknown, uint64_t incarnation,
                                int64_t now_wall_ns, int64_t hold_ns);

struct SweepResult {
  uint64_t checked = 0;
  uint64_t unknown = 0;
  uint64_t deleted = 0;
};
// One sweep over the sealed shards of a target.
Task<Result<SweepResult>> SweepUnknown(TargetId target, ShardStore* store, MetaLink* meta, OpHeader header,
                                       int64_t hold_ns);

}  // namespace stria
