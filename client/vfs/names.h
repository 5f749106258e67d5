// Room: calls that look names up or change them. Each asks the server, unless the session's lease lets this client answer.
//
// Owns no state.
//
// Invariants: of a name that a call here changes nothing is remembered from the call's beginning to its answer
// (NodeCache::Changing). Bytes of a file are committed before it gets another name: after a crash the new name never shows less
// than the rename saw.
//
// Called by: programs, through Vfs. Calls: the rooms below, the session.
#pragma once

#include <cstdint>
#include <string>

#include "api/meta_api.h"
#include "client/session/meta_session.h"
#include "client/vfs/attr_calls.h"
#include "client/vfs/attr_view.h"
#include "client/vfs/calls.h"
#include "client/vfs/commits.h"
#include "client/vfs/inodes.h"
#include "client/vfs/last_known.h"
#include "client/vfs/lease_keeper.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/vfs_types.h"
#include "common/exec/task.h"

namespace stria {

// All of them outlive Names.
struct NamesRooms {
  Inodes& inodes;
  AttrView& attrs;
  NodeCache& nodes;
  LastKnown& last_known;
  MadeAhead& made_ahead;
  Commits& commits;
  LeaseKeeper& keeper;
  AttrCalls& attr_calls;
  MetaSession& session;
  CallList& calls;
};

// The methods are those of Vfs.
class Names {
 public:
  // `scope` outlives it and is cancelled before it goes.
  Names(NamesRooms rooms, TaskScope& scope);
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  Task<Result<EntryOut>> Lookup(Caller who, InodeId parent, std::string name);
  Task<Result<EntryOut>> MakeNode(Caller who, InodeId parent, std::string name, FileType type, uint32_t mode, uint64_t rdev,
                                  std::string target);
  Task<Result<void>> Unlink(Caller who, InodeId parent, std::string name);
  Task<Result<void>> Rmdir(Caller who, InodeId parent, std::string name);
  Task<Result<void>> Rename(Caller who, InodeId parent, std::string name, InodeId new_parent, std::string new_name,
                            bool no_replace, bool exchange);
  Task<Result<EntryOut>> Link(Caller who, InodeId ino, InodeId new_parent, std::string new_name);
  Task<Result<std::string>> ReadLink(Caller who, InodeId ino);
  Task<Result<ReadDirReply>> ReadDir(Caller who, InodeId ino, uint64_t cookie, uint32_t limit, bool attrs);
  // `mark`: LostChanges::Mark() when the program called.
  Task<Result<void>> SyncDir(Caller who, InodeId ino, uint64_t mark);

 private:
  Task<Result<ReadDirReply>> FetchListing(Caller who, InodeId ino, uint64_t cookie, uint32_t limit, bool attrs);

  Inodes& inodes_;
  AttrView& attrs_;
  NodeCache& nodes_;
  LastKnown& last_known_;
  MadeAhead& made_ahead_;
  Commits& commits_;
  LeaseKeeper& keeper_;
  AttrCalls& attr_calls_;
  MetaSession& session_;
  CallList& calls_;
  TaskScope& scope_;
};

}  // namespace stria
