#include "common/io/direct_read.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

namespace stria {

int ReadDirect(int fd, uint64_t offset, uint64_t length, Buffer* out) {
  const uint64_t begin = AlignDown(offset, kDirectPageBytes);
  const size_t lead = offset - begin;
  MutableBuffer bytes(AlignUp(offset + length, kDirectPageBytes) - begin);
  size_t done = 0;
  while (done < lead + length) {
    const ssize_t n = pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(begin + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    done += static_cast<size_t>(n);
    if (n == 0 || done % kDirectPageBytes != 0) break;  // the end of the file
  }
  const size_t skipped = std::min(done, lead);
  *out = std::move(bytes).Freeze(done).Slice(skipped, std::min<size_t>(length, done - skipped));
  return 0;
}

int ReopenDirect(int fd, int flags) {
  return open(("/proc/self/fd/" + std::to_string(fd)).c_str(), flags | O_DIRECT | O_CLOEXEC);
}

}  // namespace stria
