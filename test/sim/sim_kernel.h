// What a kernel keeps of a mount, where that can make a program see, lose or wait for something: pages are locked while they
// are read, and can be forgotten only afterwards (sim_pages.h); names of directories stay, with what is mounted there, and are
// asked for at each use, as by fuse_dentry_revalidate (client/fuse/kernel_names.h): what takes a name for gone detaches what is
// mounted on or below it, wherever that is by then. They are believed for a moment before they are asked for again. A directory that
// is renamed here is moved some time after the answer (client/fuse/name_moves.h), a long time if the renaming thread has no processor;
// one that somebody else has renamed is moved by who finds it under its new name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/fuse/kernel_names.h"
#include "client/fuse/name_moves.h"
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
  Task<void> NameChanged(InodeId dir, std::string name) override;

  // As a program's lookup.
  Task<Result<EntryOut>> Lookup(Vfs& vfs, Caller who, InodeId parent, std::string name);
  // Something is mounted there. REQUIRES: a directory, looked up before.
  void MountOn(InodeId parent, const std::string& name);
  bool IsMounted(InodeId parent, const std::string& name) const;
  // Somebody works in that directory from now on, if the kernel has it.
  void SitIn(InodeId dir);
  // Nobody works in it any more, and nothing is mounted on it or in it.
  void Leave(InodeId dir);
  // As a program's rename within a directory.
  Task<Result<void>> Rename(Vfs& vfs, Caller who, InodeId parent, std::string from, std::string to);
  // What is not mounted any more although nobody unmounted it, or has no name although somebody sits there, and why.
  const std::vector<std::string>& detached() const { return detached_; }

  SimPages& pages() { return pages_; }

  void Unmounted() {
    names_.clear();
    dirs_.clear();
    runnable_.clear();
    moves_.reset();
    driver_names_ = KernelNames();
    pages_.Clear();
  }
  uint64_t pages_forgotten() const { return pages_forgotten_; }
  uint64_t attrs_forgotten() const { return attrs_forgotten_; }  // how often it was told to, of any inode

 private:
  using Key = std::pair<InodeId, std::string>;
  struct Name {
    InodeId ino;
    bool mounted = false;
    bool sat_in = false;
    int64_t believed_ns = 0;  // is not asked for until then
  };
  using Names = std::map<Key, Name>;
  // A rename has the directory to itself; names that the kernel does not have yet are looked up beside each other.
  struct Dir {
    size_t looks = 0;
    bool renames = false;
  };
  class Look;
  class Renames;
  NameMoves& Moves();
  Names::iterator Find(InodeId ino);
  Names::iterator Put(const Key& key, InodeId ino);
  void Believe(Vfs& vfs, const Key& key, InodeId ino);
  void Drop(Names::iterator it, const std::string& why);

  Random rng_{0};
  int64_t forget_ns_ = 0;
  SimPages pages_;
  uint64_t attrs_forgotten_ = 0, pages_forgotten_ = 0;
  Names names_;
  std::map<InodeId, Dir> dirs_;
  Event let_go_;  // of one of these
  uint32_t threads_ = 0;
  std::set<uint32_t> runnable_;  // threads that have an answer, and no processor yet
  std::optional<NameMoves> moves_;  // from here: the mount's, not the kernel's
  KernelNames driver_names_;
  KernelInodes driver_inodes_;
  std::vector<std::string> detached_;
};

}  // namespace stria
