// Whether who reads a file goes through it from front to back and wants most of it, so that what follows is worth fetching
// ahead. Pure; not thread-safe.
//
// Requests of one reader may arrive a little out of order, and readers leave out a little: both look alike, but for what was
// left out stays so. So a stream is judged by how much of what it passed lately it has read: a scan of one column of many leaves
// out most, and fetching all of it would cost more than asking for each piece alone.
#pragma once

#include <cstdint>

#include "common/units.h"

namespace stria {

class ReadPattern {
 public:
  // How far from where it was a read may begin, or end, and still be of the same stream.
  static constexpr uint64_t kSlackBytes = 1 * kMiB;
  // Left out per read, so much may be passed: fetching it takes no longer than a request of its own does (measured,
  // docs/performance-notes.md).
  static constexpr uint64_t kPassedBytes = 192 * kKiB;

  // The next read, of `length` > 0 bytes. False: it is elsewhere, it is too early to say, or the stream leaves out most.
  bool IsSequential(uint64_t offset, uint64_t length);

 private:
  // What is further back than this counts half: of many small reads, or of the same again and again, too.
  static constexpr uint64_t kLatelyBytes = 16 * kMiB;
  static constexpr uint64_t kLatelyReads = kLatelyBytes / kPassedBytes;

  uint64_t next_ = 0;          // behind the furthest byte that was read
  uint64_t stream_bytes_ = 0;  // read, from where it began
  bool sequential_ = false;    // it was, since then
  // Of what it passed lately:
  uint64_t passed_bytes_ = 0;
  uint64_t read_bytes_ = 0;  // no more than passed
  uint64_t reads_ = 0;
};

}  // namespace stria
