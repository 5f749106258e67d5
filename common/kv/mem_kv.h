// MemKv: a KvStore in memory, for tests and the simulator. Its content lives in a MemKvMedia, which outlives it as a disk
// outlives a process: destroy the MemKv, call media->Crash(), open another.
//
// Thread-safety as KvStore says; the media's methods may be called from any thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/kv/kv.h"
#include "common/random.h"

namespace stria {

class MemKvMedia {
 public:
  // REQUIRES: 1 <= families <= 256.
  explicit MemKvMedia(size_t families);

  // The content after the process ends. `lose_unsynced` (power cut): a random prefix of the batches not covered by a finished
  // Sync; else (kill -9): all of them. In both cases a batch whose Write failed may turn up as the last one.
  void Crash(Random& rng, bool lose_unsynced);

  // Faults. The next Sync to finish fails with kIo; its batches stay unsynced.
  void FailNextSync();
  // The next Write fails with kIo and is not visible (until a Crash, perhaps).
  void FailNextWrite();
  // Flips one random bit of a value, unnoticed. False if there is no such entry or it is empty.
  bool CorruptValue(KvFamily family, std::string_view key, Random& rng);
  // As if the block of this key failed its checksum: reads that meet it give kCorrupt until it is
  // overwritten.
  void DamageKey(KvFamily family, std::string_view key);

  size_t families() const { return maps_.size(); }
  size_t unsynced_batches() const;
  // Number of Syncs that succeeded.
  uint64_t syncs() const;

 private:
  friend class MemKv;
  using Map = std::map<std::string, std::string, std::less<>>;
  // The undo of one batch that is not durable yet.
  struct Unsynced {
    uint64_t seq = 0;
    std::vector<KvOp> undo;  // in the order to apply
  };
  std::vector<KvOp> ApplyLocked(const KvBatch& batch);  // returns how to undo it
  void UndoLastLocked();
  bool DamagedLocked(KvFamily family, std::string_view key) const;

  mutable std::mutex mu_;  // guards everything below
  std::vector<Map> maps_;
  std::deque<Unsynced> unsynced_;
  uint64_t last_seq_ = 0;
  uint64_t syncs_ = 0;
  std::optional<KvBatch> failed_write_;
  std::set<std::pair<KvFamily, std::string>> damaged_;
  bool fail_next_sync_ = false;
  bool fail_next_write_ = false;
};

struct MemKvOptions {
  int64_t sync_latency_ns = 200 * kMicrosecond;
};

class MemKv final : public KvStore {
 public:
  explicit MemKv(std::shared_ptr<MemKvMedia> media, MemKvOptions options = {});

  Result<std::optional<std::string>> Get(KvFamily family, std::string_view key) override;
  // For every other key, so that callers meet both ways.
  std::optional<Result<std::optional<std::string>>> GetIfCached(KvFamily family, std::string_view key) override;
  Result<std::vector<KvEntry>> Scan(KvFamily family, std::string_view begin, std::string_view end,
                                    size_t limit) override;
  Result<std::optional<KvEntry>> Last(KvFamily family, std::string_view begin, std::string_view at) override;
  Result<void> Write(const KvBatch& batch) override;
  Task<Result<void>> Sync() override;
  std::unique_ptr<KvStore> Snapshot() override;  // a copy

 private:
  const std::shared_ptr<MemKvMedia> media_;
  const MemKvOptions options_;
  bool read_only_ = false;  // a snapshot
  Error latched_;  // guarded by media_->mu_: a failed write or sync is never forgotten
};

}  // namespace stria
