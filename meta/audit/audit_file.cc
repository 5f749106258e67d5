#include "meta/audit/audit_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/io/unique_fd.h"

namespace stria {
namespace {

constexpr mode_t kMode = 0600;

Result<UniqueFd> Open(const std::string& path, int flags) {
  UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kMode));
  struct stat st;
  if (!fd.ok() || fstat(fd.get(), &st) != 0) return ErrnoError(errno, "open " + path);
  if (!S_ISREG(st.st_mode)) return Error(FsError::kInval, path + " is no file: nothing of the audit is written there");
  return fd;
}

}  // namespace

void AuditFile::Rotate() {
  if (files_ < 2) (void)unlink(path_.c_str());
  for (size_t n = files_ - 1; n > 0; --n) (void)rename(Numbered(n - 1).c_str(), Numbered(n).c_str());
}

Result<void> AuditFile::Append(std::string_view lines) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT;
  ASSIGN_OR_RETURN(UniqueFd fd, Open(path_, kFlags));
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return ErrnoError(errno, "look at " + path_);
  if (MustRotate(static_cast<uint64_t>(st.st_size), lines.size(), max_bytes_)) {
    Rotate();
    ASSIGN_OR_RETURN(fd, Open(path_, kFlags));
  }
  if (fchmod(fd.get(), kMode) != 0) return ErrnoError(errno, "protect " + path_);
  while (!lines.empty()) {
    const ssize_t n = write(fd.get(), lines.data(), lines.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "write " + path_);
    lines.remove_prefix(static_cast<size_t>(n));
  }
  if (fdatasync(fd.get()) != 0) return ErrnoError(errno, "sync " + path_);
  return Ok();
}

Result<AuditTail> AuditFile::Tail(int64_t since_s, size_t max_lines, size_t max_bytes) const {
  AuditTail all;
  for (size_t n = 0; n < files_ && !all.more; ++n) {
    const Result<UniqueFd> fd = Open(Numbered(n), O_RDONLY);
    if (fd.code() == FsError::kNoEnt) break;
    if (!fd.ok()) return fd.error();
    struct stat st;
    if (fstat(fd->get(), &st) != 0) return ErrnoError(errno, "look at " + Numbered(n));
    const uint64_t size = static_cast<uint64_t>(st.st_size), from = size > kTailBytes ? size - kTailBytes : 0;
    std::string text(size - from, '\0');
    size_t have = 0;
    while (have < text.size()) {
      const ssize_t got = pread(fd->get(), text.data() + have, text.size() - have, static_cast<off_t>(from + have));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoError(errno, "read " + Numbered(n));
      if (got == 0) break;
      have += static_cast<size_t>(got);
    }
    text.resize(have);
    AuditTail older = TailOfAudit(text, from > 0, since_s, max_lines, max_bytes);
    max_lines -= older.lines.size();
    for (const std::string& line : older.lines) max_bytes -= line.size();
    // What the file has before its tail is as old as that, or older.
    all.more = older.more || (from > 0 && !older.lines.empty());
    older.lines.insert(older.lines.end(), std::make_move_iterator(all.lines.begin()), std::make_move_iterator(all.lines.end()));
    all.lines = std::move(older.lines);
  }
  return all;
}

}  // namespace stria
