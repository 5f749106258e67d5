// Open files and locks of sessions that have lapsed, kept for their return. They block no other session: another session gets
// its lock or lease at once, and the table remembers only that it did.
//
// - An open inode stays open in one sense: it is not freed when it loses its last name.
// - A lock is struck out for good by the first lock of another session that it would have excluded, even if that is unlocked
//   before the session comes back: the other session may have changed what the lock guards.
// - Leases are not kept. The session forgets its caches; the versions of files tell whether others changed the bytes that it
//   had yet to write (CommitRequest::only_known).
//
// In memory only. A session that had lapsed before a restart of the server gets its files back, because no record forbids it,
// but no lock.
//
// A pure state machine. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "api/types.h"
#include "common/ids.h"
#include "common/lock_ranges.h"

namespace stria {

class LapsedSessions {
 public:
  using Open = std::pair<InodeId, bool>;  // for writing

  // `all`: it had nothing else open.
  void Add(SessionId s, const std::vector<Open>& open, const std::vector<FileLock>& locks, bool all = true);
  // Forgets it; the inodes that it had open.
  std::vector<InodeId> Drop(SessionId s);

  // Whether what it had open is known here.
  bool Knows(SessionId s) const {
    const auto it = sessions_.find(s);
    return it != sessions_.end() && it->second.all;
  }
  bool IsOpen(InodeId ino) const { return opens_.contains(ino); }  // by any of them
  // nullopt: not open; else whether for writing.
  std::optional<bool> OpenBy(SessionId s, InodeId ino) const;
  // All of its locks; no other session has had one that they exclude.
  bool Has(SessionId s, const FileLock& lock) const;
  // A session was given this lock.
  void Strike(const FileLock& lock);
  size_t sessions() const { return sessions_.size(); }

 private:
  using Owner = std::pair<LockKind, uint64_t>;
  struct Session {
    bool all = true;
    std::map<InodeId, bool> open;
    std::map<InodeId, std::map<Owner, LockRanges>> locks;
  };
  std::map<SessionId, Session> sessions_;
  std::map<InodeId, size_t> opens_;  // by how many
};

}  // namespace stria
