#include "client/fuse/passthrough.h"

#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace stria {
namespace {

// linux/fuse.h of Linux 6.9.
struct FuseBackingMap {
  int32_t fd;
  uint32_t flags;
  uint64_t padding;
};
constexpr unsigned long kBackingOpen = _IOW(229, 1, FuseBackingMap);
constexpr unsigned long kBackingClose = _IOW(229, 2, uint32_t);

// An id, or minus an errno.
int RegisterBacking(int device, int fd) {
  const FuseBackingMap map = {fd, 0, 0};
  const int id = ioctl(device, kBackingOpen, &map);
  return id < 0 ? -errno : id;
}

// The connection has ended, and with it all that is registered.
bool IsGone(int err) { return err == ENOTTY || err == ENOTCONN || err == ENODEV || err == EBADF; }

}  // namespace

Passthrough::Passthrough(FindFile find, std::function<void(const std::string&)> warn)
    : find_(std::move(find)), warn_(std::move(warn)) {
  if (find_) closer_.emplace(1, "backing");
}

Task<OpenedAs> Passthrough::Enter(VfsHandlePtr h, bool direct) {
  const InodeId ino = KernelSide::InodeOf(*h);
  const auto version = [&h] { return KernelSide::DataVersionOf(*h); };
  if (!h->write && h->page_cache && !direct && !refused_ && modes_.MayBegin(ino)) {
    const uint64_t before = version();
    const std::shared_ptr<const UniqueFd> file = co_await find_(h);
    if (file && version() == before && !refused_ && modes_.MayBegin(ino)) {
      const int id = RegisterBacking(device_, file->get());
      if (id > 0) {
        modes_.Begin(ino, id, before);
      } else {
        refused_ = true;
        if (warn_ && !IsGone(-id)) {
          warn_("no file is read past the mount: the kernel refuses (" + std::string(std::strerror(-id)) +
                "); it lets root, and only with disks whose filesystem does not lie on top of another");
        }
      }
    }
  }
  // If the kernel may not cache pages, another client may be writing. (A client that opens the file under another client's
  // lease to write knows the version from the GETATTR that the kernel asked for to check permissions.)
  const bool as_known = h->page_cache && !direct;
  co_return modes_.Enter(ino, h->write, as_known ? std::optional(version()) : std::nullopt);
}

void Passthrough::Leave(InodeId ino, OpenMode mode) {
  const std::optional<int32_t> backing = modes_.Leave(ino, mode);
  if (!backing) return;
  // It may be the last to hold a shard that was deleted: that takes the disk's time. Fails only if the mount is gone.
  closer_->Submit([device = device_, id = static_cast<uint32_t>(*backing)] { (void)ioctl(device, kBackingClose, &id); });
}

}  // namespace stria
