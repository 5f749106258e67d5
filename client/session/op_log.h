// The mutations of a session: numbers them, knows which the server may forget, and keeps those to be
// replayed after a restart of the server. Pure; executor's thread only.
//
// An op is open from Begin until its ticket is dropped: unanswered, or answered and not known durable.
// AckedBelow() is the lowest open op: the server keeps results from there on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "client/session/lost_changes.h"
#include "common/exec/task.h"

namespace stria {

inline constexpr size_t kMaxUndurableOps = 2048;
inline constexpr uint64_t kMaxUndurableBytes = 32 * kMiB;

// Keeps an op open. Movable; may outlive the log.
class OpTicket {
 public:
  struct OpenSet {
    std::set<OpSeq> all;
    std::set<OpSeq> changes;  // of names and attributes, answered
  };
  OpTicket() = default;
  OpTicket(std::shared_ptr<OpenSet> open, OpSeq seq) : open_(std::move(open)), seq_(seq) {
    open_->all.insert(seq);
  }
  OpTicket(OpTicket&& o) noexcept : open_(std::exchange(o.open_, nullptr)), seq_(o.seq_) {}
  OpTicket& operator=(OpTicket&& o) noexcept {
    if (this != &o) {
      Close();
      open_ = std::exchange(o.open_, nullptr);
      seq_ = o.seq_;
    }
    return *this;
  }
  ~OpTicket() { Close(); }
  void Close() {
    if (open_) open_->all.erase(seq_), open_->changes.erase(seq_);
    open_ = nullptr;
  }
  void IsChange() { open_->changes.insert(seq_); }
  OpSeq seq() const { return seq_; }

 private:
  std::shared_ptr<OpenSet> open_;
  OpSeq seq_;
};

class OpLog {
 public:
  // The place of a replay among those of all sessions (OpHeader::replay_order, replay_next).
  struct Place {
    uint64_t order = 0;
    uint64_t next = 0;
  };
  // Sends the op again, as it was; the sequence of its (new) commit.
  using Resend = std::function<Task<Result<CommitSeq>>(Place)>;

  struct Undurable {
    OpTicket ticket;
    CommitSeq seq;
    uint64_t bytes = 0;
    Resend resend;
    // A restart has lost it and another one came before it was replayed: `seq` is of two lives ago, and means nothing
    // beside those that were given since.
    bool lost = false;
    LostChanges::Changed changed{};
    uint64_t answered = 0;  // its number among all that were kept; a replay keeps it
    uint64_t order() const { return lost ? uint64_t{1} << 63 | seq.v : seq.v; }
  };

  OpTicket Begin() { return OpTicket(open_, OpSeq(next_++)); }
  OpSeq AckedBelow() const { return open_->all.empty() ? OpSeq(next_) : *open_->all.begin(); }
  OpSeq Next() const { return OpSeq(next_); }
  // True if an answered op (OpTicket::IsChange) from before `seq` is not known durable.
  bool HasUndurableChange(OpSeq seq) const { return !open_->changes.empty() && *open_->changes.begin() < seq; }

  // The op was answered with `seq`; keep it until that is durable.
  void Keep(OpTicket ticket, CommitSeq seq, uint64_t bytes, Resend resend, const LostChanges::Changed& changed) {
    Keep(Undurable{std::move(ticket), seq, bytes, std::move(resend), false, changed});
  }
  void Keep(Undurable op);
  // All up to `durable` survive a restart of the server.
  void Durable(CommitSeq durable);
  // The same of every op that had been kept when Answered() was `answered`: a replay may have given it another sequence since.
  uint64_t Answered() const { return answered_; }
  void DurableOf(uint64_t answered);
  bool Full() const { return kept_.size() >= kMaxUndurableOps || bytes_ >= kMaxUndurableBytes; }
  bool HalfFull() const { return kept_.size() >= kMaxUndurableOps / 2 || bytes_ >= kMaxUndurableBytes / 2; }
  size_t undurable() const { return kept_.size(); }
  // A restart has lost one of them, and it has not been replayed yet.
  bool HasLost() const { return !kept_.empty() && kept_.rbegin()->second.lost; }
  size_t unanswered() const { return open_->all.size() - kept_.size(); }

  // The place of the first op that must be replayed; 0 if there is none.
  uint64_t FirstOrder() const { return kept_.empty() ? 0 : kept_.begin()->second.order(); }
  // All that must be replayed, in the order of their commits; the log keeps none of them.
  std::vector<Undurable> TakeAll();
  const std::multimap<uint64_t, Undurable>& kept() const { return kept_; }
  // A new session: numbering starts again, nothing is replayed.
  void Reset();

 private:
  uint64_t next_ = 1;
  std::shared_ptr<OpTicket::OpenSet> open_ = std::make_shared<OpTicket::OpenSet>();
  std::multimap<uint64_t, Undurable> kept_;  // by order()
  uint64_t bytes_ = 0;
  uint64_t answered_ = 0;
};

}  // namespace stria
