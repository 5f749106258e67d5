#include "meta/session/replays.h"

#include <algorithm>

namespace stria {

void Replays::AllBegin(int64_t until_ns) {
  for (auto& [s, w] : sessions_) {
    if (w.until_ns != 0) w.until_ns = until_ns;
  }
}

void Replays::IsAt(SessionId s, uint64_t order) {
  if (const auto it = sessions_.find(s); it != sessions_.end()) it->second.next = order;
}

bool Replays::MayRepeat(SessionId s, uint64_t order, int64_t now_ns) const {
  const auto it = sessions_.find(s);
  if (it == sessions_.end() || now_ns >= it->second.until_ns) return false;
  // Unanswered changes, which have no place, come after all others.
  return order == UINT64_MAX || (it->second.next != 0 && order >= it->second.next);
}

bool Replays::AwaitsOthers(SessionId but, int64_t now_ns) const {
  return std::ranges::any_of(sessions_, [&](const auto& e) { return e.first != but && now_ns < e.second.until_ns; });
}

bool Replays::AwaitsOthersBefore(SessionId but, uint64_t order, int64_t now_ns) const {
  return std::ranges::any_of(sessions_, [&](const auto& e) {
    const Window& w = e.second;
    return e.first != but && now_ns < w.until_ns && w.next != 0 && w.next < order;
  });
}

}  // namespace stria
