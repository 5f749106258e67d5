// The files of a PosixDisk, on the thread of the caller. All calls but ReadCached and Wait block. Thread-safe. REQUIRES: names
// that CheckDiskName takes, and offsets that fit (OffsetsFit; Read takes any). Durability and errors: as in disk.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/buffer.h"
#include "common/error.h"
#include "common/exec/executor.h"
#include "common/io/cached_read.h"
#include "common/io/disk.h"
#include "common/io/open_files.h"
#include "common/io/unique_fd.h"

namespace stria {

// Whether a file system can have such bytes at all.
inline bool OffsetsFit(uint64_t offset, uint64_t length) {
  return offset <= INT64_MAX && length <= INT64_MAX - offset;
}

// As in PosixDiskOptions.
struct PosixFilesOptions {
  size_t max_open_files;
  uint64_t direct_bytes;
  bool exclusive;
};

class PosixFiles {
 public:
  // `root` must exist. kBusy: `exclusive`, and another process (or another of these) has it.
  static Result<std::shared_ptr<PosixFiles>> Open(const std::string& root, const PosixFilesOptions& options);

  // The bytes, if the page cache has them and `executor`, on whose thread this runs, is idle otherwise.
  std::optional<Buffer> ReadCached(const std::string& name, uint64_t offset, uint64_t length, const Executor& executor);
  // A caller that reads, writes or syncs in another way holds this from its decision until the call is done, so that ReadCached
  // knows the disk's load.
  std::shared_ptr<const void> Wait(CachedReads::Kind kind) { return cached_.Wait(kind); }

  Result<Buffer> Read(const std::string& name, uint64_t offset, uint64_t length);
  Result<Buffer> ReadOnce(const std::string& name, uint64_t offset, uint64_t length);
  Result<Buffer> ReadStored(const std::string& name, uint64_t offset, uint64_t length);
  Result<void> Write(const std::string& name, uint64_t offset, const BufferChain& data);
  Result<void> Reserve(const std::string& name, uint64_t size);
  // Starts writing back, so that the syncs of many files overlap.
  void StartWriteback(const std::vector<std::string>& names);
  Result<void> SyncData(const std::vector<std::string>& names);
  Result<void> SyncEntries(const std::vector<std::string>& names);
  Result<void> Sync(const std::vector<std::string>& names);  // both
  Result<void> Remove(const std::string& name);
  Result<void> Truncate(const std::string& name, uint64_t size);
  Result<void> Replace(const std::string& name, const Buffer& content);
  Result<std::vector<DiskFile>> List(const std::string& directory);
  Result<DiskSpace> Space();
  Result<int> OpenForRead(const std::string& name);

 private:
  PosixFiles(std::string root, UniqueFd root_fd, const PosixFilesOptions& options)
      : root_(std::move(root)),
        root_fd_(std::move(root_fd)),
        direct_bytes_(options.direct_bytes),
        open_(root_fd_.get(), options.max_open_files) {}
  Error Failed(int err, const char* what, const std::string& name) const;
  Error NoFile(const std::string& name) const;
  Error Poisoned(const std::string& name) const;
  Result<Buffer> ReadFrom(int fd, const std::string& name, uint64_t offset, uint64_t length);
  // Whole pages around the range, past the page cache. nullopt: the file system cannot.
  Result<std::optional<Buffer>> ReadDirect(int fd, const std::string& name, uint64_t offset, uint64_t length);
  // 0 or an errno.
  int WriteTo(OpenFile& file, uint64_t offset, const BufferChain& data);
  bool IsForDirect(uint64_t length) const { return length >= direct_bytes_ && !direct_refused_; }
  Result<std::shared_ptr<OpenFile>> Existing(const std::string& name);
  Result<std::shared_ptr<OpenFile>> ExistingOrNew(const std::string& name);
  // 0 or an errno. Syncs the directory and, the first time, all those above it: they may have been made
  // by a process that was killed before it synced them.
  int SyncDirectory(const std::string& directory);
  int SyncOneDirectory(const std::string& directory);
  Result<void> ListInto(int fd, const std::string& directory, std::vector<DiskFile>* out);

  const std::string root_;
  const UniqueFd root_fd_;
  const uint64_t direct_bytes_;
  std::atomic<bool> direct_refused_{false};  // by the file system
  OpenFiles open_;
  CachedReads cached_;
  std::mutex replace_mu_;  // one ReplaceFile at a time: their temporary files have fixed names
  std::mutex directories_mu_;
  std::set<std::string> durable_directories_;  // guarded by directories_mu_
};

}  // namespace stria
