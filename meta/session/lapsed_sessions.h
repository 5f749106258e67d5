// What sessions that have lapsed had open and locked, for when they come back. Nothing of it is in anybody's way: who
// wants it has it at once, and all that is kept of the lapsed session's claim is whether somebody did.
//
//  - Open inodes stay open in one sense only: when they lose their last name they are not freed.
//  - A lock is struck out for good by the first lock of another session that it would have excluded, also when that is
//    unlocked before the session comes back: whatever it guarded may have been touched.
//  - Leases are not kept. What they let the session cache it forgets, and whether others have changed the bytes that it
//    had yet to write the versions of the files tell (CommitRequest::only_known).
//
// In memory: of a session that had lapsed before a restart of the server nothing is known. It gets its files back, as
// nothing there says that it may not, but no lock.
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

  void Add(SessionId s, const std::vector<Open>& open, const std::vector<FileLock>& locks);
  // Forgets it; the inodes that it had open.
  std::vector<InodeId> Drop(SessionId s);

  bool Knows(SessionId s) const { return sessions_.contains(s); }
  bool IsOpen(InodeId ino) const { return opens_.contains(ino); }  // by any of them
  // nullopt: not open; else whether for writing.
  std::optional<bool> OpenBy(SessionId s, InodeId ino) const;
  // All of it, and nobody has had one that it excludes.
  bool Has(SessionId s, const FileLock& lock) const;
  // A session was given this lock.
  void Strike(const FileLock& lock);
  size_t sessions() const { return sessions_.size(); }

 private:
  using Owner = std::pair<LockKind, uint64_t>;
  struct Session {
    std::map<InodeId, bool> open;
    std::map<InodeId, std::map<Owner, LockRanges>> locks;
  };
  std::map<SessionId, Session> sessions_;
  std::map<InodeId, size_t> opens_;  // by how many
};

}  // namespace stria
