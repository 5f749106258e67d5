#include "meta/coherence/notices.h"

#include <algorithm>
#include <optional>

#include "common/sabotage.h"

namespace stria {

Notices::Notices(MetaCore* core, Sessions* sessions, size_t max_interests, int64_t answer_timeout_ns, Holders holders)
    : core_(core), sessions_(sessions), answer_timeout_ns_(answer_timeout_ns), holders_(std::move(holders)),
      interests_(max_interests, [sessions](SessionId s) { return sessions->HolderOfOwner(s); }) {}

void Notices::Drop(SessionId s) {
  interests_.Drop(s);
  ForgetEvictions(s, UINT64_MAX);
}

void Notices::ForgetEvictions(SessionId s, uint64_t before) {
  const auto of = evictions_.find(s);
  if (of == evictions_.end()) return;
  while (!of->second.empty() && of->second.front().event < before) {
    const Eviction& e = of->second.front();
    auto& all = e.of_names ? evicted_names_ : evicted_attrs_;
    if (const auto it = all.find(e.ino); it != all.end()) {
      const auto newest = it->second.find(s);
      if (newest != it->second.end() && newest->second == e.event) it->second.erase(newest);
      if (it->second.empty()) all.erase(it);
    }
    of->second.pop_front();
  }
  if (of->second.empty()) evictions_.erase(of);
}

void Notices::Push(const std::vector<InterestTable::Notice>& notices, Acks* acks) {
  for (const InterestTable::Notice& n : notices) {
    if (!sessions_->table().Exists(n.session)) continue;
    const uint64_t event = sessions_->Push(n.session, n.event);
    if (event != 0 && acks != nullptr) acks->emplace_back(n.session, event);
  }
}

Task<void> Notices::WaitAcks(Acks acks, SessionId asks, InodeId ino, WaitList::For why) {
  std::optional<WaitList::Wait> wait;
  // A session that does not answer lapses, by its lease or as silent (Coherence::Tick), so this ends.
  while (!core_->HasFailed()) {
    acks.erase(std::remove_if(acks.begin(), acks.end(),
                              [&](const auto& a) { return sessions_->table().Acked(a.first, a.second); }),
               acks.end());
    if (acks.empty()) co_return;
    if (!wait) wait.emplace(&waits_, why, asks, ino, &acks);
    co_await core_->WaitProgress(core_->Now() + answer_timeout_ns_);
  }
}

Task<void> Notices::Announce(SessionId from, const Touched& touched, std::vector<InodeId> covered) {
  // `from` may keep what its reply says, and others may change it while this is announced: noted first, so that it
  // is told of that.
  if (sessions_->table().Exists(from)) {
    std::vector<InterestTable::Notice> evicted;
    for (InodeId ino : covered) interests_.NoteAttr(from, ino, &evicted);
    NoteEvictions(evicted);
  }
  Acks acks;
  const auto tell = [&](const std::vector<InterestTable::Notice>& others, Untold* untold) {
    Acks told;
    if (!Sabotaged(Sabotage::kLoseInvalidation)) Push(others, &told);
    for (const auto& [session, event] : told) (*untold)[session] = event;
    acks.insert(acks.end(), told.begin(), told.end());
  };
  std::vector<InterestTable::Notice> mine;
  const auto tell_of = [&](InodeId ino, bool data) {
    const bool is_covered = std::find(covered.begin(), covered.end(), ino) != covered.end();
    const SessionId except = is_covered ? from : SessionId();
    std::vector<InterestTable::Notice> others;
    for (auto& n : data ? interests_.DataChanged(ino, except) : interests_.AttrChanged(ino, except)) {
      (n.session == from ? mine : others).push_back(std::move(n));
    }
    tell(others, &untold_attrs_[ino]);
  };
  for (InodeId ino : touched.data) tell_of(ino, true);
  for (InodeId ino : touched.attrs) {
    if (!touched.data.count(ino)) tell_of(ino, false);
  }
  for (const auto& [dir, name] : touched.entries) tell(interests_.EntryChanged(dir, name, from), &untold_[dir]);
  Push(mine, nullptr);
  for (const auto& [dir, name] : touched.entries) {
    const auto it = evicted_names_.find(dir);
    if (it == evicted_names_.end()) continue;
    for (const auto& [session, event] : it->second) {
      if (session != from) acks.emplace_back(session, event);
    }
  }
  TellOrphaned(touched);
  if (!acks.empty()) {
    const auto& of = touched.data.empty() ? touched.attrs : touched.data;
    co_await WaitAcks(std::move(acks), from, of.empty() ? InodeId() : *of.begin(), WaitList::For::kChange);
  }
  for (const auto& [dir, name] : touched.entries) co_await WaitTold(dir);
  // Who was told by the change before this one, and has not acknowledged that, was not told again. What `from` has
  // not processed may wait for this very call.
  for (InodeId ino : touched.data) co_await WaitToldOf(ino, from, WaitList::For::kChange);
  for (InodeId ino : touched.attrs) co_await WaitToldOf(ino, from, WaitList::For::kChange);
}

void Notices::TellAndNote(InodeId ino, SessionId except) {
  Acks acks;
  Push(interests_.DataChanged(ino, except), &acks);
  for (const auto& [session, event] : acks) untold_attrs_[ino][session] = event;
}

void Notices::TellTrimmed(const Touched& touched) {
  for (InodeId ino : touched.attrs) Push(interests_.AttrChanged(ino, SessionId()), nullptr);
}

Task<void> Notices::WaitToldOf(InodeId ino, SessionId asks, WaitList::For why) {
  co_await WaitTold(&untold_attrs_, ino, asks, why);
  if (why == WaitList::For::kChange || why == WaitList::For::kOpen) co_await WaitTold(&evicted_attrs_, ino, asks, why);
}

Task<void> Notices::WaitTold(std::map<InodeId, Untold>* of, InodeId ino, SessionId except, WaitList::For why) {
  if (Sabotaged(Sabotage::kAnswerBeforeTold)) co_return;
  auto it = of->find(ino);
  if (it == of->end()) co_return;
  Acks acks(it->second.begin(), it->second.end());
  std::erase_if(acks, [&](const auto& a) { return a.first == except; });
  co_await WaitAcks(std::move(acks), except, ino, why);
  // There may be newer ones by now.
  it = of->find(ino);
  if (it == of->end()) co_return;
  std::erase_if(it->second, [this](const auto& a) { return sessions_->table().Acked(a.first, a.second); });
  if (it->second.empty()) of->erase(it);
}

void Notices::TellOrphaned(const Touched& touched) {
  for (InodeId ino : touched.orphaned) {
    for (SessionId s : holders_(ino)) {
      SessionEvent e;
      e.kind = SessionEvent::Kind::kInvalidateAttr;
      e.ino = ino;
      sessions_->Push(s, std::move(e));
    }
  }
}

void Notices::NoteEvictions(const std::vector<InterestTable::Notice>& evicted) {
  for (const InterestTable::Notice& n : evicted) {
    const bool of_names = n.event.kind == SessionEvent::Kind::kInvalidateEntry;
    if (const EventQueue* const events = sessions_->table().FindEvents(n.session)) ForgetEvictions(n.session, events->first());
    Acks acks;
    Push({n}, &acks);
    if (acks.empty()) continue;
    const uint64_t event = acks[0].second;
    evictions_[n.session].push_back({event, n.event.ino, of_names});
    (of_names ? evicted_names_ : evicted_attrs_)[n.event.ino][n.session] = event;
  }
}

bool Notices::IsBehind(SessionId s) const {
  const EventQueue* const events = s ? sessions_->table().FindEvents(s) : nullptr;
  return events != nullptr && events->size() > sessions_->max_events() / 4;
}

Task<void> Notices::WaitEvictions(SessionId s) {
  if (!s) co_return;  // it caches nothing
  while (!core_->HasFailed() && ((evictions_.contains(s) && IsBehind(s)) || IsBehind(interests_.GivesRoomTo(s)))) {
    co_await core_->WaitProgress(core_->Now() + answer_timeout_ns_);
  }
}

std::vector<SessionId> Notices::Hoarders(int64_t most_ns) const {
  std::vector<SessionId> out;
  for (const auto& [s, evicted] : evictions_) {
    const EventQueue* const events = sessions_->table().FindEvents(s);
    if (events != nullptr && IsBehind(s) && interests_.HasMoreThanItsShare(s) && events->SilentNs(core_->Now()) >= most_ns) out.push_back(s);
  }
  return out;
}

// What it was told to forget it may know until it says that it has.
bool Notices::OthersKnowNames(InodeId dir, SessionId s) const {
  if (interests_.OthersKnowNames(dir, s)) return true;
  const auto of = evicted_names_.find(dir);
  return of != evicted_names_.end() && std::ranges::any_of(of->second, [&](const auto& told) {
    return told.first != s && !sessions_->table().Acked(told.first, told.second);
  });
}

bool Notices::IsUntold(SessionId s, InodeId ino) const {
  // It may have to forget pages of any inode, this one too; until then it acknowledges nothing that comes after.
  if (auto evicted = evictions_.find(s); evicted != evictions_.end() && !sessions_->table().Acked(s, evicted->second.back().event)) return true;
  auto of = untold_attrs_.find(ino);
  if (of == untold_attrs_.end()) return false;
  auto event = of->second.find(s);
  return event != of->second.end() && !sessions_->table().Acked(s, event->second);
}

bool Notices::IsUntoldToOthers(SessionId s, InodeId ino) const {
  auto of = untold_attrs_.find(ino);
  if (of == untold_attrs_.end()) return false;
  return std::ranges::any_of(of->second, [&](const auto& told) {
    return told.first != s && !sessions_->table().Acked(told.first, told.second);
  });
}

bool Notices::HasUntoldNames(InodeId dir) const {
  auto of = untold_.find(dir);
  return of != untold_.end() && !of->second.empty();
}

}  // namespace stria
