#include "meta/data_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace stria {
namespace {

std::string SuperblockPath(const std::string& dir) { return dir + "/" + std::string(kSuperblockFile); }

// Closes at the end of its scope.
struct Fd {
  int fd = -1;
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<DataDirState> LookAtDataDir(const std::string& dir) {
  std::error_code ec;
  if (std::filesystem::exists(SuperblockPath(dir), ec)) return DataDirState::kStore;
  const bool exists = std::filesystem::exists(dir, ec);
  if (!ec && !exists) return DataDirState::kEmpty;
  if (!std::filesystem::is_directory(dir, ec)) return Error(FsError::kNotDir, dir + " is not a directory");
  bool empty = true;
  std::filesystem::directory_iterator entry(dir, ec);
  for (; !ec && entry != std::filesystem::directory_iterator(); entry.increment(ec)) {
    empty = empty && dir + "/" + entry->path().filename().string() == TrustDirOf(dir);
  }
  if (ec) return ErrnoError(ec.value(), "read the directory " + dir);
  if (empty) return DataDirState::kEmpty;
  return Error(FsError::kNotEmpty, dir + " has files but no superblock: it is no metadata store, or one whose "
                                         "--format or restore was interrupted; empty it first");
}

Result<void> PrepareDataDir(const std::string& dir) {
  std::error_code ec;
  std::filesystem::create_directories(dir, ec);
  if (ec) return ErrnoError(ec.value(), "make the directory " + dir);
  if (::chmod(dir.c_str(), 0700) != 0) return ErrnoError(errno, "protect the directory " + dir);
  return Ok();
}

Result<void> WriteDataDir(const std::string& dir, const Superblock& super) {
  const std::string path = SuperblockPath(dir);
  const std::string temporary = path + ".new";
  const std::string block = EncodeSuperblock(super);
  {
    Fd file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    if (file.fd < 0) return ErrnoError(errno, "create " + temporary);
    if (::write(file.fd, block.data(), block.size()) != static_cast<ssize_t>(block.size())) {
      return ErrnoError(errno != 0 ? errno : EIO, "write " + temporary);
    }
    if (::fsync(file.fd) != 0) return ErrnoError(errno, "sync " + temporary);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return ErrnoError(errno, "rename " + temporary);
  Fd folder{::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.fd < 0 || ::fsync(folder.fd) != 0) return ErrnoError(errno, "sync the directory " + dir);
  return Ok();
}

Result<Superblock> ReadDataDir(const std::string& dir) {
  std::ifstream in(SuperblockPath(dir), std::ios::binary);
  if (!in) return Error(FsError::kIo, "cannot read " + SuperblockPath(dir));
  std::string block(kSuperblockBytes, '\0');
  in.read(block.data(), static_cast<std::streamsize>(block.size()));
  block.resize(static_cast<size_t>(in.gcount()));
  ASSIGN_OR_RETURN(Superblock super, DecodeSuperblock(block, "metadata store " + dir));
  RETURN_IF_ERROR(CheckSuperblock(super, StoreKind::kMetadata, super.cluster, "metadata store " + dir));
  if (super.must_be_read_only()) {
    return Error(FsError::kRoFs, dir + " was written by a newer release, which lets this one only read it");
  }
  return super;
}

bool IsOneOfSeveral(const Superblock& super) { return (super.incompat & kIncompatOneOfSeveral) != 0; }

Result<void> CheckServedAs(const Superblock& super, bool as_member, const std::string& dir) {
  if (IsOneOfSeveral(super) && !as_member) {
    return Error(FsError::kAccess, "the store in " + dir + " is one of several metadata servers', and the settings have no [ha]: served alone it "
                                       "would be a second cluster of the same files. Put [ha] back");
  }
  return Ok();
}

Result<void> NoteOneOfSeveral(const std::string& dir, bool is_member) {
  ASSIGN_OR_RETURN(Superblock super, ReadDataDir(dir));
  const uint64_t before = super.incompat;
  super.incompat = is_member ? before | kIncompatOneOfSeveral : before & ~kIncompatOneOfSeveral;
  return super.incompat == before ? Ok() : WriteDataDir(dir, super);
}

}  // namespace stria
