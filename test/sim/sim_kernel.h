// What a kernel keeps of a mount, where that can make a program see or wait for something: pages are locked while they
// are read, and can be forgotten only afterwards (sim_pages.h); names are believed as long as it was told, but for those of an
// older epoch (NameEpoch).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "client/cache/name_epoch.h"
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
  Task<void> ForgetNames(InodeId in) override { return forget_.Forget(in); }
  bool can_forget_names() const override { return true; }

  // As a program's lookup, and its listing with attributes. `believed`: set if no mount was asked about the name.
  Task<Result<EntryOut>> Lookup(Vfs& vfs, Caller who, InodeId parent, std::string name, bool* believed = nullptr);
  Task<Result<ReadDirReply>> List(Vfs& vfs, Caller who, InodeId dir, Random& rng);
  // A program's change of a name is under way. The kernel holds the directory's lock meanwhile: what it looks up or lists
  // beside it is not entered here, and after two at once, which it does not make, nothing is believed.
  class Changing {
   public:
    explicit Changing(SimKernel* kernel) : kernel_(kernel), number_(++kernel_->changes_), beside_(kernel_->changing_++ > 0) {}
    Changing(const Changing&) = delete;
    Changing& operator=(const Changing&) = delete;
    ~Changing() {
      --kernel_->changing_;
      if (beside_ || kernel_->changes_ != number_) kernel_->names_.clear();
      ++kernel_->changes_;
    }

   private:
    SimKernel* const kernel_;
    const uint64_t number_;
    const bool beside_;
  };
  // Done: what the kernel makes of it by itself.
  void Removed(InodeId parent, const std::string& name) { names_.erase({parent, name}); }
  void Renamed(InodeId parent, const std::string& from, InodeId new_parent, const std::string& to);

  SimPages& pages() { return pages_; }

  void Unmounted() {
    names_.clear();
    pages_.Clear();
  }
  uint64_t names_believed() const { return believed_; }
  uint64_t pages_forgotten() const { return pages_forgotten_; }
  uint64_t attrs_forgotten() const { return attrs_forgotten_; }  // how often it was told to, of any inode

 private:
  struct Name {
    InodeId ino;  // 0: not there
    uint64_t epoch = 0;
    int64_t until_ns = 0;
  };
  std::optional<InodeId> Believed(InodeId parent, const std::string& name) const;
  void Enter(InodeId parent, const std::string& name, InodeId ino, uint64_t epoch, int64_t valid_ns);

  Random rng_{0};
  int64_t forget_ns_ = 0;
  SimPages pages_;
  uint64_t epoch_ = 1;
  uint64_t changes_ = 0;  // begun and ended
  uint64_t changing_ = 0;  // under way
  uint64_t believed_ = 0;
  uint64_t attrs_forgotten_ = 0, pages_forgotten_ = 0;
  std::map<std::pair<InodeId, std::string>, Name> names_;
  NameEpoch forget_{[this] { ++epoch_; }};
};

}  // namespace stria
