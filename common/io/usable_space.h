// The room of a filesystem as an ordinary writer sees it, and as df counts it: blocks that only root may use are neither
// capacity nor free.
#pragma once

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>

namespace stria {

inline uint64_t UsableBytes(const struct statvfs& st) {
  const uint64_t kept_for_root = st.f_bfree - std::min(st.f_bavail, st.f_bfree);
  return (st.f_blocks - std::min<uint64_t>(kept_for_root, st.f_blocks)) * st.f_frsize;
}

inline uint64_t FreeBytes(const struct statvfs& st) { return uint64_t{st.f_bavail} * st.f_frsize; }

}  // namespace stria
