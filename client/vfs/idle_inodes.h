// Room: idle inodes. A lease is kept for a next open, of so many inodes that nobody uses.
//
// Owns: which they are, in the order in which they were used last (InodeIdle, the room's part of an inode).
//
// Invariant: an inode that is kept here is in the table (inodes.h): what goes from there leaves here first (Drop).
//
// Called by: Inodes. Calls nobody. Pure.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <utility>

#include "common/ids.h"

namespace stria {

class InodeIdle {
 public:
  explicit InodeIdle(InodeId ino) : ino_(ino) {}
  InodeIdle(const InodeIdle&) = delete;
  InodeIdle& operator=(const InodeIdle&) = delete;
  bool kept() const { return at_.has_value(); }

 private:
  friend class IdleInodes;  // the same room
  const InodeId ino_;
  std::optional<std::list<InodeIdle*>::iterator> at_;
};

class IdleInodes {
 public:
  explicit IdleInodes(size_t most) : most_(most) {}
  IdleInodes(const IdleInodes&) = delete;
  IdleInodes& operator=(const IdleInodes&) = delete;

  // It was used just now. If there are too many, the one that was used longest ago is kept no more.
  std::optional<InodeId> Keep(InodeIdle& of) {
    if (of.at_) {
      kept_.splice(kept_.end(), kept_, *of.at_);
    } else {
      of.at_ = kept_.insert(kept_.end(), &of);
    }
    if (kept_.size() <= most_) return std::nullopt;
    InodeIdle* const oldest = kept_.front();
    Drop(*oldest);
    return oldest->ino_;
  }
  void Drop(InodeIdle& of) {
    if (of.at_) kept_.erase(*std::exchange(of.at_, std::nullopt));
  }
  size_t size() const { return kept_.size(); }

 private:
  const size_t most_;
  std::list<InodeIdle*> kept_;  // used last: last
};

}  // namespace stria
