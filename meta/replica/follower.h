// A member that follows: takes the primary's batches in order and says what of them it has, and what is durable. Refuses a gap,
// another batch than its own, another past than its own, and everything of a lower term.
//
// For the executor's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "meta/replica/replica_store.h"

namespace stria {

class FollowerHost {
 public:
  virtual ~FollowerHost() = default;
  // A primary of the highest term so far speaks, and is about to be answered. The answer is a promise to it; an error instead
  // of one: kNotReady while the register was not read yet, or while this member asks for the place itself.
  virtual Result<void> Hear(uint64_t term, const std::string& primary, uint64_t version, int64_t token_time_ns) = 0;
  // The primary of that term has said that it answers nothing more in it.
  virtual void Ended(uint64_t term, const std::string& primary) {}
};

class Follower {
 public:
  // `term`: the highest that this member has heard of. Both outlive the follower.
  Follower(ReplicaStore* store, FollowerHost* host, uint64_t term)
      : store_(store), host_(host), term_(std::max(term, store->last().term)) {}

  // See ReplicaService. Destroying the follower while it runs is destroying the caller's task first.
  Task<Result<AppendReply>> Append(AppendRequest request);

  uint64_t term() const { return term_; }
  const std::string& primary() const { return primary_; }  // that was heard last; "" if none
  // Committed by all of the set, as far as this member was told, and here. In memory only.
  CommitSeq committed() const { return committed_; }
  // A higher term was seen elsewhere: lower ones are refused from now on.
  void SawTerm(uint64_t term);

  // While this member asks for the primary's place: its log stays as it is, nobody is answered, and a joiner gives up.
  void SetCandidate(bool candidate) { candidate_ = candidate; }
  bool candidate() const { return candidate_; }

  // ---- For the joiner
  // Resumes when a primary has said that this log does not go on where its own does, and gives its term.
  Task<uint64_t> WaitJoin();
  // While it changes the log, no batch is taken.
  void SetJoining(bool joining) { joining_ = joining; }

 private:
  Result<bool> TakeBatches(const AppendRequest& request);  // false: they do not fit
  AppendReply Reply(AppendResult result) const;

  ReplicaStore* const store_;
  FollowerHost* const host_;
  uint64_t term_;
  std::string primary_;
  CommitSeq committed_;
  bool joining_ = false;
  bool candidate_ = false;
  uint64_t join_term_ = 0;  // 0: nobody has asked
  Event join_;
};

}  // namespace stria
