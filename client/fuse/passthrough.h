// Files that the kernel reads by itself, past the mount: each is all of one file on a disk of this machine (a shard).
//
// What this gives up, and why it is asked for by an option: nobody compares what is read with its checksums (but the scrub);
// what others change of a file is seen when it is opened anew, by mappings when all who had it open have closed it; its disk's
// failure is the reader's, as nothing is decoded, until the disk is known as bad or the scrub has healed it; this mount's
// user.stria.io does not count it; and while it is read, it cannot be opened for writing or truncated here. A mapping outlives
// the file that it was made of: it shows what the shard has, and holds it, also after the mount has ended. Files are expected to
// be written once.
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

  // How to open what the Vfs has opened; counted unless it is kBusy. If the kernel does not take a backing this says so,
  // and does not try again. `direct`: with O_DIRECT, for which the disk's filesystem may have other rules than we: not so.
  Task<OpenedAs> Enter(VfsHandlePtr h, bool direct);
  // To write: without asking anybody.
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
