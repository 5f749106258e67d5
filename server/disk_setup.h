// The owner of a disk: reads or makes the superblock of a data disk, and refuses with one sentence a disk of another cluster or
// node, a swapped one, or a directory that is something else.
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
  bool may_make = true;  // else an empty directory stays empty: kNoEnt
};

// The superblock, made now if the directory is empty and `may_make`. A disk with another label was in another
// slot: it is recognised by its uuid. kCorrupt, kVersion, kWrongCluster, kNotEmpty (files, but no superblock).
Task<Result<Superblock>> OpenSuperblock(Disk* disk, DiskSetup setup);

// Records the cluster, its incarnation and the label, durably; nothing to do if they are the same.
// kWrongCluster if the disk belongs to another.
Task<Result<void>> AdoptCluster(Disk* disk, Superblock* sb, Uuid cluster, uint64_t incarnation,
                                std::string label);

// The name of this disk from the last registration: the file `identity`. With it a node serves readers although no metadata
// server is up.
struct DiskIdentity {
  TargetId target;
  uint64_t incarnation = 0;
  Uuid node;
  std::string node_name;  // "" in files of the first release
  std::string proof;      // RegisterNodeReply::disk_proofs: another node registers the disk by it. "": none was given
  bool operator==(const DiskIdentity&) const = default;
};
inline constexpr char kIdentityFile[] = "identity";
// All zero if there is none or it is damaged: the next registration brings it back.
Task<Result<DiskIdentity>> ReadIdentity(Disk* disk);
Task<Result<void>> WriteIdentity(Disk* disk, DiskIdentity identity);  // durable on return

// The node that these disks are on, from their last registrations; 0: none has one. A disk with another name was carried here
// from that node, and does not count. If the name was given to a new machine, disks from before and after differ: the majority
// decides; the metadata server lets only one live. kInval if the others differ.
Result<Uuid> AgreeOnNode(const std::string& node_name,
                         const std::vector<std::pair<std::string, DiskIdentity>>& disks);

}  // namespace stria
