#include "client/session/seals.h"

#include <algorithm>

#include "common/check.h"

namespace stria {

Seals::Seals(InUse in_use, size_t kept, size_t most) : in_use_(std::move(in_use)), kept_(kept), most_(most) {
  CHECK(most_ > kMostRoots && kept_ <= most_);
}

void Seals::Keep(const InodeSeal& seal, bool stays) {
  const auto [it, is_new] = places_.try_emplace(seal.ino, slots_.size());
  if (is_new) slots_.emplace_back();
  Slot& slot = slots_[it->second];
  slot.seal = seal;  // a later one counts: the export may have another key by now
  slot.used = true;
  if (stays && !slot.stays && roots_ < kMostRoots) {
    slot.stays = true;
    ++roots_;
  }
  if (is_new) Trim();
}

void Seals::Add(InodeId ino, std::vector<InodeSeal>* to) {
  const auto it = places_.find(ino);
  if (it == places_.end() || to->size() >= kMaxRequestSeals) return;
  Slot& slot = slots_[it->second];
  slot.used = true;
  if (std::find(to->begin(), to->end(), slot.seal) == to->end()) to->push_back(slot.seal);
}

// Beyond most_ each look takes back the mark of a use or finds what goes, but for the few that stay: there are hardly more looks than uses.
void Seals::Trim() {
  if (hand_ + 1 == slots_.size()) hand_ = 0;  // there is what has just come
  for (int looks = 0; slots_.size() > most_ || (looks < kLooks && slots_.size() > kept_); ++looks) {
    if (hand_ >= slots_.size()) hand_ = 0;
    Slot& slot = slots_[hand_];
    if (slot.stays || std::exchange(slot.used, false) || (slots_.size() <= most_ && in_use_(slot.seal.ino))) {
      ++hand_;
    } else {
      DropAtHand();
    }
  }
}

void Seals::DropAtHand() {
  places_.erase(slots_[hand_].seal.ino);
  if (hand_ + 1 != slots_.size()) {
    slots_[hand_] = slots_.back();
    places_[slots_[hand_].seal.ino] = hand_;
  }
  slots_.pop_back();
}

}  // namespace stria
