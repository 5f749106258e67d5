#include "client/vfs/session_events.h"

#include <utility>

namespace stria {
namespace {
bool AboutInode(SessionEvent::Kind k) {
  return k == SessionEvent::Kind::kInvalidateAttr || k == SessionEvent::Kind::kInvalidateData ||
         k == SessionEvent::Kind::kRecall;
}
}  // namespace

SessionEvents::SessionEvents(SessionEventsRooms rooms)
    : inodes_(rooms.inodes), nodes_(rooms.nodes), leases_(rooms.leases), attrs_(rooms.attrs), made_ahead_(rooms.made_ahead),
      file_locks_(rooms.file_locks), kernel_view_(rooms.kernel_view), kernel_(rooms.kernel), recalls_(rooms.recalls),
      come_back_(rooms.come_back) {}

void SessionEvents::EventCame(const SessionEvent& e) {
  nodes_.Invalidate();
  leases_.EventSeen();
  // Answers that come between now and OnEvent may be from before it.
  VfsInode* const n = AboutInode(e.kind) ? inodes_.Look(e.ino) : nullptr;
  if (n) leases_.Told(n->lease);
  switch (e.kind) {
    case SessionEvent::Kind::kInvalidateAttr: attrs_.AttrChanged(e.ino); return;
    case SessionEvent::Kind::kInvalidateData:
      attrs_.AttrChanged(e.ino);
      if (n) n->mapping.Forget();
      return;
    case SessionEvent::Kind::kInvalidateEntry: nodes_.Revoked(e.ino, e.name); return;
    default: return;
  }
}

Task<void> SessionEvents::OnEvent(SessionEvent e) {
  nodes_.Invalidate();
  leases_.EventSeen();
  VfsInodePtr inode = inodes_.Find(e.ino);
  // The answer to a Create may be on its way: it is to find what was said of its inode before.
  if (!inode && leases_.creating() && AboutInode(e.kind)) {
    inode = inodes_.Of(e.ino);
    leases_.Meet(LeaseOf(inode));
  }
  if (inode) leases_.Told(inode->lease);
  switch (e.kind) {
    case SessionEvent::Kind::kInvalidateAttr: {
      attrs_.AttrChanged(e.ino);
      if (inode) inodes_.LetGo(inode);
      auto growth = co_await kernel_view_.GrowthOf(InKernel(inode));
      co_await kernel_.InvalidateInode(e.ino, false, 0, 0);  // which may keep what we had no room for
      if (growth) co_await kernel_view_.ShowGrowth(InKernel(inode), std::move(growth));
      co_return;
    }
    case SessionEvent::Kind::kInvalidateData: {
      attrs_.AttrChanged(e.ino);
      if (inode) {
        inode->mapping.Forget();
        inode->in_kernel.KeptPagesAreOld();
      }
      if (inode) {
        co_await kernel_view_.ForgetOldBytes(InKernel(inode));
      } else {
        co_await kernel_.InvalidateInode(e.ino, true, 0, 0);
      }
      co_return;
    }
    case SessionEvent::Kind::kInvalidateEntry:
      nodes_.Revoked(e.ino, e.name);
      co_await kernel_.NameChanged(e.ino, e.name);
      co_return;
    case SessionEvent::Kind::kRecall:
      co_await recalls_.GiveUpLease(std::move(inode), e);
      co_return;
    case SessionEvent::Kind::kFlush:
      co_await recalls_.AnswerFlush(std::move(inode), e);
      co_return;
    case SessionEvent::Kind::kClusterMap: co_return;  // the session refreshes it
    case SessionEvent::Kind::kLockFree: file_locks_.Wake(e.ticket); co_return;
  }
}

}  // namespace stria
