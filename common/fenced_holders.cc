#include "common/fenced_holders.h"

#include <algorithm>

namespace stria {
namespace {

int64_t OverAt(const FencedHolder& f) { return std::max(f.writes_until_s, f.others_until_s); }

}  // namespace

void FencedHolders::Note(const FencedHolder& f) {
  if (f.holder == 0) return;
  FencedHolder& known = fenced_[f.holder];
  known.holder = f.holder;
  known.writes_until_s = std::max(known.writes_until_s, f.writes_until_s);
  known.others_until_s = std::max(known.others_until_s, f.others_until_s);
  if (fenced_.size() <= max_) return;
  fenced_.erase(std::ranges::min_element(fenced_, {}, [](const auto& e) { return OverAt(e.second); }));
}

void FencedHolders::Forget(int64_t now_s) {
  std::erase_if(fenced_, [now_s](const auto& e) { return OverAt(e.second) < now_s; });
}

bool FencedHolders::Has(uint64_t holder, bool writes, int64_t expiry_s) const {
  const auto f = fenced_.find(holder);
  return f != fenced_.end() && expiry_s <= (writes ? f->second.writes_until_s : f->second.others_until_s);
}

std::vector<FencedHolder> FencedHolders::All() const {
  std::vector<FencedHolder> out;
  for (const auto& [holder, f] : fenced_) out.push_back(f);
  return out;
}

}  // namespace stria
