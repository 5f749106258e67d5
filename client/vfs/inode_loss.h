// Of one inode: how often its uncommitted bytes and its handles were lost, and why the last time. The part of an inode that
// belongs to the room that brings a session back (come_back.h).
#pragma once

#include <cstdint>
#include <utility>

#include "common/error.h"

namespace stria {

class InodeLoss {
 public:
  // One more each time. Handles of an older era give why().
  uint64_t era() const { return era_; }
  const Error& why() const { return why_; }

 private:
  friend class ComeBack;  // the same room
  void Lost(Error why) {
    ++era_;
    why_ = std::move(why);
  }
  uint64_t era_ = 0;
  Error why_;
};

}  // namespace stria
