// Reading what the page cache has, without waiting for a disk: by the thread that wants it, as waking another one takes longer
// than the copy. Safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "common/buffer.h"
#include "common/exec/executor.h"

namespace stria {

// Beyond it the copy would hold up whoever waits for this thread.
inline constexpr uint64_t kMaxCachedReadBytes = 64 * kKiB;

// Reads of `fd` note no access times from now on. They would have to be written, and a read that does that may wait for the
// disk although its bytes are here. False if that is not for us to say (the file is another user's).
bool StopAccessTimes(int fd);
// Whether that was said of this open file, perhaps by another process that it came from.
bool NotesNoAccessTimes(int fd);

// Decides which reads of one disk are tried so, and does them. RWF_NOWAIT (preadv2(2)) alone is not enough: of what is not in
// the cache it begins the reading, and where the disk's queue is full that waits. So the kernel is asked first what it has
// (cachestat(2), Linux 6.5); where it cannot say, nothing is read so.
class CachedReads {
 public:
  // Nothing is read so while this many wait: the disk may not answer, and a page that the cache has may say that what follows
  // is to be read ahead.
  static constexpr int kMaxWaiting = 4;

  CachedReads() : state_(std::make_shared<State>()) {}
  // A read of the disk that may wait has this while it does; it may outlive us.
  std::shared_ptr<const void> Wait() {
    ++state_->waiting;
    return {nullptr, [state = state_](const void*) { --state->waiting; }};
  }
  // True if a read of so much is worth a try here and now. On the executor's thread: not while others wait for that.
  bool Worth(uint64_t length, const Executor& executor) const {
    return length > 0 && length <= kMaxCachedReadBytes && !state_->refused && state_->waiting < kMaxWaiting && !executor.OthersWait();
  }
  // All `length` bytes, or nothing: some would have to be waited for, are not there, or cannot be read.
  // REQUIRES: NotesNoAccessTimes(fd).
  std::optional<Buffer> Read(int fd, uint64_t offset, uint64_t length);

 private:
  struct State {
    std::atomic<int> waiting{0};
    std::atomic<bool> refused{false};  // the kernel or the file system has no such thing
  };
  const std::shared_ptr<State> state_;
};

}  // namespace stria
