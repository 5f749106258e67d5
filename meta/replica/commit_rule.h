// When a batch counts as committed: when the primary and all of the maximal set have it durable, and the set is not smaller
// than it may be. The maximal set is everybody who may be in the register's set, as far as the primary knows: a member that is
// to leave is needed until the new value was read, one that is to enter from before it is asked for. Pure.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/sabotage.h"

namespace stria {

using MemberSet = std::set<std::string>;

class CommitRule {
 public:
  // `self`: the primary's own name, always in both sets.
  explicit CommitRule(std::string self) : self_(std::move(self)), in_sync_({self_}), required_({self_}) {}

  // `in_sync`: the register's set as it was read last. `required`: the maximal set.
  void Require(MemberSet in_sync, MemberSet required, size_t min_in_sync) {
    in_sync_ = std::move(in_sync);
    required_ = std::move(required);
    in_sync_.insert(self_);
    required_.insert(self_);
    min_in_sync_ = min_in_sync;
    Advance();
  }
  // All batches up to `seq` are durable there. Reports may come late and out of order.
  void Durable(const std::string& member, CommitSeq seq) {
    CommitSeq& at = durable_[member];
    at = std::max(at, seq);
    Advance();
  }
  // What it had is not to be relied on any more: it has gone back.
  void Forget(const std::string& member) { durable_.erase(member); }

  CommitSeq committed() const { return committed_; }
  CommitSeq durable(const std::string& member) const {
    const auto it = durable_.find(member);
    return it == durable_.end() ? CommitSeq() : it->second;
  }
  const MemberSet& required() const { return required_; }
  bool required(const std::string& member) const { return required_.contains(member); }
  bool in_sync(const std::string& member) const { return in_sync_.contains(member); }
  bool enough() const { return in_sync_.size() >= min_in_sync_; }

 private:
  void Advance() {
    if (!enough()) return;
    std::vector<CommitSeq> all;
    for (const std::string& m : required_) all.push_back(durable(m));
    std::sort(all.begin(), all.end());
    const CommitSeq least = Sabotaged(Sabotage::kCommitByMajority) ? all[(all.size() - 1) / 2] : all.front();
    committed_ = std::max(committed_, least);
  }

  const std::string self_;
  MemberSet in_sync_;
  MemberSet required_;
  size_t min_in_sync_ = 1;
  std::map<std::string, CommitSeq> durable_;
  CommitSeq committed_;
};

}  // namespace stria
