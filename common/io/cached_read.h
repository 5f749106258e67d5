// Reads bytes from the page cache without waiting for a disk, on the thread that wants them, because waking another one takes
// longer than the copy. Safe from any thread.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "common/buffer.h"
#include "common/exec/executor.h"
#include "common/exec/loop_executor.h"
#include "common/units.h"

namespace stria {

// A larger copy would hold up the other work of this thread.
inline constexpr uint64_t kMaxCachedReadBytes = 64 * kKiB;

// Reads of `fd` note no access times from now on. They would have to be written, and a read that writes one may wait for the
// disk although its bytes are in memory. False if this process may not decide that (the file is another user's).
bool StopAccessTimes(int fd);
// Whether that was said of this open file, perhaps by another process that it came from.
bool NotesNoAccessTimes(int fd);

// Decides which reads of one disk are tried this way, and does them. RWF_NOWAIT (preadv2(2)) alone is not enough: it begins to
// read bytes that are not in the cache, and waits for that where the disk's queue is full. So the kernel is asked first what
// its cache has (cachestat(2), Linux 6.5); where it cannot say, nothing is read this way.
//
// While the disk has little to do and its reads have been quick, missing bytes are begun nevertheless: the pool's thread, whose
// waking takes longest, then finds them on their way.
class CachedReads {
 public:
  // No such reads while this many wait: the disk may not answer, and a cached page may carry the order to read ahead.
  static constexpr int kMaxWaiting = 4;
  // Nothing is begun while so many calls of any kind wait for the disk, or one for so long, nor if of the last reads more than
  // a few were slow: then its queue may be full, or it is one that moves a head. (One or two in a hundred are slow on a good
  // disk, too: it had to discard something, or the processor was another guest's.)
  static constexpr size_t kMaxBusy = 4;
  static constexpr int64_t kMaxBusyNs = 20 * kMillisecond;
  static constexpr int64_t kSlowNs = 2 * kMillisecond;
  static constexpr int kLastReads = 64;
  static constexpr int kMaxSlow = 8;  // of those
  enum class Kind : uint8_t { kRead, kOther };

  CachedReads() : state_(std::make_shared<State>()) {}
  // A call that may wait for the disk holds this meanwhile; it may outlive this object. `now_ns`: BoottimeNs().
  std::shared_ptr<const void> Wait(Kind kind, int64_t now_ns);
  std::shared_ptr<const void> Wait(Kind kind = Kind::kRead) { return Wait(kind, BoottimeNs()); }
  // True if a read of so much is worth a try here and now. On the executor's thread: not while others wait for that.
  bool Worth(uint64_t length, const Executor& executor) const {
    return length > 0 && length <= kMaxCachedReadBytes && !state_->refused && state_->reads < kMaxWaiting && !executor.OthersWait();
  }
  // Whether reading of missing bytes may begin.
  bool MayBegin(int64_t now_ns) const;
  // All `length` bytes, or nothing: some would have to be waited for, are not there, or cannot be read. `begin`: then their
  // reading begins, where MayBegin. (Use it only if all calls to the disk are reported here.) REQUIRES: NotesNoAccessTimes(fd).
  std::optional<Buffer> Read(int fd, uint64_t offset, uint64_t length, bool begin);

 private:
  struct State {
    std::atomic<int> reads{0};
    std::atomic<bool> refused{false};  // the kernel or the file system has no such thing
    std::mutex mu;
    std::multiset<int64_t> busy_since;  // guarded by mu
    std::bitset<kLastReads> slow;  // guarded by mu: of the last reads, the latest first
  };
  const std::shared_ptr<State> state_;
};

}  // namespace stria
