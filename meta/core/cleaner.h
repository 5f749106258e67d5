// The cleaner frees what operations leave behind, one bounded transaction at a time: ranges that are masked and yet to be
// trimmed, files without a name that nobody has open any more, and what sessions that have ended left.
//
// Owns: which inodes are to be trimmed, which are orphans (unlinked, not freed yet), which of those nobody has open, and which
// sessions are over. All of it is in the store, too: Load finds it again.
//
// Invariants: an orphan is freed only when nobody has it open, not before sessions of before a restart have said what they have
// open, and not at once if somebody was given it by name just now (meta/session/recent_lookups.h).
//
// Called by whatever commits operations and ends opens. Sees the core; asks the sessions through CleanerHost.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <utility>

#include "common/exec/task.h"
#include "meta/core/meta_core.h"
#include "meta/ops/op_ctx.h"

namespace stria {

class CleanerHost {
 public:
  virtual ~CleanerHost() = default;
  virtual bool IsOpen(InodeId ino) const = 0;      // by anybody
  virtual bool IsWanted(InodeId ino) const = 0;    // somebody was given it by name just now
  virtual void TellTrimmed(const Touched& touched) = 0;
};

class Cleaner {
 public:
  // Both outlive it.
  Cleaner(MetaCore* core, CleanerHost* host) : core_(core), host_(host) {}
  ~Cleaner() { Stop(); }

  Result<void> Load(Txn& txn);
  void Start();
  void Stop() { scope_.CancelAll(); }
  // At every tick. `claims_over`: all sessions of before the restart have said what they have open, or are gone.
  void Tick(bool claims_over);
  // All sessions have said what they have open.
  void EndClaims();
  bool AreClaimsOver() const { return claims_over_; }

  // An operation has been committed.
  void NoteCommit(const Touched& touched);
  // An operation asked for room (kRetryLater): trims what it named, or makes the next range of ids durable.
  Task<Result<void>> MakeRoomFor(const Touched& touched);
  // Somebody has it open no more.
  void ReapIfUnused(InodeId ino);
  // The same, of a session that is gone: it is looked at once more.
  void Reap(InodeId ino);
  // The session is over; it is in the store as fenced.
  void NoteEnded(SessionId s);
  bool IsOrphan(InodeId ino) const { return orphans_.contains(ino); }

 private:
  Task<void> Loop();
  Result<bool> CleanSome();
  Result<bool> CollectSession(Txn& txn, SessionId s, Touched* touched);
  void Linger(InodeId ino);

  MetaCore* const core_;
  CleanerHost* const host_;
  Event work_;                 // there is something below
  std::set<InodeId> trims_;    // have masked ranges
  std::set<InodeId> orphans_;  // unlinked, not freed yet
  std::set<InodeId> reaps_;    // of those: perhaps nobody has them open any more
  // Of those that nobody had open: to be freed then. Oldest first.
  std::deque<std::pair<int64_t, InodeId>> lingers_;
  bool claims_over_ = false;
  std::set<SessionId> ended_;  // their stripes and replies are to be collected
  TaskScope scope_;            // last: its tasks use everything above
};

}  // namespace stria
