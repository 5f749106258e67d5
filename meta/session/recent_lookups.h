// Which inodes lookups gave to which session just now. Between a lookup and the open (or readlink, chmod ...) that follows,
// another session may remove the last name. A local filesystem still has the inode then. So such an inode is not freed at once
// but becomes an orphan for kKeepNs, and the session that looked it up finds it. Without that, ESTALE would reach programs
// where names are replaced often (rename over a file that is read): a kernel looks up again after the first ESTALE only.
//
// An inode that a session both looked up and removed itself is not kept: rm does nothing else. Bounded: beyond kMaxLookups in
// that time the oldest are forgotten. A pure state machine. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>

#include "common/ids.h"
#include "common/units.h"

namespace stria {

class RecentLookups {
 public:
  static constexpr int64_t kKeepNs = 2 * kSecond;
  static constexpr size_t kMaxLookups = 16 * 1024;

  // `now_ns` never falls.
  void Note(SessionId s, InodeId ino, int64_t now_ns);
  // Has a session other than `s` (0: any) looked it up in the last kKeepNs?
  bool ByAnother(SessionId s, InodeId ino, int64_t now_ns) const;
  size_t size() const { return order_.size(); }

 private:
  struct Seen {
    SessionId session;
    int64_t at_ns = 0;
  };
  // The latest, and the latest of another session than that: one of them is of another than any.
  struct Latest {
    Seen first, second;
  };

  std::unordered_map<InodeId, Latest> latest_;
  std::deque<std::pair<InodeId, int64_t>> order_;  // oldest first
};

}  // namespace stria
