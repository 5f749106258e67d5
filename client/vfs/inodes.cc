#include "client/vfs/inodes.h"

#include <optional>

namespace stria {

VfsInodePtr Inodes::Of(InodeId ino) {
  VfsInodePtr& slot = inodes_[ino];
  if (!slot) slot = needs_.make(ino);
  return slot;
}

VfsInodePtr Inodes::Find(InodeId ino) const {
  const auto it = inodes_.find(ino);
  return it == inodes_.end() ? nullptr : it->second;
}

VfsInode* Inodes::Look(InodeId ino) const {
  const auto it = inodes_.find(ino);
  return it == inodes_.end() ? nullptr : it->second.get();
}

void Inodes::DropIfIdle(const VfsInodePtr& inode) {
  const auto it = inodes_.find(inode->ino);
  if (it == inodes_.end() || it->second != inode) return;
  if (inode->in_use()) {
    if (inode->idle()) KeepIdle(*inode);
    return;
  }
  idle_.Drop(inode->idle_place);
  inodes_.erase(it);
}

void Inodes::KeepIdle(VfsInode& n) {
  const std::optional<InodeId> too_many = idle_.Keep(n.idle_place);
  if (!too_many) return;
  const VfsInodePtr oldest = inodes_.at(*too_many);
  if (oldest->idle()) needs_.release(oldest);  // else it comes back when it is
}

void Inodes::LetGo(const VfsInodePtr& inode) {
  const bool held = !inode->lease.none() || inode->lease.owes() > 0;
  if (inode->idle() && held && !inode->worth_keeping()) {
    needs_.release(inode);
  } else {
    DropIfIdle(inode);
  }
}

}  // namespace stria
