// The primary's side of a replicated store: writes batches, ships them to all members, and says when they are committed. It
// makes no decision about roles or the set: it tells its host what it sees, and the host, which reads the register, tells it
// who is needed.
//
// What the host must hold to (README.md, "A member"): a member that is to leave stays in `required` until the register's new value was
// read; one that is to enter is put into `required` before that is asked for, and is asked for only when rule().durable() of
// it is not 0 (it is whole, and stays so after a power cut) and at least may_be_committed() of then. A member that asks for the
// primary's place itself is a candidate first (Follower::SetCandidate).
//
// For the executor's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "meta/replica/commit_rule.h"
#include "meta/replica/replica_store.h"
#include "meta/replica/shipper.h"

namespace stria {

class PrimaryHost {
 public:
  virtual ~PrimaryHost() = default;
  // Called again and again while it is so; of members that are required only. None of these may destroy the primary,
  // connect or disconnect anybody.
  virtual void AskDrop(const std::string& member, const std::string& why) = 0;
  // A member that is not required is whole and has almost everything.
  virtual void CaughtUp(const std::string& member) = 0;
  // It answered what was sent at that time (Executor::NowNs): a promise, if it makes any, counts from there.
  virtual void Heard(const std::string& member, int64_t sent_ns) = 0;
  // Somebody knows a higher term. Nothing is written or committed any more.
  virtual void Deposed(uint64_t term) = 0;
  // For the beats: the version of the register as it was read last, and the time for tokens.
  virtual uint64_t RegisterVersion() const = 0;
  virtual int64_t TokenTimeNs() const = 0;
};

struct ReplicaPrimaryOptions {
  std::string self;    // the member's name
  Uuid cluster;
  uint64_t term = 0;
  ShipperOptions shipper;
};

class ReplicaPrimary {
 public:
  // REQUIRES: `store` is whole, and its last term is below options.term. All outlive the primary.
  ReplicaPrimary(ReplicaStore* store, PrimaryHost* host, ReplicaPrimaryOptions options);

  uint64_t term() const { return options_.term; }
  ReplicaStore& store() { return *store_; }

  // ---- Members
  // Ships to it from now on, in whatever state it is. In place of what was under that name.
  void Connect(const std::string& member, std::shared_ptr<ReplicaService> peer);
  void Disconnect(const std::string& member);
  // The sets, with or without the primary itself. Batches may become committed by it.
  void Require(MemberSet in_sync, MemberSet required, size_t min_in_sync);
  const CommitRule& rule() const { return rule_; }
  // null: not connected.
  const Shipper* shipper(const std::string& member) const;
  // It says that it has joined.
  void Probe(const std::string& member);

  // ---- The store
  // As KvStore's. kNotLeader after it was deposed.
  Result<void> Write(const KvBatch& batch);
  // Everything written before the call is committed on return. Waits as long as the set is too small, or a member owes.
  // kNotLeader if the primary is deposed meanwhile: then it may or may not be committed later.
  Task<Result<void>> Sync();
  CommitSeq committed() const { return rule_.committed(); }
  // Nothing beyond it was ever acknowledged. A new life does not know what former ones acknowledged, so it is all that the log
  // had then.
  CommitSeq may_be_committed() const { return std::max(rule_.committed(), opened_at_); }
  // Batches that a required member has not received: how old the oldest is, in ns, and their bytes. For the bound on plain
  // changes.
  int64_t unreceived_ns() const;
  uint64_t unreceived_bytes() const;
  // All that are required have it in their journals, up to here.
  CommitSeq received() const { return ReceivedByAll(); }
  // Resumes when that may be more, or the primary is deposed.
  Task<void> WaitReceived() { co_await progress_.Wait(); }
  // Every batch from now on as it is shipped, in order, before it is durable: the archiver's tape takes it as it is
  // (BatchTape::AddEncoded). One tap.
  using Tap = std::function<void(CommitSeq seq, const Buffer& encoded)>;
  void SetTap(Tap tap) { tap_ = std::move(tap); }

  // ---- Its end
  // By a higher term, seen anywhere. Who waits gets kNotLeader.
  void Depose(uint64_t term);
  bool deposed() const { return !ended_.ok(); }
  // What a member that believes itself primary is answered.
  Result<AppendReply> AnswerAppend(const AppendRequest& request);

 private:
  struct Member {
    std::unique_ptr<Shipper> shipper;
    std::unique_ptr<TaskScope> scope;  // its Run: ends before the shipper does
  };
  struct Unreceived {
    CommitSeq seq;
    int64_t written_ns = 0;
    uint64_t bytes = 0;  // of all batches of this life up to it
  };
  AppendRequest Header() const;
  ShipperEnv EnvOf(const std::string& member);
  CommitSeq ReceivedByAll() const;
  void DropReceived();
  void Advanced() { progress_.Pulse(); }

  ReplicaStore* const store_;
  PrimaryHost* const host_;
  const ReplicaPrimaryOptions options_;
  const CommitSeq opened_at_;
  CommitRule rule_;
  Error ended_;
  Tap tap_;
  uint64_t bytes_ = 0;
  uint64_t bytes_received_ = 0;
  std::deque<Unreceived> unreceived_;
  Event progress_;
  std::map<std::string, Member> members_;  // last: its tasks use everything above
};

}  // namespace stria
