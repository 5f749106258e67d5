// What an inode of a mount waits for, for who looks for circles in what waits for what (test/sim/progress.h). ARCHITECTURE.md,
// "The order of waits", says what may wait for what.
#pragma once

#include <cstdint>

#include "common/exec/task.h"
#include "common/ids.h"

namespace stria {

// A lock of an inode that says what holds it.
class InodeLock : public AsyncMutex {
 public:
  void HeldFor(const char* what) { held_for_ = what; }  // a literal; by who holds it
  const char* held_for() const { return locked() ? held_for_ : nullptr; }

 private:
  const char* held_for_ = "";
};

// What a recall, or a flush that the server asked for, is at.
enum class DemandAt : uint8_t { kNowhere, kLeaseMu, kFlush, kKernel, kAnswer };

// While it lives, one is being carried out. (Of an inode they come one after another.)
class DemandStep {
 public:
  explicit DemandStep(DemandAt* at) : at_(at) { *at_ = DemandAt::kLeaseMu; }
  DemandStep(const DemandStep&) = delete;
  DemandStep& operator=(const DemandStep&) = delete;
  ~DemandStep() { *at_ = DemandAt::kNowhere; }
  void At(DemandAt at) { *at_ = at; }

 private:
  DemandAt* const at_;
};

struct InodeWaits {
  InodeId ino;
  const char* open_mu = nullptr;   // what holds it; null: nothing
  const char* lease_mu = nullptr;  // the same
  DemandAt demand = DemandAt::kNowhere;
  bool forgetting = false;  // the kernel is being told to forget pages
  bool cut = false;         // no write starts (NoWrites)
  bool room = false;        // writes to it wait for room for their bytes, which any inode's write-back makes
  bool dirty = false;       // it has bytes that wait to be committed, or are about to be
  bool paused = false;      // but none may be (WriteBackPause)
  InodeId ahead_in;         // the directory that it was made in, if the server does not know it yet; 0
};

}  // namespace stria
