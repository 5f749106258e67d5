// How long the kernel's requests took, by kind, until they were answered. For the executor's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/latency_histogram.h"

namespace stria {

enum class FuseKind : uint8_t {
  kLookup, kGetAttr, kSetAttr, kCreate, kRemove, kRename, kLink, kOpen, kRead, kWrite, kFlush, kRelease, kFsync, kReadDir, kLock, kXattr, kOther
};
inline constexpr std::array<const char*, 17> kFuseKindNames = {"lookup", "getattr", "setattr", "create", "remove", "rename", "link", "open", "read",
                                                               "write", "flush", "release", "fsync", "readdir", "lock", "xattr", "other"};

// Of an opcode of linux/fuse.h.
FuseKind FuseKindOf(uint32_t opcode);

class FuseTimes {
 public:
  void Add(uint32_t opcode, int64_t took_ns) { took_[static_cast<size_t>(FuseKindOf(opcode))].Add(took_ns); }
  const LatencyHistogram& of(FuseKind kind) const { return took_[static_cast<size_t>(kind)]; }

 private:
  std::array<LatencyHistogram, kFuseKindNames.size()> took_;
};

}  // namespace stria
