// Which inodes the kernel has, or will have when it has taken the replies that are on their way: FUSE's lookup counts. Each
// reply with an entry counts once, and FORGET says how many of them the kernel gives back when it drops the inode.
//
// Bounded: inodes beyond kMaxCounted are counted together, and as long as there are any nothing is known for sure. (Lookups of
// one inode may be in both counts; a FORGET takes first from the inode's own, so each is exact when the common one is 0.) Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace stria {

class KernelInodes {
 public:
  static constexpr size_t kMaxCounted = 256 * 1024;

  // Before the reply.
  void Given(uint64_t node) {
    if (auto it = counts_.find(node); it != counts_.end()) {
      ++it->second;
    } else if (counts_.size() < kMaxCounted) {
      counts_.emplace(node, 1);
    } else {
      ++uncounted_;
    }
  }
  // A FORGET; or 1 if the kernel did not want the reply any more.
  void Forgotten(uint64_t node, uint64_t times) {
    if (auto it = counts_.find(node); it != counts_.end()) {
      const uint64_t own = std::min(it->second, times);
      times -= own;
      if ((it->second -= own) == 0) counts_.erase(it);
    }
    uncounted_ -= std::min(uncounted_, times);
  }
  bool SurelyUnknown(uint64_t node) const { return uncounted_ == 0 && !counts_.contains(node); }
  size_t counted() const { return counts_.size(); }

 private:
  std::unordered_map<uint64_t, uint64_t> counts_;
  uint64_t uncounted_ = 0;
};

}  // namespace stria
