// Changes that sessions repeat after a restart of the server: those that were answered, and that the restart lost. Each session
// has a window for that, and says of which place (OpHeader::replay_order) its next one is. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <map>

#include "common/ids.h"

namespace stria {

class Replays {
 public:
  // The place of the session's first change that it repeats; 0: there is none.
  void Announce(SessionId s, uint64_t next) { sessions_[s].next = next; }
  void Begin(SessionId s, int64_t until_ns) { sessions_[s].until_ns = until_ns; }
  // All have reclaimed, or are gone: only now what was announced is repeated, and has its time from now on.
  void AllBegin(int64_t until_ns);
  // It has repeated all before this one; 0: all. Fine if the session is not known.
  void IsAt(SessionId s, uint64_t order);
  // It repeats nothing any more.
  void End(SessionId s) { sessions_.erase(s); }

  // Whether the session may still repeat a change of this place: in its window, and only in order of places.
  bool MayRepeat(SessionId s, uint64_t order, int64_t now_ns) const;
  // True while sessions other than `but` may still repeat changes.
  bool AwaitsOthers(SessionId but, int64_t now_ns) const;
  // The same for those that come before `order`.
  bool AwaitsOthersBefore(SessionId but, uint64_t order, int64_t now_ns) const;

 private:
  struct Window {
    int64_t until_ns = 0;  // 0: it has not begun
    uint64_t next = 0;
  };
  std::map<SessionId, Window> sessions_;
};

}  // namespace stria
