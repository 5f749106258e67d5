#include "meta/session/lease_table.h"

#include <algorithm>

namespace stria {
namespace {

// How much a mode permits; a recall lowers it.
int Rank(LeaseMode m) {
  switch (m) {
    case LeaseMode::kNone: return 0;
    case LeaseMode::kShared: return 1;
    case LeaseMode::kRead: return 2;
    case LeaseMode::kExclusive: return 3;
  }
  return 0;
}

}  // namespace

const LeaseTable::Holder* LeaseTable::Find(SessionId s, InodeId ino) const {
  auto i = inodes_.find(ino);
  if (i == inodes_.end()) return nullptr;
  auto h = i->second.find(s);
  return h == i->second.end() ? nullptr : &h->second;
}

void LeaseTable::Demand(SessionId s, InodeId ino, Holder& h, LeaseMode to, std::vector<LeaseDemand>* out) {
  const bool pending = h.recall_event != 0 || h.recall_unpushed;
  if (pending && Rank(h.recall_to) <= Rank(to)) return;
  h.recall_to = to;
  h.recall_unpushed = true;
  out->push_back({s, ino, SessionEvent::Kind::kRecall, to});
}

void LeaseTable::EraseIfIdle(SessionId s, InodeId ino) {
  auto i = inodes_.find(ino);
  if (i == inodes_.end()) return;
  auto h = i->second.find(s);
  if (h == i->second.end() || h->second.used()) return;
  i->second.erase(h);
  if (i->second.empty()) inodes_.erase(i);
  auto b = by_session_.find(s);
  b->second.erase(ino);
  if (b->second.empty()) by_session_.erase(b);
}

LeaseTable::OpenOutcome LeaseTable::Open(SessionId s, InodeId ino, bool for_write, bool data, bool first,
                                         uint64_t call, bool shared) {
  OpenOutcome out;
  if (call != 0) {
    const auto released = released_.find({s, ino});
    out.late = released != released_.end() && call < released->second;
    if (out.late && !first) AbandonOpen(s, ino);
    if (out.late) return out;
  }
  Holders& holders = inodes_[ino];
  by_session_[s].insert(ino);
  Holder& mine = holders[s];
  if (first) ++mine.waiting;
  mine.wants_write = mine.wants_write || for_write;
  const auto grant = [&](LeaseMode mode) {
    if (mine.waiting > 0 && --mine.waiting == 0) mine.wants_write = false;
    mine.open = true;
    mine.opened_by = std::max(mine.opened_by, call);
    mine.writes = mine.writes || for_write;
    if (Rank(mode) < Rank(mine.mode)) {
      // The session acts on the higher mode until this reply arrives: believe it until it says so.
      Demand(s, ino, mine, mode, &out.demands);
    } else {
      // An answer to a recall of the former grant may still be under way; it must not lower this one.
      mine.mode = mode;
      mine.recall_event = 0;
      mine.recall_unpushed = false;
    }
    out.granted = true;
    out.mode = mode;
    return out;
  };
  if (!data) return grant(LeaseMode::kNone);

  bool others = false, other_writes = false;
  for (auto& [id, h] : holders) {
    if (id == s || !h.used()) continue;
    others = true;
    other_writes = other_writes || h.writer();
  }
  const bool i_write = mine.writes || for_write;  // not the wish of another open, which may be abandoned
  if (!others) return grant(shared ? LeaseMode::kShared : i_write ? LeaseMode::kExclusive : LeaseMode::kRead);
  if (!i_write && !other_writes) return grant(shared ? LeaseMode::kShared : LeaseMode::kRead);
  bool clear = true;
  for (auto& [id, h] : holders) {
    if (id == s || Rank(h.mode) <= Rank(LeaseMode::kShared)) continue;
    clear = false;
    Demand(id, ino, h, LeaseMode::kShared, &out.demands);
  }
  if (clear) return grant(LeaseMode::kShared);
  return out;
}

void LeaseTable::NoteReader(SessionId s, InodeId ino) {
  if (!IsOpenBy(s, ino)) return;
  inodes_[ino][s].reads = true;
}

void LeaseTable::AbandonOpen(SessionId s, InodeId ino) {
  auto i = inodes_.find(ino);
  if (i == inodes_.end()) return;
  auto h = i->second.find(s);
  if (h == i->second.end()) return;
  if (h->second.waiting > 0 && --h->second.waiting == 0) h->second.wants_write = false;
  EraseIfIdle(s, ino);
}

bool LeaseTable::Reclaim(SessionId s, InodeId ino, LeaseMode mode, bool for_write) {
  if (mode == LeaseMode::kExclusive && !for_write) mode = LeaseMode::kRead;
  auto i = inodes_.find(ino);
  if (i != inodes_.end()) {
    for (const auto& [id, h] : i->second) {
      if (id == s || !h.used()) continue;
      const bool conflict = mode == LeaseMode::kExclusive || h.mode == LeaseMode::kExclusive ||
                            (for_write && h.mode == LeaseMode::kRead) ||
                            (h.writer() && mode == LeaseMode::kRead);
      if (conflict) return false;
    }
  }
  Holder& h = inodes_[ino][s];
  by_session_[s].insert(ino);
  h.open = true;
  h.writes = h.writes || for_write;
  h.mode = mode;
  return true;
}

void LeaseTable::TakeUp(SessionId s, InodeId ino, bool for_write) {
  Holder& h = inodes_[ino][s];
  by_session_[s].insert(ino);
  h.open = true;
  h.writes = h.writes || for_write;
}

LeaseTable::Outcome LeaseTable::ClearForChange(SessionId s, InodeId ino) {
  Outcome out;
  out.clear = true;
  auto i = inodes_.find(ino);
  if (i == inodes_.end()) return out;
  for (auto& [id, h] : i->second) {
    if (id == s || Rank(h.mode) <= Rank(LeaseMode::kShared)) continue;
    out.clear = false;
    Demand(id, ino, h, LeaseMode::kShared, &out.demands);
  }
  return out;
}

SessionId LeaseTable::DirtyHolder(SessionId s, InodeId ino) const {
  auto i = inodes_.find(ino);
  if (i == inodes_.end()) return SessionId();
  for (const auto& [id, h] : i->second) {
    if (id != s && h.mode == LeaseMode::kExclusive) return id;
  }
  return SessionId();
}

void LeaseTable::NoteDemand(const LeaseDemand& d, uint64_t event) {
  auto i = inodes_.find(d.ino);
  if (i == inodes_.end()) return;
  auto h = i->second.find(d.session);
  if (h == i->second.end()) return;
  if (d.kind == SessionEvent::Kind::kFlush) {
    h->second.flushes.insert(event);
    return;
  }
  h->second.recall_event = event;
  h->second.recall_to = d.to;
  h->second.recall_unpushed = false;
}

uint64_t LeaseTable::NewestFlush(SessionId s, InodeId ino) const {
  const Holder* h = Find(s, ino);
  return h == nullptr || h->flushes.empty() ? 0 : *h->flushes.rbegin();
}

bool LeaseTable::FlushDone(SessionId s, InodeId ino, uint64_t event) const {
  const Holder* h = Find(s, ino);
  return h == nullptr || h->mode != LeaseMode::kExclusive || h->flushes.count(event) == 0;
}

bool LeaseTable::Pending(SessionId s, InodeId ino, uint64_t event) const {
  const Holder* h = Find(s, ino);
  return h != nullptr && (h->recall_event == event || h->flushes.count(event) > 0);
}

Error LeaseTable::LeaseDone(SessionId s, InodeId ino, LeaseMode now, uint64_t event, uint64_t call) {
  auto i = inodes_.find(ino);
  if (i == inodes_.end()) return Error();
  auto it = i->second.find(s);
  if (it == i->second.end()) return Error();
  Holder& h = it->second;
  if (event != 0 && h.flushes.count(event)) {
    // Everything dirty when the flush was processed is committed; earlier flushes are covered.
    h.flushes.erase(h.flushes.begin(), h.flushes.upper_bound(event));
    return Error();
  }
  if (event != 0 && event != h.recall_event) {
    if (now != LeaseMode::kNone) return Error();
    return Error(FsError::kStale, "inode " + std::to_string(ino.v) + " was granted again after the recall that is answered");
  }
  if (Rank(now) > Rank(h.mode)) {
    return Error(FsError::kBadRequest, "a lease of inode " + std::to_string(ino.v) + " cannot be raised by LeaseDone");
  }
  if (event != 0) {
    if (Rank(now) > Rank(h.recall_to)) {
      return Error(FsError::kBadRequest, "a recalled lease of inode " + std::to_string(ino.v) + " was not given back");
    }
  }
  const bool opened_since = call != 0 && call < h.opened_by;
  if (opened_since && event == 0) return Error();
  if (opened_since && Rank(now) < Rank(h.recall_to)) now = h.recall_to;
  if (now == LeaseMode::kNone) {
    Release(s, ino, call);
    return Error();
  }
  h.mode = now;
  if (h.recall_event != 0 && Rank(now) <= Rank(h.recall_to)) h.recall_event = 0;
  if (h.mode != LeaseMode::kExclusive) h.flushes.clear();
  return Error();
}

void LeaseTable::NoteRelease(SessionId s, InodeId ino, uint64_t call) {
  uint64_t& latest = released_[{s, ino}];
  if (call <= latest) return;
  latest = call;
  release_order_.emplace_back(Released{s, ino}, call);
  if (release_order_.size() <= kMaxReleases) return;
  const auto& [oldest, old_call] = release_order_.front();
  const auto it = released_.find(oldest);
  if (it != released_.end() && it->second == old_call) released_.erase(it);
  release_order_.pop_front();
}

void LeaseTable::Release(SessionId s, InodeId ino, uint64_t call) {
  if (call != 0) NoteRelease(s, ino, call);
  auto i = inodes_.find(ino);
  if (i == inodes_.end()) return;
  auto it = i->second.find(s);
  if (it == i->second.end()) return;
  Holder& h = it->second;
  if (call != 0 && call < h.opened_by) return;
  h.open = h.reads = h.writes = h.recall_unpushed = false;
  h.mode = LeaseMode::kNone;
  h.recall_event = 0;
  h.flushes.clear();
  EraseIfIdle(s, ino);
}

std::vector<InodeId> LeaseTable::Drop(SessionId s) {
  auto b = by_session_.find(s);
  if (b == by_session_.end()) return {};
  std::vector<InodeId> out(b->second.begin(), b->second.end());
  for (InodeId ino : out) {
    Holders& holders = inodes_[ino];
    holders.erase(s);
    if (holders.empty()) inodes_.erase(ino);
  }
  by_session_.erase(s);
  return out;
}

LeaseMode LeaseTable::ModeOf(SessionId s, InodeId ino) const {
  const Holder* h = Find(s, ino);
  return h == nullptr ? LeaseMode::kNone : h->mode;
}
bool LeaseTable::IsOpen(InodeId ino) const { return inodes_.count(ino) > 0; }
bool LeaseTable::IsOpenBy(SessionId s, InodeId ino) const {
  const Holder* h = Find(s, ino);
  return h != nullptr && h->open;
}
bool LeaseTable::IsReader(SessionId s, InodeId ino) const {
  const Holder* h = Find(s, ino);
  return h != nullptr && h->open && h->reads;
}
bool LeaseTable::IsWriter(SessionId s, InodeId ino) const {
  const Holder* h = Find(s, ino);
  return h != nullptr && h->open && h->writes;
}

std::vector<std::pair<InodeId, bool>> LeaseTable::OpenBy(SessionId s) const {
  std::vector<std::pair<InodeId, bool>> out;
  auto mine = by_session_.find(s);
  if (mine == by_session_.end()) return out;
  for (const InodeId ino : mine->second) {
    if (IsOpenBy(s, ino)) out.emplace_back(ino, IsWriter(s, ino));
  }
  return out;
}

std::vector<SessionId> LeaseTable::HoldersExcept(SessionId s, InodeId ino) const {
  std::vector<SessionId> out;
  auto i = inodes_.find(ino);
  if (i == inodes_.end()) return out;
  for (const auto& [id, h] : i->second) {
    if (id != s && h.mode != LeaseMode::kNone) out.push_back(id);
  }
  return out;
}

std::vector<LeaseTable::Unanswered> LeaseTable::Demanded() const {
  std::vector<Unanswered> out;
  for (const auto& [ino, holders] : inodes_) {
    for (const auto& [s, h] : holders) {
      if (h.recall_event != 0) out.push_back({s, ino, true, h.recall_event});
      for (const uint64_t event : h.flushes) out.push_back({s, ino, false, event});
    }
  }
  return out;
}

std::vector<std::string> LeaseTable::Waits() const {
  std::vector<std::string> out;
  for (const auto& [ino, holders] : inodes_) {
    for (const auto& [s, h] : holders) {
      const std::string who = "session " + std::to_string(s.v) + ", inode " + std::to_string(ino.v) + ": ";
      if (h.recall_event != 0) out.push_back(who + "recalled by event " + std::to_string(h.recall_event));
      if (!h.flushes.empty()) out.push_back(who + "to be flushed by event " + std::to_string(*h.flushes.rbegin()));
      if (h.waiting > 0) out.push_back(who + std::to_string(h.waiting) + " opens wait" + (h.wants_write ? " to write" : " to read"));
    }
  }
  return out;
}

std::string LeaseTable::CheckInvariants() const {
  for (const auto& [ino, holders] : inodes_) {
    for (const auto& [a, ha] : holders) {
      const std::string who = "inode " + std::to_string(ino.v) + ", session " + std::to_string(a.v);
      if (ha.mode == LeaseMode::kExclusive && !ha.writes) return who + ": exclusive without writing";
      for (const auto& [b, hb] : holders) {
        if (a == b) continue;
        if (ha.mode == LeaseMode::kExclusive && hb.mode != LeaseMode::kNone) return who + ": exclusive, not alone";
        const bool caches = hb.mode == LeaseMode::kRead || hb.mode == LeaseMode::kExclusive;
        if (ha.mode == LeaseMode::kShared && ha.writes && caches) {
          return who + ": writes while another caches";
        }
      }
    }
  }
  return "";
}

}  // namespace stria
