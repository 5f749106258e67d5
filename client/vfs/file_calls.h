// Room: open files. Making and opening them, writes into the dirty buffer, closing.
//
// Owns: who has an inode open here (VfsInode::readers, writers, reading, shared_writes).
//
// Invariants: a write goes into the dirty buffer only under the exclusive lease, and no await comes between that check and the
// buffer. An inode with a handle stays in the table.
//
// Called by: programs, through Vfs; Ranges (gather). Calls: the rooms below, the session.
#pragma once

#include <cstdint>
#include <string>

#include "api/meta_api.h"
#include "client/session/meta_session.h"
#include "client/vfs/ahead_maker.h"
#include "client/vfs/attr_view.h"
#include "client/vfs/calls.h"
#include "client/vfs/come_back.h"
#include "client/vfs/commits.h"
#include "client/vfs/inodes.h"
#include "client/vfs/io_counters.h"
#include "client/vfs/kernel_view.h"
#include "client/vfs/lease_keeper.h"
#include "client/vfs/leases.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/turns.h"
#include "client/vfs/vfs_types.h"
#include "client/vfs/write_back.h"
#include "common/buffer.h"
#include "common/exec/task.h"

namespace stria {

// All of them outlive FileCalls.
struct FileCallsRooms {
  Inodes& inodes;
  AttrView& attrs;
  NodeCache& nodes;
  Leases& leases;
  const Turns& turns;
  KernelView& kernel_view;
  WriteBack& write_back;
  MadeAhead& made_ahead;
  AheadMaker& ahead;
  Commits& commits;
  LeaseKeeper& keeper;
  ComeBack& come_back;
  MetaSession& session;
  IoCounters& counters;  // of these write_calls and write_bytes
  CallList& calls;
};

struct FileCallsOptions {
  bool sync_on_close = true;
  bool sync_writes = false;
};

// The methods are those of Vfs.
class FileCalls {
 public:
  // `scope` outlives it and is cancelled before it goes.
  FileCalls(FileCallsOptions options, FileCallsRooms rooms, TaskScope& scope);
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  void SetSyncWrites(bool on) { options_.sync_writes = on; }

  Task<Result<OpenedFile>> Create(Caller who, InodeId parent, std::string name, uint32_t mode, bool exclusive, bool truncate,
                                  VfsHandle flags);
  Task<Result<OpenedFile>> Open(Caller who, InodeId ino, bool truncate, VfsHandle flags);
  Task<Result<uint64_t>> Write(Caller who, VfsHandlePtr h, uint64_t offset, Buffer bytes);
  Task<Result<uint64_t>> WritePages(VfsHandlePtr h, uint64_t offset, Buffer bytes);
  Task<Result<void>> Flush(Caller who, VfsHandlePtr h);
  Task<Result<void>> Fsync(Caller who, VfsHandlePtr h);
  Task<Result<void>> Release(Caller who, VfsHandlePtr h);

 private:
  OpenedFile MakeHandle(const VfsInodePtr& inode, VfsHandle flags);
  Task<Result<uint64_t>> WriteShared(Caller who, VfsHandlePtr h, uint64_t offset, Buffer bytes);

  Inodes& inodes_;
  AttrView& attrs_;
  NodeCache& nodes_;
  Leases& leases_;
  const Turns& turns_;
  KernelView& kernel_view_;
  WriteBack& write_back_;
  MadeAhead& made_ahead_;
  AheadMaker& ahead_;
  Commits& commits_;
  LeaseKeeper& keeper_;
  ComeBack& come_back_;
  MetaSession& session_;
  IoCounters& counters_;
  CallList& calls_;
  FileCallsOptions options_;  // sync_writes may change
  TaskScope& scope_;
};

}  // namespace stria
