#include "common/io/posix_disk.h"

#include <algorithm>
#include <utility>

#include "common/io/disk_name.h"
#include "common/io/posix_files.h"

namespace stria {
namespace {

constexpr auto kOther = CachedReads::Kind::kOther;

}  // namespace

Result<std::unique_ptr<PosixDisk>> PosixDisk::Open(const std::string& root, PosixDiskOptions options) {
  return Make(root, options, nullptr);
}

Result<std::unique_ptr<PosixDisk>> PosixDisk::OpenOn(Pool& pool, const std::string& root,
                                                     PosixDiskOptions options) {
  return Make(root, options, &pool);
}

Result<std::unique_ptr<PosixDisk>> PosixDisk::Make(const std::string& root, PosixDiskOptions options,
                                                   Pool* pool) {
  CHECK(options.threads >= 1 && options.sync_threads >= 1);
  ASSIGN_OR_RETURN(std::shared_ptr<PosixFiles> files, PosixFiles::Open(root, {options.max_open_files, options.direct_bytes, options.exclusive}));
  return std::unique_ptr<PosixDisk>(new PosixDisk(std::move(files), options, pool));
}

PosixDisk::PosixDisk(std::shared_ptr<PosixFiles> files, const PosixDiskOptions& options, Pool* pool)
    : files_(std::move(files)),
      own_pool_(pool ? nullptr : std::make_unique<ThreadPool>(options.threads, "disk")),
      own_sync_pool_(pool ? nullptr : std::make_unique<ThreadPool>(options.sync_threads, "disksync")),
      pool_(pool ? pool : own_pool_.get()),
      sync_pool_(pool ? pool : own_sync_pool_.get()),
      sync_parallel_(static_cast<size_t>(options.sync_threads)) {}

PosixDisk::~PosixDisk() = default;

Task<Result<Buffer>> PosixDisk::Read(std::string name, uint64_t offset, uint64_t length) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  if (own_pool_ && OffsetsFit(offset, length)) {
    if (std::optional<Buffer> bytes = files_->ReadCached(name, offset, length, Executor::Current())) co_return *std::move(bytes);
  }
  co_return co_await RunOn(*pool_, [files = files_, waiting = files_->Wait(CachedReads::Kind::kRead), name = std::move(name), offset, length] {
    return files->Read(name, offset, length);
  });
}

Task<Result<Buffer>> PosixDisk::ReadOnce(std::string name, uint64_t offset, uint64_t length) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  if (!OffsetsFit(offset, length)) co_return Error(FsError::kFBig, "a read beyond 8 EiB of '" + name + "'");
  co_return co_await RunOn(*pool_, [files = files_, waiting = files_->Wait(kOther), name = std::move(name), offset, length] {
    return files->ReadOnce(name, offset, length);
  });
}

Task<Result<Buffer>> PosixDisk::ReadStored(std::string name, uint64_t offset, uint64_t length) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  if (!OffsetsFit(offset, length)) co_return Error(FsError::kFBig, "a read beyond 8 EiB of '" + name + "'");
  co_return co_await RunOn(*pool_, [files = files_, waiting = files_->Wait(kOther), name = std::move(name), offset, length] {
    return files->ReadStored(name, offset, length);
  });
}

Task<Result<void>> PosixDisk::Write(std::string name, uint64_t offset, BufferChain data) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  if (!OffsetsFit(offset, data.size()))
    co_return Error(FsError::kFBig, "a write beyond 8 EiB of '" + name + "'");
  co_return co_await RunOn(*pool_, [files = files_, waiting = files_->Wait(kOther), name = std::move(name), offset, data = std::move(data)] {
    return files->Write(name, offset, data);
  });
}

Task<DiskWritten> PosixDisk::WriteAndSync(std::string name, uint64_t offset, BufferChain data) {
  DiskWritten out;
  out.write = CheckDiskName(name).error();
  if (out.write.ok() && !OffsetsFit(offset, data.size())) {
    out.write = Error(FsError::kFBig, "a write beyond 8 EiB of '" + name + "'");
  }
  if (!out.write.ok()) co_return out;
  co_return co_await RunOn(*sync_pool_, [files = files_, waiting = files_->Wait(kOther), name = std::move(name), offset, data = std::move(data)] {
    DiskWritten done;
    done.write = files->Write(name, offset, data).error();
    if (done.write.ok()) done.sync = files->Sync({name}).error();
    return done;
  });
}

Task<Result<void>> PosixDisk::Reserve(std::string name, uint64_t size) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  if (!OffsetsFit(0, size)) co_return Error(FsError::kFBig, "a size beyond 8 EiB for '" + name + "'");
  co_return co_await RunOn(
      *pool_, [files = files_, name = std::move(name), size] { return files->Reserve(name, size); });
}

Task<Result<void>> PosixDisk::SyncFiles(std::vector<std::string> names) {
  for (const std::string& name : names) CO_RETURN_IF_ERROR(CheckDiskName(name));
  const size_t parts = std::min(names.size(), sync_parallel_);
  if (parts <= 1) {
    co_return co_await RunOn(*sync_pool_, [files = files_, waiting = files_->Wait(kOther), names = std::move(names)] {
      return files->Sync(names);
    });
  }
  // 1. All files start writing back. 2. Their data becomes durable, on several threads, so that the
  // file system can commit them together. 3. Then the directory entries.
  co_await RunOn(*sync_pool_, [files = files_, names] {
    files->StartWriteback(names);
    return true;
  });
  std::vector<std::vector<std::string>> slices(parts);
  for (size_t i = 0; i < names.size(); ++i) slices[i % parts].push_back(names[i]);
  std::vector<Task<Result<void>>> syncs;
  for (auto& slice : slices) {
    syncs.push_back(
        RunOn(*sync_pool_, [files = files_, waiting = files_->Wait(kOther), slice = std::move(slice)] { return files->SyncData(slice); }));
  }
  Result<void> result;
  for (auto& r : co_await WhenAll(std::move(syncs))) {
    if (!r.ok() && result.ok()) result = std::move(r);
  }
  auto entries = co_await RunOn(
      *sync_pool_, [files = files_, names = std::move(names)] { return files->SyncEntries(names); });
  co_return result.ok() ? std::move(entries) : std::move(result);
}

Task<Result<void>> PosixDisk::Remove(std::string name) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  co_return co_await RunOn(*pool_, [files = files_, name = std::move(name)] { return files->Remove(name); });
}

Task<Result<void>> PosixDisk::Truncate(std::string name, uint64_t size) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  if (!OffsetsFit(0, size)) co_return Error(FsError::kFBig, "a size beyond 8 EiB for '" + name + "'");
  co_return co_await RunOn(
      *pool_, [files = files_, name = std::move(name), size] { return files->Truncate(name, size); });
}

Task<Result<void>> PosixDisk::ReplaceFile(std::string name, Buffer content) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  co_return co_await RunOn(*sync_pool_,
                           [files = files_, name = std::move(name), content = std::move(content)] {
                             return files->Replace(name, content);
                           });
}

Task<Result<std::vector<DiskFile>>> PosixDisk::List(std::string directory) {
  if (!directory.empty()) CO_RETURN_IF_ERROR(CheckDiskName(directory));
  co_return co_await RunOn(
      *pool_, [files = files_, directory = std::move(directory)] { return files->List(directory); });
}

Task<Result<DiskSpace>> PosixDisk::Space() {
  co_return co_await RunOn(*pool_, [files = files_] { return files->Space(); });
}

Result<int> PosixDisk::OpenForRead(const std::string& name) {
  RETURN_IF_ERROR(CheckDiskName(name));
  return files_->OpenForRead(name);
}

}  // namespace stria
