// Data leases: a session's rights to an inode's bytes without asking, and the recalls and flushes that a new use of the inode
// needs first. A pure state machine; its owner pushes the demands it returns as events, tells it the event numbers, and asks
// again after each answer. Nothing is locked while it waits.
//
// Grants at an open (others = sessions that have the inode open, or are waiting to):
//
//   opener \ others |  none        readers only              some writer
//   ----------------+--------------------------------------------------------
//   reads           |  kRead       kRead                     kShared, others recalled to kShared
//   writes          |  kExclusive  kShared, others recalled to kShared (readers may not cache)
//
// Invariants (CheckInvariants):
//  1. If a session holds kExclusive, no other session holds anything.
//  2. If a session that writes holds kShared, no other session holds kExclusive or kRead.
//  3. kExclusive is held by writers only.
//
// Leases only go down by LeaseDone, Release and Drop, and up by Open. The server's belief is never weaker than the truth: a
// late answer to an old recall changes nothing, and an open that grants less than the session has recalls the rest. An open
// waits for the recalls of others. In return the session:
// - answers a recall while opens of its own are under way (docs/waits.md);
// - never has a voluntary LeaseDone of an inode under way together with an Open of it, nor a Release together with an Open that
//   began before it (numbers of calls order a Release and a later Open);
// - takes no more from the reply to an open than a recall that it answered meanwhile left it.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/types.h"
#include "common/error.h"
#include "common/ids.h"

namespace stria {

// A recall or flush to push to a session before another use may go on.
struct LeaseDemand {
  SessionId session;
  InodeId ino;
  SessionEvent::Kind kind = SessionEvent::Kind::kRecall;  // or kFlush
  LeaseMode to = LeaseMode::kNone;                        // kRecall
  bool operator==(const LeaseDemand&) const = default;
};

class LeaseTable {
 public:
  struct OpenOutcome {
    bool granted = false;
    bool late = false;  // a later call of the session has released the inode: a copy that was long on its way
    LeaseMode mode = LeaseMode::kNone;  // for the reply
    std::vector<LeaseDemand> demands;   // to push now (those pushed before are not repeated)
  };
  // The session opens `ino`, or goes on opening it after an answer. Not granted: push the demands
  // (NoteDemand each), wait for LeaseDone, Release or Drop of anyone, ask again; or AbandonOpen.
  // `data` is false for inodes whose bytes need no lease: neither a regular file nor a directory that a session is to have to
  // itself (meta/files/ahead.cc; its names count as bytes).
  // `first`: first call of this open (each open has exactly one, and ends with granted or AbandonOpen).
  // `call`: the session numbers its calls as they begin; 0 if not.
  // `shared`: it gets no more than kShared, so that nobody has to recall it. It is a session that has not answered recalls.
  OpenOutcome Open(SessionId s, InodeId ino, bool for_write, bool data, bool first, uint64_t call = 0, bool shared = false);
  // The session opened it for reading, too. Does nothing if the session does not have it open.
  void NoteReader(SessionId s, InodeId ino);
  // Gives up an open that was not granted.
  void AbandonOpen(SessionId s, InodeId ino);
  // A lease from before the server's restart. False if it conflicts with the claims of others.
  bool Reclaim(SessionId s, InodeId ino, LeaseMode mode, bool for_write);

  // The session has come back after its lease had run out: it has the inode open again, and holds nothing of it.
  void TakeUp(SessionId s, InodeId ino, bool for_write);

  // `s` (0: any session) is about to change ino's bytes or size, perhaps without having it open. Returns the recalls that are
  // needed first, also from readers, whose kernels show pages without asking. Ask again after each answer until nothing blocks.
  struct Outcome {
    bool clear = false;
    std::vector<LeaseDemand> demands;
  };
  Outcome ClearForChange(SessionId s, InodeId ino);
  // The session other than `s` that may have uncommitted bytes of ino; 0 if none.
  SessionId DirtyHolder(SessionId s, InodeId ino) const;

  // The demand was pushed as event number `event`.
  void NoteDemand(const LeaseDemand& d, uint64_t event);
  // Number of the newest unanswered flush of this holder, 0 if none.
  uint64_t NewestFlush(SessionId s, InodeId ino) const;
  // True when that flush was answered, or overtaken by a release, a recall, or the session's end.
  bool FlushDone(SessionId s, InodeId ino, uint64_t event) const;

  // True while that recall or flush waits for the session's answer.
  bool Pending(SessionId s, InodeId ino, uint64_t event) const;

  // The session's answer to `event`, or a voluntary change (event 0): it holds `now` from here on. kBadRequest: that is more
  // than it was asked to keep, or more than it had. kNone means that it does not have ino open either. An answer from before
  // its latest open (by `call`) does not lower that open's grant below the demand. An answer to a recall of an older grant
  // changes nothing. It gives kStale if it was kNone: the server still takes ino for open, and the session must Release it if
  // it is not.
  Error LeaseDone(SessionId s, InodeId ino, LeaseMode now, uint64_t event, uint64_t call = 0);
  // The session has ino open no more. Fine if it had not. Does nothing if an open that began later was granted.
  void Release(SessionId s, InodeId ino, uint64_t call = 0);
  // The session is gone; the inodes that it had open.
  std::vector<InodeId> Drop(SessionId s);

  LeaseMode ModeOf(SessionId s, InodeId ino) const;
  bool IsOpen(InodeId ino) const;                         // by anyone, or being opened
  bool IsOpenBy(SessionId s, InodeId ino) const;
  bool IsReader(SessionId s, InodeId ino) const;
  bool IsWriter(SessionId s, InodeId ino) const;
  std::vector<std::pair<InodeId, bool>> OpenBy(SessionId s) const;  // all that it has open; whether for writing
  std::vector<SessionId> HoldersExcept(SessionId s, InodeId ino) const;  // with any mode but kNone
  size_t inodes() const { return inodes_.size(); }
  // Recalls and flushes that wait for an answer.
  struct Unanswered {
    SessionId session;
    InodeId ino;
    bool recall = false;  // else a flush
    uint64_t event = 0;
  };
  std::vector<Unanswered> Demanded() const;
  // The same, and opens that wait for those; a sentence each.
  std::vector<std::string> Waits() const;
  // "" or the first violated invariant.
  std::string CheckInvariants() const;

 private:
  struct Holder {
    LeaseMode mode = LeaseMode::kNone;
    bool open = false;
    bool reads = false;            // as opened
    bool writes = false;
    uint64_t opened_by = 0;        // the latest call that opened it
    uint32_t waiting = 0;          // opens in progress
    bool wants_write = false;      // some open in progress does
    uint64_t recall_event = 0;     // 0: none pending
    LeaseMode recall_to = LeaseMode::kNone;
    bool recall_unpushed = false;  // demanded, NoteDemand still to come
    std::set<uint64_t> flushes;    // unanswered
    bool used() const { return open || waiting > 0; }
    bool writer() const { return writes || wants_write; }
  };
  using Holders = std::map<SessionId, Holder>;
  const Holder* Find(SessionId s, InodeId ino) const;
  void Demand(SessionId s, InodeId ino, Holder& h, LeaseMode to, std::vector<LeaseDemand>* out);
  void EraseIfIdle(SessionId s, InodeId ino);

  void NoteRelease(SessionId s, InodeId ino, uint64_t call);

  // The latest releases: an Open that was called before does not open again.
  using Released = std::pair<SessionId, InodeId>;
  static constexpr size_t kMaxReleases = 16 * 1024;
  std::map<Released, uint64_t> released_;
  std::deque<std::pair<Released, uint64_t>> release_order_;  // oldest first

  std::map<InodeId, Holders> inodes_;
  std::map<SessionId, std::set<InodeId>> by_session_;
};

}  // namespace stria
