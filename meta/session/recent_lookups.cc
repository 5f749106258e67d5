#include "meta/session/recent_lookups.h"

namespace stria {

void RecentLookups::Note(SessionId s, InodeId ino, int64_t now_ns) {
  Latest& l = latest_[ino];
  if (l.first.session != s) l.second = std::exchange(l.first, Seen{s, now_ns});
  l.first.at_ns = now_ns;
  order_.emplace_back(ino, now_ns);
  while (order_.size() > kMaxLookups || now_ns - order_.front().second > kKeepNs) {
    const auto [oldest, at_ns] = order_.front();
    order_.pop_front();
    // A later lookup of it has an entry of its own.
    if (const auto it = latest_.find(oldest); it != latest_.end() && it->second.first.at_ns == at_ns) latest_.erase(it);
  }
}

bool RecentLookups::ByAnother(SessionId s, InodeId ino, int64_t now_ns) const {
  const auto it = latest_.find(ino);
  if (it == latest_.end()) return false;
  const Seen& seen = it->second.first.session != s ? it->second.first : it->second.second;
  return seen.session && now_ns - seen.at_ns <= kKeepNs;
}

}  // namespace stria
