#include "common/io/posix_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include "common/io/direct_read.h"
#include "common/io/disk_name.h"
#include "common/io/usable_space.h"

namespace stria {
namespace {

// Directories known to be durable; beyond this many the knowledge is dropped and built anew.
constexpr size_t kMaxDurableDirectories = 65536;
constexpr size_t kMaxIovecs = IOV_MAX;
// Up to this size a read's memory is taken as asked for, without a look at how long the file is.
constexpr uint64_t kTakeAtOnceBytes = 1 * kMiB;

std::string ParentOf(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

FsError CodeOf(int err) {
  switch (err) {
    case EIO:
    case ENXIO:
    case ENODEV:
    case EREMOTEIO:
    case EUCLEAN:  // the file system found itself damaged
    case EROFS:    // ... and went read-only
    case EBADF:    // ... while a file of it was open (OpenFiles::Get)
    case ESHUTDOWN:
    case ETIMEDOUT:
      return FsError::kDiskFailed;
    case EDQUOT:
      return FsError::kNoSpace;
    case EMFILE:
    case ENFILE:
      return FsError::kRetryLater;
    default:
      return FromErrno(err);
  }
}

// 0 or an errno. `data` at `offset`, all of it.
int WriteAll(int fd, uint64_t offset, const BufferChain& data) {
  std::vector<iovec> iov;
  for (const Buffer& b : data.parts()) iov.push_back({const_cast<uint8_t*>(b.data()), b.size()});
  size_t next = 0;
  while (next < iov.size()) {
    const auto count = static_cast<int>(std::min(iov.size() - next, kMaxIovecs));
    ssize_t n = pwritev(fd, &iov[next], count, static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (n == 0) return EIO;
    offset += static_cast<uint64_t>(n);
    while (n > 0) {
      const size_t take = std::min(static_cast<size_t>(n), iov[next].iov_len);
      iov[next].iov_base = static_cast<char*>(iov[next].iov_base) + take;
      iov[next].iov_len -= take;
      n -= static_cast<ssize_t>(take);
      if (iov[next].iov_len == 0) ++next;
    }
  }
  return 0;
}

// How many bytes of `data`, from its start, can be written directly at `offset`.
uint64_t DirectPrefix(uint64_t offset, const BufferChain& data) {
  if (offset % kDirectPageBytes != 0) return 0;
  uint64_t bytes = 0;
  for (const Buffer& b : data.parts()) {
    if (reinterpret_cast<uintptr_t>(b.data()) % kDirectPageBytes != 0) break;
    bytes += AlignDown(b.size(), kDirectPageBytes);
    if (b.size() % kDirectPageBytes != 0) break;
  }
  return bytes;
}

}  // namespace

Result<std::shared_ptr<PosixFiles>> PosixFiles::Open(const std::string& root, const PosixFilesOptions& options) {
  UniqueFd fd(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) return Error(CodeOf(errno), "cannot open the disk directory " + root + ": " + strerror(errno));
  if (options.exclusive && flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return Error(FsError::kBusy, "the disk directory " + root + " is in use by another process");
    }
    return Error(CodeOf(errno), "cannot lock the disk directory " + root + ": " + strerror(errno));
  }
  return std::shared_ptr<PosixFiles>(new PosixFiles(root, std::move(fd), options));
}

Error PosixFiles::Failed(int err, const char* what, const std::string& name) const {
  return Error(CodeOf(err),
               std::string("cannot ") + what + " '" + name + "' on the disk at " + root_ + ": " + strerror(err));
}

Error PosixFiles::NoFile(const std::string& name) const {
  return Error(FsError::kNoEnt, "there is no file '" + name + "' on the disk at " + root_);
}

Error PosixFiles::Poisoned(const std::string& name) const {
  return Error(FsError::kDiskFailed, "an earlier sync of '" + name + "' on the disk at " + root_ +
                                         " failed: writes since the last sync may be lost");
}

Result<std::shared_ptr<OpenFile>> PosixFiles::Existing(const std::string& name) {
  std::shared_ptr<OpenFile> file;
  const int err = open_.Get(name, false, &file);
  if (err == ENOENT || err == EISDIR || err == ENOTDIR) return NoFile(name);
  if (err != 0) return Failed(err, "open", name);
  return file;
}

Result<std::shared_ptr<OpenFile>> PosixFiles::ExistingOrNew(const std::string& name) {
  std::shared_ptr<OpenFile> file;
  const int err = open_.Get(name, true, &file);
  if (err != 0) return Failed(err, "create", name);
  return file;
}

std::optional<Buffer> PosixFiles::ReadCached(const std::string& name, uint64_t offset, uint64_t length,
                                                   const Executor& executor) {
  std::optional<Buffer> out;
  if (!cached_.Worth(length, executor)) return out;
  open_.IfOpen(name, [&](const OpenFile& file) {
    if (file.notes_no_access_times()) out = cached_.Read(file.fd(), offset, length, /*begin=*/true);
  });
  return out;
}

Result<Buffer> PosixFiles::Read(const std::string& name, uint64_t offset, uint64_t length) {
  ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, Existing(name));
  return ReadFrom(file->fd(), name, offset, length);
}

Result<Buffer> PosixFiles::ReadOnce(const std::string& name, uint64_t offset, uint64_t length) {
  ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, Existing(name));
  if (IsForDirect(length) && file->direct_fd() >= 0) {
    ASSIGN_OR_RETURN(std::optional<Buffer> bytes, ReadDirect(file->direct_fd(), name, offset, length));
    if (bytes) return *std::move(bytes);
  }
  return ReadFrom(file->fd(), name, offset, length);
}

Result<Buffer> PosixFiles::ReadStored(const std::string& name, uint64_t offset, uint64_t length) {
  const UniqueFd fd(open_.OpenAt(name, O_RDONLY));
  if (fd.get() < 0) return errno == ENOENT ? NoFile(name) : Failed(errno, "open", name);
  if (length == 0) return Buffer();
  if (const UniqueFd direct(IsForDirect(length) ? open_.OpenAt(name, O_RDONLY | O_DIRECT) : -1); direct.get() >= 0) {
    ASSIGN_OR_RETURN(std::optional<Buffer> bytes, ReadDirect(direct.get(), name, offset, length));
    if (bytes) return *std::move(bytes);
  }
  // Pages that are not written back yet stay. If the kernel does not take the hint, the cost is a second look.
  const auto drop = [&] {
    (void)posix_fadvise(fd.get(), static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_DONTNEED);
  };
  drop();
  Result<Buffer> bytes = ReadFrom(fd.get(), name, offset, length);
  drop();  // a scrub fills no cache
  return bytes;
}

Result<std::optional<Buffer>> PosixFiles::ReadDirect(int fd, const std::string& name, uint64_t offset,
                                                           uint64_t length) {
  const std::optional<Buffer> cannot;
  struct stat st;
  if (fstat(fd, &st) != 0) return Failed(errno, "stat", name);
  const auto size = static_cast<uint64_t>(st.st_size);
  if (offset >= size) return std::optional(Buffer());
  Buffer out;
  const int err = stria::ReadDirect(fd, offset, std::min(length, size - offset), &out);
  if (err == EINVAL) {
    direct_refused_ = true;
    return cannot;
  }
  if (err != 0) return Failed(err, "read", name);
  return std::optional(std::move(out));
}

Result<Buffer> PosixFiles::ReadFrom(int fd, const std::string& name, uint64_t offset, uint64_t length) {
  if (length > kTakeAtOnceBytes || !OffsetsFit(offset, length)) {
    struct stat st;
    if (fstat(fd, &st) != 0) return Failed(errno, "stat", name);
    const auto size = static_cast<uint64_t>(st.st_size);
    length = offset < size ? std::min(length, size - offset) : 0;
  }
  if (length == 0) return Buffer();
  MutableBuffer out(length);
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed(errno, "read", name);
    if (n == 0) break;  // it was truncated meanwhile
    done += static_cast<size_t>(n);
  }
  return std::move(out).Freeze(done);
}

Result<void> PosixFiles::Write(const std::string& name, uint64_t offset, const BufferChain& data) {
  ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, ExistingOrNew(name));
  const int err = WriteTo(*file, offset, data);
  file->dirty = true;
  if (err != 0) return Failed(err, "write", name);
  return Ok();
}

int PosixFiles::WriteTo(OpenFile& file, uint64_t offset, const BufferChain& data) {
  const uint64_t direct = DirectPrefix(offset, data);
  if (!IsForDirect(direct) || file.direct_fd() < 0) return WriteAll(file.fd(), offset, data);
  const int err = WriteAll(file.direct_fd(), offset, data.Slice(0, direct));
  if (err == EINVAL) {  // alignment is not all that it asks for: the same bytes once more, the ordinary way
    direct_refused_ = true;
    return WriteAll(file.fd(), offset, data);
  }
  if (err != 0 || direct == data.size()) return err;
  return WriteAll(file.fd(), offset + direct, data.Slice(direct, data.size() - direct));
}

Result<void> PosixFiles::Reserve(const std::string& name, uint64_t size) {
  ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, ExistingOrNew(name));
  if (size == 0) return Ok();
  int err;
  do {
    err = fallocate(file->fd(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) == 0 ? 0 : errno;
  } while (err == EINTR);
  if (err == 0 || err == EOPNOTSUPP || err == ENOSYS) return Ok();
  return Failed(err, "reserve space for", name);
}

void PosixFiles::StartWriteback(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::shared_ptr<OpenFile> file;
    if (open_.Get(name, false, &file) == 0 && file->dirty) {
      (void)sync_file_range(file->fd(), 0, 0, SYNC_FILE_RANGE_WRITE);  // a hint: SyncData sees the errors
    }
  }
}

Result<void> PosixFiles::SyncData(const std::vector<std::string>& names) {
  Result<void> result;
  const auto note = [&result](Error e) {
    if (result.ok()) result = std::move(e);
  };
  for (const std::string& name : names) {
    auto file = Existing(name);
    if (!file.ok()) {
      note(file.error());
      continue;
    }
    (*file)->dirty = false;
    if (fdatasync((*file)->fd()) != 0) {
      const int err = errno;
      open_.Poison(name);
      note(Failed(err, "sync", name));
    } else if (open_.IsPoisoned(name)) {
      note(Poisoned(name));
    }
  }
  return result;
}

Result<void> PosixFiles::SyncEntries(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<std::pair<std::string, std::shared_ptr<OpenFile>>>> by_directory;
  for (const std::string& name : names) {
    std::shared_ptr<OpenFile> file;
    if (open_.Get(name, false, &file) != 0) continue;  // SyncData has told
    if (!file->entry_durable) by_directory[ParentOf(name)].emplace_back(name, std::move(file));
  }
  Result<void> result;
  for (const auto& [directory, files] : by_directory) {
    const int err = SyncDirectory(directory);
    for (const auto& [name, file] : files) {
      if (err == 0) {
        file->entry_durable = true;
      } else {
        open_.Poison(name);
      }
    }
    if (err != 0 && result.ok()) result = Failed(err, "sync the directory", directory);
  }
  return result;
}

Result<void> PosixFiles::Sync(const std::vector<std::string>& names) {
  Result<void> data = SyncData(names);
  Result<void> entries = SyncEntries(names);
  return data.ok() ? std::move(entries) : std::move(data);
}

int PosixFiles::SyncOneDirectory(const std::string& directory) {
  const UniqueFd fd(directory.empty() ? -1 : open_.OpenAt(directory, O_RDONLY | O_DIRECTORY));
  if (!directory.empty() && fd.get() < 0) return errno;
  return fsync(directory.empty() ? root_fd_.get() : fd.get()) == 0 ? 0 : errno;
}

int PosixFiles::SyncDirectory(const std::string& directory) {
  bool known;
  {
    std::lock_guard<std::mutex> lock(directories_mu_);
    known = directory.empty() || durable_directories_.contains(directory);
  }
  std::vector<std::string> synced;
  for (std::string at = directory;; at = ParentOf(at)) {
    if (const int err = SyncOneDirectory(at); err != 0) return err;
    if (known || at.empty()) break;
    synced.push_back(at);
  }
  std::lock_guard<std::mutex> lock(directories_mu_);
  if (durable_directories_.size() >= kMaxDurableDirectories) durable_directories_.clear();
  durable_directories_.insert(synced.begin(), synced.end());
  return 0;
}

Result<void> PosixFiles::Remove(const std::string& name) {
  const int err = open_.Remove(name);
  if (err == ENOENT || err == EISDIR || err == ENOTDIR) return NoFile(name);
  if (err != 0) return Failed(err, "remove", name);
  return Ok();
}

Result<void> PosixFiles::Truncate(const std::string& name, uint64_t size) {
  ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, Existing(name));
  int err;
  do {
    err = ftruncate(file->fd(), static_cast<off_t>(size)) == 0 ? 0 : errno;
  } while (err == EINTR);
  file->dirty = true;
  if (err != 0) return Failed(err, "truncate", name);
  return Ok();
}

Result<void> PosixFiles::Replace(const std::string& name, const Buffer& content) {
  const std::string temp = name + std::string(kDiskTempSuffix);
  {
    std::lock_guard<std::mutex> lock(replace_mu_);
    const UniqueFd fd(open_.OpenOrCreate(temp, O_WRONLY | O_TRUNC));
    if (fd.get() < 0) return Failed(errno, "create", temp);
    int err = WriteAll(fd.get(), 0, BufferChain(content));
    if (err == 0 && fsync(fd.get()) != 0) err = errno;
    if (err == 0) err = open_.Rename(temp, name);
    if (err != 0) {
      (void)open_.Remove(temp);
      return Failed(err, "replace", name);
    }
  }
  if (const int err = SyncDirectory(ParentOf(name)); err != 0) {
    open_.Poison(name);
    return Failed(err, "sync the directory of", name);
  }
  return Ok();
}

Result<void> PosixFiles::ListInto(int fd, const std::string& directory, std::vector<DiskFile>* out) {
  DIR* dir = fdopendir(fd);
  if (dir == nullptr) {
    const int err = errno;
    close(fd);
    return Failed(err, "list", directory);
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> closer(dir, &closedir);
  std::vector<std::string> below;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(dir);
    if (entry == nullptr) {
      if (errno != 0) return Failed(errno, "list", directory);
      break;
    }
    const std::string name = directory.empty() ? entry->d_name : directory + "/" + entry->d_name;
    // Names that this class cannot have made are not listed: ".", "..", temporary files, lost+found.
    if (name == "lost+found" || !CheckDiskName(name).ok()) continue;
    if (entry->d_type == DT_DIR) {
      below.push_back(name);
      continue;
    }
    struct stat st;
    if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return Failed(errno, "stat", name);
    }
    if (S_ISDIR(st.st_mode)) below.push_back(name);
    if (S_ISREG(st.st_mode)) out->push_back({name, static_cast<uint64_t>(st.st_size)});
  }
  for (const std::string& name : below) {
    const int sub = open_.OpenAt(name, O_RDONLY | O_DIRECTORY);
    if (sub < 0 && errno == ENOENT) continue;
    if (sub < 0) return Failed(errno, "list", name);
    RETURN_IF_ERROR(ListInto(sub, name, out));
  }
  return Ok();
}

Result<std::vector<DiskFile>> PosixFiles::List(const std::string& directory) {
  std::vector<DiskFile> out;
  const int fd = open_.OpenAt(directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return out;
  if (fd < 0) return Failed(errno, "list", directory);
  RETURN_IF_ERROR(ListInto(fd, directory, &out));
  std::sort(out.begin(), out.end(), [](const DiskFile& a, const DiskFile& b) { return a.name < b.name; });
  return out;
}

namespace {

// Valid on this machine until its next boot, whatever the file's name: device numbers change only then.
uint64_t BootNumber() {
  static const uint64_t number = [] {
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    std::ifstream in("/proc/sys/kernel/random/boot_id");
    for (char c; in.get(c);) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    return hash;
  }();
  return number;
}

}  // namespace

Result<DiskSpace> PosixFiles::Space() {
  struct statvfs st;
  struct stat root;
  if (fstatvfs(root_fd_.get(), &st) != 0 || fstat(root_fd_.get(), &root) != 0) return Failed(errno, "measure", "");
  const uint64_t filesystem = (BootNumber() ^ root.st_dev) * 0x9e3779b97f4a7c15;
  return DiskSpace{UsableBytes(st), FreeBytes(st), filesystem};
}

Result<int> PosixFiles::OpenForRead(const std::string& name) {
  const int fd = open_.OpenAt(name, O_RDONLY);
  if (fd >= 0) {
    (void)StopAccessTimes(fd);  // else the descriptor's user would read with access times
    return fd;
  }
  if (errno == ENOENT || errno == ENOTDIR) return NoFile(name);
  return Failed(errno, "open", name);
}

}  // namespace stria
