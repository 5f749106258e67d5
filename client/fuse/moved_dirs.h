// Directories that another mount has moved: makes the kernel have them where they are.
//
// The kernel keeps its tree of names by itself, and moves a directory in it (with what works or is mounted below) only when a
// LOOKUP of the new name gives an inode that it has by another one (d_splice_alias); a FUSE server cannot tell it to. Until
// somebody looks there, getcwd(2), `..` and /proc show the old place. So when the name of a directory has changed that the kernel
// may have, the metadata server is asked where it is now, and a thread of ours walks there through the mount, one step after another.
//
// Nobody waits for it: neither the change, nor an acknowledgement, nor who unmounts. What the kernel refuses while it renames
// something itself (ESTALE, EBUSY), and a directory that has moved again meanwhile, is tried again, some times. A walk whose
// LOOKUP is not answered ends when the connection does: destroy this only afterwards.
//
// The server tells of the change of a name once, until it is looked up again. A directory that has not moved after all is looked up
// for that, but one each kAgainNs at most: the server may have told us because it has no room for the name, and would forget another
// one. When it has forgotten all (it has restarted, or the mount was cut off), the directories that processes of this machine have
// open, work in or have as their root are walked to.
//
// A walk asks in nobody's name, so it may not make the kernel drop what it has (and detach what is mounted there): MayReplace.
// Executor's thread only; `walk` runs on a thread of its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/fuse/wire.h"
#include "common/error.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "common/ids.h"

namespace stria {

class MetaSession;

class MovedDirs {
 public:
  static constexpr size_t kMaxQueued = 1000;  // more are forgotten
  static constexpr int kTries = 10;
  static constexpr int64_t kFirstPauseNs = 20 * kMillisecond;  // doubled with each try
  static constexpr int64_t kLongestPauseNs = 1 * kSecond;
  static constexpr int64_t kAgainNs = 1 * kSecond;

  // A name that the kernel had of a directory.
  struct Name {
    InodeId dir;
    std::string name;
    bool operator==(const Name&) const = default;
  };
  static constexpr char kRoot[] = ".";
  // From the mount's root ("a/b"; kRoot: it is that); "" if it is not below it, or has no name any more. An error: perhaps later.
  using Where = std::function<Task<Result<std::string>>(InodeId)>;
  // Of the walker's thread. Walk: whether nothing is left to be done.
  using Walk = std::function<bool(const std::string& path, InodeId ino)>;
  using InUse = std::function<std::vector<InodeId>()>;

  MovedDirs(Where where, Walk walk, InUse in_use);
  ~MovedDirs();
  MovedDirs(const MovedDirs&) = delete;
  MovedDirs& operator=(const MovedDirs&) = delete;

  // The kernel may have it by a name that has changed. Not known which: {}.
  void Changed(InodeId ino, Name former);
  // Any may have moved, and nobody tells which.
  void AllMayHaveMoved();
  // A LOOKUP of this thread finds `found` (0: nothing) by a name by which the kernel may have `had` (0: not a directory). Whether
  // it may be told so.
  bool MayReplace(uint32_t thread, InodeId had, InodeId found) const {
    return !walking_ || thread != static_cast<uint32_t>(walker_->load()) || (found && (found == had || found == walking_));
  }
  size_t queued() const { return queue_.size(); }

 private:
  struct Try {
    InodeId ino;
    int tries = 0;  // before
  };
  Task<void> Work();
  Task<void> LookAtAll();
  // Whether that was all.
  Task<bool> Follow(InodeId ino, const Name& former);
  bool MayLookAgain();

  const Where where_;
  const Walk walk_;
  const InUse in_use_;
  std::deque<Try> queue_;
  std::map<InodeId, Name> queued_;  // of queue_; of more than one name: {}
  bool working_ = false;
  bool looks_ = false;
  bool look_again_ = false;
  int64_t again_from_ns_ = 0;
  InodeId walking_;  // where to; 0: no walk is under way
  const std::shared_ptr<std::atomic<pid_t>> walker_ = std::make_shared<std::atomic<pid_t>>(0);
  ThreadPool walks_;
  TaskScope scope_;  // last
};

// Directories of the mount there that processes have open, work in or have as their root.
std::vector<InodeId> DirsInUse(const std::string& mountpoint);
// For Where.
Task<Result<std::string>> PathBelowRoot(MetaSession& session, RootMap roots, InodeId ino);
// For Walk: through the mount there, not into what is mounted below it. Blocks. True also if that mount is gone or hidden, or the
// way is closed.
bool WalkTo(const std::string& mountpoint, const std::string& path, InodeId ino);

}  // namespace stria
