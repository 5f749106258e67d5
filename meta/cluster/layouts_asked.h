// Layouts that clients lately asked for stripes of: status says what new stripes of these can have. One entry for each name
// that people know a layout by (RoomName); at most kMaxLayouts, the one not asked for longest goes first. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stripe/stripe_form.h"

namespace stria {

class LayoutsAsked {
 public:
  static constexpr size_t kMaxLayouts = 64;

  void Note(const Layout& layout, int64_t now_ns) {
    last_.insert_or_assign(RoomName(layout), std::pair(layout, now_ns));
    if (last_.size() <= kMaxLayouts) return;
    auto oldest = last_.begin();
    for (auto it = last_.begin(); it != last_.end(); ++it) {
      if (it->second.second < oldest->second.second) oldest = it;
    }
    last_.erase(oldest);
  }
  // By name, those asked for at `since_ns` or later.
  std::map<std::string, Layout> Since(int64_t since_ns) const {
    std::map<std::string, Layout> out;
    for (const auto& [name, asked] : last_) {
      if (asked.second >= since_ns) out.emplace(name, asked.first);
    }
    return out;
  }

 private:
  std::map<std::string, std::pair<Layout, int64_t>> last_;
};

}  // namespace stria
