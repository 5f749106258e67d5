// The disks of a simulated cluster's nodes: what lies on them, and what the processes that run have opened of it.
//
// A disk's contents survive its node's process as those of a real one would. Not thread-safe: all is on the simulator's thread.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "common/ids.h"
#include "common/io/sim_disk.h"
#include "common/kv/mem_kv.h"
#include "common/random.h"
#include "server/shard_store.h"

namespace stria {

Uuid SeededUuid(Random& rng);

// A disk, as the processes of its node have it.
struct SimNodeDisk {
  std::shared_ptr<SimDiskMedia> media;
  std::shared_ptr<MemKvMedia> index_media;
  std::unique_ptr<MemKv> contents;  // for looking at index_media
  Uuid uuid;
  TargetId target;        // that it was last registered as
  bool left_out = false;  // the data server could not open it and does without it
  bool opened = false;    // a running data server has it
  std::unique_ptr<SimDisk> disk;  // from here: of the process
  std::unique_ptr<MemKv> index;
  std::unique_ptr<ShardStore> store;
};

class SimDisks {
 public:
  // Disks are made by `rng`, which outlives it.
  explicit SimDisks(Random* rng) : rng_(rng) {}
  // The next node has so many, all empty.
  void AddNode(size_t disks);
  // The disk's place gets a fresh, empty one. REQUIRES: the node is down.
  void Replace(size_t n, size_t d);
  // For the node's processes. Stays where it is.
  std::vector<SimNodeDisk>& OfNode(size_t n) { return nodes_[n]; }

  SimDiskMedia& media(size_t n, size_t d) { return *nodes_[n][d].media; }
  MemKvMedia& index(size_t n, size_t d) { return *nodes_[n][d].index_media; }
  // The target that the disk was last registered as; 0 before.
  TargetId target(size_t n, size_t d) const { return nodes_[n][d].target; }
  struct Now {
    Uuid uuid;
    bool left_out = false;  // the running data server could not open it and does without it
    bool opened = false;    // a running data server has opened it
    bool fenced = false;    // the running data server has given it up
    KvStore* index = nullptr;  // what a process started now would find in its index
  };
  Now Look(size_t n, size_t d) const;

 private:
  SimNodeDisk Make(size_t n, size_t d);

  Random* const rng_;
  std::deque<std::vector<SimNodeDisk>> nodes_;  // grows while processes have some of it
};

}  // namespace stria
