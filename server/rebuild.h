// Making one column of a stripe again on a disk of this node.
//
//   1. The lost shard's length and digest are in the stripe record. Windows of it are made two at a
//      time: whole-block ranges are pulled from k columns of its group, checked, and decoded (or pulled
//      from the old shard itself when it is only moving), then written under the new ShardId.
//      Work here goes through this node's gate, reads from other nodes through theirs.
//   2. A source that fails is replaced by another column, if there is one, and named in the result.
//   3. The checksums of all new bytes, under the old ShardId, must have the recorded digest. If not, a source has lied
//      consistently: the one whose whole table differs from its own column's digest is dropped, and everything is made once
//      more.
//   4. Seal. Only then does the result say kOk. It brings the new checksums, for the metadata server to make the comparison of
//      3 itself.
// A parity column that names the new shard as its own is made for the first time, from the data columns of its group. There is
// no digest to compare with at 3, so each data column must have its own. The next scrub compares parity with data.
//
// Memory: kRebuildWindows * (k + 1) windows, at most 2 * 8 MiB + 2 * 64 KiB * (k + 1).
#pragma once

#include <cstdint>
#include <memory>

#include "api/data_api.h"
#include "api/meta_api.h"
#include "common/exec/pool.h"
#include "server/background.h"
#include "server/shard_store.h"
#include "stripe/codec.h"

namespace stria {

inline constexpr size_t kRebuildWindows = 2;                  // under way at once
inline constexpr uint64_t kRebuildWindowsBytes = 8 * kMiB;    // of one window over all columns
inline constexpr uint64_t kMaxRebuildWindowBytes = 1 * kMiB;  // of one column
inline constexpr int kMaxRebuildAttempts = 3;

struct RebuildEnv {
  std::shared_ptr<const ClusterMap> map;  // where the sources are
  DataConnector* connector = nullptr;
  CodecSet* codecs = nullptr;
  Pool* cpu_pool = nullptr;
  ShardStore* store = nullptr;  // the new shard's; all outlive the task
  BackgroundGate* gate = nullptr;  // of its node; may be null
};

// Never fails: errors are in the result. The write token was checked by the caller. The new shard is removed again unless the
// result is kOk.
Task<RebuildResult> RunRebuild(RebuildWork work, RebuildEnv env);

}  // namespace stria
