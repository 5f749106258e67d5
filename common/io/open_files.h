// The open descriptors of a PosixDisk: a bounded cache by name, and the memory of which files failed
// a sync. Opening, removing and renaming of one name exclude each other, so that a cached descriptor
// is always the file of that name. Thread-safe; all calls but IfOpen block.
#pragma once

#include <array>
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "common/compiler.h"

namespace stria {

class OpenFiles;

// Closed when the last share goes. If it has unsynced writes then, it is synced first: the kernel reports a write error to a
// descriptor that was open at the time, or perhaps to none.
class OpenFile {
 public:
  OpenFile(OpenFiles* owner, std::string name, int fd);
  OpenFile(const OpenFile&) = delete;
  ~OpenFile();
  int fd() const { return fd_; }
  // So that a read from the page cache never waits for the disk (cached_read.h).
  bool notes_no_access_times() const { return notes_no_access_times_; }
  // For reads and writes past the page cache (O_DIRECT); -1 where the file system has no such thing.
  int direct_fd();

  std::atomic<bool> dirty{false};          // written since the last sync
  std::atomic<bool> entry_durable{false};  // its directory was synced since it was made

 private:
  OpenFiles* const owner_;
  const std::string name_;
  const int fd_;
  const bool notes_no_access_times_;
  std::once_flag direct_once_;
  int direct_fd_ = -1;
};

class OpenFiles {
 public:
  // `root_fd` must outlive this. Keeps at most about `max_open` files open beyond those in use.
  OpenFiles(int root_fd, size_t max_open);
  // REQUIRES: no OpenFile is in use any more. Syncs nothing.
  ~OpenFiles();

  // 0 or an errno. `create` makes the file and its directories if they are not there.
  int Get(const std::string& name, bool create, std::shared_ptr<OpenFile>* out);
  // Calls fn(const OpenFile&) if the file is open and no file under the same lock is being opened or removed. Does not wait;
  // `fn` may not block either, nor use this object.
  template <class F>
  void IfOpen(const std::string& name, F fn) {
    Shard& shard = ShardOf(name);
    std::unique_lock<std::mutex> lock(shard.mu, std::try_to_lock);
    if (!lock) return;
    const auto it = shard.by_name.find(name);
    if (it == shard.by_name.end()) return;
    shard.lru.splice(shard.lru.begin(), shard.lru, it->second);
    fn(*it->second->second);
  }
  int Remove(const std::string& name);
  int Rename(const std::string& from, const std::string& to);
  // Opens anew, not following links anywhere below the root. Returns a descriptor, or -1 and errno.
  int OpenAt(const std::string& name, int flags);
  int OpenOrCreate(const std::string& name, int flags);

  // A sync of this file failed: its bytes may be lost although the next sync succeeds. Forgotten when the file is removed or
  // replaced. Beyond kMaxPoisoned all files count as poisoned.
  void Poison(const std::string& name);
  bool IsPoisoned(const std::string& name);

 private:
  static constexpr size_t kShards = 16;
  static constexpr size_t kMaxPoisoned = 64;  // per shard
  struct Shard {
    std::mutex mu;
    std::list<std::pair<std::string, std::shared_ptr<OpenFile>>> lru;  // newest first
    std::map<std::string, decltype(lru)::iterator> by_name;
    std::set<std::string> poisoned;
  };
  Shard& ShardOf(const std::string& name);
  static void Drop(Shard& shard, const std::string& name, std::shared_ptr<OpenFile>* out);

  const int root_fd_;
  const size_t max_per_shard_;
  std::atomic<bool> all_poisoned_{false};
  std::array<Shard, kShards> shards_;
};

}  // namespace stria
