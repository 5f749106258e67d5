// A log file that does not grow without end. Not thread-safe.
//
// Each line is appended by one write. At max_bytes the file becomes NAME.1, that NAME.2, and so on; the last one goes. When
// another process has moved or removed the file (logrotate, another daemon that logs there), the next line is in a new one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.h"

namespace stria {

class LogFile {
 public:
  // `files`: the one that is written to, and those with a number.
  LogFile(std::string path, uint64_t max_bytes, size_t files);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  Result<void> Open();
  void Write(std::string_view line);
  // Opens the file that is at the path now.
  void Reopen();

 private:
  bool IsStillThere() const;
  void Rotate();
  std::string Numbered(size_t n) const { return path_ + "." + std::to_string(n); }

  const std::string path_;
  const uint64_t max_bytes_;
  const size_t files_;
  int fd_ = -1;
};

}  // namespace stria
