// PosixDisk: a Disk in a directory of a real file system.
//
// Calls run on the disk's own threads (posix_files.h), except reads from the page cache (cached_read.h). Syncs have threads of
// their own, so that they do not hold up reads. A file that failed a sync stays poisoned: later syncs of it fail too, until it
// is removed or replaced. Cancelled work still runs to its end.
//
// Large writes whose memory and offset are page-aligned go past the page cache (O_DIRECT) where the file system can: that saves
// a copy and the later writing back. The promises of Write and SyncFiles are the same. Large reads of ReadOnce and ReadStored
// do likewise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/exec/pool.h"
#include "common/io/disk.h"

namespace stria {

class PosixFiles;

struct PosixDiskOptions {
  int threads = 4;
  int sync_threads = 2;
  size_t max_open_files = 256;
  uint64_t direct_bytes = 128 * kKiB;  // from this size on; UINT64_MAX: never
  // Locks the directory against other processes (and other PosixDisks): kBusy if it is taken.
  bool exclusive = true;
};

class PosixDisk final : public Disk {
 public:
  // REQUIRES: the executor outlives the disk. `root` must exist: an empty mount point is not a disk.
  static Result<std::unique_ptr<PosixDisk>> Open(const std::string& root, PosixDiskOptions options = {});
  // All work on `pool`, which must outlive the disk; then the destructor does not wait.
  static Result<std::unique_ptr<PosixDisk>> OpenOn(Pool& pool, const std::string& root,
                                                   PosixDiskOptions options = {});
  // Waits for work under way; syncs nothing.
  ~PosixDisk() override;

  Task<Result<Buffer>> Read(std::string name, uint64_t offset, uint64_t length) override;
  Task<Result<Buffer>> ReadOnce(std::string name, uint64_t offset, uint64_t length) override;
  Task<Result<Buffer>> ReadStored(std::string name, uint64_t offset, uint64_t length) override;
  Task<Result<void>> Write(std::string name, uint64_t offset, BufferChain data) override;
  Task<Result<void>> Reserve(std::string name, uint64_t size) override;
  Task<DiskWritten> WriteAndSync(std::string name, uint64_t offset, BufferChain data) override;
  // Syncs the others even if one fails; the first error is returned.
  Task<Result<void>> SyncFiles(std::vector<std::string> names) override;
  Task<Result<void>> Remove(std::string name) override;
  Task<Result<void>> Truncate(std::string name, uint64_t size) override;
  Task<Result<void>> ReplaceFile(std::string name, Buffer content) override;
  Task<Result<std::vector<DiskFile>>> List(std::string directory) override;
  Task<Result<DiskSpace>> Space() override;
  Result<int> OpenForRead(const std::string& name) override;

 private:
  static Result<std::unique_ptr<PosixDisk>> Make(const std::string& root, PosixDiskOptions options,
                                                 Pool* pool);
  PosixDisk(std::shared_ptr<PosixFiles> files, const PosixDiskOptions& options, Pool* pool);

  std::shared_ptr<PosixFiles> files_;  // shared with the work on the pools
  std::unique_ptr<ThreadPool> own_pool_;
  std::unique_ptr<ThreadPool> own_sync_pool_;
  Pool* const pool_;
  Pool* const sync_pool_;
  const size_t sync_parallel_;
};

}  // namespace stria
