// A disk and its index that can be taken from their users while the server runs: from then on every call fails, and open files
// are closed, so that the disk can be unmounted or another put in its place.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/io/disk.h"
#include "common/kv/kv.h"
#include "server/disk_times.h"

namespace stria {

// For the executor's thread, as every Disk.
class RemovableDisk final : public Disk {
 public:
  // A removed disk may not answer any more: then no caller waits for its closing.
  explicit RemovableDisk(std::unique_ptr<Disk> disk)
      : disk_(disk.release(), [removed = removed_](Disk* d) {
          if (removed->load()) std::thread([d] { delete d; }).detach();
          else delete d;
        }) {}
  // Calls under way end first; then it is closed.
  void Remove(Error why) {
    removed_->store(true);
    why_ = Error(FsError::kDiskFailed, std::move(why.message));
    disk_.reset();
  }

  const DiskTimes& times() const { return *times_; }

#define STRIA_IF_THERE(work, call)                       \
  const std::shared_ptr<Disk> d = disk_;                 \
  if (!d) co_return why_;                                \
  const DiskTimes::Call timed(times_, DiskWork::k##work); \
  co_return co_await d->call
  Task<Result<Buffer>> Read(std::string name, uint64_t offset, uint64_t length) override {
    STRIA_IF_THERE(Read, Read(std::move(name), offset, length));
  }
  Task<Result<Buffer>> ReadOnce(std::string name, uint64_t offset, uint64_t length) override {
    STRIA_IF_THERE(Read, ReadOnce(std::move(name), offset, length));
  }
  Task<Result<Buffer>> ReadStored(std::string name, uint64_t offset, uint64_t length) override {
    STRIA_IF_THERE(Read, ReadStored(std::move(name), offset, length));
  }
  Task<Result<void>> Write(std::string name, uint64_t offset, BufferChain data) override {
    STRIA_IF_THERE(Write, Write(std::move(name), offset, std::move(data)));
  }
  Task<Result<void>> Reserve(std::string name, uint64_t size) override { STRIA_IF_THERE(Other, Reserve(std::move(name), size)); }
  Task<Result<void>> SyncFiles(std::vector<std::string> names) override { STRIA_IF_THERE(Sync, SyncFiles(std::move(names))); }
  Task<DiskWritten> WriteAndSync(std::string name, uint64_t offset, BufferChain data) override {
    const std::shared_ptr<Disk> d = disk_;
    if (!d) co_return DiskWritten{why_, Error()};
    const DiskTimes::Call timed(times_, DiskWork::kSync);
    co_return co_await d->WriteAndSync(std::move(name), offset, std::move(data));
  }
  Task<Result<void>> Remove(std::string name) override { STRIA_IF_THERE(Remove, Remove(std::move(name))); }
  Task<Result<void>> Truncate(std::string name, uint64_t size) override { STRIA_IF_THERE(Other, Truncate(std::move(name), size)); }
  Task<Result<void>> ReplaceFile(std::string name, Buffer content) override {
    STRIA_IF_THERE(Other, ReplaceFile(std::move(name), std::move(content)));
  }
  Task<Result<std::vector<DiskFile>>> List(std::string directory) override { STRIA_IF_THERE(Other, List(std::move(directory))); }
  Task<Result<DiskSpace>> Space() override { STRIA_IF_THERE(Other, Space()); }
#undef STRIA_IF_THERE
  Result<int> OpenForRead(const std::string& name) override {
    if (!disk_) return why_;
    return disk_->OpenForRead(name);
  }

 private:
  const std::shared_ptr<std::atomic<bool>> removed_ = std::make_shared<std::atomic<bool>>(false);
  const std::shared_ptr<DiskTimes> times_ = std::make_shared<DiskTimes>();
  std::shared_ptr<Disk> disk_;  // null: removed
  Error why_;
};

// Any thread, as every KvStore.
class RemovableKv final : public KvStore {
 public:
  explicit RemovableKv(std::unique_ptr<KvStore> kv) : kv_(std::move(kv)) {}
  // The caller drops it, where it may wait for the disk.
  std::shared_ptr<KvStore> Remove(Error why) {
    std::lock_guard<std::mutex> lock(mu_);
    why_ = Error(FsError::kDiskFailed, std::move(why.message));
    return std::exchange(kv_, nullptr);
  }

  Result<std::optional<std::string>> Get(KvFamily family, std::string_view key) override {
    const auto [kv, why] = Now();
    if (!kv) return why;
    return kv->Get(family, key);
  }
  std::optional<Result<std::optional<std::string>>> GetIfCached(KvFamily family, std::string_view key) override {
    const auto [kv, why] = Now();
    if (!kv) return std::nullopt;
    return kv->GetIfCached(family, key);
  }
  Result<std::vector<KvEntry>> Scan(KvFamily family, std::string_view begin, std::string_view end, size_t limit) override {
    const auto [kv, why] = Now();
    if (!kv) return why;
    return kv->Scan(family, begin, end, limit);
  }
  Result<std::optional<KvEntry>> Last(KvFamily family, std::string_view begin, std::string_view at) override {
    const auto [kv, why] = Now();
    if (!kv) return why;
    return kv->Last(family, begin, at);
  }
  Result<void> Write(const KvBatch& batch) override {
    const auto [kv, why] = Now();
    if (!kv) return why;
    return kv->Write(batch);
  }
  Task<Result<void>> Sync() override {
    const auto now = Now();
    if (!now.first) co_return now.second;
    co_return co_await now.first->Sync();
  }
  std::string Damage() const override {
    const auto now = Now();
    return now.first ? now.first->Damage() : "";
  }

 private:
  std::pair<std::shared_ptr<KvStore>, Error> Now() const {
    std::lock_guard<std::mutex> lock(mu_);
    return {kv_, kv_ ? Error() : why_};
  }
  mutable std::mutex mu_;
  std::shared_ptr<KvStore> kv_;  // guarded by mu_; null: removed
  Error why_;                    // guarded by mu_
};

}  // namespace stria
