// What the metadata server pushes, and what happens when the session comes back or is lost.
#include <algorithm>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"

namespace stria {
namespace {
bool AboutInode(SessionEvent::Kind k) {
  return k == SessionEvent::Kind::kInvalidateAttr || k == SessionEvent::Kind::kInvalidateData ||
         k == SessionEvent::Kind::kRecall;
}
}  // namespace

void Vfs::EventCame(const SessionEvent& e) {
  nodes_.Invalidate();
  leases_.EventSeen();
  // Answers that come between now and OnEvent may be from before it.
  if (auto it = inodes_.find(e.ino); it != inodes_.end() && AboutInode(e.kind)) leases_.Told(it->second->lease);
  switch (e.kind) {
    case SessionEvent::Kind::kInvalidateAttr: AttrChanged(e.ino); return;
    case SessionEvent::Kind::kInvalidateData: {
      AttrChanged(e.ino);
      auto it = inodes_.find(e.ino);
      if (it == inodes_.end()) return;
      it->second->mapping.Forget();
      return;
    }
    case SessionEvent::Kind::kInvalidateEntry: nodes_.Revoked(e.ino, e.name); return;
    default: return;
  }
}

Task<void> Vfs::OnEvent(SessionEvent e) {
  nodes_.Invalidate();
  leases_.EventSeen();
  auto it = inodes_.find(e.ino);
  std::shared_ptr<VfsInode> inode = it == inodes_.end() ? nullptr : it->second;
  // The answer to a Create may be on its way: it is to find what was said of its inode before.
  if (!inode && leases_.creating() && AboutInode(e.kind)) {
    inode = InodeOf(e.ino);
    leases_.Meet(LeaseOf(inode));
  }
  if (inode) leases_.Told(inode->lease);
  switch (e.kind) {
    case SessionEvent::Kind::kInvalidateAttr: {
      AttrChanged(e.ino);
      if (inode) LetGo(inode);
      auto growth = co_await kernel_view_.GrowthOf(InKernel(inode));
      co_await kernel_.InvalidateInode(e.ino, false, 0, 0);  // which may keep what we had no room for
      if (growth) co_await kernel_view_.ShowGrowth(InKernel(inode), std::move(growth));
      co_return;
    }
    case SessionEvent::Kind::kInvalidateData: {
      AttrChanged(e.ino);
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
      co_await GiveUpLease(std::move(inode), e);
      co_return;
    case SessionEvent::Kind::kFlush:
      co_await AnswerFlush(std::move(inode), e);
      co_return;
    case SessionEvent::Kind::kClusterMap: co_return;  // the session refreshes it
    case SessionEvent::Kind::kLockFree: file_locks_.Wake(e.ticket); co_return;
  }
}

Task<void> Vfs::AnswerFlush(std::shared_ptr<VfsInode> inode, SessionEvent e) {
  LeaseMode lease = LeaseMode::kNone;
  if (inode) {
    const uint64_t era = session_.era();
    DemandStep step = inode->turns.BeginDemand();
    const auto held = co_await inode->turns.lease_mu.Lock();
    inode->turns.lease_mu.HeldFor("flush for others");
    step.At(DemandAt::kFlush);
    if (!co_await FlushForOthers(inode, era)) co_return;
    lease = inode->lease.mode();
  }
  co_await leases_.Done(e.ino, lease, e.seq);
  if (inode) LetGo(inode);
}

// Under lease_mu; false when the session is another than in `era`. What is dirty under another lease (pages of mappings) is
// nobody's business, and committing it may wait for others.
Task<bool> Vfs::FlushForOthers(std::shared_ptr<VfsInode> inode, uint64_t era) {
  while (session_.era() == era && inode->buffers_writes()) {
    if ((co_await FlushHeld(inode)).ok()) break;
    co_await Sleep(Leases::kAgainNs);
  }
  co_return session_.era() == era;
}

// A recall waits for nothing but the servers that take its bytes, and the kernel: never for an Open of ours (open_mu), which
// may wait for another client's recall.
Task<void> Vfs::GiveUpLease(std::shared_ptr<VfsInode> inode, SessionEvent e) {
  if (!inode || inode->lease.none()) {
    co_await AnswerNotHeld(std::move(inode), std::move(e));
    co_return;
  }
  {
    const InodeTurns::Recalling recalling(&inode->turns);
    co_await CarryOutRecall(inode, std::move(e));
  }
  DropIfIdle(inode);
}

Task<void> Vfs::AnswerNotHeld(std::shared_ptr<VfsInode> inode, SessionEvent e) {
  co_await leases_.DoneNotHeld(e.ino, inode ? LeaseOf(inode) : nullptr, e.lease, e.seq);
  if (inode) DropIfIdle(inode);
}

Task<void> Vfs::CarryOutRecall(std::shared_ptr<VfsInode> inode, SessionEvent e) {
  VfsInode& n = *inode;
  const uint64_t era = session_.era();
  DemandStep step = n.turns.BeginDemand();
  SemaphoreHold held = co_await n.turns.lease_mu.Lock();  // writers wait, nothing new becomes dirty
  n.turns.lease_mu.HeldFor("recall");
  step.At(DemandAt::kFlush);
  const uint64_t grants = n.lease.grants();
  const bool buffered = n.buffers_writes();
  if (!co_await FlushForOthers(inode, era)) co_return;
  if (n.lease.none()) {  // given back meanwhile
    held.Release();
    co_await AnswerNotHeld(inode, std::move(e));
    co_return;
  }
  n.lease.Recalled(e.lease, leases_.events_seen());
  n.mapping.Forget();
  n.in_kernel.KeptPagesAreOld();
  n.attr_known = n.attr_known && e.lease != LeaseMode::kNone;
  nodes_.Invalidate();
  nodes_.ForgetAttr(n.ino);
  // The server believes in the old lease until LeaseDone: nobody else has anything yet. What the kernel
  // gives back of mappings goes before what comes after; it is theirs to sync what they want to be sure of.
  held.Release();
  step.At(DemandAt::kKernel);
  co_await kernel_view_.ForgetPagesForOthers(InKernel(inode));
  step.At(DemandAt::kAnswer);
  if (buffered) (void)co_await FlushInode(inode, false);
  if (session_.era() != era) co_return;
  // Closed and opened again meanwhile it is another grant than the recalled one.
  if (n.lease.grants() == grants && n.idle() && !leases_.creating()) {
    // Nobody uses it here: whoever asks has it alone, or with those who do. (An Open that begins after this has a
    // higher number, and outlasts it.) If the recall was of an older grant than ours the server leaves it at that.
    DropLease(n);
    n.attr_known = false;
    const uint64_t call = leases_.GiveBack(n.lease).call;
    const bool surely = co_await leases_.Done(n.ino, LeaseMode::kNone, e.seq, call);
    WasGivenBack(inode, call, surely);
    co_return;
  }
  co_await leases_.Done(n.ino, e.lease, e.seq);
  LetGo(inode);
}

std::vector<InodeId> Vfs::Leased() const {
  std::vector<InodeId> out;
  for (const auto& [ino, n] : inodes_) {
    if (!n->lease.none() && n->lease.generation() == session_.generation() && !n->made.file()) out.push_back(ino);
  }
  return out;
}

// What is cached here is not shown while the session is not open; but the kernel does not ask.
Task<void> Vfs::OnRestart() { return ForgetInKernel(InodesKnown()); }

Task<void> Vfs::ForgetInKernel(std::vector<InodeId> known) {
  co_await kernel_.NameChanged(InodeId(), "");
  for (const InodeId ino : known) co_await kernel_.InvalidateInode(ino, false, 0, 0);
}

Task<void> Vfs::OnReclaimed(bool lost) {
  const std::vector<InodeId> known = InodesKnown();
  ForgetEverything();
  leases_.EventSeen();
  std::vector<std::shared_ptr<VfsInode>> shown;
  for (auto& [ino, n] : inodes_) {
    if (lost) {
      if (n->in_kernel.has_pages()) shown.push_back(n);
      DropState(*n);
      continue;
    }
    if (n->lease.TakeClaim() && n->lease.none()) n->lease.Owe(session_.NumberCall());
    // What others had changed and we had seen may be lost, if they died with the server.
    leases_.Told(n->lease);
    n->attr.version = 0;  // the server may count on from less
    n->in_kernel.ForgetVersions();
    n->in_kernel.WrittenBesidePages();
    if (n->knows_better()) continue;
    n->attr_known = false;
    n->in_kernel.KeptPagesAreOld();
    n->mapping.Forget();
    if (n->in_kernel.has_pages()) shown.push_back(n);
  }
  if (lost) blocks_.Clear();
  if (lost) made_ahead_.ForgetNumbers();
  // Not waited for: the kernel waits for reads, which wait for the session. What is not open the kernel drops at its next
  // open.
  for (auto& n : shown) scope_.Spawn(ForgetPages(n, 0, 0));
  file_locks_.WakeAll();  // who stood in line does so no more
  co_await ForgetInKernel(known);
}

}  // namespace stria
