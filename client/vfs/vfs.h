// The filesystem as a client sees it, without a protocol: FUSE (client/fuse) and the simulator's
// workloads (test/sim) call the same methods.
//
// Owns the rooms that keep a client's state (client/README.md, "Rooms") under the leases of one MetaSession. Each method is one
// call of a room. Executor's thread only. Methods return FsError that map to errno.
//
// Called by programs, through FUSE or the simulator. The session calls session_side(), the kernel's driver kernel_side(), and
// who wants to know what goes on here report().
//
// Invariant: a lease of the session covers each answer from a cache. LastKnown's answers are the exception, and an option.
//
// Durable: Fsync, and Release/Flush with VfsOptions::sync_on_close (default), return ok only when every
// byte written before through any handle of the inode survives a power cut of everything. A failed
// flush keeps its bytes; they are retried by the next flush.
//
// Bounds: dirty bytes <= VfsOptions::dirty_limit_bytes, block cache <= block_cache_bytes, mappings <= mapping_bytes and what
// the reads under way need, attributes <= max_cached_entries, directories and entries together <= max_cached_entries.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/meta_api.h"
#include "client/io/peers.h"
#include "client/io/stripe_io.h"
#include "client/io/stripe_pool.h"
#include "client/io/stripe_reader.h"
#include "client/session/meta_session.h"
#include "client/vfs/file_locks.h"
#include "client/vfs/kernel.h"
#include "client/vfs/kernel_side.h"
#include "client/vfs/session_side.h"
#include "client/vfs/vfs_report.h"
#include "client/vfs/vfs_types.h"
#include "common/buffer.h"
#include "common/exec/task.h"
#include "locality/read_tally.h"

namespace stria {

class VfsRooms;

class Vfs {
 public:
  using Opened = OpenedFile;

  // All of them outlive the Vfs. Wire the session's handlers to session_side().
  Vfs(VfsOptions options, MetaSession& session, StripeIo io, StripePool& pool, StripeReader& reader,
      KernelCache& kernel);
  ~Vfs();
  // Starts background write-back.
  void Start();
  // Flushes everything; the first error is returned and the rest still tried. Bounded by the session's
  // timeout per inode.
  Task<Result<void>> FlushAll();

  // From the next write or read on, also of files that are open.
  void SetFlags(VfsFlags flags);

  // ---- Faces for others than programs.
  SessionSide& session_side();
  KernelSide& kernel_side();
  const VfsReport& report() const;

  // ---- Names and attributes (names.h, attr_calls.h, xattrs.h)
  Task<Result<EntryOut>> Lookup(Caller who, InodeId parent, std::string name);
  Task<Result<EntryOut>> GetAttr(Caller who, InodeId ino);
  Task<Result<EntryOut>> SetAttr(Caller who, InodeId ino, SetAttrIn set);
  Task<Result<EntryOut>> MakeNode(Caller who, InodeId parent, std::string name, FileType type, uint32_t mode,
                                  uint64_t rdev, std::string target);
  Task<Result<void>> Unlink(Caller who, InodeId parent, std::string name);
  Task<Result<void>> Rmdir(Caller who, InodeId parent, std::string name);
  Task<Result<void>> Rename(Caller who, InodeId parent, std::string name, InodeId new_parent,
                            std::string new_name, bool no_replace, bool exchange);
  Task<Result<EntryOut>> Link(Caller who, InodeId ino, InodeId new_parent, std::string new_name);
  Task<Result<std::string>> ReadLink(Caller who, InodeId ino);
  Task<Result<ReadDirReply>> ReadDir(Caller who, InodeId ino, uint64_t cookie, uint32_t limit, bool attrs);
  Task<Result<void>> SyncDir(Caller who, InodeId ino);
  // user.stria.* are made up here (virtual_xattr.h).
  Task<Result<std::string>> GetXattr(Caller who, InodeId ino, std::string name);
  Task<Result<std::vector<std::string>>> ListXattr(Caller who, InodeId ino);
  Task<Result<void>> SetXattr(Caller who, InodeId ino, std::string name, std::string value, bool create,
                              bool replace);
  Task<Result<void>> RemoveXattr(Caller who, InodeId ino, std::string name);
  Task<Result<StatFsReply>> StatFs(Caller who);  // of a moment ago

  // ---- Files (file_calls.h, reads.h, ranges.h)
  Task<Result<Opened>> Create(Caller who, InodeId parent, std::string name, uint32_t mode, bool exclusive,
                              bool truncate, VfsHandle flags);
  Task<Result<Opened>> Open(Caller who, InodeId ino, bool truncate, VfsHandle flags);
  // `for_pages`: the kernel holds pages locked until this is answered, and cannot be told to forget them. Else, what
  // this tells of a change nobody contradicts from a cache afterwards. `reader` (may be null) counts the bytes that are fetched for
  // this, besides the file.
  Task<Result<BufferChain>> Read(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length, bool for_pages = false,
                                 std::shared_ptr<ReadTally> reader = nullptr);
  // The shard on a disk of this node that is the whole file and nothing else, for somebody who reads it past us: `length`
  // is the file's. None if there is no such shard, the handle writes, or others may write; nor if it is not known whether.
  // The file was read, as its atime goes.
  Task<std::optional<ShardRead>> WholeShard(VfsHandlePtr h);
  // Bytes taken. The buffer is kept until committed: hand over one that is yours.
  Task<Result<uint64_t>> Write(Caller who, VfsHandlePtr h, uint64_t offset, Buffer bytes);
  // Pages of a shared mapping, which the kernel writes back. They are buffered whatever the lease, and
  // committed by Fsync, Flush or when their time has come; they never grow the file. Waits for no lease, and
  // for room only while the kernel is not being told to forget pages of the inode, which waits for this.
  Task<Result<uint64_t>> WritePages(VfsHandlePtr h, uint64_t offset, Buffer bytes);
  Task<Result<void>> Flush(Caller who, VfsHandlePtr h);  // close(2)
  Task<Result<void>> Fsync(Caller who, VfsHandlePtr h);
  Task<Result<void>> Release(Caller who, VfsHandlePtr h);
  // Holes read as zeros; the size stays, or grows to the end of the range if !keep_size.
  Task<Result<void>> Punch(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length, bool keep_size);
  // Bytes and holes of a range of one file appear in another, or elsewhere in the same; the stripes are
  // shared. Bytes done from the front of the range: less at the source's end, or if there are many pieces.
  // kNotSupported: these two cannot share, copy the bytes.
  Task<Result<uint64_t>> CopyRange(Caller who, VfsHandlePtr from, uint64_t from_offset, VfsHandlePtr to,
                                   uint64_t to_offset, uint64_t length);
  // The file has at least this size; what is new is a hole.
  Task<Result<void>> Grow(Caller who, VfsHandlePtr h, uint64_t size);
  // Offset of the next data (or hole) at or after `offset`; kNxio beyond the end.
  Task<Result<uint64_t>> Seek(Caller who, VfsHandlePtr h, uint64_t offset, bool hole);

  // ---- Locks (file_locks.h)
  // Takes or gives up a lock. kAgain if another owner has it; with `wait`, stands in line for it until it is
  // free (no call is under way meanwhile), or kIntr. kDeadlock, kNoLock.
  Task<Result<void>> SetLock(VfsHandlePtr h, LockIn lock, std::shared_ptr<LockWait> wait);
  // What keeps the owner from having the lock.
  Task<Result<std::optional<FileLock>>> TestLock(VfsHandlePtr h, LockIn lock);
  // The owner is gone, and what it had locked of the inode with it. Without locks this asks nobody.
  Task<void> DropLocks(std::shared_ptr<VfsInode> inode, LockKind kind, uint64_t owner);

 private:
  const std::unique_ptr<VfsRooms> rooms_;
};

}  // namespace stria
