#include "common/kv/rocks_kv.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <rocksdb/write_buffer_manager.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "common/kv/dead_runs.h"
#include "common/kv/prepared_log.h"
#include "common/log.h"

namespace stria {
namespace {

constexpr double kBloomBitsPerKey = 10;
constexpr uint64_t kMaxWriteBufferBytes = 64 * kMiB;
// A table with this many deletions among this many neighbours is compacted soon: until then every reader there passes them all.
constexpr size_t kDeletionWindow = 4096;
constexpr size_t kDeletionsInWindow = 2048;
constexpr uint64_t kMinMemoryBytes = 8 * kMiB;
// A search that passed this many deletions between two keys reports them (dead_runs.h): a full write buffer is the first to
// drop any.
constexpr uint64_t kDeletionsPassed = 32;

// What RocksDB says. Its own logger writes beside the store, and ends the process with an assertion at the second line that its disk
// does not take.
class Sayings final : public rocksdb::Logger {
 public:
  explicit Sayings(std::string path) : Logger(rocksdb::InfoLogLevel::WARN_LEVEL), path_(std::move(path)) {}
  using Logger::Logv;
  void Logv(const char*, va_list) override {}  // headers
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list values) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level >= rocksdb::InfoLogLevel::HEADER_LEVEL) return;
    char text[1024];
    (void)vsnprintf(text, sizeof text, format, values);
    std::string_view line = text;
    while (line.ends_with('\n')) line.remove_suffix(1);
    // What matters of it is in the errors that it gives, too.
    if (level == rocksdb::InfoLogLevel::WARN_LEVEL) LogDebug("the key-value store at {}: {}", path_, line);
    else LogInfo("the key-value store at {}: {}", path_, line);
  }

 private:
  const std::string path_;
};

// How many deletions this thread passes while it lives.
class PassedDeletions {
 public:
  PassedDeletions() : level_(rocksdb::GetPerfLevel()) {
    if (level_ < rocksdb::PerfLevel::kEnableCount) rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    (void)Take();
  }
  PassedDeletions(const PassedDeletions&) = delete;
  ~PassedDeletions() { rocksdb::SetPerfLevel(level_); }
  // Since the last call.
  uint64_t Take() {
    const uint64_t now = rocksdb::get_perf_context()->internal_delete_skipped_count;
    return now - std::exchange(last_, now);
  }

 private:
  const rocksdb::PerfLevel level_;
  uint64_t last_ = 0;
};

class Memory final : public RocksMemory {
 public:
  explicit Memory(uint64_t bytes)
      : cache(rocksdb::NewLRUCache(bytes)),
        buffers(std::make_shared<rocksdb::WriteBufferManager>(bytes / 4, cache)),
        write_buffer_bytes(std::min(bytes / 8, kMaxWriteBufferBytes)) {}
  uint64_t used_bytes() const override { return cache->GetUsage(); }

  const std::shared_ptr<rocksdb::Cache> cache;
  const std::shared_ptr<rocksdb::WriteBufferManager> buffers;
  const uint64_t write_buffer_bytes;
};

rocksdb::Slice ToSlice(std::string_view s) { return rocksdb::Slice(s.data(), s.size()); }
std::string_view ToView(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

Error ToError(const rocksdb::Status& s, const std::string& path) {
  const std::string store = "the key-value store at " + path;
  if (s.IsCorruption()) return Error(FsError::kCorrupt, store + " is damaged: " + s.ToString());
  if (s.IsNoSpace()) return Error(FsError::kNoSpace, store + " found its disk full: " + s.ToString());
  return Error(FsError::kIo, store + " failed: " + s.ToString());
}

Error OpenError(const rocksdb::Status& s, const std::string& path) {
  const std::string text = s.ToString();
  if (s.IsIOError() && text.find("lock") != std::string::npos) {
    return Error(FsError::kBusy, "the key-value store at " + path + " is in use by another process: " + text);
  }
  if (s.IsInvalidArgument() && text.find("does not exist") != std::string::npos) {
    return Error(FsError::kNoEnt, "there is no key-value store at " + path);
  }
  // Files that the store names and that are gone.
  if (s.IsPathNotFound() || text.find("No such file or directory") != std::string::npos) {
    return Error(FsError::kCorrupt, "the key-value store at " + path + " misses files: " + text);
  }
  return ToError(s, path);
}

rocksdb::DBOptions DbOptions(const RocksKvOptions& options, const Memory& memory) {
  rocksdb::DBOptions db;
  db.create_if_missing = options.create_if_missing;
  db.create_missing_column_families = true;
  db.paranoid_checks = true;
  // A power cut may leave garbage after the last synced record; the records before it are a prefix.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  if (options.wal_compression) db.wal_compression = rocksdb::kZSTD;
  db.max_total_wal_size = options.max_wal_bytes;
  db.write_buffer_manager = memory.buffers;
  db.max_open_files = options.max_open_files;
  db.max_background_jobs = options.max_background_jobs;
  db.bytes_per_sync = kMiB;
  db.avoid_flush_during_recovery = !options.flush_at_open;
  db.avoid_flush_during_shutdown = true;  // the log has it
  db.skip_stats_update_on_db_open = true;
  db.max_bgerror_resume_count = 0;  // a failed fsync must never be forgotten
  db.stats_dump_period_sec = 0;
  return db;
}

rocksdb::ColumnFamilyOptions FamilyOptions(const Memory& memory, size_t prefix_bytes) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = memory.cache;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBitsPerKey));
  table.format_version = 5;
  table.checksum = rocksdb::kXXH3;
  table.block_size = 8 * kKiB;
  rocksdb::ColumnFamilyOptions family;
  family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  family.write_buffer_size = memory.write_buffer_bytes;
  family.compression = rocksdb::kLZ4Compression;
  family.level_compaction_dynamic_level_bytes = true;
  family.table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(kDeletionWindow, kDeletionsInWindow));
  if (prefix_bytes > 0) family.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(prefix_bytes));
  return family;
}

}  // namespace

std::shared_ptr<RocksMemory> RocksMemory::Make(uint64_t bytes) {
  CHECK(bytes >= kMinMemoryBytes, "too little memory for RocksDB");
  return std::make_shared<Memory>(bytes);
}

// The open database; outlives the pool's work on it (WaitIdle).
class RocksKv::Db {
 public:
  Db(std::string path, size_t families) : path_(std::move(path)), prefix_bytes_(families, 0), runs_(families) {}
  ~Db() {
    for (rocksdb::ColumnFamilyHandle* h : all_) db_->DestroyColumnFamilyHandle(h);
    if (db_) (void)db_->Close();
  }

  Result<void> Open(const std::vector<std::string>& names, const RocksKvOptions& options);
  rocksdb::DB* operator->() const { return db_.get(); }
  rocksdb::DB* get() const { return db_.get(); }
  rocksdb::ColumnFamilyHandle* family(KvFamily f) const {
    CHECK(f < families_.size(), "no such family");
    return families_[f];
  }
  const std::vector<rocksdb::ColumnFamilyHandle*>& families() const { return families_; }
  Error ErrorOf(const rocksdb::Status& s) {
    Error e = ToError(s, path_);
    if (e.code == FsError::kCorrupt) {
      std::lock_guard<std::mutex> lock(mu_);
      if (damage_.empty()) {
        damage_ = e.message;
        LogError("{}", damage_);
      }
    }
    return e;
  }
  std::string damage() const {
    std::lock_guard<std::mutex> lock(mu_);
    return damage_;
  }

  // For reads of keys that all start with begin's prefix, if `other` does too.
  rocksdb::ReadOptions ReadOptionsFor(KvFamily f, std::string_view begin, std::string_view other) const {
    rocksdb::ReadOptions ro;
    const size_t n = prefix_bytes_[f];
    const bool one_prefix =
        n > 0 && begin.size() >= n && other.size() >= n && begin.substr(0, n) == other.substr(0, n);
    ro.total_order_seek = !one_prefix;
    ro.prefix_same_as_start = one_prefix;
    return ro;
  }

  // An error after which no write or sync may follow.
  Error latched() const {
    if (!failed_.load(std::memory_order_acquire)) return Error();
    std::lock_guard<std::mutex> lock(mu_);
    return latched_;
  }
  Error Latch(const rocksdb::Status& s) {
    std::lock_guard<std::mutex> lock(mu_);
    if (latched_.ok()) latched_ = ToError(s, path_);
    failed_.store(true, std::memory_order_release);
    return latched_;
  }

  // On the pool.
  Error SyncLog() {
    if (Error e = latched(); !e.ok()) return e;  // RocksDB would end the process
    const rocksdb::Status s = db_->SyncWAL();
    Error e = s.ok() ? latched() : Latch(s);
    syncs_.fetch_add(1, std::memory_order_relaxed);
    return e;
  }
  bool log_wants_zeros() const { return options_.prepare_log && logs_->Wanted(); }
  void PrepareLog() { logs_->Prepare(); }
  // ---- Where there is nothing (dead_runs.h).
  std::pair<uint64_t, std::string> Down(KvFamily f, std::string_view key) const {
    std::lock_guard<std::mutex> lock(runs_mu_);
    return {runs_.AsOf(), std::string(runs_.Down(f, key))};
  }
  std::pair<uint64_t, std::string> Up(KvFamily f, std::string_view key) const {
    std::lock_guard<std::mutex> lock(runs_mu_);
    return {runs_.AsOf(), std::string(runs_.Up(f, key))};
  }
  // No write began since, so what was known then holds for these reads, too.
  bool IsAsOf(uint64_t as_of) const {
    std::lock_guard<std::mutex> lock(runs_mu_);
    return as_of != 0 && as_of == runs_.AsOf();
  }
  bool knows_runs() const { return knows_runs_.load(std::memory_order_relaxed); }
  void FoundNothing(uint64_t as_of, KvFamily f, std::string_view from, std::string_view to) {
    std::lock_guard<std::mutex> lock(runs_mu_);
    runs_.Found(as_of, f, from, to);
    knows_runs_.store(runs_.size() > 0, std::memory_order_relaxed);
  }
  void WriteBegins(const KvBatch& batch) {
    std::lock_guard<std::mutex> lock(runs_mu_);
    runs_.WriteBegins(batch);
  }
  void WriteEnded(const KvBatch& batch, bool ok) {
    std::lock_guard<std::mutex> lock(runs_mu_);
    runs_.WriteEnded(batch, ok);
  }

  void BeginWork() {
    std::lock_guard<std::mutex> lock(mu_);
    ++working_;
  }
  void EndWork() {
    std::lock_guard<std::mutex> lock(mu_);
    if (--working_ == 0) idle_.notify_all();
  }
  void WaitIdle() {
    std::unique_lock<std::mutex> lock(mu_);
    idle_.wait(lock, [this] { return working_ == 0; });
  }
  uint64_t syncs() const { return syncs_.load(std::memory_order_relaxed); }

 private:
  const std::string path_;
  std::vector<size_t> prefix_bytes_;
  std::shared_ptr<RocksMemory> memory_;
  RocksKvOptions options_;
  const std::shared_ptr<PreparedLogs> logs_ = std::make_shared<PreparedLogs>(rocksdb::FileSystem::Default());
  const std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(logs_);
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> all_;       // owned, "default" first
  std::vector<rocksdb::ColumnFamilyHandle*> families_;  // this store's, by number
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> syncs_{0};
  mutable std::mutex mu_;
  std::condition_variable idle_;
  Error latched_;    // guarded by mu_
  std::string damage_;  // guarded by mu_
  int working_ = 0;  // guarded by mu_: work on the pool
  mutable std::mutex runs_mu_;
  DeadRuns runs_;  // guarded by runs_mu_
  std::atomic<bool> knows_runs_{false};
};

Result<void> RocksKv::Db::Open(const std::vector<std::string>& names, const RocksKvOptions& options) {
  memory_ = options.memory ? options.memory : RocksMemory::Make();
  const auto& memory = static_cast<const Memory&>(*memory_);
  options_ = options;
  rocksdb::DBOptions db_options = DbOptions(options, memory);
  db_options.env = env_.get();
  db_options.info_log = std::make_shared<Sayings>(path_);
  std::vector<std::string> existing;
  // Fails if there is no store yet, which Open below handles.
  (void)rocksdb::DB::ListColumnFamilies(db_options, path_, &existing);
  const auto is_in = [](const std::vector<std::string>& some, const std::string& name) { return std::find(some.begin(), some.end(), name) != some.end(); };
  for (const std::string& name : existing) {
    if (name != rocksdb::kDefaultColumnFamilyName && !is_in(names, name) && !is_in(options.spare_families, name)) {
      return Error(FsError::kVersion, "the key-value store at " + path_ + " has the family '" + name +
                                          "', which a newer release made: install that release");
    }
  }
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  descriptors.emplace_back(rocksdb::kDefaultColumnFamilyName, FamilyOptions(memory, 0));
  for (size_t i = 0; i < names.size(); ++i) {
    if (i < options.prefix_bytes.size()) prefix_bytes_[i] = options.prefix_bytes[i];
    descriptors.emplace_back(names[i], FamilyOptions(memory, prefix_bytes_[i]));
  }
  // RocksDB opens all of a store's, or none.
  for (const std::string& name : existing) {
    if (!is_in(names, name) && is_in(options.spare_families, name)) descriptors.emplace_back(name, FamilyOptions(memory, 0));
  }
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status s = rocksdb::DB::Open(db_options, path_, descriptors, &all_, &raw);
  if (!s.ok()) return OpenError(s, path_);
  db_.reset(raw);
  families_.assign(all_.begin() + 1, all_.begin() + 1 + static_cast<ptrdiff_t>(names.size()));
  return Ok();
}

// Syncs are numbered; a caller waits for the first that starts after it came.
struct RocksKv::Syncs {
  uint64_t started = 0;
  uint64_t finished = 0;
  Error failed;
  Event changed;
};

RocksKv::RocksKv(std::unique_ptr<Db> db, Pool& sync_pool)
    : db_(std::move(db)), sync_pool_(sync_pool), syncs_(std::make_shared<Syncs>()) {}

RocksKv::~RocksKv() { db_->WaitIdle(); }

std::string RocksKv::Damage() const { return db_->damage(); }

Result<std::unique_ptr<RocksKv>> RocksKv::Open(const std::string& path,
                                               const std::vector<std::string>& families,
                                               RocksKvOptions options, Pool& sync_pool) {
  CHECK(!families.empty() && families.size() <= 256, "1 to 256 families");
  auto db = std::make_unique<Db>(path, families.size());
  RETURN_IF_ERROR(db->Open(families, options));
  if (options.prepare_log) db->PrepareLog();  // something else may take all room before the first sync
  return std::unique_ptr<RocksKv>(new RocksKv(std::move(db), sync_pool));
}

Result<std::optional<std::string>> RocksKv::Get(KvFamily family, std::string_view key) {
  return *Find(family, key, false);
}

std::optional<Result<std::optional<std::string>>> RocksKv::GetIfCached(KvFamily family, std::string_view key) {
  return Find(family, key, true);
}

// nullopt: it is not cached.
std::optional<Result<std::optional<std::string>>> RocksKv::Find(KvFamily family, std::string_view key, bool cached_only) {
  rocksdb::ReadOptions options;
  if (cached_only) options.read_tier = rocksdb::kBlockCacheTier;
  std::string value;
  const rocksdb::Status s = (*db_)->Get(options, db_->family(family), ToSlice(key), &value);
  if (s.IsIncomplete() && cached_only) return std::nullopt;
  if (s.IsNotFound()) return std::optional<std::string>();
  if (!s.ok()) return db_->ErrorOf(s);
  return std::optional(std::move(value));
}

Result<std::vector<KvEntry>> RocksKv::Scan(KvFamily family, std::string_view begin, std::string_view end,
                                           size_t limit) {
  std::vector<KvEntry> out;
  rocksdb::ColumnFamilyHandle* handle = db_->family(family);
  if (limit == 0 || (!end.empty() && begin >= end)) return out;
  rocksdb::ReadOptions ro = db_->ReadOptionsFor(family, begin, end);
  const rocksdb::Slice bound = ToSlice(end);
  if (!end.empty()) ro.iterate_upper_bound = &bound;
  auto [as_of, from] = db_->Up(family, begin);  // no key before `from` is missing in `out`
  if (!end.empty() && from >= end) return out;
  std::unique_ptr<rocksdb::Iterator> it((*db_)->NewIterator(ro, handle));
  // The iterator sees each batch whole or not at all; so must the skipping of dead runs.
  if (from != begin && !db_->IsAsOf(as_of)) from = begin;
  PassedDeletions passed;
  it->Seek(ToSlice(from));
  while (true) {
    const bool much = passed.Take() >= kDeletionsPassed;
    if (!it->Valid()) {
      if (much && !end.empty() && it->status().ok()) db_->FoundNothing(as_of, family, from, end);
      break;
    }
    out.emplace_back(ToView(it->key()), ToView(it->value()));
    const std::string& key = out.back().first;
    if (much) db_->FoundNothing(as_of, family, from, key);
    if (out.size() == limit) break;  // before Next: it would pass all that was deleted behind the last one
    from = key + '\0';
    if (!db_->knows_runs()) {
      it->Next();
      continue;
    }
    auto [now, up] = db_->Up(family, from);
    if (up == from || now == 0 || now != as_of) {
      it->Next();
    } else if (!end.empty() && up >= end) {
      break;
    } else {
      from = std::move(up);
      it->Seek(ToSlice(from));
    }
  }
  if (!it->status().ok()) return db_->ErrorOf(it->status());
  return out;
}

// Rows that were deleted before are passed one by one: nobody waits for those who read here.
class RocksKv::View final : public KvStore {
 public:
  explicit View(Db* db) : db_(db), snapshot_((*db)->GetSnapshot()) { db_->BeginWork(); }
  ~View() override {
    (*db_)->ReleaseSnapshot(snapshot_);
    db_->EndWork();
  }
  Result<std::optional<std::string>> Get(KvFamily family, std::string_view key) override {
    std::string value;
    const rocksdb::Status s = (*db_)->Get(AsOf({}), db_->family(family), ToSlice(key), &value);
    if (s.IsNotFound()) return std::optional<std::string>();
    if (!s.ok()) return db_->ErrorOf(s);
    return std::optional(std::move(value));
  }
  Result<std::vector<KvEntry>> Scan(KvFamily family, std::string_view begin, std::string_view end, size_t limit) override {
    std::vector<KvEntry> out;
    if (limit == 0 || (!end.empty() && begin >= end)) return out;
    rocksdb::ReadOptions ro = AsOf(db_->ReadOptionsFor(family, begin, end));
    const rocksdb::Slice bound = ToSlice(end);
    if (!end.empty()) ro.iterate_upper_bound = &bound;
    const std::unique_ptr<rocksdb::Iterator> it((*db_)->NewIterator(ro, db_->family(family)));
    for (it->Seek(ToSlice(begin)); it->Valid(); it->Next()) {
      out.emplace_back(ToView(it->key()), ToView(it->value()));
      if (out.size() == limit) break;
    }
    if (!it->status().ok()) return db_->ErrorOf(it->status());
    return out;
  }
  Result<std::optional<KvEntry>> Last(KvFamily family, std::string_view begin, std::string_view at) override {
    rocksdb::ReadOptions ro = AsOf(db_->ReadOptionsFor(family, begin, at));
    const rocksdb::Slice bound = ToSlice(begin);
    if (!begin.empty()) ro.iterate_lower_bound = &bound;
    const std::unique_ptr<rocksdb::Iterator> it((*db_)->NewIterator(ro, db_->family(family)));
    it->SeekForPrev(ToSlice(at));
    if (!it->Valid() && !it->status().ok()) return db_->ErrorOf(it->status());
    if (!it->Valid() || ToView(it->key()) < begin) return std::optional<KvEntry>();
    return std::optional<KvEntry>(KvEntry(ToView(it->key()), ToView(it->value())));
  }
  Result<void> Write(const KvBatch&) override { return Error(FsError::kInval, "a snapshot takes no writes"); }
  Task<Result<void>> Sync() override { co_return Error(FsError::kInval, "a snapshot takes no writes"); }

 private:
  rocksdb::ReadOptions AsOf(rocksdb::ReadOptions ro) const {
    ro.snapshot = snapshot_;
    return ro;
  }
  Db* const db_;
  const rocksdb::Snapshot* const snapshot_;
};

std::unique_ptr<KvStore> RocksKv::Snapshot() { return std::make_unique<View>(db_.get()); }

Result<std::optional<KvEntry>> RocksKv::Last(KvFamily family, std::string_view begin, std::string_view at) {
  rocksdb::ReadOptions ro = db_->ReadOptionsFor(family, begin, at);
  const rocksdb::Slice bound = ToSlice(begin);  // it would pass all that was deleted before
  if (!begin.empty()) ro.iterate_lower_bound = &bound;
  auto [as_of, down] = db_->Down(family, at);
  if (down < begin) return std::optional<KvEntry>();
  std::unique_ptr<rocksdb::Iterator> it((*db_)->NewIterator(ro, db_->family(family)));
  if (down != at && !db_->IsAsOf(as_of)) down = at;  // as in Scan
  PassedDeletions passed;
  it->SeekForPrev(ToSlice(down));
  const bool much = passed.Take() >= kDeletionsPassed;
  std::optional<KvEntry> found;
  if (it->Valid()) {
    if (ToView(it->key()) >= begin) found.emplace(ToView(it->key()), ToView(it->value()));
  } else if (!it->status().ok()) {
    return db_->ErrorOf(it->status());
  }
  if (much) db_->FoundNothing(as_of, family, found ? found->first + '\0' : std::string(begin), std::string(at) + '\0');
  return found;
}

Result<void> RocksKv::Write(const KvBatch& batch) {
  if (Error e = db_->latched(); !e.ok()) return e;
  rocksdb::WriteBatch wb(batch.bytes + 32 * batch.ops.size() + 16);
  for (const KvOp& op : batch.ops) {
    rocksdb::ColumnFamilyHandle* handle = db_->family(op.family);
    const rocksdb::Status s =
        op.value ? wb.Put(handle, ToSlice(op.key), ToSlice(*op.value)) : wb.Delete(handle, ToSlice(op.key));
    if (!s.ok()) return db_->ErrorOf(s);  // nothing was applied
  }
  db_->WriteBegins(batch);
  const rocksdb::Status s = (*db_)->Write(rocksdb::WriteOptions(), &wb);
  db_->WriteEnded(batch, s.ok());
  if (!s.ok()) return db_->Latch(s);
  return Ok();
}

void RocksKv::PrepareLog() {
  if (preparing_->exchange(true)) return;
  db_->BeginWork();
  sync_pool_.Submit([db = db_.get(), preparing = preparing_] {
    db->PrepareLog();
    preparing->store(false);
    db->EndWork();
  });
}

void RocksKv::StartSync() {
  const uint64_t number = ++syncs_->started;
  db_->BeginWork();
  sync_pool_.Submit([db = db_.get(), syncs = syncs_, number, ex = &Executor::Current()] {
    const Error e = db->SyncLog();
    db->EndWork();
    ex->PostOrRun([syncs, number, e] {
      syncs->finished = number;
      if (!e.ok() && syncs->failed.ok()) syncs->failed = e;
      syncs->changed.Pulse();
    });
  });
}

Task<Result<void>> RocksKv::Sync() {
  const uint64_t mine = syncs_->started + 1;
  while (true) {
    if (!syncs_->failed.ok()) co_return syncs_->failed;
    if (Error e = db_->latched(); !e.ok()) co_return e;
    if (syncs_->finished >= mine) {
      if (db_->log_wants_zeros()) PrepareLog();  // before the next sync
      co_return Ok();
    }
    if (syncs_->started == syncs_->finished) StartSync();
    co_await syncs_->changed.Wait();
  }
}

Result<void> RocksKv::Checkpoint(const std::string& path) {
  rocksdb::Checkpoint* raw = nullptr;
  rocksdb::Status s = rocksdb::Checkpoint::Create(db_->get(), &raw);
  if (!s.ok()) return db_->ErrorOf(s);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
  s = checkpoint->CreateCheckpoint(path);
  if (!s.ok()) return ToError(s, path);
  return Ok();
}

Result<void> RocksKv::Flush() {
  const rocksdb::Status s = (*db_)->Flush(rocksdb::FlushOptions(), db_->families());
  if (!s.ok()) return db_->Latch(s);
  return Ok();
}

Result<void> RocksKv::VerifyChecksums() {
  const rocksdb::Status s = (*db_)->VerifyChecksum();
  if (!s.ok()) return db_->ErrorOf(s);
  return Ok();
}

uint64_t RocksKv::disk_bytes() const {
  uint64_t bytes = 0;
  (void)(*db_)->GetAggregatedIntProperty(rocksdb::DB::Properties::kTotalSstFilesSize, &bytes);
  return bytes;
}

uint64_t RocksKv::syncs() const { return db_->syncs(); }

}  // namespace stria
