// Changes that were answered, and may be gone: their session was lost before they were known durable, and the server has had another
// life since; or it refused them when they were said again; or the server never heard of them. One sync tells of them: the first of an
// inode that they changed, and each sync that was under way. As after fsync(2) that failed the program looks what is there, and does
// it again. Pure; executor's thread only.
//
// One sync of the mount for each inode and loss, not one for each descriptor: directories have no handles here.
// Bounds: kMax inodes; of more losses than that the first are forgotten.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
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
  using Changed = std::array<InodeId, 3>;  // inodes that a change is of; 0: none

  // The session is lost; what is to become of this change of it the next one tells (Next).
  void Doubt(const Changed& changed) { in_doubt_.emplace_back(changed, ++number_); }
  // `same_life`: the server has not restarted, so it has all that it answered. How many are lost.
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

  // Before a sync. What is in doubt then, and is lost, does not count as lost since.
  uint64_t Mark() const { return number_; }
  // After it. Ok; or kIo: changes of the inode, or of names in it, may be gone, of which nobody has been told; or any since `mark`.
  Error Tell(InodeId ino, uint64_t mark) {
    const bool of_it = Forget(ino);
    if (!of_it && last_ <= mark) return Error();
    return Error(FsError::kIo, (of_it ? "changes of inode " + std::to_string(ino.v) + " or of names in it" : std::string("changes")) +
                                   " may be gone: the metadata server does not have them any more; look what is there, and make them again");
  }
  // Somebody has been told already, by another error.
  void Told(InodeId ino) {
    (void)Forget(ino);
    for (auto& [changed, number] : in_doubt_) std::replace(changed.begin(), changed.end(), ino, InodeId());
  }
  size_t size() const { return lost_.size(); }

 private:
  void Lose(const Changed& changed, uint64_t number) {
    last_ = std::max(last_, number);
    for (const InodeId ino : changed) {
      if (!ino || !lost_.insert(ino).second) continue;
      in_order_.push_back(ino);
      if (in_order_.size() > kMax) Forget(in_order_.front());
    }
  }
  bool Forget(InodeId ino) {
    if (lost_.erase(ino) == 0) return false;
    in_order_.erase(std::find(in_order_.begin(), in_order_.end(), ino));
    return true;
  }

  uint64_t number_ = 0;  // of the last change that was put here
  uint64_t last_ = 0;    // of the last one that is lost
  std::vector<std::pair<Changed, uint64_t>> in_doubt_;
  std::set<InodeId> lost_;
  std::deque<InodeId> in_order_;  // the same
};

}  // namespace stria
