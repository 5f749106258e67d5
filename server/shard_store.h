// The shards of one disk. A shard is open while it is written (in memory, and as raw file
// shards/xx/<id> once it is larger than 256 KiB), then sealed for good, then deleted.
//
// Sealing (group commit; batches of all waiting shards, two under way at most):
//   1. small shards, and the checksum tables of raw ones, are appended to the active segment;
//   2. one Disk::SyncFiles for all of the batch: bytes and directory entries;
//   3. one index batch; synced if there are raw shards in it. Small ones are in their segment, and Open enters records again
//      that the index lost in a power cut (IndexTail);
//   4. replies. So a record in the index means that the bytes are durable.
// Deleting: 1. index batch, synced; 2. files removed. So a file without a record is garbage, and Open
// starts a scan that removes it. A crash between any two steps leaves a whole sealed shard or garbage.
//
// A failed sync of bytes or index fences the disk: nothing is written any more, `failed` is reported, reads go on as far as
// they can. An index that finds no room is not reported as a failure (out_of_room). A hanging disk gets no work after two seconds
// (kUnavailable; disk_silence.h), and is reported as failed after twenty, until it answers. Errors: kDiskFailed, kNoSpace (ordinary writers leave 5 % to repair), kChecksum (bytes or record
// differ from what was written; counted, and listed for a report), kNoSuchShard, kShardSealed, kConflict, kRetryLater (a bound
// was reached), kBadRequest.
//
// For the executor's thread. Tasks of Write, Seal and Delete must run to their end or end with the
// store (detach.h); Read and the others may be cancelled.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/buffer.h"
#include "common/exec/pool.h"
#include "common/io/disk.h"
#include "common/io/read_history.h"
#include "server/disk_silence.h"
#include "server/open_shard.h"
#include "server/segment_writer.h"
#include "server/read_times.h"
#include "server/shard_index.h"
#include "stripe/grain_memory.h"

namespace stria {

inline constexpr size_t kMaxOpenShards = 4096;                  // per disk
inline constexpr uint64_t kMaxBufferedBytes = 32 * kMiB;        // of open small shards, per disk
inline constexpr int64_t kOpenShardIdleNs = 15 * 60 * kSecond;  // then an unsealed shard is dropped
inline constexpr size_t kMaxCommitBatches = 2;                  // group commits under way
inline constexpr size_t kMaxCommitShards = 256;                 // per group commit
inline constexpr uint64_t kMaxCommitPackedBytes = 16 * kMiB;    // per group commit
inline constexpr uint64_t kRepairReservePercent = 5;
inline constexpr uint64_t kMaxHardReserveBytes = 256 * kMiB;  // for the index alone
inline constexpr uint64_t kMaxDiskErrors = 100;               // then the disk counts as failed
inline constexpr size_t kMaxRememberedReads = 4096;          // shards that were read lately
inline constexpr size_t kMaxRememberedBlocks = 16'384;       // blocks of which parts were read lately: 1 GiB
inline constexpr size_t kMaxRememberedBadShards = 10000;      // remembered until reported
inline constexpr uint64_t kMaxDiskWriteBytes = 64 * kMiB;  // being written to one disk; more is kRetryLater
inline constexpr int64_t kSpacePeriodNs = 1 * kSecond;     // the disk is asked for its space
inline constexpr int64_t kDiskHungNs = 20 * kSecond;  // without an answer: treated as failed until it answers
inline constexpr uint64_t kCheckInlineBytes = kMaxPackedShardBytes;  // more is checked on the pool

struct ShardStoreOptions {
  Uuid disk;                  // of the superblock
  std::string name = "disk";  // for messages: "disk /srv/d2"
  bool background = true;     // leftovers, ageing, lazy syncs, compaction
  uint64_t compact_bytes_per_s = 32 * kMiB;
};

struct ShardBytes {
  BufferChain bytes;
  std::vector<uint32_t> crcs;
  LeftOut left_out;
};

// The unwanted parts of the first and of the last block of a range.
struct Omit {
  uint64_t head_bytes = 0;
  uint64_t tail_bytes = 0;
  bool any() const { return head_bytes != 0 || tail_bytes != 0; }
};

struct DiskUsage {
  uint64_t capacity_bytes = 0;
  uint64_t free_bytes = 0;  // net of the repair reserve
  uint64_t used_bytes = 0;  // by sealed shards
  uint64_t shards = 0;
  uint64_t read_errors = 0;
  uint64_t write_errors = 0;
  uint64_t checksum_errors = 0;
  bool failed = false;  // not for want of room alone
  uint64_t read_us = 0;  // that half of its last reads took at least; 0: too few to say
  uint64_t filesystem = 0;  // as DiskSpace says
};

struct StoredShard {
  ShardId shard;
  uint64_t length = 0;
  uint64_t digest = 0;
  bool sealed = false;
  bool damaged = false;  // its index record is
};

class ShardStore {
 public:
  // All outlive the store. `index_pool` runs the index's blocking calls, `cpu_pool` checksums.
  ShardStore(Disk* disk, KvStore* kv, Pool* index_pool, Pool* cpu_pool, ShardStoreOptions options);

  // Loads the index, enters records that a power cut took, and starts the background work. Call first.
  Task<Result<void>> Open();

  // `offset` in whole blocks; data in whole blocks but for the shard's last bytes; one CRC per block, checked here. Not
  // durable. Repeating a write is fine; other bytes at the same place are kConflict. `repair` may use the reserve. `keep`: the
  // memory behind data is little more than data, and may be kept until the shard is sealed; otherwise kept bytes are copied.
  Task<Result<void>> Write(ShardId shard, uint64_t offset, BufferChain data, std::vector<uint32_t> crcs,
                           bool repair, bool keep = false);
  // Durable on return. kNoSuchShard if not exactly `length` bytes were written. Again: same answer.
  Task<Result<Sealed>> Seal(ShardId shard, uint64_t length);
  // Whole blocks, or to the shard's end. Returns all but `omit`, checked against its CRCs. (Of a block that was read in part
  // lately, only the wanted grains may be read and checked.) `once`: as Disk::ReadOnce; the same holds for shards that were not
  // read lately.
  Task<Result<ShardBytes>> Read(ShardId shard, uint64_t offset, uint64_t length, bool once = false, Omit omit = {});
  // Durable on return. Shards that are not there are fine. REQUIRES: none twice.
  Task<Result<void>> Delete(std::vector<ShardId> shards);
  // By id, at most `limit`; `more` if there are others after.
  struct Page {
    std::vector<StoredShard> shards;
    bool more = false;
  };
  Task<Result<Page>> Inventory(ShardId after, size_t limit);

  // Reads the whole shard from the disk itself, past all caches, and checks it.
  Task<Result<void>> Verify(ShardId shard);
  // As of kSpacePeriodNs ago at most; never waits for the disk.
  DiskUsage Usage() const;
  // Shards found damaged since the last call, at most `limit`.
  std::vector<ShardId> TakeBadShards(size_t limit);
  void MarkBad(ShardId shard);
  // As MarkBad, and counted: its index record does not decode.
  void NoteDamagedRecord(ShardId shard) { (void)Damaged(shard, "has a damaged index record"); }

  // One segment less than half live is emptied and removed; false if there was none.
  Task<Result<bool>> CompactOne();

  // The disk is taken away: the store does nothing there any more. Tasks that still run end with errors.
  void LetGo(const Error& why) { Fence(why); }
  bool failed() const { return !failure_.ok(); }
  bool hung() const;
  // For calls that wait for this disk for other nodes.
  DiskSilence& silence() { return silence_; }
  const Error& failure() const { return failure_; }
  // Another program has filled the disk, so its index cannot be written. Nothing on it is wrong: reads go on, and once it has
  // room_for_index() bytes free, opening it anew is as after a crash.
  bool out_of_room() const { return out_of_room_ && !sync_failed_; }
  uint64_t room_for_index() const;
  ShardIndex& index() { return index_; }
  const ShardStoreOptions& options() const { return options_; }
  size_t open_shards() const { return open_.size(); }
  bool leftovers_removed() const { return leftovers_removed_; }

 private:
  using OpenPtr = std::shared_ptr<OpenShard>;
  struct Pending {
    OpenPtr shard;
    std::vector<uint32_t> table;
    uint64_t length = 0;
    uint64_t digest = 0;
    SegmentPlace place;
    Error error;
  };

  // shard_open.cc
  Task<Result<void>> IndexTail();
  Task<Result<uint64_t>> IndexTailOf(uint64_t segment, uint64_t size_bytes, SegmentPlace from);

  // shard_store.cc
  Error NoSuchShard(ShardId shard) const;
  Error CheckWrite(ShardId shard, uint64_t offset, uint64_t length, size_t crcs) const;
  Error Usable() const;  // kDiskFailed if it is fenced or hangs, kUnavailable if it has just begun to
  Task<void> AskDisk();
  Error HasRoom(uint64_t bytes, bool repair) const;
  Task<Result<void>> CheckSpace(uint64_t bytes, bool repair);
  Task<Result<void>> RefreshSpace();
  Task<void> SpaceLoop();
  // nullptr: it is sealed and has exactly these bytes.
  Task<Result<OpenPtr>> FindOrOpen(ShardId shard, uint64_t offset, uint64_t length,
                                   const std::vector<uint32_t>& crcs);
  Task<Result<void>> WriteBlocks(OpenPtr shard, uint64_t offset, BufferChain data, bool repair, bool keep);
  Task<Result<void>> Spill(OpenPtr shard);
  void Buffer64(OpenShard* shard, uint64_t first_block, const BufferChain& data, bool keep);
  enum class ReadKind { kOften, kOnce, kStored };  // as Disk::Read, ReadOnce, ReadStored
  Task<Result<ShardBytes>> ReadBlocks(ShardId shard, uint64_t offset, uint64_t length, ReadKind kind, Omit omit = {});
  Task<Result<Buffer>> ReadFile(std::string name, uint64_t offset, uint64_t length, ReadKind kind);
  Task<Result<void>> CheckCrcs(ShardId shard, uint64_t first_block, BufferChain data, LeftOut left_out,
                               std::vector<uint32_t> crcs);
  Task<void> DropOpen(ShardId shard);  // also waits for a seal under way to end
  Task<void> Drop(OpenPtr shard);
  Error Damaged(ShardId shard, const std::string& how);
  // Counts an error of the disk and gives it a name; fences if there were too many.
  Error CountRead(Error e);
  Error CountWrite(Error e);
  void Fence(const Error& e);
  void Block(ShardId shard) { blocked_.insert(shard); }
  void Unblock(ShardId shard) {
    blocked_.erase(shard);
    unblocked_.Pulse();
  }
  // Unblocks at its end.
  class Blocks {
   public:
    explicit Blocks(ShardStore* store) : store_(store) {}
    Blocks(const Blocks&) = delete;
    ~Blocks() { End(); }
    bool Add(ShardId shard) {  // false: another task has blocked it
      if (!store_->blocked_.insert(shard).second) return false;
      shards_.push_back(shard);
      return true;
    }
    void End() {
      for (const ShardId shard : std::exchange(shards_, {})) store_->Unblock(shard);
    }

   private:
    ShardStore* const store_;
    std::vector<ShardId> shards_;
  };

  // shard_commit.cc
  Task<void> CommitLoop();
  std::vector<Pending> TakeBatch();
  Task<void> CommitBatch(std::vector<Pending> batch, SemaphoreHold slot);
  Task<void> CommitSteps(std::vector<Pending>* batch);
  Task<void> SyncCommitted(std::vector<std::string> files);
  void SyncFailed(const Error& e);
  Task<void> AppendToSegment(std::vector<Pending>* batch, bool sync, std::vector<std::string>* files,
                             SegmentWriter::Pin* pin);

  // shard_background.cc
  Task<void> Background();
  Task<Result<void>> RemoveLeftovers();
  Task<void> DropIdle();
  Task<void> SyncDirtySegments();
  // `busy` counts shards that another task has in hand just now; they stay.
  Task<Result<uint64_t>> MoveShards(uint64_t segment, std::vector<ShardId> shards, size_t* busy);
  Task<Result<void>> EmptySegment(uint64_t segment, size_t* busy);
  Task<void> RemoveSegment(uint64_t segment);

  Disk* const disk_;
  ReadHistory history_{kMaxRememberedReads};
  GrainMemory grains_{kMaxRememberedBlocks};
  Pool* const cpu_pool_;
  const ShardStoreOptions options_;
  ShardIndex index_;
  SegmentWriter segments_;

  std::map<ShardId, OpenPtr> open_;
  uint64_t buffered_bytes_ = 0;
  // Shards whose file is being removed, that are being moved, or that a task about to begin them looks up in the index:
  // meanwhile no other task may begin or delete them.
  std::set<ShardId> blocked_;
  Event unblocked_;

  std::deque<OpenPtr> waiting_seals_;
  Event seal_waits_;
  Semaphore commit_slots_{kMaxCommitBatches};
  uint64_t synced_segment_ = 0;  // its first records are durable in the index

  DiskSpace space_;
  uint64_t written_since_space_ = 0;
  bool asking_space_ = false;
  int64_t asked_space_ns_ = 0;
  Event space_answered_;
  Error space_error_;  // of the last answer
  Semaphore write_bytes_{static_cast<int64_t>(kMaxDiskWriteBytes)};

  DiskSilence silence_;
  Error failure_;
  bool out_of_room_ = false;
  bool sync_failed_ = false;
  ReadTimes read_times_;
  uint64_t read_errors_ = 0;
  uint64_t write_errors_ = 0;
  uint64_t checksum_errors_ = 0;
  std::set<ShardId> bad_;
  bool leftovers_removed_ = false;
  AsyncMutex compacting_;
  std::set<uint64_t> stuck_segments_;  // could not be emptied; not tried again before a restart

  TaskScope scope_;  // last: its tasks use all of the above
};

}  // namespace stria
