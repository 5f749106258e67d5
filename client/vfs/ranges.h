// Room: ranges of a file that change without bytes being written: holes, growth, clones, bytes that move (gather.h). The server
// does it, after all that was written before: commits are a prefix of the writes.
//
// Owns no state.
//
// Invariants: while a range changes the inode's open_mu is held and no write starts; of its attributes nothing is kept
// (AttrView::Resizing). Kernel pages of the range are the kernel's business: it asked for the change.
//
// Called by: programs, through Vfs; Xattrs (gather). Calls: the rooms below, the session, data servers.
#pragma once

#include <cstdint>
#include <string>

#include "api/meta_api.h"
#include "client/io/stripe_io.h"
#include "client/io/stripe_pool.h"
#include "client/session/meta_session.h"
#include "client/vfs/attr_view.h"
#include "client/vfs/calls.h"
#include "client/vfs/come_back.h"
#include "client/vfs/commits.h"
#include "client/vfs/file_calls.h"
#include "client/vfs/inodes.h"
#include "client/vfs/lease_keeper.h"
#include "client/vfs/leases.h"
#include "client/vfs/mappings.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/reads.h"
#include "client/vfs/turns.h"
#include "client/vfs/vfs_types.h"
#include "client/vfs/write_back.h"
#include "common/exec/task.h"

namespace stria {

// All of them outlive Ranges.
struct RangesRooms {
  AttrView& attrs;
  NodeCache& nodes;
  Leases& leases;
  const Turns& turns;
  Mappings& mappings;
  WriteBack& write_back;
  Commits& commits;
  LeaseKeeper& keeper;
  ComeBack& come_back;
  FileCalls& file_calls;
  Reads& reads;
  StripePool& pool;
  MetaSession& session;
  CallList& calls;
};

// The methods are those of Vfs.
class Ranges {
 public:
  Ranges(RangesRooms rooms, StripeIo io);
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  Task<Result<void>> Punch(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length, bool keep_size);
  Task<Result<void>> Grow(Caller who, VfsHandlePtr h, uint64_t size);
  Task<Result<uint64_t>> CopyRange(Caller who, VfsHandlePtr from, uint64_t from_offset, VfsHandlePtr to, uint64_t to_offset,
                                   uint64_t length);
  // `text`: ParseGather.
  Task<Result<void>> Gather(Caller who, InodeId ino, std::string text);

 private:
  class HeldForGather;
  // What [offset, offset+length) was here is not so any more.
  void RangeChanged(VfsInode& n, uint64_t offset, uint64_t length, const Attr& attr, CommitSeq seq, uint64_t since);
  Task<Result<void>> Reshape(Caller who, VfsHandlePtr h, CommitRequest r, uint64_t offset, uint64_t length);

  AttrView& attrs_;
  NodeCache& nodes_;
  Leases& leases_;
  const Turns& turns_;
  Mappings& mappings_;
  WriteBack& write_back_;
  Commits& commits_;
  LeaseKeeper& keeper_;
  ComeBack& come_back_;
  FileCalls& file_calls_;
  Reads& reads_;
  StripePool& pool_;
  MetaSession& session_;
  CallList& calls_;
  const StripeIo io_;
};

}  // namespace stria
