#include "common/kv/prepared_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <utility>


namespace stria {
namespace {

// RocksDB's log format (db/log_format.h): blocks of 32 KiB; a record is a checksum (4 bytes), a length (2) and a type (1),
// of recyclable logs another 4 bytes, and the payload; none crosses a block, and less than a header at its end is padding.
constexpr size_t kBlockBytes = 32 * 1024;
constexpr size_t kHeaderBytes = 7;
constexpr size_t kRecyclableHeaderBytes = 11;
constexpr uint8_t kFirstRecyclable = 5, kLastRecyclable = 8;

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kRoomBytes = 64 * kKiB;  // for writes while zeros are written

bool IsLog(const std::string& path) { return path.ends_with(".log"); }

class FileBytes final : public LogBytes {
 public:
  explicit FileBytes(int fd) : fd_(fd) {}
  ~FileBytes() override { ::close(fd_); }
  Result<size_t> Read(uint64_t offset, char* to, size_t length) override {
    size_t done = 0;
    while (done < length) {
      const ssize_t n = ::pread(fd_, to + done, length - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Error(FsError::kIo, "a log cannot be read");
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

 private:
  const int fd_;
};

// A file up to a given end.
class UpTo final : public rocksdb::FSSequentialFileWrapper {
 public:
  UpTo(std::unique_ptr<rocksdb::FSSequentialFile> file, uint64_t end)
      : FSSequentialFileWrapper(file.get()), file_(std::move(file)), left_(end) {}
  rocksdb::IOStatus Read(size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* dbg) override {
    const auto s = FSSequentialFileWrapper::Read(std::min<uint64_t>(n, left_), options, result, scratch, dbg);
    if (s.ok()) left_ -= result->size();
    return s;
  }
  rocksdb::IOStatus Skip(uint64_t n) override {
    const uint64_t part = std::min(n, left_);
    left_ -= part;
    return FSSequentialFileWrapper::Skip(part);
  }

 private:
  const std::unique_ptr<rocksdb::FSSequentialFile> file_;
  uint64_t left_;
};

}  // namespace

Result<uint64_t> LogEnd(LogBytes& bytes) {
  std::vector<char> block(kBlockBytes);
  for (uint64_t at = 0;; at += kBlockBytes) {
    ASSIGN_OR_RETURN(const size_t length, bytes.Read(at, block.data(), block.size()));
    size_t pos = 0;
    while (pos + kHeaderBytes <= length) {
      const auto* h = reinterpret_cast<const uint8_t*>(block.data() + pos);
      const size_t payload = h[4] | static_cast<size_t>(h[5]) << 8;
      const uint8_t type = h[6];
      if (type == 0 && payload == 0) return at + pos;
      pos += payload + (type >= kFirstRecyclable && type <= kLastRecyclable ? kRecyclableHeaderBytes : kHeaderBytes);
    }
    if (length < block.size()) return at + length;
  }
}

class PreparedLogs::Log {
 public:
  Log(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~Log() { ::close(fd_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // So many bytes are about to be written behind those before.
  void Writes(uint64_t length) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return !preparing_ || written_ + length <= from_; });
    written_ += length;
  }
  const std::string& path() const { return path_; }
  uint64_t written() const {
    std::lock_guard<std::mutex> lock(mu_);
    return written_;
  }
  bool wanted() const {
    std::lock_guard<std::mutex> lock(mu_);
    return IsWanted();
  }
  void Prepare() {
    uint64_t written = 0;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (!IsWanted()) return;
      written = written_;
      from_ = std::max(prepared_, AlignUp(written_ + kRoomBytes, kPageBytes));
      preparing_ = true;
    }
    // What is written before the zeros has its place, too, when others take the rest of the disk. (Where that cannot be, it has not.)
    (void)::fallocate(fd_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(written), static_cast<off_t>(from_ - written));
    const bool done = WriteZeros(from_, kPreparedLogBytes);
    std::lock_guard<std::mutex> lock(mu_);
    preparing_ = false;
    failed_ = !done;
    if (done) prepared_ = from_ + kPreparedLogBytes;
    changed_.notify_all();
  }
  // No more zeros; length of the written part.
  uint64_t Close() {
    std::unique_lock<std::mutex> lock(mu_);
    closed_ = true;
    changed_.wait(lock, [&] { return !preparing_; });
    return written_;
  }

 private:
  bool IsWanted() const {
    return !closed_ && !failed_ && !preparing_ && prepared_ < written_ + kPreparedLogBytes / 2;
  }
  bool WriteZeros(uint64_t from, uint64_t length) {
    static const std::vector<char> zeros(kPreparedLogBytes);
    for (uint64_t done = 0; done < length;) {
      const ssize_t n = ::pwrite(fd_, zeros.data(), length - done, static_cast<off_t>(from + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      done += static_cast<uint64_t>(n);
    }
    return ::fdatasync(fd_) == 0;  // on failure the next sync of the log fails too, and reports it
  }

  const std::string path_;
  const int fd_;
  mutable std::mutex mu_;
  std::condition_variable changed_;
  uint64_t written_ = 0;
  uint64_t prepared_ = 0;  // zeros or written bytes up to here
  uint64_t from_ = 0;      // where zeros are being written
  bool preparing_ = false;
  bool failed_ = false;
  bool closed_ = false;
};

namespace {

// Tells a log of writes to its file.
template <class LogPtr>
class LogFile final : public rocksdb::FSWritableFileWrapper {
 public:
  LogFile(std::unique_ptr<rocksdb::FSWritableFile> file, LogPtr log)
      : FSWritableFileWrapper(file.get()), file_(std::move(file)), log_(std::move(log)) {}
  ~LogFile() override { log_->Close(); }

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* dbg) override {
    log_->Writes(data.size());
    return FSWritableFileWrapper::Append(data, options, dbg);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& info, rocksdb::IODebugContext* dbg) override {
    log_->Writes(data.size());
    return FSWritableFileWrapper::Append(data, options, info, dbg);
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override {
    const auto cut = FSWritableFileWrapper::Truncate(log_->Close(), options, dbg);
    const auto closed = FSWritableFileWrapper::Close(options, dbg);
    return closed.ok() ? cut : closed;
  }
  // Blocks that are set aside and never written are no zeros to write over.
  void PrepareWrite(size_t, size_t, const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {}
  rocksdb::IOStatus Allocate(uint64_t, uint64_t, const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }

 private:
  const std::unique_ptr<rocksdb::FSWritableFile> file_;
  const LogPtr log_;
};

}  // namespace

PreparedLogs::PreparedLogs(std::shared_ptr<rocksdb::FileSystem> base) : FileSystemWrapper(std::move(base)) {}
PreparedLogs::~PreparedLogs() = default;

std::vector<std::shared_ptr<PreparedLogs::Log>> PreparedLogs::Open() const {
  std::vector<std::shared_ptr<Log>> out;
  std::lock_guard<std::mutex> lock(mu_);
  std::erase_if(logs_, [&](const std::weak_ptr<Log>& weak) {
    std::shared_ptr<Log> log = weak.lock();
    if (log) out.push_back(std::move(log));
    return weak.expired();
  });
  return out;
}

bool PreparedLogs::Wanted() const {
  const auto open = Open();
  return std::any_of(open.begin(), open.end(), [](const auto& log) { return log->wanted(); });
}

void PreparedLogs::Prepare() {
  for (const auto& log : Open()) log->Prepare();
}

rocksdb::IOStatus PreparedLogs::NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                                std::unique_ptr<rocksdb::FSWritableFile>* file,
                                                rocksdb::IODebugContext* dbg) {
  auto s = FileSystemWrapper::NewWritableFile(path, options, file, dbg);
  if (!s.ok() || !IsLog(path)) return s;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return s;  // it grows as it is written
  auto log = std::make_shared<Log>(path, fd);
  {
    std::lock_guard<std::mutex> lock(mu_);
    logs_.push_back(log);
  }
  *file = std::make_unique<LogFile<std::shared_ptr<Log>>>(std::move(*file), std::move(log));
  return s;
}

rocksdb::IOStatus PreparedLogs::NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                                  std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                                  rocksdb::IODebugContext* dbg) {
  auto s = FileSystemWrapper::NewSequentialFile(path, options, file, dbg);
  if (!s.ok() || !IsLog(path)) return s;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return rocksdb::IOStatus::IOError("the log cannot be opened a second time", path);
  FileBytes bytes(fd);
  const Result<uint64_t> end = LogEnd(bytes);
  if (!end.ok()) return rocksdb::IOStatus::IOError(end.error().message, path);
  *file = std::make_unique<UpTo>(std::move(*file), *end);
  return s;
}

rocksdb::IOStatus PreparedLogs::GetFileSize(const std::string& path, const rocksdb::IOOptions& options,
                                            uint64_t* size, rocksdb::IODebugContext* dbg) {
  if (IsLog(path)) {
    for (const auto& log : Open()) {
      if (log->path() != path) continue;
      *size = log->written();
      return rocksdb::IOStatus::OK();
    }
  }
  return FileSystemWrapper::GetFileSize(path, options, size, dbg);
}

}  // namespace stria
