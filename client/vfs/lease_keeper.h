// Room: taking leases and giving them back. What the server grants at an open, for how long it is kept, and how it is given
// back. (What the server recalls: recalls.h. What a lease is: leases.h.)
//
// Owns no state: it changes the inode's InodeLease, and what else an inode knows by a grant (layout, attributes, mapping).
//
// Invariants:
//  - who asks for a lease holds the inode's open_mu until the answer is taken; so does who gives one back, but with the request
//    that removes the file's only name;
//  - a grant of another session than the inode's is taken only after what the inode had of that one is dropped (ComeBack);
//  - what is not held any more is given back until the server has said that it knows (ReleaseInode).
//
// Called by: calls of programs (FileCalls, Reads, Ranges, Names). Calls: Inodes, Leases, Turns, AttrView, NodeCache, WriteBack,
// MadeAhead, Commits, ComeBack, the session.
#pragma once

#include <cstdint>
#include <string>

#include "api/meta_api.h"
#include "client/session/meta_session.h"
#include "client/vfs/attr_view.h"
#include "client/vfs/come_back.h"
#include "client/vfs/commits.h"
#include "client/vfs/inodes.h"
#include "client/vfs/leases.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/turns.h"
#include "client/vfs/write_back.h"
#include "common/exec/task.h"

namespace stria {

// All of them outlive LeaseKeeper.
struct LeaseKeeperRooms {
  Inodes& inodes;
  Leases& leases;
  const Turns& turns;
  AttrView& attrs;
  NodeCache& nodes;
  WriteBack& write_back;
  MadeAhead& made_ahead;
  Commits& commits;
  ComeBack& come_back;
  MetaSession& session;
};

class LeaseKeeper {
 public:
  // `scope` outlives it and is cancelled before it goes.
  LeaseKeeper(LeaseKeeperRooms rooms, TaskScope& scope);
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // ---- Taking.
  // `again`: for a handle, which outlives the permission to open.
  Task<Result<void>> Acquire(Caller who, VfsInodePtr inode, bool for_read, bool for_write, bool truncate, bool again = false);
  // `asked`: Leases::events_seen when the open was sent. What came since has changed what its answer grants.
  void TakeGrant(const VfsInodePtr& inode, const OpenReply& reply, bool for_read, bool for_write, uint64_t asked);
  // Size and times, which a caching lease lets us keep, are known afterwards. `for_pages`: this waits for no other client.
  Task<Result<void>> KnowAttr(VfsInodePtr inode, bool for_pages = false);

  // ---- Giving back.
  // What is held of it, unless it is used again meanwhile: tries until the server has said that it knows.
  Task<void> ReleaseInode(VfsInodePtr inode);
  Task<bool> TryRelease(VfsInodePtr inode);
  // An unlink, or a rename over it, takes the inode's only name: if nobody uses it here its lease is given back in the
  // same request (NameRequest, RenameRequest). The inode, or null; WasGivenBack with the answer.
  template <class Req>
  VfsInodePtr GiveBackWith(Req* r, InodeId ino);
  void WasGivenBack(const VfsInodePtr& inode, uint64_t call, bool surely);

 private:
  // Nothing has come between since it was asked for, but perhaps a recall.
  void TakeMapping(VfsInode& n, const OpenReply& reply, int64_t asked_ns);

  Inodes& inodes_;
  Leases& leases_;
  const Turns& turns_;
  AttrView& attrs_;
  NodeCache& nodes_;
  WriteBack& write_back_;
  MadeAhead& made_ahead_;
  Commits& commits_;
  ComeBack& come_back_;
  MetaSession& session_;
  TaskScope& scope_;
};

}  // namespace stria
