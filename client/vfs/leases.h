// Room: leases. What the server has granted of each inode, what it was told of that, and in which order answers and events were
// sent.
//
// Owns: the lease of each inode that is in use here (InodeLease, the room's part of an inode), what the server may believe that
// this client holds of it, Creates under way, and the count of events.
//
// Invariants:
//  - what is granted counts as of when it was asked for: a recall that was answered since leaves less of it, and what an event
//    told since is newer than what the answer says;
//  - whoever gives an inode back numbers the call, and no open that began before may be under way: else the server would take
//    for given back what that open's answer grants;
//  - what the server may believe is held here, and is not, is owed until the server has said that it knows. Meanwhile the inode is
//    in use.
//
// Called by: LeaseKeeper, Recalls, ComeBack, SessionEvents, FileCalls (a Create); others ask it who holds what (Holds). An inode's
// part (InodeLease) AheadMaker and Commits change too. Calls: the server, through LeasesNeeds. Knows no other room.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "api/meta_api.h"
#include "client/vfs/counted.h"
#include "common/exec/task.h"

namespace stria {

// Others look; the rooms that call Leases, AheadMaker and Commits tell it what has become of a lease.
class InodeLease {
 public:
  explicit InodeLease(InodeId ino) : ino_(ino) {}
  InodeLease(const InodeLease&) = delete;
  InodeLease& operator=(const InodeLease&) = delete;

  InodeId ino() const { return ino_; }
  LeaseMode mode() const { return mode_; }
  bool none() const { return mode_ == LeaseMode::kNone; }
  bool shared() const { return mode_ == LeaseMode::kShared; }
  // What the server says of it may be kept.
  bool caches() const { return mode_ == LeaseMode::kRead || mode_ == LeaseMode::kExclusive; }
  bool buffers_writes() const { return mode_ == LeaseMode::kExclusive && for_write_; }
  bool Has(bool for_write) const { return for_write ? for_write_ && (shared() || mode_ == LeaseMode::kExclusive) : !none(); }
  bool for_write() const { return for_write_; }  // the server has us as a writer
  bool for_read() const { return for_read_; }    // it lets us read, also without being asked on behalf of whom
  const std::string& proof() const { return proof_; }    // OpenReply::proof, of the last open of this session
  uint64_t generation() const { return generation_; }    // of the session that granted it
  uint64_t grants() const { return grants_; }            // ever
  bool opening() const { return opening_ > 0; }          // an Open of it is under way
  uint32_t opens_under_way() const { return opening_; }
  // Not held here since this call, and the server does not surely know; 0: no.
  uint64_t owes() const { return owes_; }
  bool claimed() const { return claimed_; }  // the session has told the server, to come back, that it is open here
  // What was asked when Leases::events_seen was this may be older than what an event has told.
  bool ToldSince(uint64_t asked) const { return told_at_ > asked; }
  bool in_use() const { return !none() || owes_ > 0 || met_; }

  // ---- Grants.
  struct Grant {
    LeaseMode mode = LeaseMode::kNone;
    bool for_read = false, for_write = false;
    uint64_t asked = 0;  // Leases::events_seen when it was asked for
  };
  // What this client can make of it.
  struct Bounds {
    bool dirty = false;         // bytes are buffered under a higher lease
    bool shared_writes = false;  // of ours are under way
    bool of_before = false;      // bytes are not committed that were written before the session lapsed
  };
  void Take(const Grant& grant, const std::string& proof, Bounds bounds);
  // A directory is this client's alone.
  void TakeAlone(std::string proof, uint64_t asked);
  // It was made here.
  void TakeMade(std::string proof);

  // ---- Less of it.
  void Drop() { mode_ = LeaseMode::kNone, for_read_ = for_write_ = false; }  // not the server's knowledge of it
  void Recalled(LeaseMode left, uint64_t events_seen);
  // The session is another one from here on.
  void LoseAll(uint64_t generation);
  void BelongsTo(uint64_t generation) { generation_ = generation; }

  // ---- What the server believes.
  void Owe(uint64_t call) { owes_ = call; }
  void OweNothing() { owes_ = 0; }
  void Claim(bool claimed) { claimed_ = claimed; }
  bool TakeClaim() { return std::exchange(claimed_, false); }

  // While it lives, an answer that the inode needs is under way; it keeps the inode in use as an Open does.
  class Awaiting {
   public:
    explicit Awaiting(InodeLease* of) : counted_(&of->opening_) {}

   private:
    const Counted counted_;
  };

 private:
  friend class Leases;  // the same room
  const InodeId ino_;
  LeaseMode mode_ = LeaseMode::kNone;
  bool for_write_ = false;
  bool for_read_ = false;
  std::string proof_;
  uint64_t generation_ = 0;
  uint64_t grants_ = 0;
  uint32_t opening_ = 0;
  uint64_t owes_ = 0;
  bool claimed_ = false;
  // Leases::events_seen when it was last told anything of this inode, and when it last answered a recall, with
  // what. Answers to what was asked before either say less than they seem to.
  uint64_t told_at_ = 0;
  uint64_t recalled_at_ = 0;
  LeaseMode recalled_to_ = LeaseMode::kNone;
  bool met_ = false;  // one of Leases::met_
};
// Keeps the inode that it is a part of.
using InodeLeasePtr = std::shared_ptr<InodeLease>;

struct LeasesNeeds {
  // Of the session.
  std::function<uint64_t()> generation, term, era, number_call;
  std::function<int64_t()> lease_left_ns;
  std::function<Task<Result<Empty>>(InodeRequest)> release;
  std::function<Task<Result<Empty>>(LeaseDoneRequest)> lease_done;
  // Notice: the inode may not be in use any more.
  std::function<void(const InodeLeasePtr&)> maybe_unused;
};

class Leases {
 public:
  // A demand of the server that cannot be met yet, or no answer of it, is tried again so soon: with the server's patience in
  // mind.
  static constexpr int64_t kAgainNs = 200 * kMillisecond;

  explicit Leases(LeasesNeeds needs) : needs_(std::move(needs)) {}
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // Held as of now, while the session's own lease lasts.
  bool Holds(const InodeLease& of, bool for_write) const {
    return of.generation() == needs_.generation() && needs_.lease_left_ns() > 0 && of.Has(for_write);
  }

  // ---- The order of events and answers.
  uint64_t events_seen() const { return events_seen_; }  // by the server's pushes alone
  void EventSeen() { ++events_seen_; }
  void Told(InodeLease& of) { of.told_at_ = events_seen_; }

  // Creates under way, by the number of the call: events since may be about their inodes, which we do not know yet. What the
  // events said is kept with such inodes (Meet) until those Creates have ended.
  void CreateBegins(uint64_t call) { creates_.emplace(call, events_seen_); }
  void CreateEnded(uint64_t call);
  bool creating() const { return !creates_.empty(); }
  Task<void> CreatesBefore(uint64_t call);  // have ended then
  void Meet(const InodeLeasePtr& of);

  // While it lives an Open is under way. Whoever waits for it may be cancelled: a read that takes its lease anew, by a signal.
  class Opening {
   public:
    Opening(Leases* leases, InodeLease* of) : leases_(leases), of_(of) { ++of_->opening_; }
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;
    ~Opening();
    bool granted = false;

   private:
    Leases* const leases_;
    InodeLease* const of_;
  };

  // ---- Telling the server.
  // It is given back with this call, whose number is the owed one. True: the server knows, or it is held again.
  Task<bool> Release(InodeLeasePtr of, uint64_t call);
  // The same with a request that does something else, too.
  struct GivenBack {
    uint64_t call = 0, term = 0;
  };
  GivenBack GiveBack(InodeLease& of);
  // The answer. False: the server may not know, and it is not held again.
  bool WasGivenBack(InodeLease& of, uint64_t call, bool surely);
  // The answer to a recall or a flush. True when the server has taken it. `call`: 0, or a number of the session's.
  Task<bool> Done(InodeId ino, LeaseMode lease, uint64_t event_seq, uint64_t call = 0);
  // The same of what is not held here; `of` may be null. If the grant has not arrived yet, what is left of it is kept when it
  // does.
  Task<void> DoneNotHeld(InodeId ino, InodeLeasePtr of, LeaseMode left, uint64_t event_seq);

 private:
  const LeasesNeeds needs_;
  uint64_t events_seen_ = 0;
  std::map<uint64_t, uint64_t> creates_;  // with events_seen_ when they were sent
  Event create_ended_;
  std::deque<InodeLeasePtr> met_;  // by told_at_
};

}  // namespace stria
