// What lookups gave the kernel just now. A path's last step is a LOOKUP, and often a GETATTR of what it gave; if
// somebody removes that name between the two, a local filesystem still has the inode in hand and answers. ESTALE would
// make the kernel look up once more, and give it to the program if that happens again.
//
// A memory of kSlots inodes for kKeepNs: whoever finds the slot taken takes it over. Executor's thread only.
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
  // For an inode that has no name any more: as it was, without a name, to be used once.
  std::optional<EntryOut> WithoutName(InodeId ino, int64_t now_ns) {
    const Slot& slot = SlotOf(ino);
    if (slot.entry.attr.ino != ino || now_ns - slot.at_ns > kKeepNs) return std::nullopt;
    EntryOut out = slot.entry;
    out.attr.nlink = 0;
    out.attr_valid_ns = 0;
    return out;
  }

 private:
  struct Slot {
    EntryOut entry;
    int64_t at_ns = 0;
  };
  Slot& SlotOf(InodeId ino) { return slots_[ino.v % kSlots]; }

  std::vector<Slot> slots_{kSlots};
};

}  // namespace stria
