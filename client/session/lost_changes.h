// Changes that were answered and may be gone. Either their session was lost before they were known durable, and the server has been
// restarted since. Or the server refused them when the session repeated them. Or the server never heard of them.
//
// The next sync of each inode that such a change was of fails, and so does each sync that was under way when the changes were lost.
// The program then looks at what is there, and makes its changes again, as after any fsync(2) that fails. Directories have no
// handles here, so one sync of the whole mount fails for each inode and loss, and not one of each descriptor.
//
// Pure; executor's thread only. Bounds: kMax inodes; the lowest numbers of more are forgotten.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "common/error.h"

namespace stria {

class LostChanges {
 public:
  static constexpr size_t kMax = 65536;
  using Changed = std::array<InodeId, 3>;  // the inodes of one change; 0: none

  // The session is lost. Whether this change of it is, too, is known in the next session (Next).
  void Doubt(const Changed& changed) { in_doubt_.emplace_back(changed, ++number_); }
  // `same_life`: the server has not restarted, so it has every change that it answered. Returns how many changes are lost.
  size_t Next(bool same_life) {
    size_t lost = 0;
    for (const auto& [changed, number] : in_doubt_) {
      if (same_life) continue;
      ++lost;
      Lose(changed, number);
    }
    in_doubt_.clear();
    return lost;
  }
  void Lose(const Changed& changed) { Lose(changed, ++number_); }

  // For Tell, when a sync begins. A change that is in doubt already does not count as lost later.
  uint64_t Mark() const { return number_; }
  // When the sync has succeeded. kIo, once: changes of this inode, or of names in it, may be gone. kIo also if any change was lost
  // after `mark`.
  Error Tell(InodeId ino, uint64_t mark) {
    const bool of_it = lost_.erase(ino) > 0;
    if (!of_it && last_ <= mark) return Error();
    return Error(FsError::kIo, (of_it ? "changes of inode " + std::to_string(ino.v) + " or of names in it" : std::string("changes")) +
                                   " may be gone: the metadata server does not have them any more; look what is there, and make them again");
  }
  // A program has learned by another error that changes of the inode are lost.
  void Told(InodeId ino) {
    lost_.erase(ino);
    for (auto& [changed, number] : in_doubt_) std::replace(changed.begin(), changed.end(), ino, InodeId());
  }
  size_t size() const { return lost_.size(); }

 private:
  void Lose(const Changed& changed, uint64_t number) {
    last_ = std::max(last_, number);
    for (const InodeId ino : changed) {
      if (ino) lost_.insert(ino);
      if (lost_.size() > kMax) lost_.erase(lost_.begin());
    }
  }

  uint64_t number_ = 0;  // of the latest change, in doubt or lost
  uint64_t last_ = 0;    // of the latest lost change
  std::vector<std::pair<Changed, uint64_t>> in_doubt_;
  std::set<InodeId> lost_;
};

}  // namespace stria
