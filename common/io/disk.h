// One disk: a directory of files. The seam under the shard store. Implementations: PosixDisk (real), SimDisk (virtual time,
// seeded faults, loses unsynced bytes at a simulated crash). One conformance suite runs on both.
//
// Names are relative, "a/b"; directories are made as needed. No ".." and no leading '/': kBadRequest.
// Errors are kDiskFailed for EIO and the like, kNoSpace for a full disk, kNoEnt for a missing file.
// All calls are for the executor's thread; the work happens on the disk's own pool.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/buffer.h"
#include "common/error.h"
#include "common/exec/task.h"

namespace stria {

struct DiskFile {
  std::string name;  // full relative name
  uint64_t size_bytes = 0;
};

struct DiskSpace {
  uint64_t capacity_bytes = 0;  // that an ordinary writer has, used or free
  uint64_t free_bytes = 0;  // that an ordinary writer can still use
  uint64_t filesystem = 0;  // identifies the file system on any machine; 0: not known
};

// How both parts of WriteAndSync ended; nothing was synced if nothing was written.
struct DiskWritten {
  Error write;
  Error sync;
};

class Disk {
 public:
  virtual ~Disk() = default;

  // Exactly `length` bytes, or fewer if the file ends before.
  virtual Task<Result<Buffer>> Read(std::string name, uint64_t offset, uint64_t length) = 0;
  // The same for bytes that are not expected to be read again soon. Large reads go past the page cache where possible: it keeps
  // other bytes, and there is no copy.
  virtual Task<Result<Buffer>> ReadOnce(std::string name, uint64_t offset, uint64_t length) = 0;
  // The same for the bytes on the disk itself: the file is looked for by its name, even if it is open, and cached bytes are
  // read again. Slower, for scrubbing.
  virtual Task<Result<Buffer>> ReadStored(std::string name, uint64_t offset, uint64_t length) = 0;
  // Creates the file if it is not there. Not durable before SyncFiles. Writes to distinct ranges of
  // one file may overlap in time.
  virtual Task<Result<void>> Write(std::string name, uint64_t offset, BufferChain data) = 0;
  // Hints that the file will grow to `size`, so that it is laid out in one piece. May do nothing.
  virtual Task<Result<void>> Reserve(std::string name, uint64_t size) = 0;
  // The content and the directory entries of these files survive a power cut when this returns. An error is final: writes since
  // the last success may be gone although a retry succeeds.
  virtual Task<Result<void>> SyncFiles(std::vector<std::string> names) = 0;
  // Write, and then SyncFiles of the same file: in one go, where that can be done.
  virtual Task<DiskWritten> WriteAndSync(std::string name, uint64_t offset, BufferChain data) {
    DiskWritten out;
    out.write = (co_await Write(name, offset, std::move(data))).error();
    if (out.write.ok()) out.sync = (co_await SyncFiles(std::vector<std::string>(1, std::move(name)))).error();
    co_return out;
  }
  // Not durable by itself; kNoEnt if the file does not exist.
  virtual Task<Result<void>> Remove(std::string name) = 0;
  virtual Task<Result<void>> Truncate(std::string name, uint64_t size) = 0;
  // Replaces `name` as a whole with `content`, durable on return: old or new after a crash.
  virtual Task<Result<void>> ReplaceFile(std::string name, Buffer content) = 0;
  // All files below `directory` ("" for all), sorted by name.
  virtual Task<Result<std::vector<DiskFile>>> List(std::string directory) = 0;
  virtual Task<Result<DiskSpace>> Space() = 0;
  // A read-only descriptor, for handing out to local readers; the caller closes it.
  // kNotSupported where there is none (simulator).
  virtual Result<int> OpenForRead(const std::string& name) = 0;
};

}  // namespace stria
