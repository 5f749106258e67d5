// A file system for RocksDB whose logs are written over zeros.
//
// fdatasync of a file that has grown writes its inode, too, and with it on most file systems their own journal; of one
// whose bytes were there before it writes just the bytes (here 107 us instead of 165, docs/performance-notes.md). So
// somebody writes zeros behind the end of the log, beforehand.
//
// After a power cut pages that were not synced may be there or not, each for itself: then a page of zeros lies in the
// middle of the log, and what follows it is whole. RocksDB's reader passes over zeros without a word
// (log_reader.cc, kZeroType), and would put in the store what came after something that is missing. So logs are read up
// to the first record that is zeros, and no further (LogEnd): a prefix.
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
  // Writes zeros behind such logs, durably; blocks. Whoever writes meanwhile waits only if he has come that far. Any
  // thread. What fails is not tried again with that log: it grows as it is written.
  void Prepare();

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* dbg) override;

  // Of a log that is being written, what was written: a copy of it (a checkpoint) takes that, and it may be cut meanwhile.
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
