// relatime: reading a file moves its atime if the file has changed since it was last read, or a day has passed.
//
// 1. The first read that finds it so notes the time here; stat shows it from then on (Overlay). The kernel forgets the
//    atime by itself when it has the read's answer (fuse_invalidate_atime), and is not told: each first read would wait for
//    that, and ask for the attributes again. What another thread's stat, under way at that moment, was answered before it
//    may show the old atime until the kernel asks again, 10 s at most.
// 2. The server is told soon, of one inode at most once in kTellEachNs; it takes the time only if nobody has changed
//    the inode since (SetAttrRequest::read_version), so that it never undoes a utime.
// Nothing waits for it, and it is lost with the client. A file that others write meanwhile (kShared) keeps its atime.
#include <algorithm>
#include <utility>

#include "api/relatime.h"
#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"

namespace stria {
namespace {
constexpr int64_t kTellEachNs = 1 * kSecond;
}  // namespace

void Vfs::NoteRead(const std::shared_ptr<VfsInode>& inode, bool noatime) {
  VfsInode& n = *inode;
  if (!options_.relatime || noatime || !n.attr_known) return;
  const int64_t now_ns = Executor::Current().WallNs();
  Attr attr = n.attr;
  if (n.read_ns) attr.atime_ns = *n.read_ns;
  if (!ReadMovesAtime(attr, now_ns)) return;
  n.read_ns = now_ns;
  if (!std::exchange(n.telling_read, true)) scope_.Spawn(TellRead(inode));
}

Task<void> Vfs::TellRead(std::shared_ptr<VfsInode> inode) {
  VfsInode& n = *inode;
  std::optional<int64_t> told;
  while (n.read_ns && n.read_ns != told) {
    const int64_t pause_ns = n.read_told_ns + kTellEachNs - Executor::Current().NowNs();
    if (n.read_told_ns != 0 && pause_ns > 0) co_await Sleep(pause_ns);
    if (!n.read_ns || !n.attr_known || n.generation != session_.generation()) break;
    if (n.ahead && !(co_await TellMade(inode, false)).ok()) break;
    told = n.read_ns;
    n.read_told_ns = Executor::Current().NowNs();
    SetAttrRequest r;
    r.ino = n.ino;
    r.header.opened = n.proof;
    r.read_ns = told;
    r.read_version = n.attr.version;
    const uint64_t since = cache_epoch_;
    const auto reply = co_await session_.Mutate(&MetaService::SetAttr, std::move(r), Caller());
    if (!reply.ok()) break;
    RememberNode(*reply, SinceChange(since));
  }
  n.read_ns.reset();
  n.telling_read = false;
  LetGo(inode);
}

}  // namespace stria
