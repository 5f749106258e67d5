#include "server/disk_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/io/unique_fd.h"
#include "common/superblock.h"

namespace stria {

Result<DiskPlace> PlaceOf(const std::string& path) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) return ErrnoError(errno, "look at " + path);
  return DiskPlace{st.st_dev, st.st_ino};
}

Result<Uuid> DiskAt(const std::string& path) {
  const std::string file = path + "/" + std::string(kSuperblockFile);
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoError(errno, "open " + file);
  std::string block(kSuperblockBytes, '\0');
  const ssize_t n = ::pread(fd.get(), block.data(), block.size(), 0);
  if (n < 0) return ErrnoError(errno, "read " + file);
  block.resize(static_cast<size_t>(n));
  ASSIGN_OR_RETURN(const Superblock superblock, DecodeSuperblock(block, "disk " + path));
  return superblock.own;
}

Error LookForDisk(const std::string& path, const DiskPlace& place, const Uuid& disk) {
  const std::string where = "disk " + path;
  const Result<DiskPlace> now = PlaceOf(path);
  if (!now.ok() && now.code() != FsError::kNoEnt && now.code() != FsError::kNotDir) return Error();
  if (!now.ok() || *now != place) {
    return Error(FsError::kNoEnt, where + " was unmounted, or another was mounted in its place; nothing more is written there. "
                                          "Mounted again it is used at once");
  }
  const Result<Uuid> there = DiskAt(path);
  if (there.code() == FsError::kNoEnt) return Error(FsError::kNoEnt, where + " has lost its superblock");
  if (there.ok() && *there != disk) return Error(FsError::kNoEnt, where + " has become another disk");
  return Error();
}

}  // namespace stria
