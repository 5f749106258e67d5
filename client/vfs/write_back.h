// Room: write-back. Dirty bytes become stripes, stripes are committed. A batch is stored while others are; commits follow the
// order of batches (client/cache/dirty_buffer.h).
//
// Owns: the bytes of all inodes that were written and are not committed, their batches, and who waits for room
// (InodeWrites, the room's part of an inode).
//
// Invariants:
//  - what is committed of an inode is a prefix of what was written to it since its bytes were lost last (LoseAll);
//  - a batch that fails keeps its bytes, and a flush that is ok has none left that were written before it;
//  - bytes of all inodes are at most dirty_limit_bytes, and one write more; pages that the kernel must get rid of pass.
//  - An inode that has dirty bytes or batches under way is in use.
//
// Called by: Commits, FileCalls; ComeBack (LoseAll); calls that cut a file (Account). Calls: what stores and commits, through
// WriteBackNeeds. Knows no other room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cache/dirty_buffer.h"
#include "client/io/write_all.h"
#include "client/vfs/io_counters.h"
#include "common/buffer.h"
#include "common/exec/task.h"
#include "stripe/types.h"

namespace stria {

// What WriteBack keeps of an inode. Only WriteBack changes it.
struct InodeWritesState {
  DirtyBuffer dirty;
  uint64_t last_write_end = 0;
  uint32_t jumps = 0;              // writes into fresh that did not follow the one before
  uint64_t accounted = 0;          // what WriteBack has counted of it
  int64_t since_ns = 0;            // dirty, without a break
  std::optional<int64_t> mtime_ns;  // to be sent with the next commit
  Event batch_done;                // pulsed when a batch was committed, failed or was put back
  uint32_t pauses = 0;             // no batch is begun; one that waits for those before it is put back
  uint64_t failures = 0;           // batches that failed, ever
  uint64_t failures_at_success = 0;
  Error failure;                   // of the last of them
  int64_t failure_began_ns = 0;    // when that was begun
  uint32_t durable_waiters = 0;    // commits are asked to be durable
  uint32_t room_waits = 0;         // writes that wait for room
  uint64_t era = 0;                // one more each time that all bytes were lost
  Error loss;                      // why, the last time
};

// The room's part of an inode. Others look, seal, cut (Truncate), and set the time of what was written.
class InodeWrites {
 public:
  explicit InodeWrites(InodeId ino) : ino_(ino) {}
  InodeWrites(const InodeWrites&) = delete;
  InodeWrites& operator=(const InodeWrites&) = delete;

  InodeId ino() const { return ino_; }
  const DirtyBuffer& dirty() const { return s_.dirty; }
  bool clean() const { return s_.dirty.clean(); }
  std::vector<DirtyPiece> Find(uint64_t offset, uint64_t length) const { return s_.dirty.Find(offset, length); }
  // No batch has been committed since the last one failed.
  bool failing() const { return s_.failures != s_.failures_at_success; }
  uint64_t failures() const { return s_.failures; }
  const Error& failure() const { return s_.failure; }
  uint32_t pauses() const { return s_.pauses; }
  bool waits_for_room() const { return s_.room_waits > 0; }
  bool wants_durable() const { return s_.durable_waiters > 0; }
  const std::optional<int64_t>& mtime_ns() const { return s_.mtime_ns; }

  void SetMtime(std::optional<int64_t> ns) { s_.mtime_ns = ns; }
  // What comes from here on is another batch.
  void Seal() { s_.dirty.Seal(); }
  // Bytes at or beyond `size` are forgotten: the file is, or will be, that short. Account is to follow.
  void Truncate(uint64_t size) { s_.dirty.Truncate(size); }
  // Whoever waits for a batch looks again.
  void Wake() { s_.batch_done.Pulse(); }

 private:
  friend class WriteBack;  // the same room
  friend class WriteBackPause;
  InodeWritesState& state() { return s_; }

  const InodeId ino_;
  InodeWritesState s_;
};
// Keeps the inode that it is a part of.
using InodeWritesPtr = std::shared_ptr<InodeWrites>;

// Until it is destroyed nothing of the inode is being committed, nor will be as it is now.
class WriteBackPause {
 public:
  explicit WriteBackPause(InodeWritesPtr writes);
  WriteBackPause(const WriteBackPause&) = delete;
  WriteBackPause& operator=(const WriteBackPause&) = delete;
  ~WriteBackPause();
  Task<void> Begin();

 private:
  const InodeWritesPtr writes_;
};

struct WriteBackOptions {
  uint64_t dirty_limit_bytes = 0;
  size_t max_batches_per_inode = 0;
  int64_t delay_ns = 0;    // dirty bytes start to leave after this at the latest
  int64_t timeout_ns = 0;  // without any progress
};

struct WriteBackNeeds {
  std::function<Task<Result<std::vector<WrittenPiece>>>(InodeWritesPtr, BufferChain payload)> store;
  // They are not committed, for this reason.
  std::function<void(const std::vector<WrittenPiece>&, FsError why)> give_back;
  std::function<Task<Result<void>>(InodeWritesPtr, std::vector<StripeInfo>, std::vector<Extent>, uint64_t grow_to,
                                   bool durable)>
      commit;
  // All inodes that may have dirty bytes, by number.
  std::function<void(const std::function<void(const InodeWritesPtr&)>&)> each;
  // Notices: a batch was committed; one failed; one has ended, so that the inode may not be in use any more; the same of one
  // whose bytes were lost meanwhile.
  std::function<void(const InodeWritesPtr&)> committed, failed, ended, ended_lost;
};

class WriteBack {
 public:
  static constexpr int kMaxRewrites = 3;  // of one batch whose stripes the server does not know

  // `counters` (committed_bytes grows as bytes are stored) and `scope` outlive it; `scope` is cancelled before it goes.
  WriteBack(WriteBackOptions options, WriteBackNeeds needs, const IoCounters& counters, TaskScope& scope)
      : options_(options), needs_(std::move(needs)), counters_(counters), scope_(scope) {}
  WriteBack(const WriteBack&) = delete;
  WriteBack& operator=(const WriteBack&) = delete;

  // An inline commit that these refuse may do as stripes.
  static bool InlineRefused(FsError e);

  // The bytes are dirty from here on; batches are cut at full stripes. `grows`: DirtyBuffer::Write.
  void Take(const InodeWritesPtr& writes, uint64_t offset, Buffer bytes, bool grows, uint64_t stripe_bytes);
  // Begins what may be begun.
  void Start(const InodeWritesPtr& writes);
  // What is dirty now is committed, or an error. For as long as any batch of it is committed within the timeout.
  Task<Result<void>> Flush(InodeWritesPtr writes, bool durable);
  // Looks for old dirty bytes, for ever.
  Task<void> Periodic();

  // After what is dirty of it was cut (InodeWrites::Truncate).
  void Account(InodeWrites& writes);
  // All dirty bytes are lost; flushes of them give `loss`.
  void LoseAll(InodeWrites& writes, Error loss);

  uint64_t dirty_bytes() const { return dirty_bytes_; }
  bool RoomFor(uint64_t bytes) const { return dirty_bytes_ == 0 || dirty_bytes_ + bytes <= options_.dirty_limit_bytes; }
  // Not longer than the timeout without any byte leaving: it may be other files that cannot be written. `passes`: they go
  // without room.
  Task<Result<void>> WaitForRoom(InodeWritesPtr writes, uint64_t bytes, std::function<bool()> passes);
  // Some of those may pass now.
  void WakeRoomWaits() { fell_.Pulse(); }

 private:
  Task<bool> Fell();
  static Task<bool> BatchDone(InodeWritesPtr writes);
  Task<Result<void>> StoreAndCommit(InodeWritesPtr writes, const DirtyBuffer::Batch& batch, uint64_t era);
  Task<void> RunBatch(InodeWritesPtr writes, DirtyBuffer::Batch batch, uint64_t era);

  const WriteBackOptions options_;
  const WriteBackNeeds needs_;
  const IoCounters& counters_;
  TaskScope& scope_;
  uint64_t dirty_bytes_ = 0;
  Event fell_;
};

}  // namespace stria
