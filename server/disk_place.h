// Whether a disk is still where it was opened: its directory is the same, and has its superblock. A disk that is unmounted
// under a running server leaves an empty directory, which is no place to write to. Blocking calls; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "common/error.h"
#include "common/ids.h"

namespace stria {

struct DiskPlace {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const DiskPlace&) const = default;
};

Result<DiskPlace> PlaceOf(const std::string& path);
// The superblock of the disk that is there now. kNoEnt: no directory, or no superblock. Others: it cannot be read.
Result<Uuid> DiskAt(const std::string& path);
// ok() while the disk that was opened there is there, as far as can be seen: one that returns errors is not gone.
Error LookForDisk(const std::string& path, const DiskPlace& place, const Uuid& disk);

}  // namespace stria
