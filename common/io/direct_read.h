// Reading past the page cache (O_DIRECT). Safe from any thread.
#pragma once

#include <cstdint>

#include "common/buffer.h"

namespace stria {

inline constexpr uint64_t kDirectPageBytes = 4096;  // every file system takes multiples of this directly

// Reads `length` bytes, or fewer if the file ends before, in whole pages around the range; `fd` is open with O_DIRECT.
// 0 or an errno; EINVAL: the file system has no such thing, and the bytes have to be read the ordinary way.
int ReadDirect(int fd, uint64_t offset, uint64_t length, Buffer* out);

// Opens the file of `fd` once more with `flags` (and O_DIRECT | O_CLOEXEC), whatever its name means by now. -1 and errno.
int ReopenDirect(int fd, int flags);

}  // namespace stria
