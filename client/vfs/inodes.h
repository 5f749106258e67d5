// Room: the table of inodes that are open, leased or dirty here, and for how long each stays in it.
//
// Owns: the table, and which of its inodes are kept for a next open (IdleInodes).
//
// Invariants:
//  - of an inode there is one object: it stays in the table as long as it is in use (VfsInode::in_use). If it were dropped
//    before, there would be two of it, and what one gives back the other has;
//  - of inodes that nobody uses at most `max_idle` keep their leases.
//
// Called by: all rooms that take an inode by its number, and those after whose work it may be out of use. Calls: InodesNeeds.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "client/vfs/idle_inodes.h"
#include "client/vfs/inode.h"

namespace stria {

struct InodesNeeds {
  std::function<VfsInodePtr(InodeId)> make;
  // Begins to give back what is held of it; it may be used again meanwhile.
  std::function<void(const VfsInodePtr&)> release;
};

class Inodes {
 public:
  static constexpr size_t kMaxIdle = 20'000;

  explicit Inodes(InodesNeeds needs, size_t max_idle = kMaxIdle) : needs_(std::move(needs)), idle_(max_idle) {}
  Inodes(const Inodes&) = delete;
  Inodes& operator=(const Inodes&) = delete;

  VfsInodePtr Of(InodeId ino);            // made if there is none
  VfsInodePtr Find(InodeId ino) const;    // null: there is none
  VfsInode* Look(InodeId ino) const;      // the same, until the next await
  const std::map<InodeId, VfsInodePtr>& all() const { return inodes_; }
  // The inode of a room's part; null if another object stands for it now.
  template <class Part>
  VfsInodePtr With(Part VfsInode::*part, const Part* of) const {
    const auto it = inodes_.find(of->ino());
    return it != inodes_.end() && &((*it->second).*part) == of ? it->second : nullptr;
  }

  // It may be out of use: then it goes. If just its lease is kept, that is for the next open.
  void DropIfIdle(const VfsInodePtr& inode);
  // The same; but if nobody uses it, and it is not worth keeping for a next open, what is held of it is given back.
  void LetGo(const VfsInodePtr& inode);

 private:
  void KeepIdle(VfsInode& n);

  const InodesNeeds needs_;
  std::map<InodeId, VfsInodePtr> inodes_;
  IdleInodes idle_;
};

}  // namespace stria
