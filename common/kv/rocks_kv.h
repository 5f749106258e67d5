// RocksKv: the KvStore of real processes, on RocksDB.
//
// All families share one write-ahead log, so a crash leaves a prefix of the batches over all of them.
// Write reaches the kernel before it returns (survives kill -9); Sync makes the log durable.
// Memory is bounded by the RocksMemory that the stores of a process share. After a failed write or
// sync the store takes no more writes until it is opened again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/exec/pool.h"
#include "common/kv/kv.h"
#include "common/units.h"

namespace stria {

inline constexpr uint64_t kDefaultRocksMemoryBytes = 256 * kMiB;

// Block cache and write buffers, shared by any number of stores. Thread-safe.
class RocksMemory {
 public:
  // A quarter is for write buffers (which are charged to the cache). REQUIRES: bytes >= 8 MiB.
  static std::shared_ptr<RocksMemory> Make(uint64_t bytes = kDefaultRocksMemoryBytes);
  virtual ~RocksMemory() = default;
  virtual uint64_t used_bytes() const = 0;
};

struct RocksKvOptions {
  std::shared_ptr<RocksMemory> memory;  // null: one of its own, of the default size
  // Per family, the length of the key prefix that scans share (0, or beyond the end: none). Scans
  // within one prefix then skip files without it.
  std::vector<size_t> prefix_bytes;
  bool wal_compression = false;  // zstd
  bool prepare_log = true;  // syncs write over zeros (prepared_log.h)
  bool create_if_missing = true;
  std::vector<std::string> spare_families;  // it may have these besides: they stay as they are, and nobody reads them
  uint64_t max_wal_bytes = 256 * kMiB;  // older data is flushed to tables beyond this
  bool flush_at_open = true;  // flushes the log's content to tables; without, opening writes next to nothing
  int max_open_files = 512;
  int max_background_jobs = 2;
};

class RocksKv final : public KvStore {
 public:
  // `families` are names, numbered in order; append only from release to release. `sync_pool` must
  // outlive the store, which is not to be closed by its only thread. Blocks; any thread. Errors: kCorrupt (with the path),
  // kBusy if another process has it open, kVersion if it has families that are not named, kNoEnt if it is missing and
  // may not be created.
  static Result<std::unique_ptr<RocksKv>> Open(const std::string& path,
                                               const std::vector<std::string>& families,
                                               RocksKvOptions options, Pool& sync_pool);
  // Waits for a running sync, and for the end of snapshots; syncs and flushes nothing.
  ~RocksKv() override;

  Result<std::optional<std::string>> Get(KvFamily family, std::string_view key) override;
  std::optional<Result<std::optional<std::string>>> GetIfCached(KvFamily family, std::string_view key) override;
  Result<std::vector<KvEntry>> Scan(KvFamily family, std::string_view begin, std::string_view end,
                                    size_t limit) override;
  Result<std::optional<KvEntry>> Last(KvFamily family, std::string_view begin, std::string_view at) override;
  Result<void> Write(const KvBatch& batch) override;
  // One log sync runs at a time; calls meanwhile share the next.
  Task<Result<void>> Sync() override;
  std::string Damage() const override;
  std::unique_ptr<KvStore> Snapshot() override;

  // These block; any thread.
  // A consistent copy of the store in the new directory `path` (same file system: hard links).
  Result<void> Checkpoint(const std::string& path);
  // Moves the write buffers to tables, durably.
  Result<void> Flush();
  // Reads everything and checks its checksums.
  Result<void> VerifyChecksums();
  uint64_t disk_bytes() const;  // of the tables; an estimate
  uint64_t syncs() const;       // log syncs done, for the metrics

 private:
  class Db;
  class View;
  struct Syncs;
  RocksKv(std::unique_ptr<Db> db, Pool& sync_pool);
  std::optional<Result<std::optional<std::string>>> Find(KvFamily family, std::string_view key, bool cached_only);
  void StartSync();
  void PrepareLog();

  std::unique_ptr<Db> db_;
  Pool& sync_pool_;
  std::shared_ptr<Syncs> syncs_;  // executor's thread only
  const std::shared_ptr<std::atomic<bool>> preparing_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace stria
