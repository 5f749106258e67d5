#include "common/io/cached_read.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>

#include <utility>

namespace stria {

bool StopAccessTimes(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && ((flags & O_NOATIME) != 0 || fcntl(fd, F_SETFL, flags | O_NOATIME) == 0);
}

bool NotesNoAccessTimes(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NOATIME) != 0;
}

std::optional<Buffer> CachedReads::Read(int fd, uint64_t offset, uint64_t length) {
  MutableBuffer out(length);
  const iovec to = {out.data(), length};
  const ssize_t n = preadv2(fd, &to, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  if (n < 0 && errno == EOPNOTSUPP) state_->refused = true;
  if (n != static_cast<ssize_t>(length)) return std::nullopt;
  return std::move(out).Freeze();
}

}  // namespace stria
