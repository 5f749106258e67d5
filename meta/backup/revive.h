// Makes a restored store (restore.h) fit to be served. The lost store went on after the archived moment: it gave out ids,
// registered nodes, let clients write. So
// - every range of ids jumps, and so do stamps, commit sequence, term, version of the map and epochs of nodes: no number from
//   before the restore comes again, and no cached version fits another content;
// - the incarnation grows: data servers that have seen it refuse the lost store and its copies;
// - all sessions are over: clients open new ones;
// - stripes that were being filled, and shards that were being rebuilt or widened, are forgotten, not made garbage: they may
//   hold bytes that were written after the moment. Data servers keep them, like all unknown shards, for the hold
//   (kUnknownHoldNs, or until an admin says otherwise).
#pragma once

#include <cstdint>
#include <memory>

#include "api/meta_api.h"
#include "common/error.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"

namespace stria {

inline constexpr int64_t kUnknownHoldNs = int64_t{30} * 24 * 3600 * kSecond;
// The jump of ids per incarnation: a thousand times a day's use, and an archive is at most a day old by itself. Nodes and
// targets are few, and their ids have 32 bits.
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
// Durable on return. kCorrupt: the store is not a restored one. kInval: the incarnation is not larger than the store's, or
// there were too many restores. Call once per store; after an interruption, restore again.
Task<Result<ReviveResult>> ReviveStore(std::unique_ptr<KvStore> kv, ReviveParams params);

}  // namespace stria
