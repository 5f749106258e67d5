// Whose disk is this? Reads or makes the superblock of a data disk, and refuses with one sentence what
// is not ours: a disk of another cluster or node, a swapped one, a directory that is something else.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/exec/task.h"
#include "common/io/disk.h"
#include "common/superblock.h"

namespace stria {

struct DiskSetup {
  std::string where;  // path, for sentences
  std::string label;  // that the configuration gives it
  Uuid cluster;       // that it must belong to; 0: any
  std::function<Uuid()> new_uuid;
  int64_t now_s = 0;
};

// The superblock, made now if the directory is empty. kCorrupt, kVersion, kWrongCluster, kInval (label),
// kNotEmpty (files, but no superblock).
Task<Result<Superblock>> OpenSuperblock(Disk* disk, DiskSetup setup);

// Records the cluster and its incarnation, durably; nothing to do if they are the same. kWrongCluster if
// the disk belongs to another.
Task<Result<void>> AdoptCluster(Disk* disk, Superblock* sb, Uuid cluster, uint64_t incarnation);

// What the metadata server called this disk at the last registration: the file `identity`. With it a
// node serves readers although no metadata server is up.
struct DiskIdentity {
  TargetId target;
  uint64_t incarnation = 0;
  Uuid node;
  bool operator==(const DiskIdentity&) const = default;
};
inline constexpr char kIdentityFile[] = "identity";
// All zero if there is none or it is damaged: the next registration brings it back.
Task<Result<DiskIdentity>> ReadIdentity(Disk* disk);
Task<Result<void>> WriteIdentity(Disk* disk, DiskIdentity identity);  // durable on return

// One node from the nodes that its disks name (0: a new disk). kInval if they differ.
Result<Uuid> AgreeOnNode(const std::vector<std::pair<std::string, Uuid>>& disks);

}  // namespace stria
