// The order to scrub: which disks still owe a pass, and what each reported last. A pure state machine. The owner persists the
// order (Encode), but not the reports.
//
// If a restart of its data server cuts a pass short, the disk begins anew. It stays in owing() until it has finished a pass that
// began for this order. Not thread-safe.
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
  // Each of `targets` is to make a pass, at `bytes_per_s` per disk; 0: at the speed that its server is configured for.
  void Start(int64_t now_s, uint64_t bytes_per_s, const std::vector<TargetId>& targets);
  void SetPaused(bool paused) { paused_ = paused; }
  // True if the order has changed, and is to be persisted.
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
