// Room: file locks of applications. The server grants them; this client notes per inode what it holds, to claim it again
// after a restart of the server (a claim that another client has too fences us), and to know at close whether there is
// anything to give up.
//
// Owns: the locks that are held (InodeLocks, the room's part of an inode), and the programs that wait for a lock.
//
// Who waits stands in line at the server under a ticket and has no call under way: an event (kLockFree) says when to ask
// again. A lock is held only when a reply says so, so an interrupted wait leaves nothing behind but a place in line, which
// is withdrawn. What the server cannot be told at once, that an owner is gone or waits no more, it is told later: others
// wait for it.
//
// A request is among the calls that are under way, as the server answers each at once. A place in line is not: it is
// waited for somebody else's unlock, however long that takes.
//
// Invariants: requests about one inode reach the server one after another. What InodeLocks calls held the server has
// granted, and has not taken away, whatever becomes of a request that is under way.
//
// Called by: programs, through Vfs; ComeBack, SessionEvents. Calls: the server, through FileLocksNeeds. Knows no other room.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "client/vfs/calls.h"
#include "common/exec/task.h"

namespace stria {

// A lock that an application asks for (FileLock without its inode).
struct LockIn {
  LockKind kind = LockKind::kPosix;
  uint64_t owner = 0;
  LockRange range;  // kNone unlocks
};
// Someone who waits for a lock. `interrupted` ends the wait; pulse `changed` after setting it.
struct LockWait {
  bool interrupted = false;
  bool free = false;  // ask again
  Event changed;
};

// The locks of one inode, by kind and owner. Only FileLocks changes them.
class InodeLocks {
 public:
  using Owner = std::pair<LockKind, uint64_t>;
  struct OwnerLocks {
    LockRanges held;    // surely: while a request is under way, what is left whatever becomes of it
    bool more = false;  // an answer was lost: the server may have more
    bool dropped = false;  // the owner is gone, and the server is yet to be told
    bool empty() const { return held.empty() && !more; }
  };

  // `proof`: the inode's OpenReply::proof, as it is when it is read.
  InodeLocks(InodeId ino, const std::string& proof) : ino_(ino), proof_(proof) {}
  InodeLocks(const InodeLocks&) = delete;
  InodeLocks& operator=(const InodeLocks&) = delete;

  InodeId ino() const { return ino_; }
  // Nobody here has a lock, and the server need not be told that somebody has none any more.
  bool empty() const { return owners_.empty(); }
  // So the inode must stay: a request is under way, or there are locks.
  bool in_use() const { return !empty() || mu_.locked(); }
  bool asking() const { return mu_.locked(); }
  std::vector<Owner> Owners() const;
  std::vector<FileLock> Held() const;  // for a claim
  bool Dropped(const Owner& owner) const;

  const std::string& proof() const { return proof_; }
  uint64_t era() const { return era_; }
  const Error& loss() const { return loss_; }
  const LockRanges* HeldBy(const Owner& owner) const;
  // To change: added if there are none, and Tidy takes them away again.
  OwnerLocks& Of(const Owner& owner) { return owners_[owner]; }
  void Tidy(const Owner& owner);
  // All are lost, and so are requests that are under way: these give `loss`.
  void LoseAll(Error loss);
  Task<SemaphoreHold> Turn() { return mu_.Lock(); }

 private:
  const InodeId ino_;
  const std::string& proof_;
  std::map<Owner, OwnerLocks> owners_;
  uint64_t era_ = 0;  // one more each time that all were lost
  Error loss_;
  AsyncMutex mu_;  // held over each request: they arrive in order
};
// Keeps the inode that it is a part of.
using InodeLocksPtr = std::shared_ptr<InodeLocks>;

struct FileLocksNeeds {
  // The server's answers, as of MetaSession::Call and MetaSession::Mutate.
  std::function<Task<Result<LockReply>>(LockRequest)> ask;
  std::function<Task<Result<LockReply>>(LockRequest)> change;
  std::function<uint64_t()> generation;  // of the session
  // Notice: the inode may not be in use any more.
  std::function<void(const InodeLocksPtr&)> maybe_unused;
};

class FileLocks {
 public:
  // `calls` and `scope` outlive it; `scope` is cancelled before it goes.
  FileLocks(FileLocksNeeds needs, CallList& calls, TaskScope& scope)
      : needs_(std::move(needs)), calls_(calls), scope_(scope) {}
  FileLocks(const FileLocks&) = delete;
  FileLocks& operator=(const FileLocks&) = delete;

  // Takes or gives up a lock. kAgain if another owner has it; with `wait`, stands in line for it until it is free, or
  // kIntr. kDeadlock, kNoLock. `still`: Ok as long as the handle is one (ComeBack::CheckHandle).
  Task<Result<void>> Set(InodeLocksPtr locks, LockIn lock, std::shared_ptr<LockWait> wait,
                         std::function<Result<void>()> still);
  // What keeps the owner from having the lock.
  Task<Result<std::optional<FileLock>>> Test(InodeLocksPtr locks, LockIn lock);
  // The owner is gone, and what it had locked of the inode with it. Without locks this asks nobody.
  Task<void> Drop(InodeLocksPtr locks, LockKind kind, uint64_t owner);
  // These owners lost all that they had locked (InodeLocks::LoseAll): the server is told until it knows.
  void GiveUp(const InodeLocksPtr& locks, const std::vector<InodeLocks::Owner>& owners);

  // A place in line may have become free, or any of them.
  void Wake(uint64_t ticket);
  void WakeAll();

 private:
  class Line;
  Task<Result<LockReply>> Ask(InodeLocksPtr locks, LockOp op, LockIn lock, uint64_t ticket);
  Task<Result<LockReply>> Change(InodeLocksPtr locks, LockRequest r, LockRange range);
  Task<Result<void>> Unlock(InodeLocksPtr locks, LockIn lock);
  Task<void> Withdraw(InodeLocksPtr locks, LockIn lock, uint64_t ticket);
  Task<void> UnlockDropped(InodeLocksPtr locks, InodeLocks::Owner owner);

  const FileLocksNeeds needs_;
  CallList& calls_;
  TaskScope& scope_;
  std::map<uint64_t, std::shared_ptr<LockWait>> waits_;  // by ticket
  uint64_t next_ticket_ = 1;
};

}  // namespace stria
