#include "common/io/open_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "common/io/cached_read.h"
#include "common/io/direct_read.h"

namespace stria {
namespace {

constexpr mode_t kFileMode = 0640;
constexpr mode_t kDirectoryMode = 0750;

}  // namespace

OpenFile::OpenFile(OpenFiles* owner, std::string name, int fd)
    : owner_(owner), name_(std::move(name)), fd_(fd), notes_no_access_times_(StopAccessTimes(fd)) {}

OpenFile::~OpenFile() {
  if (dirty && fdatasync(fd_) != 0) owner_->Poison(name_);
  if (direct_fd_ >= 0) close(direct_fd_);
  close(fd_);
}

int OpenFile::direct_fd() {
  std::call_once(direct_once_, [this] { direct_fd_ = ReopenDirect(fd_, O_RDWR); });
  return direct_fd_;
}

OpenFiles::OpenFiles(int root_fd, size_t max_open)
    : root_fd_(root_fd), max_per_shard_(std::max<size_t>(1, max_open / kShards)) {}

OpenFiles::~OpenFiles() {
  for (Shard& shard : shards_) {
    for (auto& [name, file] : shard.lru) file->dirty = false;
  }
}

OpenFiles::Shard& OpenFiles::ShardOf(const std::string& name) {
  return shards_[std::hash<std::string>()(name) % kShards];
}

int OpenFiles::OpenAt(const std::string& name, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
  if (flags & O_CREAT) how.mode = kFileMode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  int fd;
  do {
    fd = static_cast<int>(syscall(SYS_openat2, root_fd_, name.c_str(), &how, sizeof how));
    // EAGAIN: something was renamed meanwhile.
  } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
  if (fd >= 0 || errno != ENOSYS) return fd;
  do {  // before Linux 5.6; the name has no ".." (CheckDiskName)
    fd = openat(root_fd_, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, kFileMode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

int OpenFiles::OpenOrCreate(const std::string& name, int flags) {
  const int fd = OpenAt(name, flags | O_CREAT);
  if (fd >= 0 || errno != ENOENT) return fd;
  for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    if (mkdirat(root_fd_, name.substr(0, slash).c_str(), kDirectoryMode) != 0 && errno != EEXIST) return -1;
  }
  return OpenAt(name, flags | O_CREAT);
}

void OpenFiles::Drop(Shard& shard, const std::string& name, std::shared_ptr<OpenFile>* out) {
  auto it = shard.by_name.find(name);
  if (it == shard.by_name.end()) return;
  *out = std::move(it->second->second);
  (*out)->dirty = false;  // it will not be read under this name again
  shard.lru.erase(it->second);
  shard.by_name.erase(it);
}

int OpenFiles::Get(const std::string& name, bool create, std::shared_ptr<OpenFile>* out) {
  Shard& shard = ShardOf(name);
  std::shared_ptr<OpenFile> evicted;  // closed after the lock is released
  std::lock_guard<std::mutex> lock(shard.mu);
  auto it = shard.by_name.find(name);
  if (it != shard.by_name.end()) {
    shard.lru.splice(shard.lru.begin(), shard.lru, it->second);
    *out = it->second->second;
    return 0;
  }
  int fd = create ? OpenOrCreate(name, O_RDWR) : OpenAt(name, O_RDWR);
  // A file system that went read-only can still be read from.
  if (fd < 0 && errno == EROFS && !create) fd = OpenAt(name, O_RDONLY);
  if (fd < 0) return errno;
  *out = std::make_shared<OpenFile>(this, name, fd);
  if (shard.lru.size() >= max_per_shard_) {
    evicted = std::move(shard.lru.back().second);
    shard.by_name.erase(shard.lru.back().first);
    shard.lru.pop_back();
  }
  shard.lru.emplace_front(name, *out);
  shard.by_name[name] = shard.lru.begin();
  return 0;
}

int OpenFiles::Remove(const std::string& name) {
  Shard& shard = ShardOf(name);
  std::shared_ptr<OpenFile> dropped;
  std::lock_guard<std::mutex> lock(shard.mu);
  const int err = unlinkat(root_fd_, name.c_str(), 0) == 0 ? 0 : errno;
  if (err != 0 && err != ENOENT) return err;
  Drop(shard, name, &dropped);  // also of a file that another process removed
  shard.poisoned.erase(name);
  return err;
}

int OpenFiles::Rename(const std::string& from, const std::string& to) {
  Shard& shard = ShardOf(to);
  std::shared_ptr<OpenFile> dropped;
  std::lock_guard<std::mutex> lock(shard.mu);
  if (renameat(root_fd_, from.c_str(), root_fd_, to.c_str()) != 0) return errno;
  Drop(shard, to, &dropped);
  shard.poisoned.erase(to);
  return 0;
}

void OpenFiles::Poison(const std::string& name) {
  Shard& shard = ShardOf(name);
  std::lock_guard<std::mutex> lock(shard.mu);
  shard.poisoned.insert(name);
  if (shard.poisoned.size() > kMaxPoisoned) all_poisoned_ = true;
}

bool OpenFiles::IsPoisoned(const std::string& name) {
  if (all_poisoned_) return true;
  Shard& shard = ShardOf(name);
  std::lock_guard<std::mutex> lock(shard.mu);
  return shard.poisoned.contains(name);
}

}  // namespace stria
