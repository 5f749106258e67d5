#include "client/vfs/kernel_side.h"

#include "client/session/meta_session.h"
#include "client/vfs/attr_view.h"
#include "client/vfs/inode.h"
#include "client/vfs/kernel_view.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/vfs_types.h"

namespace stria {

int64_t KernelSide::NameValidNs(InodeId parent, const std::string& name, InodeId ino) {
  return attrs_.NameValidNs(parent, name, ino);
}

int64_t KernelSide::LeaseLeftNs() const { return session_.LeaseLeftNs(); }

void KernelSide::SizeShown(InodeId ino, uint64_t size) { attrs_.SizeShown(ino, size); }

InodeId KernelSide::InodeOf(const VfsHandle& h) { return h.inode->ino; }

std::optional<uint32_t> KernelSide::ModeOf(const VfsHandle& h) {
  if (h.inode->attr_stale) return std::nullopt;
  return h.inode->attr.mode;
}

uint64_t KernelSide::DataVersionOf(const VfsHandle& h) { return h.inode->attr.data_version; }

Task<void> KernelSide::ForgetShown(InodeId ino) { return attrs_.ForgetShown(ino); }

bool KernelSide::overdue() const { return session_.overdue(); }

bool KernelSide::overdue(InodeId ino) const { return session_.overdue(ino); }

void KernelSide::ChangeInDoubt(InodeId ino) {
  scope_.Spawn(kernel_view_.ForgetNamesAndAttrs(nodes_.attrs().All()));
  scope_.Spawn(kernel_.InvalidateInode(ino, true, 0, 0));
}

}  // namespace stria
