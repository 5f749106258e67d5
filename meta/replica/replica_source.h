// What the primary gives to a member that has fallen behind: which way it can come back (api/replica_api.h, JoinVerdict),
// values of keys, pages of everything. Keeps nothing between two calls of a member but how far its copy needs the log.
//
// For the executor's thread.
#pragma once

#include <map>
#include <string>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "meta/replica/replica_primary.h"
#include "meta/replica/replica_store.h"

namespace stria {

// What the primary has, for the rule. Pure.
struct JoinGround {
  uint64_t incarnation = 0;
  LogPoint last;
  CommitSeq first;  // the oldest batch that is kept
  std::vector<TermRun> history;
};
struct JoinChoice {
  JoinVerdict verdict = JoinVerdict::kWait;
  CommonEnd common;  // of kTail and kRewind
};
// `believes_fetched`: the member's store is whole, or what it fetched last is of this log. `in_set`: it first has to leave the
// set, if it cannot go on as it is.
JoinChoice ChooseJoin(const JoinGround& mine, const ReplicaJoinRequest& request, bool believes_fetched, bool in_set);

struct ReplicaSourceOptions {
  size_t reply_bytes = 1 * kMiB;            // of a page or of values; one entry more
  int64_t hold_ns = 60 * kSecond;           // a copy that has not asked for so long holds the log no more
};

class ReplicaSource {
 public:
  // The primary outlives it.
  explicit ReplicaSource(ReplicaPrimary* primary, ReplicaSourceOptions options = {}) : primary_(primary), options_(options) {}

  Result<ReplicaJoinReply> Join(const ReplicaJoinRequest& request);
  Result<FetchKeysReply> FetchKeys(const FetchKeysRequest& request);
  Result<FetchPageReply> FetchPage(const FetchPageRequest& request);

 private:
  struct Copy {
    CommitSeq from;
    int64_t asked_ns = 0;
  };
  Result<void> CheckTerm(uint64_t term) const;
  void Hold();

  ReplicaPrimary* const primary_;
  const ReplicaSourceOptions options_;
  std::map<std::string, Copy> copies_;  // by member
};

}  // namespace stria
