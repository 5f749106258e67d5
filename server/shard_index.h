// The index of one disk: the place and checksum of each sealed shard. Lives in a KvStore:
//
//   family kShards   ShardId (8 bytes, big-endian) -> ShardRecord
//   family kState    'T' -> Totals | 'S' + segment id -> live bytes of the segment
//                    'U' -> unindexed_from() | 'Q' + ShardId -> QuarantineMark
//
// Every value is {version, length, body} whose body ends with a hash over key and body: a flipped bit
// or a value under the wrong key does not decode (kCorrupt). Totals and live bytes are written in the
// same batch as the records they count, so they are exact after every crash.
//
// All methods are for the executor's thread; the store's blocking calls run on the pool given.
#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/error.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "common/ids.h"
#include "common/kv/kv.h"

namespace stria {

inline constexpr KvFamily kIndexShards = 0;
inline constexpr KvFamily kIndexState = 1;
inline constexpr size_t kIndexFamilies = 2;
inline constexpr size_t kIndexCacheBytes = 16 * 1024 * 1024;  // of records kept in memory, per disk

enum class ShardKind : uint8_t {
  kRaw = 1,     // a file of its own; its segment entry, if any, holds only the checksum table
  kPacked = 2,  // payload inside a segment
};

// Where an entry of a segment is. Segment 0: nowhere.
struct SegmentPlace {
  uint64_t segment = 0;
  uint64_t offset = 0;  // of the entry's head in the segment file
  auto operator<=>(const SegmentPlace&) const = default;
};

struct ShardRecord {
  ShardKind kind = ShardKind::kRaw;
  SegmentPlace place;
  uint64_t length = 0;         // > 0
  uint64_t digest = 0;         // TableDigest(crcs, length)
  std::vector<uint32_t> crcs;  // one per block
  bool operator==(const ShardRecord&) const = default;
};
using ShardRecordPtr = std::shared_ptr<const ShardRecord>;

std::string ShardKey(ShardId shard);
std::string EncodeShardRecord(ShardId shard, const ShardRecord& record);
// kCorrupt unless every invariant above holds.
Result<ShardRecord> DecodeShardRecord(ShardId shard, std::string_view value);

// Under kUnindexedFromKey in kIndexState: ShardIndex::unindexed_from(). All segments if it is damaged.
inline constexpr char kUnindexedFromKey[] = "U";
std::string EncodeUnindexedFrom(SegmentPlace place);
SegmentPlace DecodeUnindexedFrom(std::string_view value);

struct IndexTotals {
  uint64_t shards = 0;
  uint64_t used_bytes = 0;    // sum of the lengths
  uint64_t next_segment = 1;  // above every segment that a record ever named
};

// A shard that the metadata did not know, and since when.
struct QuarantineMark {
  int64_t since_wall_ns = 0;
  uint64_t incarnation = 0;
};

// One step of ShardIndex::Apply.
struct IndexChange {
  enum class Kind : uint8_t { kPut, kRemove, kMove };
  Kind kind = Kind::kPut;
  ShardId shard;
  ShardRecord record;  // kPut
  SegmentPlace from;   // kMove: only if the record still is there
  SegmentPlace to;
};
struct AppliedChange {
  bool done = false;   // kPut always; kRemove if it was there; kMove if it still was at `from`
  ShardRecordPtr old;  // kRemove and kMove: the record before
};

class ShardIndex {
 public:
  // Both outlive the index.
  ShardIndex(KvStore* kv, Pool* pool, size_t cache_bytes = kIndexCacheBytes)
      : kv_(kv), pool_(pool), cache_limit_bytes_(cache_bytes) {}

  // Loads totals and segments, or counts them again if they are damaged. Call once, first.
  Task<Result<void>> Open();

  // nullptr if there is none. kCorrupt if the record is damaged.
  Task<Result<ShardRecordPtr>> Get(ShardId shard, bool keep_in_cache = true);

  // Applies the changes in one batch and, unless told kLater, makes them durable. REQUIRES: no shard twice; a kPut shard
  // is not there. After an error nothing further may be applied. The changes are visible to Get as soon
  // as they are written, before they are durable. kLater: with the next batch that is made durable, or by Sync.
  enum class Durable { kNow, kLater };
  Task<Result<std::vector<AppliedChange>>> Apply(std::vector<IndexChange> changes, Durable durable = Durable::kNow);
  // Makes all of it durable that was applied before.
  Task<Result<void>> Sync();

  // The index has all valid entries in segments before this place: the others were deleted, moved, or never acknowledged.
  // Changes are written with the next batches. nullopt after Open: this index lacks no records.
  std::optional<SegmentPlace> unindexed_from() const { return unindexed_from_; }
  void SetUnindexedFrom(SegmentPlace place) { unindexed_from_ = place; }
  // The same, durable on return.
  Task<Result<void>> StoreUnindexedFrom(SegmentPlace place);

  // Up to `limit` shards after `after`, by id. A damaged record has ok() false and the shard's id.
  struct Listed {
    ShardId shard;
    Result<ShardRecord> record;
  };
  Task<Result<std::vector<Listed>>> List(ShardId after, size_t limit);

  // Shards in (after, last].
  Task<Result<std::map<ShardId, QuarantineMark>>> Marks(ShardId after, ShardId last);
  // nullopt removes. Not synced: losing a mark only prolongs the quarantine.
  Task<Result<void>> SetMarks(std::vector<std::pair<ShardId, std::optional<QuarantineMark>>> marks);

  const IndexTotals& totals() const { return totals_; }
  // Segment id -> bytes of live entries; segments with none are not listed.
  const std::map<uint64_t, uint64_t>& segment_live_bytes() const { return live_; }
  // segment_live_bytes of it is durable. Before, a power cut may bring back a record that names the segment, so its file must
  // stay.
  bool Settled(uint64_t segment) const {
    auto it = changed_.find(segment);
    return it == changed_.end() || it->second <= durable_;
  }
  // A segment id never used before; durable with the first record that names it.
  uint64_t NewSegmentId() { return totals_.next_segment++; }
  // The files on disk know of segments up to here.
  void NoteSegment(uint64_t segment) {
    if (segment >= totals_.next_segment) totals_.next_segment = segment + 1;
  }
  size_t cache_bytes() const { return cache_bytes_; }
  // A batch could not be written, for want of room: nothing of it is in the store, and all before it is.
  bool found_no_room() const { return found_no_room_; }

 private:
  struct Cached {
    ShardRecordPtr record;
    std::list<uint64_t>::iterator place;
  };
  static size_t Weight(const ShardRecord& r) { return 160 + 4 * r.crcs.size(); }
  Task<Result<void>> LoadCounts();
  Task<Result<void>> LoadUnindexedFrom();
  Task<Result<void>> Recount();
  ShardRecordPtr FindCached(ShardId shard);
  void Remember(ShardId shard, ShardRecordPtr record);
  void Forget(ShardId shard);
  Task<Result<std::optional<std::string>>> Load(KvFamily family, std::string key);
  void Count(const SegmentPlace& place, const ShardRecord& r, bool add, std::map<uint64_t, bool>* touched);
  void AppendTotals(const std::map<uint64_t, bool>& touched, KvBatch* batch) const;
  // Writes under the lock's protection.
  Task<Result<void>> WriteBatch(KvBatch batch);
  Task<Result<void>> SyncUpTo(uint64_t number);

  KvStore* const kv_;
  Pool* const pool_;
  const size_t cache_limit_bytes_;
  AsyncMutex write_mutex_;  // read-modify-write of records, totals and live bytes
  IndexTotals totals_;
  std::map<uint64_t, uint64_t> live_;
  std::optional<SegmentPlace> unindexed_from_;
  uint64_t written_ = 0;  // number of the last batch of changes that was begun
  uint64_t durable_ = 0;  // of the last one that is durable, with all before it
  std::map<uint64_t, uint64_t> changed_;  // segment -> the last batch that touched it; if not all are durable
  uint64_t generation_ = 0;  // of records: a Get that overlapped a change does not fill the cache
  uint64_t loads_ = 0;  // of records that were not in cache_
  std::list<uint64_t> lru_;  // most recent first
  std::unordered_map<uint64_t, Cached> cache_;
  size_t cache_bytes_ = 0;
  bool found_no_room_ = false;
};

}  // namespace stria
