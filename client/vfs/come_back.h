// Room: the session comes back. After a restart of the server, after its lease had run out (it lapsed), or as another one, with
// everything lost.
//
// While it was away others could have whatever they wanted. So when it is back after a lapse:
//  - no lease of before is one (Lapse): the next use of a file asks for a new one, and all that was cached is forgotten;
//  - what is open stays open, if the server has it still (Held, NotTaken), and so do locks that nobody else has had;
//  - bytes that are not committed yet may be committed over the version of the file that they were written over, and no
//    other (take_ups.h). Until they are, they are shown over what the server says, no lease is more than
//    kShared, and so what is written goes behind them.
//  - If the file has changed, its uncommitted bytes and the handles that it has at that moment are lost (Lose): these give
//    EIO, whoever opens it again sees what the others wrote, and the log says which file and why.
//
// Owns: the losses of each inode (InodeLoss, the room's part of an inode).
//
// Invariants: a handle of before a loss gives its reason (CheckHandle), and never bytes of after it. Nothing here waits for the
// session, which waits for it; so the kernel is told to forget pages, but not waited for.
//
// Called by: the session, through SessionSide; rooms that learn of a loss (Commits) or find state of a session that is gone
// (LeaseKeeper, AheadMaker: DropState); calls on open files, which ask whether the handle is good (CheckHandle: FileCalls, Reads,
// Ranges, and Vfs for locks). Calls: the rooms that own the other parts of an inode, and ComeBackNeeds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "client/session/meta_session.h"
#include "client/vfs/file_locks.h"
#include "client/vfs/inodes.h"
#include "client/vfs/kernel_view.h"
#include "client/vfs/last_known.h"
#include "client/vfs/leases.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/take_ups.h"
#include "client/vfs/vfs_types.h"
#include "client/vfs/write_back.h"
#include "common/exec/task.h"

namespace stria {

struct ComeBackNeeds {
  // Of the session.
  std::function<uint64_t()> generation, number_call;
  // The names of an inode, for the log.
  std::function<Task<Result<PathsReply>>(InodeRequest)> paths;
  // Notices. The server never heard of a new name in this directory, or of bytes of this file, and no open handle gives the error.
  std::function<void(InodeId)> unknown_lost;
  // The session is another one, and has nothing that belonged to the one before.
  std::function<void()> all_lost;
};

// The rooms that own what is lost. All of them outlive it.
struct ComeBackRooms {
  Inodes& inodes;
  NodeCache& nodes;
  LastKnown& last_known;
  Leases& leases;
  MadeAhead& made_ahead;
  WriteBack& write_back;
  FileLocks& file_locks;
  TakeUps& take_ups;
  KernelView& kernel_view;
};

class ComeBack {
 public:
  // `scope` outlives it and is cancelled before it goes.
  ComeBack(ComeBackRooms rooms, ComeBackNeeds needs, TaskScope& scope);
  ComeBack(const ComeBack&) = delete;
  ComeBack& operator=(const ComeBack&) = delete;

  // ---- See SessionHandlers.
  Task<void> OnRestart();
  Task<void> OnReclaimed(bool lost);
  Task<void> OnCameBack(std::vector<NotTaken> not_taken);
  void OnRepeated(InodeId ino, uint64_t former, uint64_t now);
  // What is used here is claimed from now on (InodeLease::claimed).
  std::vector<HeldInode> Held();
  std::vector<FileLock> HeldLocks() const;
  std::vector<InodeId> Leased() const;

  // ---- Losses.
  // Everything the server granted is gone, and so is what was buffered under it. Its handles give `loss`, or that the session
  // was lost.
  void DropState(VfsInode& n, std::optional<Error> loss = std::nullopt);
  // The same of one file of a session that goes on: the server, the kernel and the log hear of it.
  void Lose(const VfsInodePtr& inode, const std::string& why);
  // Ok as long as nothing was lost that the handle stands for.
  Result<void> CheckHandle(const VfsHandle& h) const;
  // All bytes of before the lapse are committed: it is as any other from here on.
  void TookUp(VfsInode& n);

 private:
  void Lapse(VfsInode& n);  // no lease of it is one any more
  void ForgetEverything();
  Task<void> LogLoss(InodeId ino, std::string why);

  Inodes& inodes_;
  NodeCache& nodes_;
  LastKnown& last_known_;
  Leases& leases_;
  MadeAhead& made_ahead_;
  WriteBack& write_back_;
  FileLocks& file_locks_;
  TakeUps& take_ups_;
  KernelView& kernel_view_;
  const ComeBackNeeds needs_;
  TaskScope& scope_;
};

}  // namespace stria
