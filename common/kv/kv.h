// An ordered key-value store with atomic batches: the seam under the metadata store and the shard
// index. Implementations: RocksKv (real), MemKv (tests, simulator; loses its unsynced tail on a
// simulated crash). One conformance suite runs on all.
//
// Keys order as unsigned bytes. Families are small dense numbers 0 .. families-1, each an ordered map.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/exec/task.h"

namespace stria {

using KvFamily = uint8_t;

struct KvOp {
  KvFamily family = 0;
  std::string key;
  std::optional<std::string> value;  // nullopt deletes; deleting a missing key is fine
};

// Absolute puts and deletes only: applying a batch twice is applying it once, so that batches can be
// journalled, shipped and replayed.
struct KvBatch {
  std::vector<KvOp> ops;
  size_t bytes = 0;  // of keys and values
  void Put(KvFamily f, std::string key, std::string value) {
    bytes += key.size() + value.size();
    ops.push_back({f, std::move(key), std::move(value)});
  }
  void Delete(KvFamily f, std::string key) {
    bytes += key.size();
    ops.push_back({f, std::move(key), std::nullopt});
  }
  bool empty() const { return ops.empty(); }
};

using KvEntry = std::pair<std::string, std::string>;

class KvStore {
 public:
  virtual ~KvStore() = default;

  // Get, Scan, Last and Write block (RocksDB); they may be called from any thread, and see every
  // Write that returned before. kIo or kCorrupt when the store is damaged.
  virtual Result<std::optional<std::string>> Get(KvFamily family, std::string_view key) = 0;
  // The result of Get, if it can be known without waiting for a disk; nullopt: ask Get. Any thread.
  virtual std::optional<Result<std::optional<std::string>>> GetIfCached(KvFamily /*family*/, std::string_view /*key*/) {
    return std::nullopt;
  }
  // Entries with begin <= key < end in order, at most `limit`. Empty `end` means to the last key.
  virtual Result<std::vector<KvEntry>> Scan(KvFamily family, std::string_view begin, std::string_view end,
                                            size_t limit) = 0;
  // The last entry with begin <= key <= at.
  virtual Result<std::optional<KvEntry>> Last(KvFamily family, std::string_view begin, std::string_view at) = 0;
  // Applies all or nothing, in the order of calls; survives kill -9 of the process when it returns,
  // a power cut only after a Sync() that started later. Calls must not overlap.
  virtual Result<void> Write(const KvBatch& batch) = 0;
  // Everything written before this call is durable when it returns. Calls coalesce. After an error
  // the store refuses all further writes (a failed fsync must never be forgotten).
  virtual Task<Result<void>> Sync() = 0;
  // The store as it is now, to be read while this one changes, from any thread; Write and Sync give kInval. Does not block. The store
  // waits in its destructor for the end of its snapshots. nullptr: this kind of store has none.
  virtual std::unique_ptr<KvStore> Snapshot() { return nullptr; }
  // The first damage that a read met since this was opened, for people; "" if none. Any thread.
  virtual std::string Damage() const { return ""; }
};

}  // namespace stria
