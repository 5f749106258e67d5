// Files that the kernel reads by itself, past the mount: each is exactly one file on a disk of this machine (a shard).
//
// What that gives up, and why it needs an option:
// - Reads are not compared with checksums; only the scrub does that.
// - A change by another client shows at the next open; in mappings, when all openers have closed the file.
// - Nothing is decoded: if the disk fails, reads fail, until the disk is known as bad or the scrub has healed it.
// - This mount's user.stria.io does not count the reads.
// - While the file is read, it cannot be opened for writing or truncated here.
// - A mapping outlives the file that it was made from: it shows the shard and holds it, also after the mount has ended.
//
// It is for files that are written once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/fuse/open_modes.h"
#include "client/vfs/vfs.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "common/io/unique_fd.h"

namespace stria {

// Executor's thread, but for SetDevice and on().
class Passthrough {
 public:
  // A file with the bytes that the handle's file has now, and only those; null if there is none.
  using FindFile = std::function<Task<std::shared_ptr<const UniqueFd>>(VfsHandlePtr)>;

  // `warn` takes one line for an operator.
  Passthrough(FindFile find, std::function<void(const std::string&)> warn);
  Passthrough(const Passthrough&) = delete;
  Passthrough& operator=(const Passthrough&) = delete;

  void SetDevice(int fd) { device_ = fd; }
  bool on() const { return find_ != nullptr; }

  // How to open a file that the Vfs has opened; counted unless it is kBusy. If the kernel does not take a backing, the log says
  // so, and no other is tried. `direct`: O_DIRECT; never with a backing, because the disk's filesystem may have other rules for
  // it.
  Task<OpenedAs> Enter(VfsHandlePtr h, bool direct);
  // For an open to write: without a question to the data server.
  OpenedAs EnterToWrite(InodeId ino) { return modes_.Enter(ino, true, std::nullopt); }
  void Leave(InodeId ino, OpenMode mode);
  bool IsReadThrough(InodeId ino) const { return modes_.HasBacking(ino); }

 private:
  const FindFile find_;
  const std::function<void(const std::string&)> warn_;
  int device_ = -1;
  bool refused_ = false;
  OpenModes modes_;
  std::optional<ThreadPool> closer_;
};

}  // namespace stria
