// For tests of rooms of the upper floor (client/README.md, "Rooms"): those of the lower floor, without servers. What is
// committed, told or asked is counted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client/vfs/file_locks.h"
#include "client/vfs/inode_testing.h"
#include "client/vfs/kernel_view.h"
#include "client/vfs/last_known.h"
#include "client/vfs/leases.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/take_ups.h"
#include "client/vfs/write_back.h"
#include "common/exec/sim_run.h"

namespace stria {

class LowerFloorForTest : public KernelCache {
 public:
  static constexpr uint64_t kDataVersion = 40;  // of OpenFile

  LowerFloorForTest()
      : ex(1), table(ForInodes()), nodes(100, ForNodes()),
        last_known(false, LastKnownNeeds(), nodes.attrs(), nodes.entries()), leases(ForLeases()),
        made_ahead(true, ForMadeAhead(), counters, scope), write_back(WriteBackOptions(), ForWriteBack(), counters, scope),
        locks(ForLocks(), calls, scope), take_ups(ForTakeUps(), scope), view(*this, ForKernelView(), scope) {}
  ~LowerFloorForTest() override { scope.CancelAll(); }

  // Open for writing under the exclusive lease.
  VfsInodePtr OpenFile(InodeId ino, LeaseMode mode = LeaseMode::kExclusive) {
    const VfsInodePtr inode = table.Of(ino);
    GrantForTest(*inode, mode, mode == LeaseMode::kExclusive, generation);
    inode->attr.data_version = kDataVersion;
    inode->attr.version = 70;
    ++inode->writers;
    return inode;
  }
  void Write(const VfsInodePtr& inode) {
    write_back.Take(WritesOf(inode), 0, Buffer::FromString("bytes"), true, 1 * kMiB);
  }
  Task<void> InvalidateInode(InodeId ino, bool data, uint64_t, uint64_t) override {
    (data ? pages_forgotten : attrs_forgotten).push_back(ino);
    co_return;
  }
  Task<void> NameChanged(InodeId dir, std::string) override {
    if (!dir) ++names_forgotten;
    co_return;
  }

  SimExecutor ex;
  uint64_t generation = 1, numbers = 100;
  int64_t lease_left_ns = 60 * kSecond;
  int names_forgotten = 0, lock_requests = 0, take_ups_tried = 0;
  std::vector<InodeId> released, pages_forgotten, attrs_forgotten;
  IoCounters counters;
  CallList calls;
  TaskScope scope;
  Inodes table;
  NodeCache nodes;
  LastKnown last_known;
  Leases leases;
  MadeAhead made_ahead;
  WriteBack write_back;
  FileLocks locks;
  TakeUps take_ups;
  KernelView view;

 private:
  InodesNeeds ForInodes() {
    InodesNeeds needs = InodesNeedsForTest(&released);
    needs.make = [this](InodeId ino) {
      const VfsInodePtr inode = MakeInodeForTest(ino);
      inode->lease.BelongsTo(generation);
      return inode;
    };
    return needs;
  }
  NodeCacheNeeds ForNodes() {
    NodeCacheNeeds needs;
    needs.generation = [this] { return generation; };
    needs.lease_left_ns = [this] { return lease_left_ns; };
    return needs;
  }
  LeasesNeeds ForLeases() {
    LeasesNeeds needs;
    needs.generation = [this] { return generation; };
    needs.number_call = [this] { return ++numbers; };
    needs.lease_left_ns = [this] { return lease_left_ns; };
    return needs;
  }
  MadeAheadNeeds ForMadeAhead() {
    MadeAheadNeeds needs;
    needs.now_is = [this] { return std::pair(generation, uint64_t{1}); };
    needs.tell = [](InodeMadePtr, bool) -> Task<void> { co_return; };
    needs.lost = [](const InodeMadePtr&, const MadeFile&) {};
    needs.maybe_unused = [](const InodeMadePtr&) {};
    needs.pause_ended = [](InodeId) {};
    return needs;
  }
  static WriteBackNeeds ForWriteBack() {  // nothing is started here
    WriteBackNeeds needs;
    needs.each = [](const std::function<void(const InodeWritesPtr&)>&) {};
    return needs;
  }
  FileLocksNeeds ForLocks() {
    FileLocksNeeds needs;
    needs.ask = needs.change = [this](LockRequest) -> Task<Result<LockReply>> {
      ++lock_requests;
      co_return LockReply();
    };
    needs.generation = [this] { return generation; };
    needs.maybe_unused = [](const InodeLocksPtr&) {};
    return needs;
  }
  TakeUpsNeeds ForTakeUps() {
    TakeUpsNeeds needs;
    needs.flush = [this](InodeTakeUpPtr) -> Task<void> {
      ++take_ups_tried;
      co_return;
    };
    needs.head_seal = [](const InodeTakeUpPtr&) { return uint64_t{0}; };
    needs.ended = [](const InodeTakeUpPtr&) {};
    needs.maybe_unused = [](const InodeTakeUpPtr&) {};
    return needs;
  }
  static KernelViewNeeds ForKernelView() {
    KernelViewNeeds needs;
    needs.may_show_growth = needs.being_cut = [](const InodeInKernelPtr&) { return false; };
    needs.look = [](InodeInKernelPtr) -> Task<Result<FileGrowth>> { co_return FileGrowth(); };
    needs.pages_may_come = [] {};
    return needs;
  }
};

}  // namespace stria
