#include "client/cache/extent_budget.h"

#include "client/cache/extent_cache.h"

namespace stria {

void ExtentBudget::MakeRoom(ExtentCache* asking) {
  for (auto it = order_.end(); bytes_ > limit_bytes_ && it != order_.begin();) {
    ExtentCache* const oldest = *--it;
    if (oldest == asking) continue;
    oldest->Clear();  // it leaves order_
    it = order_.end();
  }
  if (asking->bytes() > limit_bytes_ / 2) asking->Clear();
}

void ExtentBudget::Count(ExtentCache* cache, uint64_t before, uint64_t now) {
  bytes_ += now - before;
  if (before == 0 && now > 0) {
    order_.push_front(cache);
    cache->place_ = order_.begin();
  } else if (before > 0 && now == 0) {
    order_.erase(cache->place_);
  }
}

void ExtentBudget::Used(ExtentCache* cache) {
  if (cache->bytes() > 0) order_.splice(order_.begin(), order_, cache->place_);
}

}  // namespace stria
