// How the kernel is told to treat each open file of an inode, so that all of them agree. Pure.
//
// The kernel (fs/fuse/iomode.c, Linux 6.9) reads a file that is open with FOPEN_PASSTHROUGH from another file, its backing, and
// asks the mount nothing. While an inode has one such open file, each further open must name the same backing, even if it does
// not use it (with FOPEN_DIRECT_IO beside it requests come to the mount). While an inode has another open file, none with
// passthrough may begin. An open that breaks this rule gives the application EIO.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "api/types.h"

namespace stria {

enum class OpenMode : uint8_t {
  kOrdinary,  // requests come to the mount
  kThrough,   // the kernel reads the backing
  kBeside,    // requests come to us, although others of the inode are kThrough: the file has changed since they were opened.
              // The kernel still takes its mappings from the backing; it offers nothing better
  kBusy,      // to be refused with ETXTBSY. The kernel opens the backing as the application asks to open the file, and would
              // let a mapping write to a shard
};

struct OpenedAs {
  OpenMode mode = OpenMode::kOrdinary;
  int32_t backing = 0;  // of kThrough and kBeside
  bool operator==(const OpenedAs&) const = default;
};

class OpenModes {
 public:
  // Nothing of the inode is open: it could be given a backing.
  bool MayBegin(InodeId ino) const { return !open_.contains(ino); }
  // Has just those bytes that the file has at this version of its data. REQUIRES: MayBegin. Enter comes next.
  void Begin(InodeId ino, int32_t backing, uint64_t data_version);
  // Opens a file; counted unless it is kBusy. `data_version`: of the file, if that is certain until the next notice.
  OpenedAs Enter(InodeId ino, bool writes, std::optional<uint64_t> data_version);
  // Closes a file. Returns the backing if this was its last user.
  std::optional<int32_t> Leave(InodeId ino, OpenMode mode);
  bool HasBacking(InodeId ino) const {
    const auto it = open_.find(ino);
    return it != open_.end() && it->second.backing;
  }
  size_t inodes() const { return open_.size(); }

 private:
  struct Inode {
    std::optional<int32_t> backing;
    uint64_t data_version = 0;  // of the backing
    uint32_t files = 0;
  };
  std::map<InodeId, Inode> open_;
};

}  // namespace stria
