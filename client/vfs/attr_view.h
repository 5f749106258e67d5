// Room: what attributes a file is shown with. The server's, as far as they may be remembered (NodeCache), under what only this
// client knows yet: bytes that are dirty, times of reads, files made ahead in a directory. And how long the kernel may keep them.
//
// Owns no state: it puts together what the inode's parts, NodeCache and MadeAhead own, and notes in the inode's attributes what
// an answer said.
//
// Invariants:
//  - an older answer (Attr::version) never replaces a newer one;
//  - sizes and times of dirty bytes win over the server's, as long as they are dirty under the exclusive lease;
//  - the kernel keeps no attributes of a file whose size a call of ours changes (Resizing), that grows, whose pages are to be
//    looked at before each read (PagesGated), or that may have bytes in mappings alone (MayBeStoresAlone).
//
// Called by: rooms that have an answer of the server, or show attributes. Calls: Inodes, NodeCache, MadeAhead, KernelView.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "api/meta_api.h"
#include "client/vfs/inodes.h"
#include "client/vfs/kernel_view.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/vfs_types.h"
#include "common/exec/task.h"

namespace stria {

class AttrView {
 public:
  // All of them outlive it. `lease_left_ns`: of the session.
  AttrView(Inodes& inodes, NodeCache& nodes, const MadeAhead& made_ahead, KernelView& kernel_view,
           std::function<int64_t()> lease_left_ns)
      : inodes_(inodes), nodes_(nodes), made_ahead_(made_ahead), kernel_view_(kernel_view),
        lease_left_ns_(std::move(lease_left_ns)) {}
  AttrView(const AttrView&) = delete;
  AttrView& operator=(const AttrView&) = delete;

  // ---- To show.
  int64_t AttrValidNs() const;
  EntryOut Newest(Attr attr);          // with our own unflushed writes; to be used once
  EntryOut Overlay(const Attr& attr);  // the same, for the kernel to keep
  // For how long the kernel may believe that the name leads to `ino`. Right after the answer that said so, before anything is
  // waited for.
  int64_t NameValidNs(InodeId parent, const std::string& name, InodeId ino);
  // The kernel has pages of it, and somebody may write it: the kernel may not keep its attributes, so that it asks before
  // each read of these pages, and they go before that is answered if they are older than what anybody may have seen.
  bool PagesGated(const VfsInode& n) const;
  // Nothing of it is stored, and programs here may have mapped it to write: stores that the kernel has not written back may be all
  // that it has. Programs that copy files (tar -S) take a file without blocks for a hole as a whole. So the kernel keeps no
  // attributes of it, and writes back before its attributes are shown.
  static bool MayBeStoresAlone(const VfsInode& n);

  // ---- What an answer said. `since`: NodeCache.
  // Another answer of the server has overtaken it. It is used once, and the kernel keeps nothing of it.
  static bool Overtaken(const VfsInode& n, const Attr& answer);
  EntryOut Remember(const Attr& attr, uint64_t since);
  EntryOut RememberNode(const NodeReply& reply, uint64_t since);
  // Of an open inode alone. `current`: it is as the server has it now.
  void UpdateInode(const Attr& attr, bool current);
  // An answer said this, and may have overtaken the event that tells us to forget what was before.
  Task<void> ForgetOlder(const Attr& seen);

  // ---- What has changed.
  void AttrChanged(InodeId ino);    // by an operation whose reply does not say how
  void ChangedUntold(InodeId ino);  // by one of ours, of which the server tells us nothing

  // ---- What the kernel has.
  void SizeShown(InodeId ino, uint64_t size);  // the kernel is told of this size
  // Returns when the kernel has forgotten what attributes of it were shown until now.
  Task<void> ForgetShown(InodeId ino);
  // As somebody begins to write it here: the attributes that the kernel keeps of a file that it has pages of, or is to ask for
  // (MayBeStoresAlone).
  Task<void> GatePages(VfsInodePtr inode);

  // An inode whose size a call of ours changes: until it has its answer the kernel has the old size. So from Begin to the end
  // neither it nor we keep attributes: everybody asks.
  class Resizing {
   public:
    Resizing(AttrView* view, InodeId ino) : counted_(&view->nodes_, ino), view_(view), ino_(ino) {}
    Task<void> Begin() { return view_->ForgetShown(ino_); }  // before the change is made

   private:
    const NodeCache::Resizing counted_;
    AttrView* const view_;
    const InodeId ino_;
  };

 private:
  // It is being written here, and grew a moment ago: it will again. The kernel may not keep its attributes: with every such
  // write it forgets the size anyway. So it need not be told to, and none of these writes waits for that.
  bool IsGrowing(InodeId ino) const;

  Inodes& inodes_;
  NodeCache& nodes_;
  const MadeAhead& made_ahead_;
  KernelView& kernel_view_;
  const std::function<int64_t()> lease_left_ns_;
};

}  // namespace stria
