#include "meta/replica/promises.h"

#include <algorithm>
#include <limits>

#include "common/sabotage.h"

namespace stria {

Promises::Promises(int64_t now_ns) {
  given_.at_ns = Sabotaged(Sabotage::kForgetPromises) ? std::numeric_limits<int64_t>::min() / 2 : now_ns;
}

BeatAnswer Promises::OnBeat(const MetaLife& from, int64_t now_ns) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!open_) return from.term > given_.term ? BeatAnswer::kHigherTerm : BeatAnswer::kSilent;
  if (from.term < given_.term) return BeatAnswer::kLowerTerm;
  if (ended_ == from) return BeatAnswer::kSilent;  // sent before it ended
  given_.at_ns = std::max(given_.at_ns, now_ns);
  given_.over = false;
  given_.to = from;
  given_.term = from.term;
  return BeatAnswer::kPromised;
}

bool Promises::Over(const MetaLife& life) {
  std::lock_guard<std::mutex> lock(mu_);
  if (life.term >= given_.term) ended_ = life;
  if (given_.to != life || given_.over) return false;
  given_.over = true;
  return true;
}

void Promises::Open(uint64_t term) {
  std::lock_guard<std::mutex> lock(mu_);
  open_ = true;
  given_.term = std::max(given_.term, term);
}

void Promises::Close() {
  std::lock_guard<std::mutex> lock(mu_);
  open_ = false;
}

bool Promises::CloseIfSilent(int64_t now_ns, int64_t silent_ns) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!given_.over && now_ns - given_.at_ns < silent_ns) return false;
  open_ = false;
  return true;
}

bool Promises::CloseIfLastTo(const MetaLife& to) {
  std::lock_guard<std::mutex> lock(mu_);
  if (given_.to != to) return false;
  open_ = false;
  return true;
}

Promises::Given Promises::Last() const {
  std::lock_guard<std::mutex> lock(mu_);
  return given_;
}

}  // namespace stria
