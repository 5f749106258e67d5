// The gate that all work on a node's disks goes through: requests of others at once, rebuilds and scrubs as
// BackgroundShare allows, first come, first served. For the executor's thread.
#pragma once

#include <cstdint>
#include <utility>

#include "common/exec/task.h"
#include "server/background_share.h"

namespace stria {

class BackgroundGate;

// Work that is being done; ends with the object. The gate outlives it.
class GateUse {
 public:
  GateUse() = default;
  GateUse(GateUse&& o) noexcept
      : gate_(std::exchange(o.gate_, nullptr)), bytes_(o.bytes_), began_ns_(o.began_ns_), background_(o.background_) {}
  GateUse& operator=(GateUse&& o) noexcept;
  ~GateUse() { End(); }
  void End();

 private:
  friend class BackgroundGate;
  GateUse(BackgroundGate* gate, uint64_t bytes, int64_t began_ns, bool background)
      : gate_(gate), bytes_(bytes), began_ns_(began_ns), background_(background) {}

  BackgroundGate* gate_ = nullptr;
  uint64_t bytes_ = 0;
  int64_t began_ns_ = 0;
  bool background_ = false;
};

struct GateStats {
  uint64_t background_bytes = 0;
  uint64_t waited_ns = 0;  // by all pieces of background work
};

class BackgroundGate {
 public:
  explicit BackgroundGate(BackgroundOptions options = {}) : share_(options) {}

  // A request of others that moves `bytes`.
  GateUse Foreground(uint64_t bytes);
  // Other processes use the disks unseen by the gate.
  void SeeForeground() { Foreground(0).End(); }
  // Waits for its turn. A piece: as few bytes as make sense; it holds no other gate's turn.
  Task<GateUse> Background(uint64_t bytes);

  void SetPercent(uint32_t percent) { share_.SetPercent(percent); }
  void SetPieces(size_t pieces) { share_.SetPieces(pieces); }
  const GateStats& stats() const { return stats_; }

 private:
  friend class GateUse;
  void End(uint64_t bytes, int64_t began_ns, bool background);

  BackgroundShare share_;
  Semaphore turn_{1};
  Event look_again_;  // pulsed for the first in line
  int64_t wait_until_ns_ = INT64_MIN;  // of the first in line; INT64_MIN: none waits
  GateStats stats_;
};

}  // namespace stria
