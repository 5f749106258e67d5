// What the callers of the filesystem hand over and get back (vfs.h). No logic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "api/types.h"
#include "client/vfs/file_reader.h"
#include "common/units.h"

namespace stria {

struct VfsOptions {
  uint64_t dirty_limit_bytes = 192 * kMiB;
  uint64_t block_cache_bytes = 96 * kMiB;
  uint64_t mapping_bytes = 48 * kMiB;  // where the bytes of files lie, of all files together
  uint64_t readahead_bytes = 16 * kMiB;  // most that is fetched ahead of one sequential reader
  size_t max_cached_entries = 200'000;
  bool sync_on_close = true;  // close() returns after the bytes are durable
  bool sync_writes = false;   // so does each write()
  int64_t write_back_delay_ns = 5 * kSecond;  // dirty bytes start to leave after this at the latest
  size_t max_batches_per_inode = 3;  // stripes of one inode being written at once
  bool relatime = true;  // reading moves atimes (atimes.h)
  bool make_ahead = true;  // files are made in one call, where no other client can notice (made_ahead.h)
  // Directories are shown as last seen when the servers are gone for good and the lease has run out (LastKnown).
  bool show_last_known = false;
};

// What a remount may change of the options above.
struct VfsFlags {
  bool sync_writes = false;
  bool relatime = true;
};

struct EntryOut {
  Attr attr;
  int64_t attr_valid_ns = 0;  // how long the kernel may keep attr
};

class VfsInode;

// An open file. Created by Open/Create, ends with Release.
struct VfsHandle {
  std::shared_ptr<VfsInode> inode;
  bool read = false;
  bool write = false;
  bool append = false;
  bool sync = false;  // O_SYNC/O_DSYNC
  bool noatime = false;  // O_NOATIME
  bool page_cache = false;  // the kernel may cache its pages (read-only opens)
  bool keep_cache = false;  // pages of earlier opens are still right
  bool writes_through = false;  // the kernel's pages have what is written with this handle
  uint64_t generation = 0;  // of the session; older ones give EIO
  uint64_t era = 0;         // of the inode; the same
  FileReader reader;
};
using VfsHandlePtr = std::shared_ptr<VfsHandle>;

struct SetAttrIn {
  std::optional<uint32_t> mode, uid, gid;
  std::optional<uint64_t> size;
  std::optional<int64_t> atime_ns, mtime_ns;
  bool atime_now = false, mtime_now = false;
  bool kill_suid = false;  // suid and sgid go, if the caller may not keep them when it writes
};

struct OpenedFile {
  EntryOut entry;
  VfsHandlePtr handle;
};

}  // namespace stria
