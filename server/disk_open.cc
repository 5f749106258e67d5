#include "server/disk_open.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "common/io/unique_fd.h"
#include "common/os_random.h"
#include "server/disk_setup.h"

namespace stria {
namespace {

std::string IndexPath(const OpenDisk& d) { return d.spec.path + "/index"; }

Result<void> Rename(const std::string& from, const std::string& to) {
  std::error_code ec;
  std::filesystem::rename(from, to, ec);
  if (ec) return Error(FsError::kIo, "cannot rename " + from + " to " + to + ": " + ec.message());
  return Ok();
}

Result<void> RemoveAll(const std::string& path) {
  std::error_code ec;
  std::filesystem::remove_all(path, ec);
  if (ec) return Error(FsError::kIo, "cannot remove " + path + ": " + ec.message());
  return Ok();
}

Result<void> SyncDirectory(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || ::fsync(fd.get()) != 0) return ErrnoError(errno, "sync the directory " + path);
  return Ok();
}

Result<void> OpenIndexAt(OpenDisk* d, const std::string& path, DiskEnv env, bool may_create) {
  RocksKvOptions options;
  options.memory = env.memory;
  options.max_open_files = static_cast<int>(env.max_files / 3 * 2);
  options.create_if_missing = may_create;
  ASSIGN_OR_RETURN(std::unique_ptr<RocksKv> index, RocksKv::Open(path, {"shards", "state"}, options, *env.sync_pool));
  d->index = std::make_unique<RemovableKv>(std::move(index));
  d->index_pool = std::make_unique<ThreadPool>(kIndexThreads, "index");
  return Ok();
}

void CloseIndex(OpenDisk* d) {
  d->index_pool.reset();
  d->index.reset();
}

Task<Result<bool>> IsEmpty(Disk* disk) {
  CO_ASSIGN_OR_RETURN(const std::vector<DiskFile> segments, co_await disk->List("segments"));
  if (!segments.empty()) co_return false;
  CO_ASSIGN_OR_RETURN(const std::vector<DiskFile> shards, co_await disk->List("shards"));
  co_return shards.empty();
}

// A new disk has no index yet; one with shards must have it.
Task<Result<void>> OpenIndex(OpenDisk* d, DiskEnv env) {
  Result<void> opened = OpenIndexAt(d, IndexPath(*d), env, false);
  if (opened.code() != FsError::kNoEnt) co_return opened;
  CO_ASSIGN_OR_RETURN(const bool empty, co_await IsEmpty(d->disk.get()));
  if (!empty) co_return opened;
  co_return OpenIndexAt(d, IndexPath(*d), env, true);
}

Task<Result<void>> OpenFiles(OpenDisk* d, DiskEnv env, bool may_make) {
  PosixDiskOptions options;
  options.max_open_files = env.max_files / 3;
  CO_ASSIGN_OR_RETURN(std::unique_ptr<PosixDisk> disk, PosixDisk::Open(d->spec.path, options));
  CO_ASSIGN_OR_RETURN(d->place, PlaceOf(d->spec.path));
  d->disk = std::make_unique<RemovableDisk>(std::move(disk));
  DiskSetup setup;
  setup.where = d->where;
  setup.label = d->spec.label;
  setup.new_uuid = NewUuid;
  setup.now_s = Executor::Current().WallNs() / kSecond;
  setup.may_make = may_make;
  Result<Superblock> superblock = co_await OpenSuperblock(d->disk.get(), std::move(setup));
  if (superblock.code() == FsError::kNoEnt) {
    d->is_new = true;
    d->disk.reset();  // something may be mounted over it
  }
  CO_RETURN_IF_ERROR(superblock);
  d->superblock = *std::move(superblock);
  co_return Ok();
}

}  // namespace

DataNodeDisk OpenDisk::ForNode() const {
  DataNodeDisk d;
  d.disk = disk.get();
  d.kv = index.get();
  d.index_pool = index_pool.get();
  d.superblock = superblock;
  d.where = where;
  d.channel = spec.channel;
  d.label = spec.label;
  d.problem = problem;
  d.give_up = give_up;
  d.is_new = is_new;
  return d;
}

Task<Result<OpenDisk>> OpenDataDisk(DiskSpec spec, DiskEnv env, bool may_make) {
  OpenDisk d;
  d.where = "disk " + spec.path;
  d.spec = std::move(spec);
  Result<void> opened = co_await OpenFiles(&d, env, may_make);
  if (opened.ok()) {
    opened = co_await OpenIndex(&d, env);
    d.reindex = opened.code() == FsError::kCorrupt || opened.code() == FsError::kNoEnt;
  } else {
    // Without its superblock the disk's owner is unknown; perhaps the directory is only not mounted yet.
    d.give_up = opened.code() == FsError::kCorrupt;
  }
  if (opened.code() == FsError::kBusy) co_return opened.error().WithContext(d.where);
  if (opened.code() == FsError::kDiskFailed || opened.code() == FsError::kIo) d.give_up = true;
  if (d.reindex) {
    d.problem = Error(opened.code(), d.where + " has no usable index: it is being made again from the files, and the "
                                               "disk serves when that is done (" + opened.error().message + ")");
  } else if (d.is_new) {
    d.problem = opened.error();
  } else if (!opened.ok()) {
    d.problem = opened.error().WithContext(d.where);
  }
  co_return std::move(d);
}

Result<void> SetIndexAside(const OpenDisk& disk) {
  const std::string index = IndexPath(disk);
  std::error_code ec;
  if (!std::filesystem::exists(index, ec)) return Ok();
  RETURN_IF_ERROR(RemoveAll(index + ".old"));
  RETURN_IF_ERROR(Rename(index, index + ".old"));
  return SyncDirectory(disk.spec.path);
}

Task<Result<ReindexResult>> MakeIndex(OpenDisk* disk, DiskEnv env) {
  CloseIndex(disk);
  const std::string path = IndexPath(*disk) + ".new";
  CO_RETURN_IF_ERROR(RemoveAll(path));
  CO_RETURN_IF_ERROR(OpenIndexAt(disk, path, env, true));
  co_return co_await Reindex(disk->disk.get(), disk->index.get(), disk->index_pool.get(), disk->superblock.own);
}

Result<void> TakeIndex(OpenDisk* disk, DiskEnv env) {
  CloseIndex(disk);
  RETURN_IF_ERROR(SetIndexAside(*disk));
  RETURN_IF_ERROR(Rename(IndexPath(*disk) + ".new", IndexPath(*disk)));
  RETURN_IF_ERROR(SyncDirectory(disk->spec.path));
  RETURN_IF_ERROR(OpenIndexAt(disk, IndexPath(*disk), env, false));
  disk->problem = Error();
  disk->reindex = disk->give_up = false;
  return Ok();
}

}  // namespace stria
