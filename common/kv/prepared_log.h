// A file system for RocksDB whose logs are written over zeros.
//
// fdatasync of a file that has grown also writes its inode, and with that on most file systems their own journal. If the bytes
// were there before, it writes just the bytes (here 107 us instead of 165, docs/performance-notes.md). So zeros are written
// behind the end of the log beforehand.
//
// After a power cut each unsynced page may be there or not: then a page of zeros lies in the middle of the log, and whole
// records follow it. RocksDB's reader passes over zeros silently (log_reader.cc, kZeroType) and would store records that came
// after a missing one. So logs are read up to the first record that is zeros (LogEnd): a prefix.
//
// Other files are as the given file system makes them.
#pragma once

#include <rocksdb/file_system.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/units.h"

namespace stria {

inline constexpr uint64_t kPreparedLogBytes = 1 * kMiB;  // at a time

class PreparedLogs : public rocksdb::FileSystemWrapper {
 public:
  explicit PreparedLogs(std::shared_ptr<rocksdb::FileSystem> base);
  ~PreparedLogs() override;
  const char* Name() const override { return "PreparedLogs"; }

  // Whether a log that is being written has less than half of kPreparedLogBytes before it. Cheap; any thread.
  bool Wanted() const;
  // Writes zeros behind such logs, durably; blocks. A concurrent write waits only if it has come as far. Any thread. After a
  // failure the log is not tried again: it grows as it is written.
  void Prepare();

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* dbg) override;

  // The written length of a log in use: a copy of it (a checkpoint) takes that much, and the log may be cut meanwhile.
  rocksdb::IOStatus GetFileSize(const std::string& path, const rocksdb::IOOptions& options, uint64_t* size,
                                rocksdb::IODebugContext* dbg) override;

 private:
  class Log;
  std::vector<std::shared_ptr<Log>> Open() const;

  mutable std::mutex mu_;
  mutable std::vector<std::weak_ptr<Log>> logs_;  // guarded by mu_
};

// Where the first record of zeros begins in a file of this size in RocksDB's log format, or its size. `read` fills a
// buffer from an offset, and tells how much there was.
class LogBytes {
 public:
  virtual ~LogBytes() = default;
  virtual Result<size_t> Read(uint64_t offset, char* to, size_t length) = 0;
};
Result<uint64_t> LogEnd(LogBytes& bytes);

}  // namespace stria
