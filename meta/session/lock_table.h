// File locks of all sessions (fcntl(2) byte ranges and flock(2)), their waiters, and deadlocks. A pure state machine: its owner
// pushes the notices that it returns. A waiter is not granted its lock: it is told when it can have it, and asks again, so a
// waiter that gives up meanwhile leaves nothing behind.
//
// Grants:
// - Locks of different owners exclude each other as LockType says; kinds do not see each other.
// - Waiters stand in line. A later request that would exclude a waiter gets behind it, even if it could have its lock now. But
//   an owner that holds a lock waits only for held locks: a waiter before it in line could be waiting for just its lock.
// - A try takes what is free, also before waiters.
// - A new flock(2) of an owner first takes away its old one, as in Linux. A byte range is replaced at once; with `keep`,
//   stronger parts of the old range stay.
//
// Deadlock: a kWait of a byte range is refused if its owner would wait, over any number of others and files, for
// a lock of its own. Owners are told apart by their client's numbers: threads of a process are one owner.
//
// Bounds: kMaxLocksPerSession ranges held and kMaxLockWaitsPerSession waits of a session.
//
// Invariants (CheckInvariants): no two owners hold ranges that exclude each other; a waiter that was not told cannot have its
// lock now; the indexes by owner agree.
//
// Not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/types.h"
#include "common/ids.h"
#include "common/lock_ranges.h"

namespace stria {

inline constexpr size_t kMaxLocksPerSession = 64 * 1024;
inline constexpr size_t kMaxLockWaitsPerSession = 4096;  // well below kMaxSessionEvents: all may be told at once

// A waiter that must be told that it can ask again.
struct LockNotice {
  SessionId session;
  InodeId ino;
  uint64_t ticket = 0;
  bool operator==(const LockNotice&) const = default;
};

class LockTable {
 public:
  enum class Outcome : uint8_t {
    kGranted,
    kConflict,  // another owner has it
    kWaits,     // and the asker stands in line
    kDeadlock,
    kTooMany,
  };
  struct Answer {
    Outcome outcome = Outcome::kGranted;
    std::optional<FileLock> conflict;
    SessionId holder;  // of `conflict`
    std::vector<LockNotice> notices;
  };

  // The lock if it can be had now. REQUIRES: lock.type is not kNone, here and in Wait and Test.
  Answer Try(SessionId s, const FileLock& lock, bool keep = false);
  // The same, or a place in line under `ticket`; asking again keeps the place.
  Answer Wait(SessionId s, const FileLock& lock, uint64_t ticket, bool keep = false);
  // kGranted or kConflict; changes nothing.
  Answer Test(SessionId s, const FileLock& lock) const;
  std::vector<LockNotice> Unlock(SessionId s, const FileLock& lock);
  std::vector<LockNotice> Withdraw(SessionId s, InodeId ino, uint64_t ticket);
  // A lock from before the server's restart. False if it excludes one that another session has claimed.
  bool Reclaim(SessionId s, const FileLock& lock);
  // The session is gone.
  std::vector<LockNotice> Drop(SessionId s);

  std::vector<FileLock> LocksOf(SessionId s) const;
  size_t waits() const;
  bool empty() const { return files_.empty(); }
  // "" or the first violated invariant.
  std::string CheckInvariants() const;

 private:
  struct Owner {
    SessionId session;
    LockKind kind = LockKind::kPosix;
    uint64_t owner = 0;
    auto operator<=>(const Owner&) const = default;
  };
  struct Waiter {
    Owner owner;
    uint64_t ticket = 0;
    LockRange range;
    bool told = false;
  };
  struct File {
    std::map<Owner, LockRanges> held;
    std::list<Waiter> line;  // first come first
  };
  // An owner's held ranges, and its waits.
  struct Use {
    std::set<InodeId> holds;
    std::map<InodeId, size_t> waits;
  };
  static Owner OwnerOf(SessionId s, const FileLock& lock) { return {s, lock.kind, lock.owner}; }

  struct Found {
    Owner owner;
    LockRange range;
  };
  std::optional<Found> HeldAgainst(const File& f, const Owner& o, const LockRange& r) const;
  bool Holds(const Owner& o) const;
  // Must get behind a waiter that stands in line before `until`.
  bool BehindOthers(const File& f, const Owner& o, const LockRange& r, std::list<Waiter>::const_iterator until) const;
  bool WouldDeadlock(const Owner& o, InodeId ino, const LockRange& r) const;
  Answer Ask(SessionId s, const FileLock& lock, uint64_t ticket, bool keep);  // ticket 0: does not wait
  void SetHeld(const Owner& o, InodeId ino, const LockRange& r, bool keep = false);
  std::list<Waiter>::iterator FindWaiter(File& f, SessionId s, uint64_t ticket);
  void EraseWaiter(File& f, InodeId ino, std::list<Waiter>::iterator it);
  // Tells the waiters that can have their lock now.
  void Tell(InodeId ino, std::vector<LockNotice>* out);
  void EraseIfIdle(InodeId ino);
  void EraseIfIdle(const Owner& o);

  std::map<InodeId, File> files_;
  std::map<Owner, Use> uses_;  // by session first
  struct Count {
    size_t ranges = 0, waits = 0;
  };
  std::map<SessionId, Count> counts_;
};

}  // namespace stria
