// Changes that were answered, and may be gone: their session was lost before they were known durable, and the server has had another
// life since; or it refused them when they were said again. A sync of an inode that they changed tells of them, once after each
// loss, as fsync(2) has it: the program looks what is there, and does it again. Pure; executor's thread only.
//
// Bounds: kMax inodes; of more losses than that the first are forgotten.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "client/session/session_handlers.h"
#include "common/error.h"

namespace stria {

class LostChanges {
 public:
  static constexpr size_t kMax = 65536;

  // The session is lost, and what is to become of this change of it the next one tells (Next).
  void Doubt(const SessionCallNames& changed) { in_doubt_.push_back(changed); }
  // `same_life`: the server has not restarted, so it has all that it answered.
  void Next(bool same_life) {
    for (const SessionCallNames& each : in_doubt_) {
      if (!same_life) Lose(each);
    }
    in_doubt_.clear();
  }
  void Lose(const SessionCallNames& changed) {
    for (const InodeId ino : changed) {
      if (!ino || !lost_.insert(ino).second) continue;
      in_order_.push_back(ino);
      if (in_order_.size() > kMax) Forget(in_order_.front());
    }
  }
  // Ok; or once after each loss kIo, that changes of it, or of names in it, may be gone.
  Error Tell(InodeId ino) {
    if (!Forget(ino)) return Error();
    return Error(FsError::kIo, "changes of inode " + std::to_string(ino.v) + " or of names in it may be gone: the mount was cut off from " +
                                   "the metadata server, which has lost them meanwhile; look what is there, and make them again");
  }
  // Somebody has been told already, by another error.
  void Told(InodeId ino) {
    (void)Forget(ino);
    for (SessionCallNames& each : in_doubt_) std::replace(each.begin(), each.end(), ino, InodeId());
  }
  size_t size() const { return lost_.size(); }

 private:
  bool Forget(InodeId ino) {
    if (lost_.erase(ino) == 0) return false;
    in_order_.erase(std::find(in_order_.begin(), in_order_.end(), ino));
    return true;
  }

  std::vector<SessionCallNames> in_doubt_;
  std::set<InodeId> lost_;
  std::deque<InodeId> in_order_;  // the same
};

}  // namespace stria
