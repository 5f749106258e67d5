// Inodes that lookups gave the kernel just now. The last step of a path is a LOOKUP, and often a GETATTR or an OPEN of its
// result. If another process removes the name between the two, a local filesystem still has the inode and answers. ESTALE makes
// the kernel look up once more, and reaches the program if that happens again.
//
// So a GETATTR is answered from here. A thread that met ESTALE at an open has its next lookup held open for it. (The metadata
// server keeps for a while inodes that another mount has looked up, but not those that this mount removes, as rm looks up,
// too.)
//
// A memory of kSlots inodes and threads for kKeepNs; a later entry takes over the slot. Executor's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client/vfs/vfs.h"

namespace stria {

class LookedUp {
 public:
  static constexpr size_t kSlots = 1024;
  static constexpr int64_t kKeepNs = 1 * kSecond;

  void Add(const EntryOut& entry, int64_t now_ns) { SlotOf(entry.attr.ino) = {entry, now_ns}; }
  bool Has(InodeId ino, int64_t now_ns) {
    const Slot& slot = SlotOf(ino);
    return slot.entry.attr.ino == ino && now_ns - slot.at_ns <= kKeepNs;
  }
  // The last attributes of an inode that has no name any more; to be used once.
  std::optional<EntryOut> WithoutName(InodeId ino, int64_t now_ns) {
    if (!Has(ino, now_ns)) return std::nullopt;
    EntryOut out = SlotOf(ino).entry;
    out.attr.nlink = 0;
    out.attr_valid_ns = 0;
    return out;
  }

  // This thread was told ESTALE at an open.
  void Missed(uint32_t thread, int64_t now_ns) { misses_[thread % kSlots] = {thread, now_ns}; }
  bool HasMissed(uint32_t thread, int64_t now_ns) const {
    const Miss& miss = misses_[thread % kSlots];
    return miss.thread == thread && miss.at_ns != 0 && now_ns - miss.at_ns <= kKeepNs;
  }

 private:
  struct Miss {
    uint32_t thread = 0;
    int64_t at_ns = 0;
  };
  struct Slot {
    EntryOut entry;
    int64_t at_ns = 0;
  };
  Slot& SlotOf(InodeId ino) { return slots_[ino.v % kSlots]; }

  std::vector<Slot> slots_{kSlots};
  std::vector<Miss> misses_{kSlots};
};

}  // namespace stria
