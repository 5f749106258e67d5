#include "test/sim/sim_disks.h"

#include <utility>

#include "common/check.h"
#include "server/shard_index.h"
#include "test/sim/sim_hosts.h"

namespace stria {

Uuid SeededUuid(Random& rng) { return Uuid{rng.Next() | 1, rng.Next() | 1}; }

void SimDisks::AddNode(size_t disks) {
  const size_t n = nodes_.size();
  std::vector<SimNodeDisk>& node = nodes_.emplace_back();
  for (size_t d = 0; d < disks; ++d) node.push_back(Make(n, d));
}

SimNodeDisk SimDisks::Make(size_t n, size_t d) {
  SimNodeDisk disk;
  SimDiskOptions o;
  o.name = DiskName(n, d);
  disk.media = std::make_shared<SimDiskMedia>(rng_->Next(), o);
  disk.index_media = std::make_shared<MemKvMedia>(kIndexFamilies);
  disk.contents = std::make_unique<MemKv>(disk.index_media);
  disk.uuid = SeededUuid(*rng_);
  return disk;
}

void SimDisks::Replace(size_t n, size_t d) {
  CHECK(!nodes_[n][d].store, "disks are replaced while the node is down");
  nodes_[n][d] = Make(n, d);
}

SimDisks::Now SimDisks::Look(size_t n, size_t d) const {
  const SimNodeDisk& disk = nodes_[n][d];
  return {disk.uuid, disk.left_out, disk.opened, disk.store && disk.store->failed(), disk.contents.get()};
}

}  // namespace stria
