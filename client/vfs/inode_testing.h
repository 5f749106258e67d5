// For tests of rooms that take inodes: inodes without a Vfs.
#pragma once

#include <memory>
#include <vector>

#include "client/vfs/inodes.h"
#include "common/units.h"

namespace stria {

inline VfsInodePtr MakeInodeForTest(InodeId ino) {
  return std::make_shared<VfsInode>(ino, std::make_shared<ReadTally>(), std::make_shared<ExtentBudget>(1 * kMiB));
}

// A file that somebody has used under this lease, of session `generation`.
inline void GrantForTest(VfsInode& n, LeaseMode mode, bool for_write, uint64_t generation) {
  n.lease.BelongsTo(generation);
  n.lease.Take({.mode = mode, .for_read = true, .for_write = for_write, .asked = 0}, "proof", {});
  n.attr.ino = n.ino;
  n.attr.type = FileType::kFile;
  n.attr.nlink = 1;
  n.attr_known = true;
  n.layout_known = true;
}

// A table whose inodes nobody gives back: they are noted.
inline InodesNeeds InodesNeedsForTest(std::vector<InodeId>* released) {
  InodesNeeds needs;
  needs.make = MakeInodeForTest;
  needs.release = [released](const VfsInodePtr& inode) { released->push_back(inode->ino); };
  return needs;
}

}  // namespace stria
