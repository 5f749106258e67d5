// One request of the kernel while it is being carried out, and its one reply. Executor's thread only.
//
// Every reply method is final; after a reply (also one made because the caller was interrupted) further
// ones do nothing and say so with `false`. `false` also if the kernel did not want the answer any more:
// then an opened file will not be released by it.
#pragma once

#include <fuse3/fuse_lowlevel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "client/fuse/wire.h"
#include "client/jobs/job_table.h"
#include "client/session/meta_session.h"
#include "common/buffer.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "locality/read_tally.h"

namespace stria {

// What happens to a request when its caller is dying (thread_state.h). Any other signal ends kEnd only: few programs expect
// EINTR of a file.
enum class OnInterrupt : uint8_t {
  kCancel,  // changes nothing: its coroutine is destroyed
  kDetach,  // the caller is let go, the work goes on: a change half seen would leave caches wrong
  kIgnore,  // no caller waits for it
  kEnd,     // waits for other processes (a lock): any signal ends it with EINTR; changes that it has begun go on
};

// The kernel's question.
struct FuseAsked {
  uint32_t opcode = 0;
  InodeId ino;
  uint32_t thread = 0;  // of the caller; 0 if not known here
  int64_t at_ns = 0;  // the executor's time

  std::string ToString() const;  // "write to inode 12"
};

class FuseAdapter;

class FuseRequest {
 public:
  FuseRequest(FuseAdapter& adapter, fuse_req_t req, uint64_t id, OnInterrupt on_interrupt, Caller caller, FuseAsked asked)
      : who(std::move(caller)), adapter_(adapter), req_(req), id_(id), on_interrupt_(on_interrupt), asked_(asked) {}
  ~FuseRequest();
  FuseRequest(const FuseRequest&) = delete;
  FuseRequest& operator=(const FuseRequest&) = delete;

  Caller who;
  uint32_t thread() const { return asked_.thread; }
  // What jobs have read and written (locality/job_io.h); none: nobody counts.
  std::optional<std::string> JobsSoFar() const;
  // Of the job of the caller, for the bytes that are fetched for this; null: nobody counts them.
  std::shared_ptr<ReadTally> reader() const { return use_ ? std::shared_ptr<ReadTally>(use_, &use_->io.fetched) : nullptr; }
  // A lookup of a name that the kernel may have: no error of this mount takes the name away (kernel_names.h).
  void KeepName() { name_kept_ = true; }

  bool Ok() { return Fail(FsError::kOk); }
  bool Fail(FsError code);
  bool Fail(const Error& error);  // logs errors that an application could not explain to itself
  bool Status(const Result<void>& result) { return result.ok() ? Ok() : Fail(result.error()); }
  // `changed`: the reply to something that changes the inode. The kernel takes its attributes without asking whether
  // it was told to forget them meanwhile (as it does for LOOKUP and GETATTR), so it may not keep them.
  bool Entry(const Result<EntryOut>& entry, bool changed, int64_t name_valid_ns = 0);
  bool Attributes(const Result<EntryOut>& entry, bool changed);
  // `entry` of create; `backing` with kOpenPassthrough.
  bool Opened(const EntryOut* entry, uint64_t handle, uint32_t open_flags, int32_t backing = 0);
  bool Bytes(std::string_view bytes);
  bool Data(BufferChain bytes);
  bool Written(uint64_t bytes);
  // For getxattr and listxattr: the length if the caller gave no room.
  bool Xattr(std::string_view value, size_t room);
  bool StatFs(const StatFsReply& reply);
  bool Link(const std::string& target);
  bool Offset(uint64_t offset);
  bool Lock(const struct flock& lock);

  // Called at once when the caller is interrupted, or was: an operation that waits for others (a lock) ends itself.
  // When the mount ends it is called too.
  void WhenInterrupted(std::function<void()> fn);

 private:
  friend class FuseAdapter;
  fuse_req_t Take();

  FuseAdapter& adapter_;
  fuse_req_t req_;
  const uint64_t id_;
  const OnInterrupt on_interrupt_;
  const FuseAsked asked_;
  std::shared_ptr<JobUse> use_;  // null: it is counted for no job
  bool name_kept_ = false;
  // By the caller's remembered groups. A refusal is not sent yet, but kept in refused_.
  bool may_be_judged_again_ = false;
  FsError refused_ = FsError::kOk;
  bool said_slow_ = false;
  Timer grace_;  // of kEnd, running since the interrupt
  bool interrupted_ = false;
  bool given_up_ = false;  // answered while the operation still runs
  bool too_late_ = false;  // as it took too long
  std::function<void()> when_interrupted_;
  TaskScope task_;
};

}  // namespace stria
