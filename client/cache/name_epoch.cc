#include "client/cache/name_epoch.h"

#include <algorithm>

namespace stria {

void NameEpoch::Listed(InodeId dir) {
  last_listed_ns_ = Executor::Current().NowNs();
  listed_[dir] = last_listed_ns_;
  if (listed_.size() < look_at_) return;
  std::erase_if(listed_, [this](const auto& l) { return l.second + kEnteredNs < last_listed_ns_; });
  look_at_ = std::max<size_t>(64, 2 * listed_.size());
}

Task<void> NameEpoch::Forget(InodeId in) {
  raise_();
  auto it = listed_.find(in);
  const int64_t last_ns = !in ? last_listed_ns_ : it != listed_.end() ? it->second : INT64_MIN / 2;
  const int64_t left_ns = last_ns + kEnteredNs - Executor::Current().NowNs();
  if (left_ns <= 0) co_return;
  co_await Sleep(left_ns);
  raise_();
}

}  // namespace stria
