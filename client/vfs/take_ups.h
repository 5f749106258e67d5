// Room: taking up bytes that were not committed when the session lapsed. Nobody was kept from changing the file meanwhile: so
// they may be committed over the version that they were written over, and no other.
//
// Owns: of each inode that version, up to which batches it holds, and the task that commits them (InodeTakeUp, the room's part
// of an inode).
//
// Invariants: as long as there are such bytes somebody tries to commit them. The version is that of the last commit of ours,
// whoever numbered it.
//
// Called by: ComeBack, and the wiring as batches are committed. Calls: write-back, through TakeUpsNeeds. Knows no other room.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/exec/task.h"
#include "common/ids.h"

namespace stria {

class InodeTakeUp {
 public:
  explicit InodeTakeUp(InodeId ino) : ino_(ino) {}
  InodeTakeUp(const InodeTakeUp&) = delete;
  InodeTakeUp& operator=(const InodeTakeUp&) = delete;

  InodeId ino() const { return ino_; }
  bool any() const { return base_.has_value(); }
  const std::optional<uint64_t>& base() const { return base_; }  // data_version of the file

  // The session has lapsed. The bytes are in batches up to `upto`; before they were committed it may lapse again.
  void Lapsed(uint64_t data_version, uint64_t upto) {
    upto_ = upto;
    if (!base_) base_ = data_version;
  }
  // A commit of ours made it this version.
  void Committed(uint64_t data_version) {
    if (base_) base_ = data_version;
  }
  // What a commit made this version was done again, and made it that.
  void Renumbered(uint64_t former, uint64_t now) {
    if (base_ == former) base_ = now;
  }
  // There are no such bytes any more: they are lost, or there were none.
  void Forget() { base_.reset(); }

 private:
  friend class TakeUps;  // the same room
  const InodeId ino_;
  std::optional<uint64_t> base_;
  uint64_t upto_ = 0;
  bool under_way_ = false;
};
// Keeps the inode that it is a part of.
using InodeTakeUpPtr = std::shared_ptr<InodeTakeUp>;

struct TakeUpsNeeds {
  std::function<Task<void>(InodeTakeUpPtr)> flush;
  std::function<uint64_t(const InodeTakeUpPtr&)> head_seal;  // DirtyBuffer's
  // Notices: it is as any other inode from here on; it may not be in use any more.
  std::function<void(const InodeTakeUpPtr&)> ended, maybe_unused;
};

class TakeUps {
 public:
  // `scope` outlives it and is cancelled before it goes.
  TakeUps(TakeUpsNeeds needs, TaskScope& scope) : needs_(std::move(needs)), scope_(scope) {}
  TakeUps(const TakeUps&) = delete;
  TakeUps& operator=(const TakeUps&) = delete;

  // If there is anything, and nobody has begun.
  void Start(const InodeTakeUpPtr& of);
  // Batches before this one are committed, or were cut off.
  void CommittedTo(const InodeTakeUpPtr& of, uint64_t head_seal);

 private:
  Task<void> Run(InodeTakeUpPtr of);

  const TakeUpsNeeds needs_;
  TaskScope& scope_;
};

}  // namespace stria
