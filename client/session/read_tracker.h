// The oldest commit that a running read may still depend on (ARCHITECTURE.md, invariant 10): shards of a dropped stripe
// are deleted only when every session has seen the drop. Executor's thread only; guards may outlive the tracker's owner.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "common/ids.h"

namespace stria {

class ReadGuard;

class ReadTracker {
 public:
  ReadTracker() : state_(std::make_shared<State>()) {}
  // The metadata server's commit sequence as of now.
  void Advance(CommitSeq current) {
    if (state_->current < current) state_->current = current;
  }
  // Begin before looking at (cached) extents; end when the last byte has been read.
  inline ReadGuard Begin();
  // No read that began before this commit is still running.
  CommitSeq Seen() const { return state_->active.empty() ? state_->current : state_->active.begin()->first; }

 private:
  friend class ReadGuard;
  struct State {
    CommitSeq current;
    std::map<CommitSeq, size_t> active;  // began at -> how many
  };
  std::shared_ptr<State> state_;
};

class [[nodiscard]] ReadGuard {
 public:
  ReadGuard() = default;
  ReadGuard(ReadGuard&& o) noexcept : state_(std::move(o.state_)), at_(o.at_) { o.state_ = nullptr; }
  ReadGuard& operator=(ReadGuard&& o) noexcept {
    if (this != &o) {
      End();
      state_ = std::exchange(o.state_, nullptr);
      at_ = o.at_;
    }
    return *this;
  }
  ~ReadGuard() { End(); }
  void End() {
    if (!state_) return;
    auto it = state_->active.find(at_);
    if (--it->second == 0) state_->active.erase(it);
    state_ = nullptr;
  }

 private:
  friend class ReadTracker;
  explicit ReadGuard(std::shared_ptr<ReadTracker::State> state)
      : state_(std::move(state)), at_(state_->current) {
    ++state_->active[at_];
  }
  std::shared_ptr<ReadTracker::State> state_;
  CommitSeq at_;
};

inline ReadGuard ReadTracker::Begin() { return ReadGuard(state_); }

}  // namespace stria
