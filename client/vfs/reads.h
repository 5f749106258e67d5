// Room: reads. Of which moment a range is read, by what the lease says, and what is tried again. (How its bytes come:
// read_path.h.)
//
// Owns no state.
//
// Invariants: size, dirty bytes and mapping of a range are of one moment (MapRead). Pages that the kernel reads wait for no
// lease, nor for other clients (docs/waits.md).
//
// Called by: programs, through Vfs; Ranges (gather); KernelView and Atimes, through what the wiring gives them. Calls: the rooms
// below, the session.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "api/meta_api.h"
#include "client/io/peers.h"
#include "client/session/meta_session.h"
#include "client/vfs/atimes.h"
#include "client/vfs/attr_calls.h"
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
#include "client/vfs/mappings.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/read_path.h"
#include "client/vfs/vfs_types.h"
#include "common/buffer.h"
#include "common/exec/task.h"
#include "locality/read_tally.h"

namespace stria {

// All of them outlive Reads.
struct ReadsRooms {
  AttrView& attrs;
  NodeCache& nodes;
  Leases& leases;
  Mappings& mappings;
  ReadPath& read_path;
  Atimes& atimes;
  MadeAhead& made_ahead;
  Commits& commits;
  LeaseKeeper& keeper;
  ComeBack& come_back;
  AttrCalls& attr_calls;
  KernelView& kernel_view;
  const DataPeers& peers;
  MetaSession& session;
  IoCounters& counters;  // of these read_calls, read_bytes and lost_mappings
  CallList& calls;
};

class Reads {
 public:
  explicit Reads(ReadsRooms rooms);
  Reads(const Reads&) = delete;
  Reads& operator=(const Reads&) = delete;

  // ---- The methods of Vfs.
  Task<Result<BufferChain>> Read(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length, bool for_pages,
                                 std::shared_ptr<ReadTally> reader);
  Task<std::optional<ShardRead>> WholeShard(VfsHandlePtr h);
  Task<Result<uint64_t>> Seek(Caller who, VfsHandlePtr h, uint64_t offset, bool hole);

  // Short if the file ends sooner. `h`, whose readahead is used, may be null; so may `reader`, which counts besides the file.
  Task<Result<BufferChain>> ReadRange(VfsInodePtr inode, VfsHandle* h, uint64_t offset, uint64_t length,
                                      bool for_pages = false, std::shared_ptr<ReadTally> reader = nullptr);
  // For KernelView.
  Task<Result<FileGrowth>> LookForGrowth(VfsInodePtr inode);
  // For Atimes; `inode` may be null.
  Task<bool> MayTellRead(VfsInodePtr inode);
  Task<bool> TellRead(VfsInodePtr inode, std::optional<int64_t> read_ns);

 private:
  static constexpr uint64_t kMaxReadBytes = 8 * kMiB;

  struct ReadHow {
    bool for_pages = false;
    bool any = false;  // take what is there, for a file that changes all the time
    Tallies tally = {};
  };
  Task<Result<bool>> MapRead(VfsInodePtr inode, VfsHandle* h, uint64_t offset, uint64_t length, ReadHow how, ReadParts* out);
  void NoteRead(const VfsInodePtr& inode, bool noatime);  // it was read

  AttrView& attrs_;
  NodeCache& nodes_;
  Leases& leases_;
  Mappings& mappings_;
  ReadPath& read_path_;
  Atimes& atimes_;
  MadeAhead& made_ahead_;
  Commits& commits_;
  LeaseKeeper& keeper_;
  ComeBack& come_back_;
  AttrCalls& attr_calls_;
  KernelView& kernel_view_;
  const DataPeers& peers_;
  MetaSession& session_;
  IoCounters& counters_;
  CallList& calls_;
};

}  // namespace stria
