// Making a kernel forget all names that it keeps of a mount: it has a number, the epoch, with each name the one of the time
// when it asked for it, and believes only names of the present one (FUSE_NOTIFY_INC_EPOCH, Linux 6.16).
//
// Names of a listing it enters with the epoch of the moment when it does so, not of when it asked: one that was on its
// way when the epoch was raised would be believed. So the epoch is raised once more when all listings of that directory
// that were given to the kernel before have surely been entered. Executor's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "common/exec/task.h"
#include "common/ids.h"
#include "common/units.h"

namespace stria {

class NameEpoch {
 public:
  // A program that reads a directory enters what it was given at once, unless it has to wait for a processor.
  static constexpr int64_t kEnteredNs = 50 * kMillisecond;
  // How long names of listings may be believed, should one have had to wait even longer.
  static constexpr int64_t kListedValidNs = 1 * kSecond;

  explicit NameEpoch(std::function<void()> raise) : raise_(std::move(raise)) {}

  // Names of the directory are being given to the kernel.
  void Listed(InodeId dir);
  // Returns when no name that was given before is believed, of any directory if a listing of `in` (0: of any) was long ago.
  Task<void> Forget(InodeId in);

 private:
  const std::function<void()> raise_;
  std::map<InodeId, int64_t> listed_;  // when last; what is older than kEnteredNs goes
  int64_t last_listed_ns_ = INT64_MIN / 2;
  size_t look_at_ = 64;  // entries, to drop old ones
};

}  // namespace stria
