#include "client/fuse/mount_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace stria {
namespace {

constexpr char kDirectory[] = "/run/stria-mount";
constexpr size_t kMaxStateBytes = 256;
constexpr auto kLook = std::chrono::milliseconds(20);
// At its end a program flushes twice, each bounded by its timeout, and lets running requests end.
constexpr int64_t kFlushesAtEnd = 2;
constexpr int64_t kEndSlackS = 15;

std::optional<MountState> ReadState(int fd) {
  char text[kMaxStateBytes];
  const ssize_t n = pread(fd, text, sizeof(text), 0);
  if (n <= 0) return std::nullopt;
  return DecodeMountState(std::string(text, static_cast<size_t>(n)));
}

bool WriteState(int fd, const MountState& state) {
  const std::string text = EncodeMountState(state);
  return pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

}  // namespace

// The flag last: it is the one that changes, and its length does not.
std::string EncodeMountState(const MountState& state) {
  std::ostringstream out;
  out << state.pid << ' ' << state.client.ToString() << ' ' << state.timeout_s << ' ' << (state.lost_bytes ? 1 : 0)
      << '\n';
  return out.str();
}

std::optional<MountState> DecodeMountState(const std::string& text) {
  std::istringstream in(text);
  MountState s;
  std::string client;
  int lost = 0;
  if (!(in >> s.pid >> client >> s.timeout_s >> lost) || !Uuid::Parse(client, &s.client)) return std::nullopt;
  if (s.pid <= 0 || s.timeout_s < 0 || lost < 0 || lost > 1) return std::nullopt;
  s.lost_bytes = lost == 1;
  return s;
}

std::string MountStatePath(const MountEntry& mount) {
  return std::string(kDirectory) + "/" + std::to_string(mount.dev_major) + ":" + std::to_string(mount.dev_minor);
}

Result<MountStateFile> MountStateFile::Make(const MountEntry& mount, MountState state) {
  if (mkdir(kDirectory, 0755) != 0 && errno != EEXIST) return ErrnoError(errno, "make " + std::string(kDirectory));
  const std::string path = MountStatePath(mount);
  // A file that a crashed program of the same device number left behind.
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoError(errno, "remove " + path);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoError(errno, "make " + path);
  MountStateFile file(path, fd, state);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return ErrnoError(errno, "lock " + path);
  if (!WriteState(fd, state)) return ErrnoError(errno, "write " + path);
  return file;
}

MountStateFile::MountStateFile(MountStateFile&& o) noexcept
    : path_(std::move(o.path_)), fd_(std::exchange(o.fd_, -1)), state_(o.state_) {}

MountStateFile::~MountStateFile() {
  if (fd_ < 0) return;
  // Not if the number has gone to another mount's program meanwhile.
  struct stat mine, there;
  if (fstat(fd_, &mine) == 0 && stat(path_.c_str(), &there) == 0 && mine.st_ino == there.st_ino) {
    (void)unlink(path_.c_str());
  }
  close(fd_);
}

void MountStateFile::SetLostBytes() {
  state_.lost_bytes = true;
  (void)WriteState(fd_, state_);
}

std::optional<MountWatch> MountWatch::Find(const MountEntry& mount) {
  const int fd = open(MountStatePath(mount).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::optional<MountState> state = ReadState(fd);
  if (!state) {
    close(fd);
    return std::nullopt;
  }
  return MountWatch(fd, *state);
}

MountWatch::MountWatch(MountWatch&& o) noexcept : fd_(std::exchange(o.fd_, -1)), state_(o.state_) {}

MountWatch::~MountWatch() {
  if (fd_ >= 0) close(fd_);
}

bool MountWatch::ProgramRuns() const {
  if (flock(fd_, LOCK_SH | LOCK_NB) != 0) return true;
  (void)flock(fd_, LOCK_UN);
  return false;
}

bool MountWatch::ProgramStopped() const {
  std::ifstream in("/proc/" + std::to_string(state_.pid) + "/stat");
  std::string text;
  std::getline(in, text);
  const size_t end = text.rfind(") ");  // the name before it may hold anything
  return end != std::string::npos && end + 2 < text.size() && (text[end + 2] == 'T' || text[end + 2] == 't');
}

Result<MountState> MountWatch::WaitForEnd() {
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::seconds(kFlushesAtEnd * state_.timeout_s + kEndSlackS);
  while (ProgramRuns()) {
    if (ProgramStopped()) return Error(FsError::kTimedOut, "stria-mount is stopped");
    if (std::chrono::steady_clock::now() > until) return Error(FsError::kTimedOut, "stria-mount does not end");
    std::this_thread::sleep_for(kLook);
  }
  if (std::optional<MountState> last = ReadState(fd_)) state_ = *last;
  return state_;
}

}  // namespace stria
