// Chooses which disks give shards away and which may take them, so that full disks become emptier. Pure: it is given the bytes
// on each disk, and each move that begins.
//
// A disk's share of all bytes is in proportion to its capacity. A disk gives shards while it has more than its share and a
// tolerance, and never takes more than that. So every move brings the disks nearer to their shares, and the moves come to an
// end. O(log n) a call for n disks. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/ids.h"
#include "common/units.h"

namespace stria {

inline constexpr uint64_t kRebalanceTolerancePercent = 5;    // of a disk's share,
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
  uint64_t BytesLeft() const;  // above share and tolerance, of all givers

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
