#include "meta/repair/rebalance.h"

#include <algorithm>

namespace stria {

Rebalance::Rebalance(const std::vector<RebalanceDisk>& disks) {
  unsigned __int128 bytes = 0, capacity = 0;
  for (const RebalanceDisk& d : disks) {
    bytes += d.bytes;
    capacity += d.capacity_bytes;
  }
  for (const RebalanceDisk& d : disks) {
    Disk& out = disks_[d.target];
    out.bytes = d.bytes;
    out.share = capacity == 0 ? 0 : static_cast<uint64_t>(bytes * d.capacity_bytes / capacity);
    out.tolerance = std::max(out.share / 100 * kRebalanceTolerancePercent, kMinRebalanceTolerance);
  }
}

bool Rebalance::Gives(TargetId target) const {
  auto it = disks_.find(target);
  return it != disks_.end() && it->second.bytes > it->second.limit();
}

bool Rebalance::MayTake(TargetId target, uint64_t bytes) const {
  auto it = disks_.find(target);
  return it != disks_.end() && it->second.bytes + bytes <= it->second.limit();
}

void Rebalance::Moved(TargetId from, TargetId to, uint64_t bytes) {
  if (auto it = disks_.find(from); it != disks_.end()) it->second.bytes -= std::min(it->second.bytes, bytes);
  if (auto it = disks_.find(to); it != disks_.end()) it->second.bytes += bytes;
}

std::vector<TargetId> Rebalance::Givers() const {
  std::vector<TargetId> out;
  for (const auto& [target, d] : disks_) {
    if (d.bytes > d.limit()) out.push_back(target);
  }
  return out;
}

uint64_t Rebalance::BytesLeft() const {
  uint64_t out = 0;
  for (const auto& [target, d] : disks_) out += d.bytes - std::min(d.bytes, d.limit());
  return out;
}

}  // namespace stria
