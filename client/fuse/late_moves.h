// Renames of directories that are answered, but that the kernel may not have carried out yet.
//
// The thread that renames moves the kernel's entry after it has taken the answer. Until then it may have to wait for a processor,
// for as long as others keep it busy. Who looks up the old name meanwhile must not be told that it is gone: the kernel would end
// the directory, and the mounts on and below it, wherever it is then (kernel_names.h). So that answer waits until the thread that
// renames is surely past it: it waits for something else, it is gone, it is the one that asks, or it has had a processor for
// kTailNs since. (A new LOOKUP of the old name, which holds a lock that the renaming thread needs, cannot begin before it is.)
//
// Even then "not there" ends the directory if the LOOKUP asks about the entry that has been moved since. The kernel does not ask about
// an entry whose name it believes: a LOOKUP that comes meanwhile is for the name alone, after the move. A later one may be of either
// kind (MayAskOfEntry).
//
// A thread that /proc does not show counts as past it. Executor's thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/fuse/thread_state.h"
#include "common/ids.h"
#include "common/units.h"

namespace stria {

class LateMoves {
 public:
  static constexpr int64_t kTailNs = 2 * kMillisecond;  // of a processor; carrying a rename out takes some 10 us
  static constexpr int64_t kLongestNs = 10 * kSecond;
  static constexpr size_t kMost = 1024;  // the oldest one counts as carried out
  static constexpr int64_t kFirstPauseNs = kMillisecond / 4;
  static constexpr int64_t kLongestPauseNs = 10 * kMillisecond;
  // None: nobody knows.
  using Look = std::function<std::optional<ThreadRun>(uint32_t thread)>;

  explicit LateMoves(Look look) : look_(std::move(look)) {}

  // Before the answer to `thread` that it has renamed (dir, name): it still waits for that. Until `believed_ns` the kernel surely
  // believes its entry.
  void Answered(InodeId dir, std::string name, uint32_t thread, int64_t now_ns, int64_t believed_ns = 0) {
    const std::optional<ThreadRun> run = look_(thread);
    if (!run) return;
    std::erase_if(moves_, [now_ns](const Move& m) { return m.until_ns <= now_ns; });
    if (moves_.size() >= kMost) moves_.erase(moves_.begin());
    moves_.push_back({dir, std::move(name), thread, run->processor_ns, now_ns + kLongestNs, believed_ns});
  }
  // The kernel has got an answer that ends its belief in the name of an entry that it moves, or has moved.
  void Doubt() {
    for (Move& m : moves_) m.believed_ns = 0;
  }
  // Whether a LOOKUP of that name that comes now may ask about the entry that is moved, or was just now.
  bool MayAskOfEntry(InodeId dir, const std::string& name, uint32_t thread, int64_t now_ns) {
    return MayCome(dir, name, thread, now_ns) && std::any_of(moves_.begin(), moves_.end(), [&](const Move& m) {
      return m.dir == dir && m.name == name && now_ns >= m.believed_ns;
    });
  }
  // Whether the kernel may still have to move that name, as `thread` asks for it.
  bool MayCome(InodeId dir, const std::string& name, uint32_t thread, int64_t now_ns) {
    std::erase_if(moves_, [&](const Move& m) {
      return m.until_ns <= now_ns || (m.dir == dir && m.name == name && (m.thread == thread || IsPast(m)));
    });
    return std::any_of(moves_.begin(), moves_.end(), [&](const Move& m) { return m.dir == dir && m.name == name; });
  }
  size_t size() const { return moves_.size(); }

 private:
  struct Move {
    InodeId dir;
    std::string name;
    uint32_t thread = 0;
    int64_t processor_ns = 0;  // that it had had before
    int64_t until_ns = 0;
    int64_t believed_ns = 0;
  };
  bool IsPast(const Move& move) const {
    const std::optional<ThreadRun> run = look_(move.thread);
    return !run || !run->runnable || run->processor_ns < move.processor_ns || run->processor_ns - move.processor_ns > kTailNs;
  }

  const Look look_;
  std::vector<Move> moves_;  // oldest first
};

}  // namespace stria
