// Mutations of one session, each executed at most once: an op_seq is new, running, done (its reply is stored), refused, or
// forgotten (its reply has arrived, and a copy that comes later is refused). Pure; not thread-safe.
//
// Invariants: no op_seq is done twice; of replies in the store it is known which are not needed any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/ids.h"

namespace stria {

enum class OpState : uint8_t { kNew, kRunning, kDone, kRefused, kForgotten, kTooMany };

class OnceOps {
 public:
  // `max_replies`: stored and running; more, and Lookup gives kTooMany.
  OnceOps(OpSeq acked_below, size_t max_replies) : acked_below_(acked_below), max_replies_(max_replies) {}

  // A reply of before a restart, in the store.
  void Load(OpSeq seq, std::string reply) { Commit(seq, std::move(reply)); }
  // Replies below have arrived. It never goes back.
  void Ack(OpSeq acked_below);

  OpState Lookup(OpSeq seq) const;
  // The stored reply. REQUIRES: kDone.
  const std::string& Reply(OpSeq seq) const;
  // REQUIRES: kRefused.
  const Error& Refusal(OpSeq seq) const;

  // REQUIRES: kNew.
  void Begin(OpSeq seq);
  // The op's effect and `reply` are in the store. The op still runs (its reply is not given to duplicates) until Finish.
  void Commit(OpSeq seq, std::string reply);
  // The same for an op whose effect, like its reply, is in memory only.
  void CommitVolatile(OpSeq seq, std::string reply);
  // The op had no effect and was answered with an error that its client takes for the last word: a copy of the request that
  // arrives later hears the same. Until its reply is acknowledged, or this server ends.
  void Refuse(OpSeq seq, Error error);
  // It does not run any more. Without Commit or Refuse before: as if it had never begun.
  void Finish(OpSeq seq) { running_.erase(seq); }

  // Effects that were in memory only are gone: those ops are done again.
  void LoseVolatile();

  // Replies in the store that are not needed any more, to delete with the next batch; at most `limit`.
  std::vector<OpSeq> Forgotten(size_t limit) const;
  void Deleted(const std::vector<OpSeq>& seqs);

 private:
  OpSeq acked_below_;
  const size_t max_replies_;
  std::set<OpSeq> running_;
  std::map<OpSeq, std::string> replies_;
  std::map<OpSeq, Error> refusals_;
  std::set<OpSeq> volatile_;   // of replies_: not in the store
  std::set<OpSeq> forgotten_;  // below acked_below_, still in the store
};

}  // namespace stria
