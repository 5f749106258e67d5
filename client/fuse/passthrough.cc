#include "client/fuse/passthrough.h"

#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "client/vfs/inode.h"

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

}  // namespace

Task<OpenedAs> Passthrough::Enter(VfsHandlePtr h) {
  const InodeId ino = h->inode->ino;
  const auto version = [&h] { return h->inode->attr.data_version; };
  if (!h->write && h->page_cache && !refused_ && modes_.MayBegin(ino)) {
    const uint64_t before = version();
    const std::shared_ptr<const UniqueFd> file = co_await find_(h);
    if (file && version() == before && !refused_ && modes_.MayBegin(ino)) {
      const FuseBackingMap map = {file->get(), 0, 0};
      const int id = ioctl(device_, kBackingOpen, &map);
      if (id > 0) {
        modes_.Begin(ino, id, before);
      } else {
        refused_ = true;
        if (warn_) {
          warn_("no file is read past the mount: the kernel refuses (" + std::string(std::strerror(errno)) +
                "); it lets root, and only with disks whose filesystem does not lie on top of another");
        }
      }
    }
  }
  co_return modes_.Enter(ino, h->write, version());
}

void Passthrough::Leave(InodeId ino, OpenMode mode) {
  const std::optional<int32_t> backing = modes_.Leave(ino, mode);
  if (!backing) return;
  const uint32_t id = static_cast<uint32_t>(*backing);
  (void)ioctl(device_, kBackingClose, &id);  // fails only if the mount is gone, and the kernel's with it
}

}  // namespace stria
