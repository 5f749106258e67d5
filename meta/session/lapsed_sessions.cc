#include "meta/session/lapsed_sessions.h"

namespace stria {

void LapsedSessions::Add(SessionId s, const std::vector<Open>& open, const std::vector<FileLock>& locks, bool all) {
  Session& kept = sessions_[s];
  kept.all = all;
  for (const auto& [ino, writes] : open) {
    if (kept.open.emplace(ino, writes).second) ++opens_[ino];
  }
  for (const FileLock& l : locks) kept.locks[l.ino][{l.kind, l.owner}].Set(l.range());
}

std::vector<InodeId> LapsedSessions::Drop(SessionId s) {
  std::vector<InodeId> out;
  auto it = sessions_.find(s);
  if (it == sessions_.end()) return out;
  for (const auto& [ino, writes] : it->second.open) {
    out.push_back(ino);
    if (auto count = opens_.find(ino); --count->second == 0) opens_.erase(count);
  }
  sessions_.erase(it);
  return out;
}

std::optional<bool> LapsedSessions::OpenBy(SessionId s, InodeId ino) const {
  auto it = sessions_.find(s);
  if (it == sessions_.end()) return std::nullopt;
  auto open = it->second.open.find(ino);
  return open == it->second.open.end() ? std::nullopt : std::optional(open->second);
}

bool LapsedSessions::Has(SessionId s, const FileLock& lock) const {
  auto it = sessions_.find(s);
  if (it == sessions_.end()) return false;
  auto file = it->second.locks.find(lock.ino);
  if (file == it->second.locks.end()) return false;
  auto owner = file->second.find({lock.kind, lock.owner});
  return owner != file->second.end() && owner->second.Has(lock.range());
}

void LapsedSessions::Strike(const FileLock& lock) {
  for (auto& [s, kept] : sessions_) {
    auto file = kept.locks.find(lock.ino);
    if (file == kept.locks.end()) continue;
    for (auto& [owner, ranges] : file->second) {
      if (owner.first != lock.kind) continue;
      while (const auto range = ranges.Conflict(lock.range())) {
        ranges.Set({range->first, range->last, LockType::kNone, 0});
      }
    }
  }
}

}  // namespace stria
