#include "meta/events/event_teller.h"

#include <algorithm>
#include <set>
#include <utility>

namespace stria {

void EventTeller::Load(ToldStates told, uint64_t next_seq) {
  told_ = std::move(told);
  next_seq_ = std::max<uint64_t>(next_seq, 1);
  watched_.clear();
}

EventTeller::Step EventTeller::Look(const Judgement& now_is, bool adopt, int64_t now_ns, int64_t wall_ns) {
  Step step;
  for (const Judged& j : now_is.items) {
    if (step.changes_full() || step.events_full()) step.more = true;
    // What is quiet is about a subject whose event may be put off: it is not told when that was.
    if (step.changes_full()) break;
    if (step.events_full() && !j.quiet) continue;
    LookAt(j, adopt, now_ns, wall_ns, &step);
  }
  // What is well again before it was told is not among the items.
  std::set<EventKey> judged;
  for (const Judged& j : now_is.items) {
    if (watched_.contains(j.key)) judged.insert(j.key);
  }
  for (auto& [key, watch] : watched_) {
    if (!judged.contains(key) && !told_.contains(key)) Settle(0, now_ns, &watch, &step);
  }
  for (const EventKey& key : now_is.gone) {
    if (step.changes_full()) {
      step.more = true;
      break;
    }
    watched_.erase(key);
    Forget(key, &step);
  }
  std::erase_if(watched_, [&](const auto& w) {
    const auto told = told_.find(w.first);
    const uint8_t level = told == told_.end() ? 0 : told->second.level;
    return !w.second.kept_back && w.second.seen == level && now_ns - std::max(w.second.told_ns, w.second.since_ns) >= kBurstNs;
  });
  return step;
}

void EventTeller::LookAt(const Judged& j, bool adopt, int64_t now_ns, int64_t wall_ns, Step* step) {
  const auto it = told_.find(j.key);
  ToldState told = it == told_.end() ? ToldState() : it->second;
  if (j.level == told.level && !watched_.contains(j.key)) return;
  auto [w, is_new] = watched_.try_emplace(j.key);
  Watch& watch = w->second;
  if (is_new) watch = {told.level, now_ns, 0, now_ns - kBurstNs, told.seq, false};
  if (j.level == told.level) return Settle(j.level, now_ns, &watch, step);
  if (watch.seen != j.level) {
    watch.seen = j.level;
    watch.since_ns = now_ns;
  }
  const int64_t so_for_ns = now_ns - watch.since_ns;
  if (j.level > 0 && j.level < told.level) {
    if (so_for_ns < kLowerNs) return;
    told.level = j.level;
    return Set(j.key, told, step);
  }
  if (so_for_ns < j.hold_ns) return;
  const bool in_burst = watch.burst > 0 && now_ns - watch.told_ns < kBurstNs;
  if (in_burst && watch.burst >= 2) {
    const int64_t longer = std::min(kBurstHoldNs << std::min<uint32_t>(watch.burst - 2, 10), kMostHoldNs);
    if (so_for_ns < longer) {
      watch.kept_back = true;
      return;
    }
  }
  watch.kept_back = false;
  told.level = j.level;
  const bool member = j.key.track == EventTrack::kNodeMember || j.key.track == EventTrack::kDiskMember || j.key.track == EventTrack::kMetaMember;
  if (!j.quiet && !(adopt && member)) {
    watch.burst = in_burst ? watch.burst + 1 : 1;
    watch.told_ns = now_ns;
    told.seq = watch.seq = next_seq_++;
    step->events.push_back({told.seq, wall_ns, j.kind, j.severity, j.key.subject, j.text, j.action, 1, wall_ns});
  }
  if (j.level == 0) return Forget(j.key, step);
  Set(j.key, told, step);
  if (!j.alone) return;
  std::vector<EventKey> others;
  for (const auto& [key, state] : told_) {
    if (key.track == j.key.track && key.subject != j.key.subject) others.push_back(key);
  }
  for (const EventKey& key : others) Forget(key, step);
}

void EventTeller::Settle(uint8_t level, int64_t now_ns, Watch* watch, Step* step) {
  if (watch->seen != level) {
    watch->seen = level;
    watch->since_ns = now_ns;
  }
  if (!watch->kept_back) return;
  if (step->counted.size() >= kMaxCountedAtOnce) {
    step->more = true;  // it is counted with the next look
    return;
  }
  watch->kept_back = false;
  if (watch->seq != 0) step->counted.push_back(watch->seq);
}

void EventTeller::Set(const EventKey& key, const ToldState& state, Step* step) {
  told_[key] = state;
  step->changed[key] = state;
}

void EventTeller::Forget(const EventKey& key, Step* step) {
  told_.erase(key);
  step->forgotten.push_back(key);
}

}  // namespace stria
