#include "client/vfs/recalls.h"

#include <utility>

namespace stria {

Task<void> Recalls::AnswerFlush(VfsInodePtr inode, SessionEvent e) {
  LeaseMode lease = LeaseMode::kNone;
  if (inode) {
    const uint64_t era = needs_.era();
    DemandStep step = inode->turns.BeginDemand();
    const auto held = co_await inode->turns.lease_mu.Lock();
    inode->turns.lease_mu.HeldFor("flush for others");
    step.At(DemandAt::kFlush);
    if (!co_await FlushForOthers(inode, era)) co_return;
    lease = inode->lease.mode();
  }
  co_await leases_.Done(e.ino, lease, e.seq);
  if (inode) inodes_.LetGo(inode);
}

// Under lease_mu; false when the session is another than in `era`. What is dirty under another lease (pages of mappings) is
// nobody's business, and committing it may wait for others.
Task<bool> Recalls::FlushForOthers(VfsInodePtr inode, uint64_t era) {
  while (needs_.era() == era && inode->buffers_writes()) {
    if ((co_await needs_.flush_held(inode)).ok()) break;
    co_await Sleep(Leases::kAgainNs);
  }
  co_return needs_.era() == era;
}

Task<void> Recalls::GiveUpLease(VfsInodePtr inode, SessionEvent e) {
  if (!inode || inode->lease.none()) {
    co_await AnswerNotHeld(std::move(inode), std::move(e));
    co_return;
  }
  {
    const InodeTurns::Recalling recalling(&inode->turns);
    co_await CarryOutRecall(inode, std::move(e));
  }
  inodes_.DropIfIdle(inode);
}

Task<void> Recalls::AnswerNotHeld(VfsInodePtr inode, SessionEvent e) {
  co_await leases_.DoneNotHeld(e.ino, inode ? LeaseOf(inode) : nullptr, e.lease, e.seq);
  if (inode) inodes_.DropIfIdle(inode);
}

Task<void> Recalls::CarryOutRecall(VfsInodePtr inode, SessionEvent e) {
  VfsInode& n = *inode;
  const uint64_t era = needs_.era();
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
  if (buffered) (void)co_await needs_.flush(inode);
  if (needs_.era() != era) co_return;
  // Closed and opened again meanwhile it is another grant than the recalled one.
  if (n.lease.grants() == grants && n.idle() && !leases_.creating()) {
    // Nobody uses it here: whoever asks has it alone, or with those who do. (An Open that begins after this has a
    // higher number, and outlasts it.) If the recall was of an older grant than ours the server leaves it at that.
    n.DropLease();
    n.attr_known = false;
    const uint64_t call = leases_.GiveBack(n.lease).call;
    const bool surely = co_await leases_.Done(n.ino, LeaseMode::kNone, e.seq, call);
    needs_.was_given_back(inode, call, surely);
    co_return;
  }
  co_await leases_.Done(n.ino, e.lease, e.seq);
  inodes_.LetGo(inode);
}

}  // namespace stria
