#include "common/log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace stria {

LogFile::LogFile(std::string path, uint64_t max_bytes, size_t files)
    : path_(std::move(path)), max_bytes_(max_bytes), files_(files) {}

LogFile::~LogFile() {
  if (fd_ >= 0) close(fd_);
}

Result<void> LogFile::Open() {
  fd_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) return ErrnoError(errno, "log to " + path_);
  return Ok();
}

void LogFile::Reopen() {
  const int former = std::exchange(fd_, -1);
  if (!Open().ok()) {
    fd_ = former;  // rather there than nowhere
  } else if (former >= 0) {
    close(former);
  }
}

bool LogFile::IsStillThere() const {
  struct stat open_file, at_path;
  return fstat(fd_, &open_file) == 0 && stat(path_.c_str(), &at_path) == 0 && open_file.st_ino == at_path.st_ino &&
         open_file.st_dev == at_path.st_dev;
}

// Several processes may log to the file: one of them moves it, the others see that it has moved.
void LogFile::Rotate() {
  const int locked = fd_;
  if (flock(locked, LOCK_EX) != 0) return;
  if (IsStillThere()) {
    for (size_t n = files_ - 1; n > 0; --n) (void)rename((n == 1 ? path_ : Numbered(n - 1)).c_str(), Numbered(n).c_str());
  }
  fd_ = -1;
  if (!Open().ok()) {
    fd_ = locked;
    (void)flock(locked, LOCK_UN);
  } else {
    close(locked);
  }
}

void LogFile::Write(std::string_view line) {
  if (fd_ < 0 || !IsStillThere()) Reopen();
  struct stat st;
  if (fstat(fd_, &st) == 0 && st.st_size > 0 && static_cast<uint64_t>(st.st_size) + line.size() > max_bytes_) Rotate();
  while (!line.empty()) {
    const ssize_t n = write(fd_, line.data(), line.size());
    if (n < 0 && errno != EINTR) return;  // there is no place to report it
    if (n > 0) line.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace stria
