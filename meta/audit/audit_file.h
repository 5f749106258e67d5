// The files of the audit: PATH, which is written to, and PATH.1 and so on, which are older. Mode 0600. Blocking; one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "trust/audit/audit_lines.h"

namespace stria {

class AuditFile {
 public:
  // `files`: all of them together; at least 1.
  AuditFile(std::string path, uint64_t max_bytes, size_t files) : path_(std::move(path)), max_bytes_(max_bytes), files_(files) {}
  // Durable when it returns. An error names the file; a part of the lines may be there.
  Result<void> Append(std::string_view lines);
  // Of the last kTailBytes of each file.
  Result<AuditTail> Tail(int64_t since_s, size_t max_lines, size_t max_bytes) const;

  static constexpr uint64_t kTailBytes = 4 << 20;

 private:
  std::string Numbered(size_t n) const { return n == 0 ? path_ : path_ + "." + std::to_string(n); }
  void Rotate();

  const std::string path_;
  const uint64_t max_bytes_;
  const size_t files_;
};

}  // namespace stria
