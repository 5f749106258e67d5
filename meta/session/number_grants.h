// Inode numbers that sessions were given for files which they make before the server hears of them (OpenReply::numbers). Of one
// term of the server: after a restart every earlier number counts as the caller's (Txn::IsFormer), if it is free. A pure state
// machine. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/ids.h"

namespace stria {

class NumberGrants {
 public:
  static constexpr size_t kMaxGrants = 64;  // unfinished grants per session; beyond that the oldest ends

  // REQUIRES: 0 < count, and numbers larger than any that were given before.
  void Grant(SessionId s, InodeId first, uint32_t count);
  bool Has(SessionId s, InodeId ino) const;  // given, and not used
  void Used(SessionId s, InodeId ino);       // fine if it has it not
  void Drop(SessionId s);
  size_t sessions() const { return of_.size(); }

 private:
  struct Range {
    std::vector<bool> unused;
    size_t left = 0;
  };
  using Ranges = std::map<uint64_t, Range>;  // by their first number

  std::map<SessionId, Ranges> of_;
};

}  // namespace stria
