#include "meta/session/lock_table.h"

#include <algorithm>
#include <iterator>

#include "common/check.h"

namespace stria {
namespace {

// Owners looked at in search of a deadlock; a longer chain is taken for none.
constexpr size_t kMaxDeadlockSearch = 10'000;

FileLock LockOf(InodeId ino, LockKind kind, uint64_t owner, const LockRange& r) {
  return {ino, kind, owner, r.type, r.first, r.last, r.pid};
}

}  // namespace

std::optional<LockTable::Found> LockTable::HeldAgainst(const File& f, const Owner& o, const LockRange& r) const {
  for (const auto& [holder, ranges] : f.held) {
    if (holder == o || holder.kind != o.kind) continue;
    if (const auto range = ranges.Conflict(r)) return Found{holder, *range};
  }
  return std::nullopt;
}

bool LockTable::Holds(const Owner& o) const {
  auto it = uses_.find(o);
  return it != uses_.end() && !it->second.holds.empty();
}

bool LockTable::BehindOthers(const File& f, const Owner& o, const LockRange& r,
                             std::list<Waiter>::const_iterator until) const {
  if (Holds(o)) return false;
  for (auto it = f.line.begin(); it != until; ++it) {
    const bool against = it->owner != o && it->owner.kind == o.kind;
    if (against && Overlap(it->range, r) && Excludes(it->range.type, r.type)) return true;
  }
  return false;
}

// Only held locks count: an owner that waits in line holds nothing, so no other owner waits for it.
bool LockTable::WouldDeadlock(const Owner& o, InodeId ino, const LockRange& r) const {
  std::set<Owner> seen;
  std::vector<Owner> next;
  const auto follow = [&](InodeId file, const Owner& who, const LockRange& range) {
    for (const auto& [holder, ranges] : files_.at(file).held) {
      if (holder == who || holder.kind != who.kind || !ranges.Conflict(range)) continue;
      if (seen.insert(holder).second) next.push_back(holder);
    }
  };
  follow(ino, o, r);
  while (!next.empty() && seen.size() <= kMaxDeadlockSearch) {
    const Owner who = next.back();
    next.pop_back();
    if (who == o) return true;
    auto use = uses_.find(who);
    if (use == uses_.end()) continue;
    for (const auto& [file, waits] : use->second.waits) {
      for (const Waiter& w : files_.at(file).line) {
        if (w.owner == who) follow(file, who, w.range);
      }
    }
  }
  return false;
}

void LockTable::SetHeld(const Owner& o, InodeId ino, const LockRange& r, bool keep) {
  File& f = files_[ino];
  LockRanges& mine = f.held[o];
  Count& count = counts_[o.session];
  count.ranges -= mine.size();
  if (keep) mine.Strengthen(r);
  else mine.Set(r);
  count.ranges += mine.size();
  if (mine.empty()) {
    f.held.erase(o);
    if (auto use = uses_.find(o); use != uses_.end()) use->second.holds.erase(ino);
    EraseIfIdle(o);
  } else {
    uses_[o].holds.insert(ino);
  }
}

LockTable::Answer LockTable::Ask(SessionId s, const FileLock& lock, uint64_t ticket, bool keep) {
  CHECK(lock.type != LockType::kNone && lock.first <= lock.last);
  const Owner o = OwnerOf(s, lock);
  const LockRange range = lock.range();
  Answer a;
  File& f = files_[lock.ino];
  bool gave_up = false;
  auto waiter = ticket ? FindWaiter(f, s, ticket) : f.line.end();
  if (o.kind == LockKind::kFlock) {
    auto mine = f.held.find(o);
    if (mine != f.held.end() && !mine->second.Has(range)) {
      SetHeld(o, lock.ino, {0, kLockToEnd, LockType::kNone, 0});
      gave_up = true;
    }
  }
  const auto found = HeldAgainst(f, o, range);
  if (!found && (ticket == 0 || !BehindOthers(f, o, range, waiter))) {
    // One range can become two more; and there may be a new one on each side of all that are kept.
    size_t more = 2;
    if (auto mine = f.held.find(o); keep && mine != f.held.end()) more = std::max(more, mine->second.size() + 1);
    if (counts_[s].ranges + more > kMaxLocksPerSession) {
      a.outcome = Outcome::kTooMany;
    } else {
      if (waiter != f.line.end()) EraseWaiter(f, lock.ino, waiter);
      SetHeld(o, lock.ino, range, keep);
    }
    Tell(lock.ino, &a.notices);  // less may be held than before, and fewer stand in line
    // As it holds something now, its other threads need not get behind others any more.
    if (auto use = uses_.find(o); use != uses_.end()) {
      for (const auto& [ino, n] : use->second.waits) Tell(ino, &a.notices);
    }
    EraseIfIdle(lock.ino);
    return a;
  }
  if (found) {
    a.conflict = LockOf(lock.ino, found->owner.kind, found->owner.owner, found->range);
    a.holder = found->owner.session;
  }
  a.outcome = Outcome::kConflict;
  if (ticket == 0) {
    if (gave_up) Tell(lock.ino, &a.notices);
    return a;
  }
  if (o.kind == LockKind::kPosix && WouldDeadlock(o, lock.ino, range)) {
    if (waiter != f.line.end()) EraseWaiter(f, lock.ino, waiter);
    Tell(lock.ino, &a.notices);
    a.outcome = Outcome::kDeadlock;
    return a;
  }
  a.outcome = Outcome::kWaits;
  if (waiter != f.line.end()) {
    waiter->told = false;
  } else if (counts_[s].waits >= kMaxLockWaitsPerSession) {
    a.outcome = Outcome::kTooMany;
  } else {
    f.line.push_back({o, ticket, range, false});
    ++counts_[s].waits;
    ++uses_[o].waits[lock.ino];
  }
  if (gave_up) Tell(lock.ino, &a.notices);
  return a;
}

LockTable::Answer LockTable::Try(SessionId s, const FileLock& lock, bool keep) { return Ask(s, lock, 0, keep); }

LockTable::Answer LockTable::Wait(SessionId s, const FileLock& lock, uint64_t ticket, bool keep) {
  CHECK(ticket != 0);
  return Ask(s, lock, ticket, keep);
}

LockTable::Answer LockTable::Test(SessionId s, const FileLock& lock) const {
  CHECK(lock.type != LockType::kNone && lock.first <= lock.last);
  Answer a;
  auto f = files_.find(lock.ino);
  if (f == files_.end()) return a;
  if (const auto found = HeldAgainst(f->second, OwnerOf(s, lock), lock.range())) {
    a.outcome = Outcome::kConflict;
    a.conflict = LockOf(lock.ino, found->owner.kind, found->owner.owner, found->range);
    a.holder = found->owner.session;
  }
  return a;
}

std::vector<LockNotice> LockTable::Unlock(SessionId s, const FileLock& lock) {
  std::vector<LockNotice> out;
  auto f = files_.find(lock.ino);
  const Owner o = OwnerOf(s, lock);
  if (f == files_.end() || f->second.held.count(o) == 0) return out;
  SetHeld(o, lock.ino, {lock.first, lock.last, LockType::kNone, 0});
  Tell(lock.ino, &out);
  EraseIfIdle(lock.ino);
  return out;
}

std::vector<LockNotice> LockTable::Withdraw(SessionId s, InodeId ino, uint64_t ticket) {
  std::vector<LockNotice> out;
  auto f = files_.find(ino);
  if (f == files_.end()) return out;
  auto waiter = FindWaiter(f->second, s, ticket);
  if (waiter == f->second.line.end()) return out;
  EraseWaiter(f->second, ino, waiter);
  Tell(ino, &out);
  EraseIfIdle(ino);
  return out;
}

bool LockTable::Reclaim(SessionId s, const FileLock& lock) {
  CHECK(lock.type != LockType::kNone && lock.first <= lock.last);
  const Owner o = OwnerOf(s, lock);
  if (auto f = files_.find(lock.ino); f != files_.end() && HeldAgainst(f->second, o, lock.range())) return false;
  SetHeld(o, lock.ino, lock.range());
  return true;
}

std::vector<LockNotice> LockTable::Drop(SessionId s) {
  std::set<InodeId> files;
  for (auto it = uses_.lower_bound(Owner{s, LockKind{}, 0}); it != uses_.end() && it->first.session == s;) {
    const Owner o = it->first;
    const Use use = it->second;
    it = uses_.erase(it);
    for (InodeId ino : use.holds) {
      files_.at(ino).held.erase(o);
      files.insert(ino);
    }
    for (const auto& [ino, n] : use.waits) {
      files_.at(ino).line.remove_if([&](const Waiter& w) { return w.owner == o; });
      files.insert(ino);
    }
  }
  counts_.erase(s);
  std::vector<LockNotice> out;
  for (InodeId ino : files) {
    Tell(ino, &out);
    EraseIfIdle(ino);
  }
  return out;
}

void LockTable::Tell(InodeId ino, std::vector<LockNotice>* out) {
  File& f = files_.at(ino);
  for (auto it = f.line.begin(); it != f.line.end(); ++it) {
    if (it->told || HeldAgainst(f, it->owner, it->range) || BehindOthers(f, it->owner, it->range, it)) continue;
    it->told = true;
    out->push_back({it->owner.session, ino, it->ticket});
  }
}

std::list<LockTable::Waiter>::iterator LockTable::FindWaiter(File& f, SessionId s, uint64_t ticket) {
  auto it = f.line.begin();
  while (it != f.line.end() && !(it->owner.session == s && it->ticket == ticket)) ++it;
  return it;
}

void LockTable::EraseWaiter(File& f, InodeId ino, std::list<Waiter>::iterator it) {
  const Owner o = it->owner;
  f.line.erase(it);
  --counts_[o.session].waits;
  auto use = uses_.find(o);
  if (--use->second.waits[ino] == 0) use->second.waits.erase(ino);
  EraseIfIdle(o);
}

void LockTable::EraseIfIdle(InodeId ino) {
  auto f = files_.find(ino);
  if (f != files_.end() && f->second.held.empty() && f->second.line.empty()) files_.erase(f);
}

void LockTable::EraseIfIdle(const Owner& o) {
  auto use = uses_.find(o);
  if (use != uses_.end() && use->second.holds.empty() && use->second.waits.empty()) uses_.erase(use);
  auto count = counts_.find(o.session);
  if (count != counts_.end() && count->second.ranges == 0 && count->second.waits == 0) counts_.erase(count);
}

std::vector<FileLock> LockTable::LocksOf(SessionId s) const {
  std::vector<FileLock> out;
  for (auto it = uses_.lower_bound(Owner{s, LockKind{}, 0}); it != uses_.end() && it->first.session == s; ++it) {
    for (InodeId ino : it->second.holds) {
      for (const LockRange& r : files_.at(ino).held.at(it->first).All()) {
        out.push_back(LockOf(ino, it->first.kind, it->first.owner, r));
      }
    }
  }
  return out;
}

size_t LockTable::waits() const {
  size_t n = 0;
  for (const auto& [ino, f] : files_) n += f.line.size();
  return n;
}

std::string LockTable::CheckInvariants() const {
  std::map<SessionId, Count> counts;
  for (const auto& [ino, f] : files_) {
    const std::string where = "inode " + std::to_string(ino.v) + ": ";
    if (f.held.empty() && f.line.empty()) return where + "is kept for nothing";
    for (const auto& [o, ranges] : f.held) {
      if (ranges.empty()) return where + "an owner is kept that holds nothing";
      counts[o.session].ranges += ranges.size();
      auto use = uses_.find(o);
      if (use == uses_.end() || use->second.holds.count(ino) == 0) return where + "a holder is not in the index";
      for (const LockRange& r : ranges.All()) {
        if (HeldAgainst(f, o, r)) return where + "two owners hold what excludes each other";
      }
    }
    for (auto it = f.line.begin(); it != f.line.end(); ++it) {
      ++counts[it->owner.session].waits;
      auto use = uses_.find(it->owner);
      if (use == uses_.end() || use->second.waits.count(ino) == 0) return where + "a waiter is not in the index";
      if (!it->told && !HeldAgainst(f, it->owner, it->range) && !BehindOthers(f, it->owner, it->range, it)) {
        return where + "a waiter could have its lock";
      }
    }
  }
  for (const auto& [o, use] : uses_) {
    if (use.holds.empty() && use.waits.empty()) return "the index has an owner that does nothing";
    for (InodeId ino : use.holds) {
      if (files_.count(ino) == 0 || files_.at(ino).held.count(o) == 0) return "the index has a holder too many";
    }
    for (const auto& [ino, n] : use.waits) {
      size_t real = 0;
      if (auto f = files_.find(ino); f != files_.end()) {
        for (const Waiter& w : f->second.line) real += w.owner == o;
      }
      if (real != n) return "the index has a wrong number of waits";
    }
  }
  for (const auto& [s, c] : counts_) {
    const Count real = counts.count(s) ? counts.at(s) : Count{};
    if (real.ranges != c.ranges || real.waits != c.waits) return "a session's locks are counted wrong";
  }
  return "";
}

}  // namespace stria
