// The filesystem as a client sees it, without a protocol: FUSE (client/fuse) and the simulator's
// workloads (test/sim) call the same methods.
//
// Owns the rooms that keep a client's state (client/README.md, "Rooms") under the leases of one MetaSession, and is the wiring
// between them. Executor's thread only. Methods return FsError that map to errno.
//
// Durable: Fsync, and Release/Flush with Options::sync_on_close (default), return ok only when every
// byte written before through any handle of the inode survives a power cut of everything. A failed
// flush keeps its bytes; they are retried by the next flush.
//
// Bounds: dirty bytes <= Options::dirty_limit_bytes, block cache <= block_cache_bytes, mappings <= mapping_bytes and what
// the reads under way need, attributes <= max_cached_entries, directories and entries together <= max_cached_entries.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/meta_api.h"
#include "client/io/stripe_io.h"
#include "client/io/stripe_pool.h"
#include "client/io/stripe_reader.h"
#include "client/io/write_all.h"
#include "client/session/meta_session.h"
#include "client/vfs/calls.h"
#include "client/vfs/file_locks.h"
#include "client/vfs/io_counters.h"
#include "client/vfs/idle_inodes.h"
#include "client/vfs/kernel.h"
#include "client/vfs/kernel_view.h"
#include "client/vfs/last_known.h"
#include "client/vfs/leases.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/mappings.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/read_path.h"
#include "client/vfs/atimes.h"
#include "client/vfs/residence.h"
#include "client/vfs/server_silent.h"
#include "client/vfs/stripe_blocks.h"
#include "client/vfs/take_ups.h"
#include "client/vfs/turns.h"
#include "client/vfs/waits.h"
#include "client/vfs/write_back.h"
#include "common/buffer.h"
#include "common/exec/task.h"
#include "locality/read_tally.h"

namespace stria {

struct VfsOptions {
  uint64_t dirty_limit_bytes = 192 * kMiB;
  uint64_t block_cache_bytes = 96 * kMiB;
  uint64_t mapping_bytes = 48 * kMiB;  // where the bytes of files lie, of all files together
  uint64_t readahead_bytes = 16 * kMiB;  // most that is fetched ahead of one sequential reader
  size_t max_cached_entries = 200'000;
  bool sync_on_close = true;  // close() returns after the bytes are durable
  bool sync_writes = false;   // so does each write()
  int64_t write_back_delay_ns = 5 * kSecond;  // dirty bytes start to leave after this at the latest
  size_t max_batches_per_inode = 3;  // stripes of one inode being written at once
  bool relatime = true;  // reading moves atimes (atimes.h)
  bool make_ahead = true;  // files are made in one call, where no other client can notice (made_ahead.h)
  // Directories are shown as last seen when the servers are gone for good and the lease has run out (LastKnown).
  bool show_last_known = false;
};

struct EntryOut {
  Attr attr;
  int64_t attr_valid_ns = 0;  // how long the kernel may keep attr
};

class VfsInode;

// An open file. Created by Open/Create, ends with Release.
struct VfsHandle {
  std::shared_ptr<VfsInode> inode;
  bool read = false;
  bool write = false;
  bool append = false;
  bool sync = false;  // O_SYNC/O_DSYNC
  bool noatime = false;  // O_NOATIME
  bool page_cache = false;  // the kernel may cache its pages (read-only opens)
  bool keep_cache = false;  // pages of earlier opens are still right
  bool writes_through = false;  // the kernel's pages have what is written with this handle
  uint64_t generation = 0;  // of the session; older ones give EIO
  uint64_t era = 0;         // of the inode; the same
  FileReader reader;
};
using VfsHandlePtr = std::shared_ptr<VfsHandle>;

struct SetAttrIn {
  std::optional<uint32_t> mode, uid, gid;
  std::optional<uint64_t> size;
  std::optional<int64_t> atime_ns, mtime_ns;
  bool atime_now = false, mtime_now = false;
  bool kill_suid = false;  // suid and sgid go, if the caller may not keep them when it writes
};

class Vfs {
 public:
  // All of them outlive the Vfs. Wire the handlers below to the session's.
  Vfs(VfsOptions options, MetaSession& session, StripeIo io, StripePool& pool, StripeReader& reader,
      KernelCache& kernel);
  ~Vfs();
  // Starts background write-back.
  void Start();
  // Flushes everything; the first error is returned and the rest still tried. Bounded by the session's
  // timeout per inode.
  Task<Result<void>> FlushAll();

  // ---- Handlers of the session (events.cc, resume.cc)
  void EventCame(const SessionEvent& e);  // before its OnEvent
  Task<void> OnEvent(SessionEvent e);
  Task<void> OnRestart();
  Task<void> OnReclaimed(bool lost);
  Task<void> OnCameBack(std::vector<NotTaken> not_taken);
  void OnRepeated(InodeId ino, uint64_t former, uint64_t now);
  std::vector<HeldInode> Held();
  // Of which it holds a lease, and has told the server that they are there.
  std::vector<InodeId> Leased() const;
  std::vector<FileLock> HeldLocks();
  // SessionHandlers::before_call: files that the call is about, or in a directory that it is about, and the server does
  // not know yet (made_ahead.h).
  std::optional<Task<Result<void>>> TellBefore(const SessionCallNames& named);

  // ---- Names (namespace.cc)
  Task<Result<EntryOut>> Lookup(Caller who, InodeId parent, std::string name);
  // An operation of ours that changes something ended after the kernel had been told that it failed.
  void ChangeInDoubt(InodeId ino) {
    scope_.Spawn(ForgetInKernel(InodesKnown()));
    scope_.Spawn(kernel_.InvalidateInode(ino, true, 0, 0));
  }
  // Operations that change something may not end in time, as it is not known whether they were done.
  bool overdue() const { return session_.overdue(); }
  // Those on this inode, or on names in this directory.
  bool overdue(InodeId ino) const { return session_.overdue(ino); }
  // For how long the kernel may believe that the name leads to `ino`. Right after the answer that said so, before anything is
  // waited for.
  int64_t NameValidNs(InodeId parent, const std::string& name, InodeId ino);
  // The same for what needs no cache.
  int64_t LeaseLeftNs() const { return session_.LeaseLeftNs(); }
  Task<Result<EntryOut>> GetAttr(Caller who, InodeId ino);
  void SizeShown(InodeId ino, uint64_t size);  // the kernel is told of this size
  // Returns when the kernel has forgotten what attributes of it were shown until now.
  Task<void> ForgetShown(InodeId ino);
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
  Task<Result<StatFsReply>> StatFs(Caller who) { return last_known_.StatFs(std::move(who)); }  // of a moment ago

  // ---- Files (file.cc, lease.cc, ranges.cc, flush.cc, read.cc)
  struct Opened {
    EntryOut entry;
    VfsHandlePtr handle;
  };
  Task<Result<Opened>> Create(Caller who, InodeId parent, std::string name, uint32_t mode, bool exclusive,
                              bool truncate, VfsHandle flags);
  Task<Result<Opened>> Open(Caller who, InodeId ino, bool truncate, VfsHandle flags);
  // `for_pages`: the kernel holds pages locked until this is answered, and cannot be told to forget them. Else, what
  // this tells of a change nobody contradicts from a cache afterwards.
  Task<Result<BufferChain>> Read(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length, bool for_pages = false);
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

  // ---- Locks (FileLocks)
  // Takes or gives up a lock. kAgain if another owner has it; with `wait`, stands in line for it until it is
  // free (no call is under way meanwhile), or kIntr. kDeadlock, kNoLock.
  Task<Result<void>> SetLock(VfsHandlePtr h, LockIn lock, std::shared_ptr<LockWait> wait);
  // What keeps the owner from having the lock.
  Task<Result<std::optional<FileLock>>> TestLock(VfsHandlePtr h, LockIn lock);
  // The owner is gone, and what it had locked of the inode with it. Without locks this asks nobody.
  Task<void> DropLocks(std::shared_ptr<VfsInode> inode, LockKind kind, uint64_t owner);

  // What is held and under way of an inode, in one line for an operator who wonders why it takes so long.
  std::string Describe(InodeId ino) const;

  std::vector<InodeWaits> Waits() const;  // of inodes that wait for something
  const CallList& calls() const { return calls_; }  // of programs, under way
  const IoCounters& counters() const { return counters_; }
  uint64_t dirty_bytes() const { return write_back_.dirty_bytes(); }

 private:
  static constexpr uint64_t kMaxReadBytes = 1 * kMiB * 8;
  static constexpr size_t kMaxIdleInodes = 20'000;  // leased and kept for the next open

  // cache.cc: what is known of open inodes over what nodes_ remembers. `since`: NodeCache.
  int64_t AttrValidNs() const;
  EntryOut Newest(Attr attr);            // with our own unflushed writes; to be used once
  EntryOut Overlay(const Attr& attr);    // the same, for the kernel to keep
  // An answer that another of the server's has overtaken. It is used once, and the kernel keeps nothing of it.
  static bool Overtaken(const VfsInode& n, const Attr& answer);
  void UpdateInode(const Attr& attr, bool current);
  void AttrChanged(InodeId ino);  // by an operation whose reply does not say how
  void ChangedUntold(InodeId ino);  // the same by one of ours, of which the server tells us nothing
  // An answer said this, which may have overtaken the event that tells us to forget what was before.
  Task<void> ForgetOlder(const Attr& seen);
  EntryOut Remember(const Attr& attr, uint64_t since);
  EntryOut RememberNode(const NodeReply& reply, uint64_t since);
  // An inode whose size a call of ours changes: until it has its answer the kernel has the old size. So from Begin to the end
  // neither it nor we keep attributes: everybody asks.
  class Resizing {
   public:
    Resizing(Vfs* vfs, InodeId ino) : counted_(&vfs->nodes_, ino), vfs_(vfs), ino_(ino) {}
    Task<void> Begin();  // before the change is made

   private:
    const NodeCache::Resizing counted_;
    Vfs* const vfs_;
    const InodeId ino_;
  };
  // It is being written here, and grew a moment ago: it will again. The kernel may not keep its attributes, of which it
  // forgets the size with every such write anyway; so it need not be told to, which each of these writes would wait for.
  bool IsGrowing(InodeId ino) const;
  // The kernel has pages of it, and somebody may write it: the kernel may not keep its attributes, so that it asks before
  // each read of these pages, and they go before that is answered if they are older than what anybody may have seen.
  bool PagesGated(const VfsInode& n) const;
  // The attributes that the kernel keeps of a file that it has pages of, as somebody begins to write it here.
  Task<void> GatePages(std::shared_ptr<VfsInode> inode);
  void ForgetEverything();
  std::vector<InodeId> InodesKnown() const { return nodes_.attrs().All(); }  // whose attributes are cached
  Task<void> ForgetInKernel(std::vector<InodeId> known);  // these, and whatever it believes of names
  std::shared_ptr<VfsInode> InodeOf(InodeId ino);

  // vfs.cc: what the rooms are given of each other.
  NodeCacheNeeds ForNodes();
  FileLocksNeeds ForLocks();
  LastKnownNeeds ForLastKnown();
  AtimesNeeds ForAtimes();
  ResidenceNeeds ForResidence();
  MappingsNeeds ForMappings();
  static InodeMappingPtr MappingOf(const std::shared_ptr<VfsInode>& inode);
  WriteBackOptions OptionsOfWriteBack() const;
  WriteBackNeeds ForWriteBack();
  LeasesNeeds ForLeases();
  static InodeLeasePtr LeaseOf(const std::shared_ptr<VfsInode>& inode);
  TakeUpsNeeds ForTakeUps();
  static InodeTakeUpPtr TakeUpOf(const std::shared_ptr<VfsInode>& inode);
  static InodeTurnsPtr TurnsOf(const std::shared_ptr<VfsInode>& inode);
  static InodeWritesPtr WritesOf(const std::shared_ptr<VfsInode>& inode);
  KernelViewNeeds ForKernelView();
  static InodeInKernelPtr InKernel(const std::shared_ptr<VfsInode>& inode);  // null of null
  MadeAheadNeeds ForMadeAhead();
  static InodeMadePtr MadeOf(const std::shared_ptr<VfsInode>& inode);
  static InodeLocksPtr LocksOf(const std::shared_ptr<VfsInode>& inode);
  // The inode of a room's part; null if another object stands for it now.
  template <class Part>
  std::shared_ptr<VfsInode> InodeWith(Part VfsInode::*part, const Part* of) const;
  Task<bool> MayTellRead(std::shared_ptr<VfsInode> inode);
  Task<bool> TellRead(std::shared_ptr<VfsInode> inode, std::optional<int64_t> read_ns);

  Task<Result<ReadDirReply>> FetchListing(Caller who, InodeId ino, uint64_t cookie, uint32_t limit, bool attrs);

  // events.cc
  Task<void> GiveUpLease(std::shared_ptr<VfsInode> inode, SessionEvent e);
  Task<void> CarryOutRecall(std::shared_ptr<VfsInode> inode, SessionEvent e);
  // All that was buffered under the exclusive lease, however often it takes; false: the session was lost.
  Task<bool> FlushForOthers(std::shared_ptr<VfsInode> inode, uint64_t era);
  Task<void> AnswerNotHeld(std::shared_ptr<VfsInode> inode, SessionEvent e);
  Task<void> AnswerFlush(std::shared_ptr<VfsInode> inode, SessionEvent e);

  // resume.cc
  // What was not committed is lost, and so are its handles: they give this, or that the session was lost.
  void DropState(VfsInode& n, std::optional<Error> loss = std::nullopt);
  void Lapse(VfsInode& n);      // no lease of it is one any more
  void Lose(const std::shared_ptr<VfsInode>& inode, const std::string& why);
  Task<void> LogLoss(InodeId ino, std::string why);
  void TookUp(VfsInode& n);  // it is as any other from here on

  // ahead.cc
  void AskAhead(InodeId parent, MakeNodeRequest* r);
  void TakeAhead(InodeId parent, const OpenReply& reply, uint64_t asked);
  // nullopt: the server must be asked. No await between the decision and the file.
  std::optional<Opened> MakeAhead(const Caller& who, InodeId parent, const std::string& name, uint32_t mode,
                                  const VfsHandle& flags);
  // An inode that was made here, and of which the server surely knows nothing yet; null if it is no such one.
  VfsInode* Untold(InodeId ino);
  // Nothing: it is the server's business.
  std::optional<EntryOut> SetAhead(const Caller& who, InodeId ino, const SetAttrIn& set);
  // `bare`: the commit did nothing but make it.
  void MadeAnswered(const std::shared_ptr<VfsInode>& inode, const Result<CommitReply>& reply, uint64_t since, bool bare);
  void CouldNotBeMade(const std::shared_ptr<VfsInode>& inode, const MadeFile& file);
  Task<void> CommitMade(std::shared_ptr<VfsInode> inode, bool durable);  // of nothing else
  // All that the server does not know and nobody else may see before the lease is given up. Under lease_mu.
  Task<Result<void>> FlushHeld(std::shared_ptr<VfsInode> inode);

  // lease.cc, file.cc
  bool HoldsFor(const VfsInode& n, bool for_write) const;
  // `asked`: Leases::events_seen when the open was sent. What came since has changed what its answer grants.
  void TakeGrant(const std::shared_ptr<VfsInode>& inode, const OpenReply& reply, bool for_read, bool for_write,
                 uint64_t asked);
  // Size and times, which a caching lease lets us keep, are known afterwards.
  Task<Result<void>> KnowAttr(std::shared_ptr<VfsInode> inode, bool for_pages = false);
  // `again`: for a handle, which outlives the permission to open.
  Task<Result<void>> Acquire(Caller who, std::shared_ptr<VfsInode> inode, bool for_read, bool for_write, bool truncate,
                             bool again = false);
  // Nothing has come between since it was asked for, but perhaps a recall.
  void TakeMapping(VfsInode& n, const OpenReply& reply, int64_t asked_ns);
  Opened MakeHandle(const std::shared_ptr<VfsInode>& inode, VfsHandle flags);
  Result<void> CheckHandle(const VfsHandle& h) const;
  Task<Result<void>> WaitForDirtyRoom(std::shared_ptr<VfsInode> inode, uint64_t bytes, bool pages);
  Task<void> ForgetPages(const std::shared_ptr<VfsInode>& inode, uint64_t offset, uint64_t length) {
    return kernel_view_.ForgetPages(InKernel(inode), offset, length);
  }
  Task<Result<uint64_t>> WriteShared(Caller who, VfsHandlePtr h, uint64_t offset, Buffer bytes);
  // Gives back what is held of it, unless it is used again meanwhile: tries until the server has said that it knows.
  Task<void> ReleaseInode(std::shared_ptr<VfsInode> inode);
  Task<bool> TryRelease(std::shared_ptr<VfsInode> inode);
  // An unlink, or a rename over it, takes the inode's only name: if nobody uses it here its lease is given back in the
  // same request. The inode, or null; WasGivenBack with the answer.
  template <class Req>
  std::shared_ptr<VfsInode> GiveBackWith(Req* r, InodeId ino);
  void WasGivenBack(const std::shared_ptr<VfsInode>& inode, uint64_t call, bool surely);
  void DropLease(VfsInode& n);  // not the server's knowledge of it
  void DropIfIdle(const std::shared_ptr<VfsInode>& inode);
  // If nobody uses it, and it is not worth keeping for a next open, what is held of it is given back.
  void LetGo(const std::shared_ptr<VfsInode>& inode);
  void NoteRead(const std::shared_ptr<VfsInode>& inode, bool noatime);  // it was read
  void KeepIdle(VfsInode& n);  // for the next open

  // ranges.cc
  void RangeChanged(VfsInode& n, uint64_t offset, uint64_t length, const Attr& attr, CommitSeq seq, uint64_t since);
  Task<Result<void>> Reshape(Caller who, VfsHandlePtr h, CommitRequest r, uint64_t offset, uint64_t length);

  class HeldForGather;
  Task<Result<void>> Gather(Caller who, InodeId ino, std::string text);

  // flush.cc
  void TakeDirty(const std::shared_ptr<VfsInode>& inode, uint64_t offset, Buffer bytes, bool grows);
  void StartWriteBack(const std::shared_ptr<VfsInode>& inode) { write_back_.Start(WritesOf(inode)); }
  // Bytes that found no space, of a file that is gone, wait for space no longer.
  void DropUnreachable(const std::shared_ptr<VfsInode>& inode);
  Task<Result<void>> FlushInode(std::shared_ptr<VfsInode> inode, bool durable);
  Task<Result<EntryOut>> ChangeAttr(Caller who, InodeId ino, std::shared_ptr<VfsInode> inode, SetAttrIn set);
  Task<Result<NodeReply>> CutUnflushed(std::shared_ptr<VfsInode> inode, SetAttrRequest r, Caller who);
  Task<Result<std::vector<WrittenPiece>>> Store(std::shared_ptr<VfsInode> inode, BufferChain payload);
  // They are not committed, for this reason.
  void GiveBack(const std::vector<WrittenPiece>& written, FsError why);
  Task<Result<CommitReply>> CommitPieces(std::shared_ptr<VfsInode> inode, std::vector<StripeInfo> stripes,
                                         std::vector<Extent> extents, std::optional<uint64_t> grow_to,
                                         bool durable);  // no grow_to: append

  // read.cc
  // Short if the file ends sooner. `h`, whose readahead is used, may be null.
  Task<Result<BufferChain>> ReadRange(std::shared_ptr<VfsInode> inode, VfsHandle* h, uint64_t offset, uint64_t length,
                                      bool for_pages = false);
  struct ReadHow {
    bool for_pages = false;
    bool any = false;  // take what is there, for a file that changes all the time
  };
  Task<Result<bool>> MapRead(std::shared_ptr<VfsInode> inode, VfsHandle* h, uint64_t offset, uint64_t length, ReadHow how,
                             ReadParts* out);
  Task<Result<FileGrowth>> LookForGrowth(std::shared_ptr<VfsInode> inode);

  VfsOptions options_;
  MetaSession& session_;
  StripeIo io_;
  StripePool& pool_;
  StripeReader& reader_;
  KernelCache& kernel_;

  Turns turns_;
  Leases leases_;
  NodeCache nodes_;
  Mappings mappings_;
  std::map<InodeId, std::shared_ptr<VfsInode>> inodes_;  // open, leased or dirty
  IdleInodes idle_{kMaxIdleInodes};
  IoCounters counters_;
  CallList calls_;
  TaskScope scope_;
  FileLocks file_locks_;
  LastKnown last_known_;
  Atimes atimes_;
  Residence residence_;
  WriteBack write_back_;
  StripeBlocks blocks_;
  ReadPath read_path_;
  KernelView kernel_view_;
  MadeAhead made_ahead_;
  TakeUps take_ups_;
};

}  // namespace stria
