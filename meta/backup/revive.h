// Makes a restored store (restore.h) one that can be served. The store that was lost went on after the moment
// that was archived: it gave out ids, registered nodes, let clients write. So
//   - every range of ids is jumped, and so are stamps, commit sequence, term, version of the map and epochs of
//     nodes: nothing of before the restore comes again, and no cached version fits another content;
//   - the incarnation grows: data servers that have seen it refuse the lost store and its copies;
//   - all sessions are over: clients open new ones;
//   - stripes that were being filled, and shards that were being rebuilt or widened, are forgotten, not made garbage: they
//     may hold what was written after the moment. Like all that the store does not know, they are kept by the
//     data servers for the hold (kUnknownHoldNs, or until an admin says otherwise).
#pragma once

#include <cstdint>
#include <memory>

#include "api/meta_api.h"
#include "common/error.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"

namespace stria {

inline constexpr int64_t kUnknownHoldNs = int64_t{30} * 24 * 3600 * kSecond;
// Ids are jumped by so many for each incarnation: a thousand times what a day can use, which is the oldest
// that an archive gets by itself. Nodes and targets are few, and their ids have 32 bits.
inline constexpr uint64_t kIdJump = uint64_t{1} << 40;
inline constexpr uint64_t kSmallIdJump = uint64_t{1} << 20;
inline constexpr uint64_t kTermJump = uint64_t{1} << 32;

struct ReviveParams {
  uint64_t incarnation = 0;  // larger than any that a data server has seen
  Uuid store;                // a new one
  int64_t wall_ns = 0;
};
struct ReviveResult {
  uint64_t sessions = 0;  // fenced
  uint64_t stripes = 0;   // forgotten
  uint64_t rebuilds = 0;  // forgotten; stripes being widened or folded, too
  FsckReply fsck;
};
// Durable on return. kCorrupt: the restored store is not one. kInval: the incarnation is not larger than the
// store's, or there were too many restores. Once only on a store; what was interrupted is restored again.
Task<Result<ReviveResult>> ReviveStore(std::unique_ptr<KvStore> kv, ReviveParams params);

}  // namespace stria
