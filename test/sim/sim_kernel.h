// What a kernel keeps of a mount, where that can make a program see, lose or wait for something: pages are locked while they
// are read, and can be forgotten only afterwards (sim_pages.h); names of directories stay, with what is mounted there, and are
// asked for at each use, as by fuse_dentry_revalidate (client/fuse/kernel_names.h): what takes a name for gone detaches what is
// mounted on or below it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/vfs/vfs.h"
#include "common/random.h"
#include "test/sim/sim_pages.h"

namespace stria {

class SimKernel final : public KernelCache {
 public:
  // To forget pages it needs up to this long.
  void SetSlow(uint64_t seed, int64_t ns) {
    rng_ = Random(seed);
    forget_ns_ = ns;
  }
  Task<void> InvalidateInode(InodeId ino, bool data, uint64_t offset, uint64_t length) override;
  Task<void> NameChanged(InodeId, std::string) override { co_return; }

  // As a program's lookup.
  Task<Result<EntryOut>> Lookup(Vfs& vfs, Caller who, InodeId parent, std::string name);
  // Something is mounted there. REQUIRES: a directory, looked up before.
  void MountOn(InodeId parent, const std::string& name);
  bool IsMounted(InodeId parent, const std::string& name) const;
  // What is not mounted any more although nobody unmounted it, and why.
  const std::vector<std::string>& detached() const { return detached_; }

  SimPages& pages() { return pages_; }

  void Unmounted() {
    names_.clear();
    pages_.Clear();
  }
  uint64_t pages_forgotten() const { return pages_forgotten_; }
  uint64_t attrs_forgotten() const { return attrs_forgotten_; }  // how often it was told to, of any inode

 private:
  using Key = std::pair<InodeId, std::string>;
  struct Name {
    InodeId ino;
    bool mounted = false;
  };
  void Drop(std::map<Key, Name>::iterator it, const std::string& why);

  Random rng_{0};
  int64_t forget_ns_ = 0;
  SimPages pages_;
  uint64_t attrs_forgotten_ = 0, pages_forgotten_ = 0;
  std::map<Key, Name> names_;
  std::vector<std::string> detached_;
};

}  // namespace stria
