#include "server/background_share.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace stria {

double BackgroundShare::SavedAt(int64_t now_ns) const {
  const double grown = saved_ + static_cast<double>(now_ns - saved_ns_) *
                                    static_cast<double>(options_.floor_bytes_per_s) / static_cast<double>(kSecond);
  return std::min(grown, static_cast<double>(options_.max_saved_bytes));
}

void BackgroundShare::ForegroundBegan(int64_t now_ns) {
  if (!InUse(now_ns)) {  // work done while the node was not in use does not count
    saved_ = 0;
    saved_ns_ = now_ns;
  }
  ++foreground_;
}

void BackgroundShare::ForegroundEnded(uint64_t bytes, int64_t now_ns) {
  const double earned = static_cast<double>(bytes) * options_.percent / (100.0 - options_.percent);
  saved_ = std::min(SavedAt(now_ns) + earned, static_cast<double>(options_.max_saved_bytes));
  saved_ns_ = now_ns;
  --foreground_;
  quiet_at_ns_ = now_ns + options_.quiet_ns;
}

int64_t BackgroundShare::MayBeginAt(int64_t now_ns) const {
  const auto hung = pieces_.upper_bound(now_ns - options_.max_piece_ns);
  const auto counted = static_cast<size_t>(std::distance(hung, pieces_.end()));
  if (counted >= options_.pieces) return *hung + options_.max_piece_ns;
  const double saved = SavedAt(now_ns);
  if (!InUse(now_ns) || saved >= 0) return now_ns;
  const double wait_ns = -saved * static_cast<double>(kSecond) / static_cast<double>(options_.floor_bytes_per_s);
  const int64_t at = now_ns + static_cast<int64_t>(std::ceil(wait_ns));
  return std::max(now_ns + 1, foreground_ > 0 ? at : std::min(at, quiet_at_ns_));
}

void BackgroundShare::BackgroundBegan(uint64_t bytes, int64_t now_ns) {
  pieces_.insert(now_ns);
  saved_ = SavedAt(now_ns) - static_cast<double>(bytes);
  saved_ns_ = now_ns;
}

void BackgroundShare::BackgroundEnded(int64_t began_ns) { pieces_.erase(pieces_.find(began_ns)); }

}  // namespace stria
