// The face that a kernel's driver calls, beside the calls of programs (client/fuse; test/sim plays a kernel): for how long the
// kernel may believe what it was told, what it was told, and what it is to forget.
//
// Owns no state. Invariant: the kernel may believe nothing for longer than the mount may itself. Executor's thread only.
//
// Called by: FUSE, through Vfs::kernel_side(). Calls: AttrView, KernelView, NodeCache, the session.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/types.h"
#include "client/vfs/kernel.h"
#include "common/exec/task.h"

namespace stria {

class AttrView;
class KernelView;
class MetaSession;
class NodeCache;
struct VfsHandle;

class KernelSide {
 public:
  // All of them outlive it; `scope` is cancelled before it goes.
  KernelSide(AttrView& attrs, const NodeCache& nodes, KernelView& kernel_view, KernelCache& kernel, const MetaSession& session,
             TaskScope& scope)
      : attrs_(attrs), nodes_(nodes), kernel_view_(kernel_view), kernel_(kernel), session_(session), scope_(scope) {}
  KernelSide(const KernelSide&) = delete;
  KernelSide& operator=(const KernelSide&) = delete;

  // For how long the kernel may believe that the name leads to `ino`. Right after the answer that said so, before anything is
  // waited for.
  int64_t NameValidNs(InodeId parent, const std::string& name, InodeId ino);
  // The same for what needs no cache.
  int64_t LeaseLeftNs() const;
  void SizeShown(InodeId ino, uint64_t size);  // the kernel is told of this size

  // Of an open file, without a question to anybody.
  static InodeId InodeOf(const VfsHandle& h);
  static std::optional<uint32_t> ModeOf(const VfsHandle& h);  // nullopt: it has changed at the server
  static uint64_t DataVersionOf(const VfsHandle& h);          // as last seen

  // Returns when the kernel has forgotten what attributes of it were shown until now.
  Task<void> ForgetShown(InodeId ino);

  // Operations that change something may not end in time, as it is not known whether they were done.
  bool overdue() const;
  // Those on this inode, or on names in this directory.
  bool overdue(InodeId ino) const;
  // An operation of ours that changes something ended after the kernel had been told that it failed.
  void ChangeInDoubt(InodeId ino);

 private:
  AttrView& attrs_;
  const NodeCache& nodes_;
  KernelView& kernel_view_;
  KernelCache& kernel_;
  const MetaSession& session_;
  TaskScope& scope_;
};

}  // namespace stria
