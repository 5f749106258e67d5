// Room: demands of the server. It recalls a lease, or asks for what is buffered under one, because another client waits.
//
// 1. The inode's lease_mu is taken: writers wait, nothing new becomes dirty under the lease.
// 2. What was buffered is committed, however often that takes (FlushForOthers).
// 3. The lease becomes what the recall leaves of it, and all that was cached under more is forgotten. lease_mu is free again.
// 4. The kernel forgets its pages, and writes dirty ones of mappings back first; these are committed.
// 5. The server is answered. If nobody uses the file here, the answer gives it back altogether.
//
// Owns no state: what a demand is at is in the inode's InodeTurns.
//
// Invariants: a demand waits for nothing but the servers that take the bytes, and the kernel: never for an Open of ours
// (open_mu), which may wait for another client's recall. lease_mu is not held while the kernel forgets pages
// (docs/waits.md). If the session's era changes meanwhile, nothing is answered.
//
// Called by: SessionEvents. Calls: Inodes, Leases, NodeCache, KernelView, and RecallsNeeds.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "api/meta_api.h"
#include "client/vfs/inodes.h"
#include "client/vfs/kernel_view.h"
#include "client/vfs/leases.h"
#include "client/vfs/node_cache.h"
#include "common/exec/task.h"

namespace stria {

struct RecallsNeeds {
  std::function<uint64_t()> era;  // of the session
  // All that the server does not know and nobody else may see before the lease is given up is committed. Under lease_mu.
  std::function<Task<Result<void>>(VfsInodePtr)> flush_held;
  // What is dirty now is committed.
  std::function<Task<Result<void>>(VfsInodePtr)> flush;
  // Notice: it was given back with this call (Leases::GiveBack); `surely`: the server has said that it knows.
  std::function<void(const VfsInodePtr&, uint64_t call, bool surely)> was_given_back;
};

class Recalls {
 public:
  // All of them outlive it.
  Recalls(Inodes& inodes, Leases& leases, NodeCache& nodes, KernelView& kernel_view, RecallsNeeds needs)
      : inodes_(inodes), leases_(leases), nodes_(nodes), kernel_view_(kernel_view), needs_(std::move(needs)) {}
  Recalls(const Recalls&) = delete;
  Recalls& operator=(const Recalls&) = delete;

  // `inode` is null if it is not in use here.
  Task<void> GiveUpLease(VfsInodePtr inode, SessionEvent e);
  Task<void> AnswerFlush(VfsInodePtr inode, SessionEvent e);

 private:
  Task<void> CarryOutRecall(VfsInodePtr inode, SessionEvent e);
  // All that was buffered under the exclusive lease, however often it takes; false: the session was lost.
  Task<bool> FlushForOthers(VfsInodePtr inode, uint64_t era);
  Task<void> AnswerNotHeld(VfsInodePtr inode, SessionEvent e);

  Inodes& inodes_;
  Leases& leases_;
  NodeCache& nodes_;
  KernelView& kernel_view_;
  const RecallsNeeds needs_;
};

}  // namespace stria
