// Room: calls that show or change the attributes of an inode.
//
// Owns no state.
//
// Invariants: what was written before a change of attributes is committed before it: sizes and times of older writes would win.
// A file is opened, changed by its attributes and given back in turn (InodeTurns::open_mu); no write starts meanwhile.
//
// Called by: programs, through Vfs; Names, Reads, Residence for what a file's attributes are now. Calls: the rooms below, the
// session.
#pragma once

#include "api/meta_api.h"
#include "client/session/meta_session.h"
#include "client/vfs/ahead_maker.h"
#include "client/vfs/attr_view.h"
#include "client/vfs/calls.h"
#include "client/vfs/commits.h"
#include "client/vfs/inodes.h"
#include "client/vfs/kernel_view.h"
#include "client/vfs/last_known.h"
#include "client/vfs/leases.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/turns.h"
#include "client/vfs/vfs_types.h"
#include "client/vfs/write_back.h"
#include "common/exec/task.h"

namespace stria {

// All of them outlive AttrCalls.
struct AttrCallsRooms {
  Inodes& inodes;
  AttrView& attrs;
  NodeCache& nodes;
  LastKnown& last_known;
  Leases& leases;
  const Turns& turns;
  KernelView& kernel_view;
  WriteBack& write_back;
  MadeAhead& made_ahead;
  AheadMaker& ahead;
  Commits& commits;
  MetaSession& session;
  CallList& calls;
};

class AttrCalls {
 public:
  explicit AttrCalls(AttrCallsRooms rooms);
  AttrCalls(const AttrCalls&) = delete;
  AttrCalls& operator=(const AttrCalls&) = delete;

  Task<Result<EntryOut>> GetAttr(Caller who, InodeId ino);
  Task<Result<EntryOut>> SetAttr(Caller who, InodeId ino, SetAttrIn set);

 private:
  Task<Result<EntryOut>> ChangeAttr(Caller who, InodeId ino, VfsInodePtr inode, SetAttrIn set);

  Inodes& inodes_;
  AttrView& attrs_;
  NodeCache& nodes_;
  LastKnown& last_known_;
  Leases& leases_;
  const Turns& turns_;
  KernelView& kernel_view_;
  WriteBack& write_back_;
  MadeAhead& made_ahead_;
  AheadMaker& ahead_;
  Commits& commits_;
  MetaSession& session_;
  CallList& calls_;
};

}  // namespace stria
