// The disks of a real data server: directories with an index in RocksDB. Opens them, describes the faults of unusable ones, and
// makes a lost or damaged index again beside the files, so that a crash on the way leaves the disk as it was. Blocks where it
// says so; for the executor's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/exec/pool.h"
#include "common/file_limit.h"
#include "common/io/posix_disk.h"
#include "common/kv/rocks_kv.h"
#include "server/data_config.h"
#include "server/data_node.h"
#include "server/disk_place.h"
#include "server/removable.h"
#include "server/reindex.h"

namespace stria {

inline constexpr int kIndexThreads = 2;  // per disk

struct DiskEnv {
  Pool* sync_pool = nullptr;
  std::shared_ptr<RocksMemory> memory;
  uint64_t max_files = kMaxFilesPerStore;  // open at once, of each disk
};

struct OpenDisk {
  std::unique_ptr<RemovableDisk> disk;
  std::unique_ptr<RemovableKv> index;
  std::unique_ptr<ThreadPool> index_pool;  // destroyed first: its work uses the index
  Superblock superblock;
  DiskSpec spec;
  std::string where;  // "disk /srv/d1"
  DiskPlace place;    // where it was when it was opened
  Error problem;      // why it cannot be used; ok(): it can
  bool give_up = false;
  bool reindex = false;  // it could be, with an index: MakeIndex
  bool is_new = false;   // an empty directory, or one where nothing is mounted: left as it is

  DataNodeDisk ForNode() const;
};

// Blocks. An error only where two servers might use one disk (kBusy); all other faults are a `problem`. `may_make`: an empty
// directory becomes a disk. Only when the cluster knows no disk there, because the directory of an unmounted disk is empty,
// too.
Task<Result<OpenDisk>> OpenDataDisk(DiskSpec spec, DiskEnv env, bool may_make);

// Gives up the content of `index`: it becomes `index.old`, and the next start makes another. Blocks.
Result<void> SetIndexAside(const OpenDisk& disk);

// An index in `index.new`, from everything that is on the disk. Opens it in `disk`.
Task<Result<ReindexResult>> MakeIndex(OpenDisk* disk, DiskEnv env);
// Puts it into the place of the former one, and opens it there. Blocks.
Result<void> TakeIndex(OpenDisk* disk, DiskEnv env);

}  // namespace stria
