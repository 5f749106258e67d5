// Room: turns. Calls that change an inode, or what the server grants of it, come one after another, and writes wait for some of
// them.
//
// Owns: the two locks of each inode, who waits for them, calls during which no write starts, and what a recall is at
// (InodeTurns, the room's part of an inode).
//
// Invariants:
//  - who wants both locks takes open_mu first (ARCHITECTURE.md, "The order of waits");
//  - as long as somebody has one of them or waits for one the inode is in use: if it were dropped meanwhile, there would be two
//    of it;
//  - nobody waits for longer than the timeout while servers do not answer; while they do, everything ends by itself.
//
// Called by: LeaseKeeper, FileCalls, Ranges, AttrCalls; Recalls takes lease_mu. Calls nobody. Knows no other room.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "client/vfs/waits.h"
#include "common/error.h"
#include "common/exec/task.h"

namespace stria {

class InodeTurns {
 public:
  explicit InodeTurns(InodeId ino) : ino_(ino) {}
  InodeTurns(const InodeTurns&) = delete;
  InodeTurns& operator=(const InodeTurns&) = delete;

  InodeId ino() const { return ino_; }

  // Held across calls that change what the server grants, or the file's shape: Open, Release, truncate, clone. They wait
  // for other clients, so nothing that other clients wait for ever waits for it: no recall, no flush, no page.
  InodeLock open_mu;
  // Held while what is buffered under the lease is flushed for a recall or a flush that the server asked for, or moved
  // by gather. No write starts meanwhile (but WritePages). Waits for data servers and the metadata server only.
  // Never held while the kernel forgets pages.
  InodeLock lease_mu;

  bool changing() const { return open_mu.locked() || lease_mu.locked(); }
  bool waited_for() const { return waits_ > 0; }  // either lock, perhaps not in its line yet
  bool being_cut() const { return cuts_ > 0; }    // no write starts
  bool recalling() const { return recalls_ > 0; }
  bool in_use() const { return changing() || waits_ > 0 || recalls_ > 0 || cuts_ > 0; }

  // While it lives, a recall is being carried out.
  class Recalling {
   public:
    explicit Recalling(InodeTurns* of) : of_(of) { ++of_->recalls_; }
    Recalling(const Recalling&) = delete;
    Recalling& operator=(const Recalling&) = delete;
    ~Recalling() { --of_->recalls_; }

   private:
    InodeTurns* const of_;
  };
  // What it, or a flush that the server asked for, is at. (They come one after another.)
  DemandAt demand_at() const { return demand_at_; }
  DemandStep BeginDemand() { return DemandStep(&demand_at_); }

 private:
  friend class Turns;  // the same room
  friend class NoWrites;
  const InodeId ino_;
  uint32_t waits_ = 0;
  uint32_t cuts_ = 0;
  Event cut_ended_;
  uint32_t recalls_ = 0;
  DemandAt demand_at_ = DemandAt::kNowhere;
};
// Keeps the inode that it is a part of.
using InodeTurnsPtr = std::shared_ptr<InodeTurns>;

// While it lives no write to the inode starts (but WritePages).
class NoWrites {
 public:
  explicit NoWrites(InodeTurnsPtr of) : of_(std::move(of)) { ++of_->cuts_; }
  NoWrites(const NoWrites&) = delete;
  NoWrites& operator=(const NoWrites&) = delete;
  ~NoWrites() {
    --of_->cuts_;
    of_->cut_ended_.Pulse();
  }

 private:
  const InodeTurnsPtr of_;
};

class Turns {
 public:
  // `servers_answer`: the session's lease has not run out.
  Turns(int64_t timeout_ns, std::function<bool()> servers_answer)
      : timeout_ns_(timeout_ns), servers_answer_(std::move(servers_answer)) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Waits as long as the servers answer, and the timeout if they do not. `held_for`: a literal.
  Task<Result<SemaphoreHold>> Take(InodeTurnsPtr of, InodeLock InodeTurns::*line, const char* held_for) const;
  // The same for calls during which no write starts.
  Task<Result<void>> WritesMayStart(InodeTurnsPtr of) const;

 private:
  const int64_t timeout_ns_;
  const std::function<bool()> servers_answer_;
};

}  // namespace stria
