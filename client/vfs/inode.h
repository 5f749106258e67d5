// What a client knows and holds of one inode that is open, leased or dirty. Members of these types are parts that a room owns, and
// their headers say who may change them: InodeLease, InodeTurns, InodeIdle, InodeAtime, InodeInKernel, InodeLoss, InodeTakeUp,
// InodeMapping, InodeWrites, InodeMade, InodeLocks. The other members say beside them who changes them.
// In the table of inodes (inodes.h); executor's thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/meta_api.h"
#include "client/vfs/file_locks.h"
#include "client/vfs/atimes.h"
#include "client/vfs/counted.h"
#include "client/vfs/idle_inodes.h"
#include "client/vfs/inode_loss.h"
#include "client/vfs/kernel_view.h"
#include "client/vfs/leases.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/mappings.h"
#include "client/vfs/take_ups.h"
#include "client/vfs/turns.h"
#include "client/vfs/write_back.h"
#include "common/exec/task.h"
#include "locality/read_tally.h"

namespace stria {

class VfsInode {
 public:
  VfsInode(InodeId id, std::shared_ptr<ReadTally> reads, std::shared_ptr<ExtentBudget> mappings)
      : ino(id), tally(std::move(reads)), mapping(ino, lease.proof(), tally, std::move(mappings)) {}

  const InodeId ino;
  const std::shared_ptr<ReadTally> tally;  // of this file's reads, kept after the inode is not in use

  // ---- What the server granted.
  InodeLease lease{ino};
  Layout layout;              // changed by LeaseKeeper and AheadMaker, of an answer, and by Residence, which sets it
  bool layout_known = false;  // by LeaseKeeper and AheadMaker; AttrView and MadeAhead let a directory's be in doubt (rooms.cc)
  InodeTurns turns{ino};
  InodeIdle idle_place{ino};

  // ---- Local truth. Under kExclusive size and mtime here are newer than the server's. Changed by the rooms that have an answer
  // (AttrView, LeaseKeeper, Commits, AheadMaker), by the calls that change attributes or bytes (FileCalls, AttrCalls, Names, Ranges,
  // AheadMaker), and by those that put them in doubt (Recalls, ComeBack).
  Attr attr;
  bool attr_known = false;  // as of the last event, while the lease is kRead or kExclusive
  bool attr_stale = false;  // mode, owners, links or ctime have changed at the server
  InodeAtime atime{ino};

  // ---- Who uses it here. Changed by FileCalls alone.
  uint32_t readers = 0;
  uint32_t writers = 0;
  uint32_t reading = 0;            // handles that may read, those of writers too
  uint32_t shared_writes = 0;      // begun under kShared
  // A mapping that is stored into keeps a handle for reading and writing open. (Two handles, one of each, look the same.)
  bool may_be_mapped_to_write() const { return writers > 0 && reading > 0; }
  InodeInKernel in_kernel{ino};

  // ---- What becomes of it when the session lapses or is lost (come_back.h).
  InodeLoss loss;
  InodeTakeUp take_up{ino};

  // ---- Data.
  InodeMapping mapping;
  InodeWrites writes{ino};
  // When bytes became dirty last: what the server has of the file until some of them are sealed. nullopt: not surely.
  struct Committed {
    uint64_t size = 0;
    uint64_t seals = 0;
    uint64_t grants = 0;
  };
  std::optional<Committed> below_dirty;  // changed by Commits (NoteBelowDirty)
  // Of this inode by us. A restart of the server may lose commits and give their numbers again, so that numbers say
  // what is before what within one term only.
  using Commit = std::pair<uint64_t, CommitSeq>;  // term, number
  void Committed(uint64_t term, CommitSeq seq) {
    if (seq) last_commit = std::max(last_commit, Commit(term, seq));
  }
  void KnownDurable(Commit upto) { durable_commit = std::max(durable_commit, upto); }
  // By the rooms that have the answer: Commits, LeaseKeeper, AttrCalls, Ranges.
  Commit last_commit;
  Commit durable_commit;  // known durable up to this

  InodeMade made{ino};

  // ---- Locks of applications.
  InodeLocks locks{ino, lease.proof()};

  // Somebody goes on with it. If it were dropped meanwhile, there would be two of it, and what one gives back the other has.
  bool in_use() const {
    return readers + writers > 0 || lease.in_use() || !writes.clean() || turns.in_use() || atime.telling() || locks.in_use() || made.in_use();
  }
  // A lease is kept for the next open, which then costs nothing. An unlinked file has no next open, what somebody
  // else has changed may be that, and a shared lease saves nothing: the next one may be better.
  bool worth_keeping() const {
    return attr_known && !attr_stale && attr.nlink > 0 && !lease.shared() && lease.owes() == 0;
  }
  // Kept for the next open only.
  bool idle() const { return readers + writers == 0 && writes.clean() && !lease.opening() && !turns.changing(); }
  void NoteBelowDirty() {
    below_dirty.reset();
    if (buffers_writes() && attr_known && !take_up.any() && !made.file()) below_dirty = {attr.size, writes.dirty().seals(), lease.grants()};
  }
  // Cutting the file down to `size` takes nothing from the server but what is dirty here: without the bytes that go, what is
  // left is the file as it shall be, in one commit. (Without any left, the file has that size already.)
  bool CutsDirtyBytesOnly(uint64_t size) const {
    if (!below_dirty || !buffers_writes() || !attr_known || take_up.any() || writes.failing()) return false;
    if (made.file() || !made.lost().ok()) return false;
    if (writes.clean() || below_dirty->seals != writes.dirty().seals() || below_dirty->grants != lease.grants()) return false;
    if (size >= attr.size || below_dirty->size > size) return false;
    return below_dirty->size == size || !writes.Find(0, size).empty();
  }
  void CutDirty(uint64_t size, int64_t now_ns) {
    writes.Truncate(size);
    attr.size = size;
    attr.mtime_ns = attr.ctime_ns = now_ns;
    writes.SetMtime(now_ns);
    in_kernel.KeptPagesAreOld();
  }
  // Its lease is gone here; what the server believes of it stays as it is.
  void DropLease() {
    lease.Drop();
    mapping.Forget();
    in_kernel.KeptPagesAreOld();
  }
  bool buffers_writes() const { return lease.buffers_writes(); }
  // There are bytes here that the server does not know, and they are what counts: size and times are ours.
  bool knows_better() const { return buffers_writes() || take_up.any(); }
};
using VfsInodePtr = std::shared_ptr<VfsInode>;

// Its parts, for the rooms that own them. Each keeps the inode.
inline InodeMappingPtr MappingOf(const VfsInodePtr& inode) { return {inode, &inode->mapping}; }
inline InodeLeasePtr LeaseOf(const VfsInodePtr& inode) { return {inode, &inode->lease}; }
inline InodeTakeUpPtr TakeUpOf(const VfsInodePtr& inode) { return {inode, &inode->take_up}; }
inline InodeTurnsPtr TurnsOf(const VfsInodePtr& inode) { return {inode, &inode->turns}; }
inline InodeWritesPtr WritesOf(const VfsInodePtr& inode) { return {inode, &inode->writes}; }
inline InodeMadePtr MadeOf(const VfsInodePtr& inode) { return {inode, &inode->made}; }
inline InodeLocksPtr LocksOf(const VfsInodePtr& inode) { return {inode, &inode->locks}; }
inline InodeAtimePtr AtimeOf(const VfsInodePtr& inode) { return {inode, &inode->atime}; }
inline InodeInKernelPtr InKernel(const VfsInodePtr& inode) {  // null of null
  return inode ? InodeInKernelPtr(inode, &inode->in_kernel) : nullptr;
}

}  // namespace stria
