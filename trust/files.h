// Files with keys and certificates: read only where nobody else can have read or changed them, replaced as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "common/error.h"

namespace stria {

inline constexpr size_t kMaxTrustFileBytes = 4 << 20;  // 65,536 revoked serial numbers fit

// A file that only its owner, who is this process's user or root, may read or write: 0600 or less. No symbolic link. kAccess with
// a sentence that says what to do, kNoEnt, kIo.
Result<std::string> ReadSecretFile(const std::string& path);
// The same for a file that others may read but not write.
Result<std::string> ReadPublicFile(const std::string& path);
// At any moment, also after a power cut, the file is the old or the new one. `mode`: 0600 or 0644.
Result<void> ReplaceFile(const std::string& path, std::string_view content, unsigned mode);

// What tells one state of a file from another without reading it; of no file, 0s.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t size = 0, changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
FileStamp StampOf(const std::string& path);

}  // namespace stria
