// The share of a node that background work (rebuilds, drains, rebalancing, scrubs) may take from other users. A pure state
// machine: it hears of requests and of background work that is wanted, and says when a piece of background work may begin.
//
// While the node is in use the background gets a share of all bytes that are moved, and at least a floor of bytes per second.
// So the rest of a disk, network or processor is left to requests, however fast it is, and the background never stops. When the
// node has not been used for a moment the background gets all. Pieces at once are always bounded, so a returning user waits
// behind few. O(log n) a call for n pieces that have begun. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

#include "common/units.h"

namespace stria {

struct BackgroundOptions {
  uint32_t percent = 25;                    // of the bytes that are moved while others use the node; 1 to 99
  uint64_t floor_bytes_per_s = 8 * kMiB;    // > 0
  uint64_t max_saved_bytes = 4 * kMiB;      // of its share that it did not use at once
  size_t pieces = 4;                        // at once
  int64_t quiet_ns = 100 * kMillisecond;    // without requests: the node is not in use
  int64_t max_piece_ns = 5 * kSecond;       // one that takes longer (a disk that hangs) does not keep others waiting
};

class BackgroundShare {
 public:
  explicit BackgroundShare(BackgroundOptions options) : options_(options) {}

  // A request by a user; each Begin has its End.
  void ForegroundBegan(int64_t now_ns);
  void ForegroundEnded(uint64_t bytes, int64_t now_ns);

  // When the next piece may begin: now, or a time to ask again at. It may be earlier when a request or a piece has
  // ended.
  int64_t MayBeginAt(int64_t now_ns) const;
  // REQUIRES: MayBeginAt(now_ns) <= now_ns. Every piece that began ends, with the time it began at.
  void BackgroundBegan(uint64_t bytes, int64_t now_ns);
  void BackgroundEnded(int64_t began_ns);

  // From now on.
  void SetPercent(uint32_t percent) { options_.percent = percent; }
  void SetPieces(size_t pieces) { options_.pieces = pieces; }
  bool InUse(int64_t now_ns) const { return foreground_ > 0 || now_ns < quiet_at_ns_; }

 private:
  double SavedAt(int64_t now_ns) const;

  BackgroundOptions options_;
  uint64_t foreground_ = 0;           // requests being carried out
  int64_t quiet_at_ns_ = INT64_MIN;   // if none is, and none comes
  double saved_ = 0;                  // bytes that may begin now; below 0 while the share is used up
  int64_t saved_ns_ = 0;              // when that was so
  std::multiset<int64_t> pieces_;     // being done: when they began
};

}  // namespace stria
