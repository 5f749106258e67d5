// Which shards move from full disks to empty ones. Pure: fed with what lies on each disk, it says which
// disks give and which may take, and follows the moves that were begun.
//
// A disk's share of all bytes is by its capacity. Those above it by more than a tolerance give, none takes
// more than its share and the tolerance: so every move brings the disks nearer to their shares, and it
// ends. O(log n) a call for n disks. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/ids.h"
#include "common/units.h"

namespace stria {

inline constexpr uint64_t kRebalanceTolerancePercent = 5;  // of a disk's share,
inline constexpr uint64_t kMinRebalanceTolerance = 8 * kMiB;  // and at least a large shard

struct RebalanceDisk {
  TargetId target;
  uint64_t capacity_bytes = 0;
  uint64_t bytes = 0;  // of live shards
};

class Rebalance {
 public:
  explicit Rebalance(const std::vector<RebalanceDisk>& disks);

  bool Gives(TargetId target) const;
  bool MayTake(TargetId target, uint64_t bytes) const;
  void Moved(TargetId from, TargetId to, uint64_t bytes);
  std::vector<TargetId> Givers() const;
  uint64_t BytesLeft() const;  // that givers have above their share and the tolerance

 private:
  struct Disk {
    uint64_t bytes = 0;
    uint64_t share = 0;
    uint64_t tolerance = 0;
    uint64_t limit() const { return share + tolerance; }
  };
  std::map<TargetId, Disk> disks_;
};

}  // namespace stria
