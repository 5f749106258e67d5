// The seals of the inodes that this client was shown, if its session is confined to an export (api/types.h, InodeSeal): every reply is
// learned from, and every request is given those of the inodes that it names. Nothing is kept of other sessions. A lost session's
// successor goes on with them, as the seal is the export's.
//
// An inode without its seal cannot be named any more: ESTALE, until a lookup shows it again. So none goes that could be missed. Kept
// are the seals of `kept` inodes; of what is beyond, those go that were neither shown nor named for long, and that the mount does not use
// (in_use): it has them not open or cached, and the kernel has dropped them. The kernel's own memory bounds what it has (1 KiB or so for
// each), and a seal takes some 60 bytes; but it may be that nobody can tell what the kernel has (client/fuse/kernel_inodes.h). So at `most`
// even seals in use go, those first that were not used for longest. The export's root stays always.
//
// Executor's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/inodes_of.h"

namespace stria {

class Seals {
 public:
  static constexpr size_t kKept = 256 * 1024;
  static constexpr size_t kMost = 4 * 1024 * 1024;
  static constexpr size_t kMostRoots = 16;
  using InUse = std::function<bool(InodeId)>;

  // REQUIRES: most > kMostRoots.
  explicit Seals(InUse in_use, size_t kept = kKept, size_t most = kMost);

  // The root's stays. (In another session the path may lead to another one; only the first kMostRoots stay.)
  void LearnRoot(const OpenSessionReply& reply) {
    for (const InodeSeal& s : reply.seals) Keep(s, s.ino == reply.root);
  }
  template <class Rep>
  void Learn(const Rep& reply) {
    if constexpr (requires { reply.seals; }) {
      for (const InodeSeal& s : reply.seals) Keep(s, false);
    }
  }
  // In place of those that it has.
  template <class Req>
  void AddTo(Req* request) {
    request->header.seals.clear();
    if (slots_.empty()) return;
    ForEachInode(std::as_const(*request), [&](InodeId ino, InodeUse use) {
      if (ino && use != InodeUse::kKnown) Add(ino, &request->header.seals);
    });
  }
  // False: the session is confined and was not shown it, or has forgotten its seal. So it cannot name it.
  bool CanName(InodeId ino) const { return slots_.empty() || places_.contains(ino); }
  size_t size() const { return slots_.size(); }

 private:
  struct Slot {
    InodeSeal seal;
    bool used = false;  // since the hand was here last
    bool stays = false;
  };
  // So many are looked at for each that comes: more than it takes to find one that goes.
  static constexpr int kLooks = 4;

  void Keep(const InodeSeal& seal, bool stays);
  void Add(InodeId ino, std::vector<InodeSeal>* to);
  void Trim();
  void DropAtHand();

  const InUse in_use_;
  const size_t kept_;
  const size_t most_;
  std::vector<Slot> slots_;
  std::unordered_map<InodeId, size_t> places_;  // in slots_
  size_t hand_ = 0;                             // goes round over slots_
  size_t roots_ = 0;                            // slots that stay
};

}  // namespace stria
