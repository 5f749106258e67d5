#include "common/io/cached_read.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <utility>

namespace stria {
namespace {

// As in linux/mman.h, which is newer than the system's headers. The number is the same on all architectures.
constexpr long kCacheStat = 451;
struct CacheStatRange {
  uint64_t offset, length;
};
struct CacheStat {
  uint64_t cached, dirty, writeback, evicted, recently_evicted;  // pages
};

// Whether the page cache has all pages of the range. Nothing: the kernel does not say.
std::optional<bool> HasPages(int fd, uint64_t offset, uint64_t length) {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  CacheStatRange range = {offset, length};
  CacheStat stat = {};
  if (syscall(kCacheStat, fd, &range, &stat, 0) != 0) {
    return errno == ENOSYS || errno == EPERM || errno == EOPNOTSUPP ? std::nullopt : std::optional(false);
  }
  return stat.cached >= (offset + length - 1) / page - offset / page + 1;
}

}  // namespace

bool StopAccessTimes(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NOATIME) == 0;
}

bool NotesNoAccessTimes(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NOATIME) != 0;
}

std::shared_ptr<const void> CachedReads::Wait(Kind kind, int64_t now_ns) {
  const bool read = kind == Kind::kRead;
  if (read) ++state_->reads;
  std::multiset<int64_t>::iterator since;
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    since = state_->busy_since.insert(now_ns);
  }
  return {nullptr, [state = state_, read, since](const void*) {
            if (read) --state->reads;
            std::lock_guard<std::mutex> lock(state->mu);
            const int64_t took_ns = BoottimeNs() - *since;
            state->busy_since.erase(since);
            if (read) (state->slow <<= 1).set(0, took_ns > kSlowNs);
          }};
}

bool CachedReads::MayBegin(int64_t now_ns) const {
  std::lock_guard<std::mutex> lock(state_->mu);
  const std::multiset<int64_t>& busy = state_->busy_since;
  if (busy.size() >= kMaxBusy || (!busy.empty() && now_ns - *busy.begin() > kMaxBusyNs)) return false;
  return state_->slow.count() <= kMaxSlow;
}

std::optional<Buffer> CachedReads::Read(int fd, uint64_t offset, uint64_t length, bool begin) {
  const std::optional<bool> there = HasPages(fd, offset, length);
  if (!there) state_->refused = true;
  if (!there.has_value() || (!*there && !(begin && MayBegin(BoottimeNs())))) return std::nullopt;
  MutableBuffer out(length);
  const iovec to = {out.data(), length};
  const ssize_t n = preadv2(fd, &to, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  if (n < 0 && errno == EOPNOTSUPP) state_->refused = true;
  if (n != static_cast<ssize_t>(length)) return std::nullopt;
  return std::move(out).Freeze();
}

}  // namespace stria
