// Who has been told to scrub, who still owes a pass, and what was last heard. A pure state machine; the
// order itself is persisted by the owner (Encode), what disks report is not.
//
// A pass that a restart of a data server cut short begins anew: its disk stays in owing() until it has
// finished one that began for this order. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/admin_api.h"
#include "common/error.h"

namespace stria {

class ScrubOrders {
 public:
  // A pass of each of `targets`; `bytes_per_s` per disk, 0: as their servers are configured.
  void Start(int64_t now_s, uint64_t bytes_per_s, const std::vector<TargetId>& targets);
  void SetPaused(bool paused) { paused_ = paused; }
  // True if what is to be persisted has changed.
  bool Take(const ScrubProgress& progress);
  void Forget(TargetId target);
  ScrubOrder For(const std::vector<ScrubProgress>& disks) const;

  bool paused() const { return paused_; }
  uint64_t bytes_per_s() const { return bytes_per_s_; }
  const std::set<TargetId>& owing() const { return owing_; }
  std::vector<ScrubProgress> Progress() const;

  std::string Encode() const;
  Result<void> Decode(std::string_view bytes);  // kCorrupt

 private:
  int64_t start_s_ = 0;
  bool paused_ = false;
  uint64_t bytes_per_s_ = 0;
  std::set<TargetId> owing_;
  std::map<TargetId, ScrubProgress> heard_;
};

}  // namespace stria
