// The FUSE low-level operations on a Vfs: one coroutine per kernel request.
//
// 1. A reader thread (fuse_mount.h) hands a request to libfuse, which calls an operation of Ops().
// 2. The operation copies its arguments. Begin() finds out the caller and posts the rest.
// 3. On the executor's thread a FuseRequest owns the coroutine that asks the Vfs and replies.
// 4. A signal (FUSE_INTERRUPT) ends only a wait for a lock. Any other request is answered when it is done, unless its caller is
//    found to be dying (thread_state.h): then OnInterrupt decides.
//
// Executor's thread only, except Ops() and Begin(). The kernel's lookup counts serve only the kernel caches (kernel_cache.h):
// Vfs has no state per name, and inode numbers are never used twice.
#pragma once

#include <fuse3/fuse_lowlevel.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/fuse/dir_chunk.h"
#include "client/fuse/fuse_times.h"
#include "client/fuse/groups_cache.h"
#include "client/fuse/kernel_cache.h"
#include "client/fuse/looked_up.h"
#include "client/fuse/moved_dirs.h"
#include "client/fuse/name_moves.h"
#include "client/fuse/passthrough.h"
#include "client/fuse/request.h"
#include "client/fuse/thread_state.h"
#include "client/fuse/wire.h"
#include "client/jobs/caller_jobs.h"
#include "client/vfs/vfs.h"
#include "common/exec/pool.h"

namespace stria {

struct FuseAdapterOptions {
  RootMap roots;
  OwnerMap owner;
  // A file with exactly the bytes of this one, which the kernel reads in its place; null if there is none. Function not given:
  // no passthrough.
  Passthrough::FindFile whole_file;
  // Called before a reply that gives the kernel an inode with attributes that it keeps.
  std::function<void(InodeId)> told;
  // Called before a reply that counts as a lookup of it, and when the kernel gives as many back (FORGET).
  std::function<void(InodeId)> given;
  std::function<void(uint64_t node, uint64_t times)> forgotten;
  // Notes there the names that the kernel may have; null: nowhere (for tests).
  FuseKernelCache* names = nullptr;
  // Where a directory is, and how the kernel is made to look there (moved_dirs.h). Not given: nobody does. Needs `names`.
  MovedDirs::Where where;
  MovedDirs::Walk walk;
  MovedDirs::InUse in_use;
  // The value of kFlagsXattr. Not given: there is none.
  std::function<Task<Result<std::string>>()> flags;
  CallerJobs* jobs = nullptr;  // counts requests for the jobs of their callers; null: nobody does
  // One line for an operator; at most kMaxWarningsPerSecond.
  std::function<void(const std::string&)> warn;
  // Requests that take long, and perhaps why; for an operator, like `warn`.
  std::function<void(const std::string&)> slow;
  // A change fails for its caller after this time if the metadata server does not say whether the change was done.
  int64_t timeout_ns = 60 * kSecond;
};

// An open file of the kernel.
struct FuseFile {
  VfsHandlePtr handle;
  // Processes that locked through this file and have not closed it yet.
  std::set<std::pair<LockKind, uint64_t>> lock_owners;
  // Reads and writes have the rights of the opener, as in POSIX.
  Caller opener;
  OpenMode mode = OpenMode::kOrdinary;
  uint32_t running = 0;  // requests; an interrupted one may go on after the kernel's release
  Event idle;            // pulsed when it falls to 0
};
using FuseFilePtr = std::shared_ptr<FuseFile>;

// Held by a request of the file.
class FuseFileUse {
 public:
  explicit FuseFileUse(FuseFilePtr file) : file_(std::move(file)) { ++file_->running; }
  FuseFileUse(const FuseFileUse&) = delete;
  FuseFileUse& operator=(const FuseFileUse&) = delete;
  ~FuseFileUse() {
    if (--file_->running == 0) file_->idle.Pulse();
  }

 private:
  FuseFilePtr file_;
};

// An open directory, with entries read ahead of the kernel's small requests.
struct FuseDir {
  InodeId ino;
  InodeId parent;  // as of the last ReadDir
  Caller opener;
  AsyncMutex mu;
  DirChunk chunk;  // of one ReadDir
};
using FuseDirPtr = std::shared_ptr<FuseDir>;

// The buffer of the request that the calling reader thread is processing.
struct ReaderSlot {
  std::shared_ptr<uint8_t> buffer;
  size_t payload_bytes = 0;  // that it has room for
  bool taken = false;        // the operation keeps a share: read the next request elsewhere
};

class FuseAdapter {
 public:
  static constexpr int64_t kInterruptGraceNs = 1 * kSecond;  // for a waiter for a lock to give up its place
  static constexpr int kMaxWarningsPerSecond = 10;
  static constexpr int64_t kSlowNs = 10 * kSecond;  // a request that takes longer is logged
  static constexpr int64_t kLookNs = 1 * kSecond;   // between two looks at running requests
  static constexpr int64_t kLookForDyingNs = 100 * kMillisecond;  // as often while a caller may be dying
  // The kernel's copy of larger replies is made by a thread of its own.
  static constexpr size_t kReplyElsewhereBytes = 128 * kKiB;
  static constexpr uint32_t kReadDirEntries = 1000;  // asked for at once

  // All of them outlive the adapter.
  FuseAdapter(Vfs& vfs, Executor& executor, FuseAdapterOptions options);
  ~FuseAdapter();
  FuseAdapter(const FuseAdapter&) = delete;
  FuseAdapter& operator=(const FuseAdapter&) = delete;

  // For fuse_session_new, with the adapter as its user data.
  static fuse_lowlevel_ops Ops();

  // Any thread.
  void SetFeatures(FuseFeatures features);
  // Before the first request: the kernel's end of the mount, open for as long as requests come.
  void SetDevice(int fd) { through_.SetDevice(fd); }
  bool wants_passthrough() const { return through_.on(); }
  FuseFeatures features() const;
  // The mount whose requests this thread processes; null when it stops.
  static void SetReaderSlot(ReaderSlot* slot);

  // Call after the last Begin. Returns when nothing runs any more; cancels requests that take longer than timeout_ns.
  Task<void> Drain(int64_t timeout_ns);
  uint64_t requests_begun() const { return next_id_ - 1; }
  size_t running() const { return requests_.size() - finished_.size(); }
  const FuseTimes& times() const { return times_; }

  // ---- For the operations (ops_*.cc)
  using Work = std::function<Task<void>(FuseAdapter&, FuseRequest*)>;
  // kNone: the operation needs no caller. kCallerNow: the caller's groups decide the result of the operation, not only whether
  // it is allowed.
  enum class Identity : uint8_t { kCaller, kCallerNow, kNone };
  // Any thread. `work`'s coroutine owns its arguments, and replies.
  void Begin(fuse_req_t req, OnInterrupt on_interrupt, Identity identity, Work work);
  static FuseAdapter& Of(fuse_req_t req) { return *static_cast<FuseAdapter*>(fuse_req_userdata(req)); }
  // On a reader's thread: a Buffer of these bytes of the request being processed, copied only if few.
  static Buffer TakePayload(const char* bytes, size_t size);
  // On a reader's thread: the arguments of the request being processed, for those that libfuse does not pass on.
  template <class In>
  static const In& RawArguments() {
    return *reinterpret_cast<const In*>(RawArguments());
  }

  // Open files and directories by the number that the kernel has for them; null if there is none.
  uint64_t AddFile(FuseFilePtr file);
  FuseFilePtr File(uint64_t fh) const;
  void RemoveFile(uint64_t fh) { files_.erase(fh); }
  uint64_t AddDir(FuseDirPtr dir);
  FuseDirPtr Dir(uint64_t fh) const;
  void RemoveDir(uint64_t fh) { dirs_.erase(fh); }

  Vfs& vfs() { return vfs_; }
  Passthrough& through() { return through_; }
  LookedUp& looked_up() { return looked_up_; }
  TaskScope& holds() { return holds_; }  // of files held open for the kernel
  const FuseAdapterOptions& options() const { return options_; }
  const RootMap& roots() const { return options_.roots; }
  const OwnerMap& owner() const { return options_.owner; }
  Pool& replies() { return replies_; }
  void Told(const EntryOut& entry) {
    if (options_.told && entry.attr_valid_ns > 0) options_.told(entry.attr.ino);
  }
  void Given(InodeId ino) {
    if (options_.given) options_.given(ino);
  }
  // After a reply that the kernel did not take, or (any thread) a FORGET.
  void TakeBack(InodeId ino) {
    if (options_.forgotten) options_.forgotten(roots().ToNode(ino), 1);
  }
  void Forgotten(std::vector<fuse_forget_data> forgotten);
  // Before a reply that gives the kernel this name of the inode.
  void Named(InodeId dir, const std::string& name, const Attr& attr) {
    if (options_.names) options_.names->Named(dir, name, attr.ino, attr.type == FileType::kDirectory);
  }
  int64_t Believe(InodeId dir, const std::string& name, int64_t ns) {
    return options_.names ? options_.names->Believe(dir, name, ns) : 0;
  }
  FuseKernelCache* names() const { return options_.names; }  // null: the kernel has none
  // Whether a thread that looks up that name may be told that it leads to `found` (0: nowhere).
  bool MayReplace(uint32_t thread, InodeId dir, const std::string& name, InodeId found) const {
    return !moved_ || moved_->MayReplace(thread, options_.names->DirOf(dir, name), found);
  }
  // While it lives, the kernel is renaming the name through this mount, and has not moved it: it believes in the old name.
  class Moving {
   public:
    Moving(FuseAdapter* adapter, InodeId dir, const std::string& name);
    Moving(const Moving&) = delete;
    Moving& operator=(const Moving&) = delete;
    ~Moving() { adapter_->moves_.End(key_.first, key_.second); }
    // Before the answer to `thread` that it was renamed.
    Task<void> Done(uint32_t thread);

   private:
    FuseAdapter* const adapter_;
    const std::pair<InodeId, std::string> key_;
  };
  // By this the answer to a LOOKUP is found.
  NameMoves& moves() { return moves_; }
  void Renamed(InodeId from_dir, const std::string& from, InodeId to_dir, const std::string& to) {
    if (options_.names) options_.names->Renamed(from_dir, from, to_dir, to);
  }
  void Warn(const Error& error);
  void WarnFromReader(const Error& error);  // any thread, while the executor runs

 private:
  friend class FuseRequest;
  static const uint8_t* RawArguments();
  struct Asker {
    Caller who;
    bool groups_remembered = false;
  };
  Asker CallerOf(fuse_req_t req, bool groups_now);
  void Run(fuse_req_t req, OnInterrupt on_interrupt, Asker asker, FuseAsked asked, Work work);
  void LookBy(int64_t when_ns);
  void LookAtRunning();
  using RequestsOfThreads = std::unordered_map<uint32_t, std::vector<uint64_t>>;
  static Task<void> LetDyingGo(FuseAdapter* adapter, RequestsOfThreads asking);
  void SayIfSlow(FuseRequest& r, int64_t waits_ns);
  static Task<void> Carry(FuseAdapter* adapter, FuseRequest* request, Work work);
  void Reap();
  static void OnInterrupted(fuse_req_t req, void* id);
  void Interrupted(uint64_t id);
  void GiveUp(uint64_t id, const Error& error);

  LookedUp looked_up_;
  Vfs& vfs_;
  Executor& executor_;
  const FuseAdapterOptions options_;
  std::atomic<bool> direct_io_mmap_ = false;
  std::atomic<bool> kill_priv_ = false;
  std::atomic<bool> passthrough_ = false;
  GroupsCache groups_;
  Passthrough through_;

  uint64_t next_handle_ = 1;
  FuseTimes times_;  // of requests that were answered
  std::unordered_map<uint64_t, FuseFilePtr> files_;
  std::unordered_map<uint64_t, FuseDirPtr> dirs_;
  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, std::unique_ptr<FuseRequest>> requests_;
  std::vector<uint64_t> finished_;  // their coroutines have ended; to be destroyed from outside of them
  Event idle_;                      // pulsed when the last running one has ended
  Timer look_;                      // pending while requests run
  int64_t look_at_ns_ = 0;
  bool looking_for_dying_ = false;
  uint32_t dying_ = 0;  // the thread that was found to be dying last
  const Threads threads_;
  ThreadPool thread_looks_;
  int64_t warn_second_ = 0;
  int warnings_ = 0;
  ThreadPool replies_;
  NameMoves moves_{&executor_, [this](uint32_t thread) { return threads_.Run(thread); }};
  std::unique_ptr<MovedDirs> moved_;  // may be null
  TaskScope holds_;
  TaskScope looks_;  // last
};

// A caller who may not keep suid and sgid clears them from a file that has `mode` by writing to it.
Task<Result<void>> KillPrivileges(Vfs& vfs, Caller who, InodeId ino, uint32_t mode);

// Filled in by the files of operations.
void AddNameOps(fuse_lowlevel_ops* ops);
void AddFileOps(fuse_lowlevel_ops* ops);
void AddDirOps(fuse_lowlevel_ops* ops);
void AddLockOps(fuse_lowlevel_ops* ops);

}  // namespace stria
