#include "client/vfs/read_pattern.h"

#include <algorithm>

namespace stria {

bool ReadPattern::IsSequential(uint64_t offset, uint64_t length) {
  const uint64_t end = offset + length;
  if (offset > next_ + kSlackBytes || next_ > end + kSlackBytes) {
    *this = ReadPattern();
    next_ = end;
    stream_bytes_ = passed_bytes_ = read_bytes_ = length;
    reads_ = 1;
    return false;
  }
  passed_bytes_ += std::max(end, next_) - next_;
  read_bytes_ = std::min(read_bytes_ + length, passed_bytes_);
  ++reads_;
  next_ = std::max(end, next_);
  stream_bytes_ += length;
  // As much as the slack may still come.
  const bool sparse = passed_bytes_ > read_bytes_ + reads_ * kPassedBytes + kSlackBytes;
  while (passed_bytes_ > kLatelyBytes || reads_ > kLatelyReads) {
    passed_bytes_ /= 2;
    read_bytes_ /= 2;
    reads_ /= 2;
  }
  if (sparse) return false;
  // The first read of a file, or the second in a row elsewhere.
  sequential_ = sequential_ || offset == 0 || stream_bytes_ >= 2 * length;
  return sequential_;
}

}  // namespace stria
