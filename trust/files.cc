#include "trust/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "common/io/unique_fd.h"

namespace stria {
namespace {

constexpr mode_t kOthersRead = 0077;
constexpr mode_t kOthersWrite = 0022;

std::string Octal(mode_t mode) {
  char text[8];
  snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

Error Unfit(const std::string& path, const std::string& why) {
  return Error(FsError::kAccess, "the file " + path + " is not used: " + why);
}

Result<std::string> ReadChecked(const std::string& path, mode_t forbidden, const char* forbidden_why, const char* remedy) {
  // Not blocking, should it be a pipe.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (fd.get() < 0) {
    if (errno == ELOOP) return Unfit(path, "it is a symbolic link");
    return ErrnoError(errno, "open " + path);
  }
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return ErrnoError(errno, "look at " + path);
  if (!S_ISREG(st.st_mode)) return Unfit(path, "it is no regular file");
  if (st.st_uid != geteuid() && st.st_uid != 0) {
    return Unfit(path, "it belongs to uid " + std::to_string(st.st_uid) + ", neither to root nor to the user that runs this program");
  }
  if ((st.st_mode & forbidden) != 0) return Unfit(path, forbidden_why + (" (its mode is " + Octal(st.st_mode)) + "): " + remedy);
  if (st.st_size > static_cast<off_t>(kMaxTrustFileBytes)) return Unfit(path, "it is too long");
  std::string out;
  char piece[4096];
  while (out.size() <= kMaxTrustFileBytes) {
    const ssize_t n = read(fd.get(), piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "read " + path);
    if (n == 0) return out;
    out.append(piece, static_cast<size_t>(n));
  }
  return Unfit(path, "it is too long");
}

// Removes what was not put in its place.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!path_.empty()) (void)unlink(path_.c_str());
  }
  void Keep() { path_.clear(); }

 private:
  std::string path_;
};

}  // namespace

Result<std::string> ReadSecretFile(const std::string& path) {
  return ReadChecked(path, kOthersRead, "others may read or write it",
                     "give it mode 0600, and if others can have read it, replace the key");
}

Result<std::string> ReadPublicFile(const std::string& path) {
  return ReadChecked(path, kOthersWrite, "others may write it", "look whether it is still yours, and give it mode 0644");
}

Result<void> ReplaceFile(const std::string& path, std::string_view content, unsigned mode) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  std::string name = path + ".XXXXXX";
  const UniqueFd fd(mkostemp(name.data(), O_CLOEXEC));  // 0600
  if (fd.get() < 0) return ErrnoError(errno, "make a file beside " + path);
  Temporary temporary(name);
  for (std::string_view left = content; !left.empty();) {
    const ssize_t n = write(fd.get(), left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "write " + name);
    left.remove_prefix(static_cast<size_t>(n));
  }
  if (fchmod(fd.get(), mode) != 0) return ErrnoError(errno, "set the mode of " + name);
  if (fsync(fd.get()) != 0) return ErrnoError(errno, "sync " + name);
  if (rename(name.c_str(), path.c_str()) != 0) return ErrnoError(errno, "rename " + name + " to " + path);
  temporary.Keep();
  const UniqueFd dir(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir.get() < 0 || fsync(dir.get()) != 0) return ErrnoError(errno, "sync " + folder);
  return Ok();
}

FileStamp StampOf(const std::string& path) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) return {};
  return {st.st_dev, st.st_ino, st.st_size, st.st_ctim.tv_sec * 1'000'000'000 + st.st_ctim.tv_nsec};
}

}  // namespace stria
