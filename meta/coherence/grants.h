// Data leases in use: recalls and flushes that are asked of sessions, and waits for their answers. Who may have what decides
// meta/session/lease_table.h.
//
// Owns: the lease table, since when each recall or flush is unanswered, and who is looking at which directory (DirVisit).
//
// Invariants: while somebody else visits a directory no session has it to itself, nor is given it. Who is given the exclusive
// lease of an inode gets it when nobody else goes on with what they cached of it. Nothing is locked while anything waits: every
// wait ends by its caller's time, or because what is waited for ends.
//
// Called by handlers of files, and by Coherence. Sees notices, sessions, the core and its cleaner.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "common/exec/task.h"
#include "meta/coherence/notices.h"
#include "meta/coherence/sessions.h"
#include "meta/core/cleaner.h"
#include "meta/core/meta_core.h"
#include "meta/session/lease_table.h"

namespace stria {

class Grants {
 public:
  Grants(MetaCore* core, Cleaner* cleaner, Sessions* sessions, Notices* notices)
      : core_(core), cleaner_(cleaner), sessions_(sessions), notices_(notices) {}
  const LeaseTable& table() const { return table_; }
  // What sessions were asked for since the start, each once.
  struct Demanded {
    uint64_t recalls = 0, flushes = 0;
  };
  const Demanded& demanded() const { return demanded_; }

  // ---- Opening and giving back ----
  // Marks the inode open for the session and gives it a lease, when others have answered the recalls that this takes.
  Task<Result<LeaseMode>> Acquire(const OpHeader& h, InodeId ino, bool for_write, bool data);
  // Open from its beginning: if somebody removes its name before the caller has its answer, it is still the caller's.
  void OpenAsMade(const OpHeader& h, InodeId made);
  // The exclusive lease of a directory, if that can be had at once; `had`: the session has it already.
  bool TakeAlone(const OpHeader& h, InodeId dir, bool* had);
  void NoteReader(SessionId s, InodeId ino) { table_.NoteReader(s, ino); }
  void GiveBack(const OpHeader& h, InodeId ino);  // the session has it open no more
  void TakeBack(SessionId s, InodeId ino) { table_.Release(s, ino); }  // what it was given by this very call
  Result<void> Done(const LeaseDoneRequest& r);   // a session's answer, or it goes down by itself

  // ---- Recalls ----
  // Others give up what keeps the session from changing the inode.
  Task<Result<void>> ClearForChange(SessionId s, InodeId ino, int64_t deadline_ns);
  // The session has the exclusive lease, and all others have dropped what they cached of the inode. The lease table decides first;
  // until the others have been told, the session's changes are those of one of several.
  bool HasAlone(SessionId s, InodeId ino) const {
    return table_.ModeOf(s, ino) == LeaseMode::kExclusive && !telling_.contains({s, ino});
  }
  // Others have written back what they hold of it.
  Task<Result<void>> FlushOthers(SessionId s, InodeId ino, int64_t deadline_ns,
                                 WaitList::For why = WaitList::For::kQuestion);
  // Sessions that leave a recall or flush unanswered for longer than they may.
  std::set<SessionId> Silent(int64_t most_ns);

  // ---- Sessions that come and go ----
  // It says that it held this before a restart. False: another has claimed it.
  bool Reclaim(SessionId s, InodeId ino, LeaseMode mode, bool for_write) { return table_.Reclaim(s, ino, mode, for_write); }
  void TakeUp(SessionId s, InodeId ino, bool for_write) { table_.TakeUp(s, ino, for_write); }
  std::vector<InodeId> Drop(SessionId s) { return table_.Drop(s); }
  void ForgetDemands(SessionId s);

  // ---- Directories ----
  // While it lives, no session but its own is given the directory.
  class DirVisit {
   public:
    DirVisit(Grants* grants, SessionId s, InodeId dir);
    DirVisit(DirVisit&& o) noexcept : grants_(std::exchange(o.grants_, nullptr)), key_(o.key_) {}
    DirVisit& operator=(DirVisit&&) = delete;
    ~DirVisit();

   private:
    Grants* grants_;
    const std::pair<InodeId, SessionId> key_;
  };
  // To be kept by whoever reads or changes names of the directory, or what is inherited or permitted in it, from before
  // that until it is answered: no other session has it to itself.
  Task<Result<DirVisit>> Visit(const OpHeader& h, InodeId dir);
  bool OthersVisit(InodeId dir, SessionId s) const;

 private:
  bool PushDemands(const std::vector<LeaseDemand>& demands);  // true: some have not taken them, and hold nothing any more

  MetaCore* const core_;
  Cleaner* const cleaner_;
  Sessions* const sessions_;
  Notices* const notices_;
  LeaseTable table_;
  Demanded demanded_;
  std::map<std::pair<SessionId, uint64_t>, std::pair<InodeId, int64_t>> demands_;  // unanswered: since when
  std::multiset<std::pair<SessionId, InodeId>> telling_;                           // opens that wait for others to be told
  std::map<std::pair<InodeId, SessionId>, size_t> visits_;                         // how many DirVisits
};

}  // namespace stria
