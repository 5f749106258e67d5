#include "meta/session/once_ops.h"

#include <utility>

namespace stria {

void OnceOps::Ack(OpSeq acked_below) {
  if (acked_below <= acked_below_) return;
  acked_below_ = acked_below;
  refusals_.erase(refusals_.begin(), refusals_.lower_bound(acked_below));
  while (!replies_.empty() && replies_.begin()->first < acked_below) {
    // An op whose reply has arrived does not run any more; a running op keeps its reply until Finish.
    const OpSeq seq = replies_.begin()->first;
    if (volatile_.erase(seq) == 0) forgotten_.insert(seq);
    replies_.erase(replies_.begin());
  }
}

OpState OnceOps::Lookup(OpSeq seq) const {
  if (running_.count(seq)) return OpState::kRunning;
  if (seq < acked_below_) return OpState::kForgotten;
  if (replies_.count(seq)) return OpState::kDone;
  if (refusals_.count(seq)) return OpState::kRefused;
  if (replies_.size() + refusals_.size() + running_.size() >= max_replies_) return OpState::kTooMany;
  return OpState::kNew;
}

const std::string& OnceOps::Reply(OpSeq seq) const {
  const auto it = replies_.find(seq);
  CHECK(it != replies_.end(), "no stored reply");
  return it->second;
}

const Error& OnceOps::Refusal(OpSeq seq) const {
  const auto it = refusals_.find(seq);
  CHECK(it != refusals_.end(), "no stored refusal");
  return it->second;
}

void OnceOps::Begin(OpSeq seq) { CHECK(running_.insert(seq).second); }

void OnceOps::Commit(OpSeq seq, std::string reply) {
  if (seq < acked_below_) forgotten_.insert(seq);
  else replies_[seq] = std::move(reply);
}

void OnceOps::CommitVolatile(OpSeq seq, std::string reply) {
  if (seq < acked_below_) return;
  replies_[seq] = std::move(reply);
  volatile_.insert(seq);
}

void OnceOps::Refuse(OpSeq seq, Error error) {
  if (seq < acked_below_ || replies_.count(seq)) return;
  refusals_[seq] = std::move(error);
}

void OnceOps::LoseVolatile() {
  for (const OpSeq seq : volatile_) replies_.erase(seq);
  volatile_.clear();
}

std::vector<OpSeq> OnceOps::Forgotten(size_t limit) const {
  std::vector<OpSeq> out;
  for (OpSeq seq : forgotten_) {
    if (out.size() >= limit) break;
    out.push_back(seq);
  }
  return out;
}

void OnceOps::Deleted(const std::vector<OpSeq>& seqs) {
  for (OpSeq seq : seqs) forgotten_.erase(seq);
}

}  // namespace stria
