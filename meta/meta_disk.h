// Where the metadata lie on this machine: the directory, how much room its disk has, and how the store in it is made and opened.
//
// Owns: the measured room, the share of files that the store may have open, the threads that sync it.
//
// Executor's thread. Blocks for as long as the disk takes: for the start.
#pragma once

#include <memory>
#include <optional>

#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "common/file_limit.h"
#include "common/kv/kv.h"
#include "meta/data_dir.h"
#include "meta/disk_room.h"
#include "meta/meta_config.h"

namespace stria {

class MetaDisk {
 public:
  explicit MetaDisk(const MetaConfig* config) : config_(*config), room_(config->data), sync_pool_(2, "meta-sync") {}

  // Measures the room; before the store is opened, which writes. kNoSpace, kRoFs.
  Result<void> OpenRoom();
  // `create`: makes an empty one where there is none. `replicated`: of one of several metadata servers, with kReplicatedFamilies.
  Result<std::unique_ptr<KvStore>> OpenStore(bool create, bool replicated = false);
  // A new cluster: superblock and root, in an empty directory. The superblock comes last: without it the directory does not count as a
  // store, and an interrupted format can be repeated after emptying it. `super` names cluster and store. Durable on return.
  Task<Result<void>> Format(Superblock super);
  // Looks at the room now and then; for ever.
  Task<void> FollowRoom();

  DiskRoom* room() { return &room_; }
  uint64_t connections() const { return files_.connections; }  // of clients, at most; after OpenStore

 private:
  const MetaConfig& config_;
  DiskRoom room_;
  FileBudget files_;
  bool is_full_ = false;  // at the start
  ThreadPool sync_pool_;
};

}  // namespace stria
