#include "common/kv/mem_kv.h"

#include <algorithm>

namespace stria {
namespace {

Error Damaged() { return Error(FsError::kCorrupt, "the memory store has a damaged block"); }

}  // namespace

MemKvMedia::MemKvMedia(size_t families) : maps_(families) { CHECK(families >= 1 && families <= 256); }

std::vector<KvOp> MemKvMedia::ApplyLocked(const KvBatch& batch) {
  std::vector<KvOp> undo;
  undo.reserve(batch.ops.size());
  for (const KvOp& op : batch.ops) {
    CHECK(op.family < maps_.size(), "no such family");
    Map& map = maps_[op.family];
    auto it = map.find(op.key);
    undo.push_back({op.family, op.key, it == map.end() ? std::nullopt : std::optional(it->second)});
    if (op.value) {
      map.insert_or_assign(op.key, *op.value);
    } else if (it != map.end()) {
      map.erase(it);
    }
    damaged_.erase({op.family, op.key});
  }
  std::reverse(undo.begin(), undo.end());
  return undo;
}

void MemKvMedia::UndoLastLocked() {
  for (KvOp& op : unsynced_.back().undo) {
    if (op.value) {
      maps_[op.family].insert_or_assign(op.key, std::move(*op.value));
    } else {
      maps_[op.family].erase(op.key);
    }
  }
  unsynced_.pop_back();
}

void MemKvMedia::Crash(Random& rng, bool lose_unsynced) {
  std::lock_guard<std::mutex> lock(mu_);
  bool all_kept = true;
  if (lose_unsynced) {
    const size_t keep = rng.Below(unsynced_.size() + 1);
    all_kept = keep == unsynced_.size();
    while (unsynced_.size() > keep) UndoLastLocked();
    unsynced_.clear();  // batches on the disk stay there
  }
  if (failed_write_ && all_kept && rng.OneIn(2)) {
    std::vector<KvOp> undo = ApplyLocked(*failed_write_);
    if (!lose_unsynced) unsynced_.push_back({++last_seq_, std::move(undo)});
  }
  failed_write_.reset();
}

void MemKvMedia::FailNextSync() {
  std::lock_guard<std::mutex> lock(mu_);
  fail_next_sync_ = true;
}

void MemKvMedia::FailNextWrite() {
  std::lock_guard<std::mutex> lock(mu_);
  fail_next_write_ = true;
}

bool MemKvMedia::CorruptValue(KvFamily family, std::string_view key, Random& rng) {
  std::lock_guard<std::mutex> lock(mu_);
  CHECK(family < maps_.size(), "no such family");
  auto it = maps_[family].find(key);
  if (it == maps_[family].end() || it->second.empty()) return false;
  it->second[rng.Below(it->second.size())] ^= static_cast<char>(1 << rng.Below(8));
  return true;
}

void MemKvMedia::DamageKey(KvFamily family, std::string_view key) {
  std::lock_guard<std::mutex> lock(mu_);
  damaged_.emplace(family, key);
}

bool MemKvMedia::DamagedLocked(KvFamily family, std::string_view key) const {
  return !damaged_.empty() && damaged_.contains({family, std::string(key)});
}

size_t MemKvMedia::unsynced_batches() const {
  std::lock_guard<std::mutex> lock(mu_);
  return unsynced_.size();
}

uint64_t MemKvMedia::syncs() const {
  std::lock_guard<std::mutex> lock(mu_);
  return syncs_;
}

MemKv::MemKv(std::shared_ptr<MemKvMedia> media, MemKvOptions options)
    : media_(std::move(media)), options_(options) {}

Result<std::optional<std::string>> MemKv::Get(KvFamily family, std::string_view key) {
  std::lock_guard<std::mutex> lock(media_->mu_);
  CHECK(family < media_->maps_.size(), "no such family");
  if (media_->DamagedLocked(family, key)) return Damaged();
  const auto& map = media_->maps_[family];
  auto it = map.find(key);
  if (it == map.end()) return std::optional<std::string>();
  return std::optional(it->second);
}

std::optional<Result<std::optional<std::string>>> MemKv::GetIfCached(KvFamily family, std::string_view key) {
  if (key.empty() || key.back() % 2 != 0) return std::nullopt;
  return Get(family, key);
}

Result<std::vector<KvEntry>> MemKv::Scan(KvFamily family, std::string_view begin, std::string_view end,
                                         size_t limit) {
  std::lock_guard<std::mutex> lock(media_->mu_);
  CHECK(family < media_->maps_.size(), "no such family");
  const auto& map = media_->maps_[family];
  std::vector<KvEntry> out;
  for (auto it = map.lower_bound(begin); it != map.end() && out.size() < limit; ++it) {
    if (!end.empty() && it->first >= end) break;
    if (media_->DamagedLocked(family, it->first)) return Damaged();
    out.push_back(*it);
  }
  return out;
}

Result<std::optional<KvEntry>> MemKv::Last(KvFamily family, std::string_view begin, std::string_view at) {
  std::lock_guard<std::mutex> lock(media_->mu_);
  CHECK(family < media_->maps_.size(), "no such family");
  const auto& map = media_->maps_[family];
  auto it = map.upper_bound(at);
  if (it == map.begin()) return std::optional<KvEntry>();
  --it;
  if (it->first < begin) return std::optional<KvEntry>();
  if (media_->DamagedLocked(family, it->first)) return Damaged();
  return std::optional<KvEntry>(*it);
}

std::unique_ptr<KvStore> MemKv::Snapshot() {
  std::lock_guard<std::mutex> lock(media_->mu_);
  auto copy = std::make_shared<MemKvMedia>(media_->maps_.size());
  copy->maps_ = media_->maps_;
  copy->damaged_ = media_->damaged_;
  auto out = std::make_unique<MemKv>(std::move(copy));
  out->read_only_ = true;
  return out;
}

Result<void> MemKv::Write(const KvBatch& batch) {
  if (read_only_) return Error(FsError::kInval, "a snapshot takes no writes");
  std::lock_guard<std::mutex> lock(media_->mu_);
  if (!latched_.ok()) return latched_;
  if (media_->fail_next_write_) {
    media_->fail_next_write_ = false;
    media_->failed_write_ = batch;
    latched_ = Error(FsError::kIo, "the memory store failed a write and takes no more");
    return latched_;
  }
  std::vector<KvOp> undo = media_->ApplyLocked(batch);
  media_->unsynced_.push_back({++media_->last_seq_, std::move(undo)});
  return Ok();
}

Task<Result<void>> MemKv::Sync() {
  if (read_only_) co_return Error(FsError::kInval, "a snapshot takes no writes");
  uint64_t covered;
  {
    std::lock_guard<std::mutex> lock(media_->mu_);
    if (!latched_.ok()) co_return latched_;
    covered = media_->last_seq_;
  }
  co_await Sleep(options_.sync_latency_ns);
  std::lock_guard<std::mutex> lock(media_->mu_);
  if (media_->fail_next_sync_) {
    media_->fail_next_sync_ = false;
    latched_ = Error(FsError::kIo, "the memory store failed a sync and takes no more writes");
  }
  if (!latched_.ok()) co_return latched_;
  while (!media_->unsynced_.empty() && media_->unsynced_.front().seq <= covered)
    media_->unsynced_.pop_front();
  ++media_->syncs_;
  co_return Ok();
}

}  // namespace stria
