// Whether what a primary has worked out may leave this process. Asked when an answer is finished, not when its call begins: an answer
// that may leave now says what was true at every moment of the call, since nobody else has opened as primary before now. Durable
// answers need it as well as the log's word that they are durable.
//
// One gate for each life as primary. It is shut for good when that life is over.
//
// For the executor's thread. Tasks may outlive the life; who awaits one holds the gate.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/exec/task.h"
#include "meta/replica/in_sync_set.h"

namespace stria {

class AnswerGate {
 public:
  virtual ~AnswerGate() = default;
  // Before a call begins: waits while changes are held back for a planned hand-over. kNotLeader: this life is over.
  virtual Task<Result<void>> Enter() = 0;
  // When its answer is finished: waits while this member may not answer. kNotLeader: this life is over, what was worked out is not to
  // be told, and may be lost.
  virtual Task<Result<void>> Leave() = 0;
  // Ok, kRetryLater where Leave would wait, kNotLeader: for those that cannot wait.
  virtual Result<void> MayLeave() const = 0;
};

class LifeGate final : public AnswerGate {
 public:
  // `set` is there until Shut. `refresh`: tells the set what has been promised meanwhile, where others note that; may be empty.
  explicit LifeGate(const InSyncSet* set, std::function<void()> refresh = {}) : set_(set), refresh_(std::move(refresh)) {}

  Task<Result<void>> Enter() override {
    while (set_ != nullptr && set_->HoldsChanges()) co_await changed_.Wait();
    if (set_ == nullptr) co_return Over();
    co_return Ok();
  }
  Task<Result<void>> Leave() override {
    while (set_ != nullptr && !HasAuthority()) co_await changed_.Wait();
    if (set_ == nullptr) co_return Over();
    co_return Ok();
  }
  Result<void> MayLeave() const override {
    if (set_ == nullptr) return Over();
    if (HasAuthority()) return Ok();
    return Error(FsError::kRetryLater, "this metadata server does not hear enough of the others to answer");
  }

  // The set has changed, or somebody has promised.
  void Changed() { changed_.Pulse(); }
  // `where`: a sentence that says who is primary now.
  void Shut(std::string where) {
    if (set_ == nullptr) return;
    set_ = nullptr;
    where_ = std::move(where);
    changed_.Pulse();
  }

 private:
  bool HasAuthority() const {
    if (set_->HasAuthority(Executor::Current().NowNs())) return true;
    if (!refresh_) return false;
    refresh_();
    return set_->HasAuthority(Executor::Current().NowNs());
  }
  Error Over() const { return Error(FsError::kNotLeader, where_); }

  const InSyncSet* set_;  // null: shut
  const std::function<void()> refresh_;
  std::string where_;
  Event changed_;
};

}  // namespace stria
