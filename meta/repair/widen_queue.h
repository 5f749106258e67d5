// The queue of widenings: narrow stripes that may be laid out over more columns (candidates), and those that are being widened
// (tasks). A pure state machine: meta/upkeep/widener drives it.
//
//     found by a scan        reserved         made                each proved: swapped in        every session told
//   -----------------> candidate -------> task ------> to be proved -----------------> swapped ---------------------> done
//                                           | failed, or   | one is other than was said,      former shards dropped
//                                           | its node     | or nobody says
//                                           | is gone      |
//                                           '--------------'-> done: new shards dropped
//
// Only tasks are persistent: the shards that they have reserved must not leak. That one is made is not: after a restart its node
// makes it again. Scans find the candidates again after a restart, and those that did not fit into kMaxWidenCandidates.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "stripe/types.h"

namespace stria {

inline constexpr size_t kMaxWidenCandidates = 4096;

struct WidenRecord {
  uint64_t task = 0;
  TargetId executor;     // the node of this target carries the task out
  bool swapped = false;  // the stripe is `to` now; before that it is `from`
  StripeInfo from;       // the stripe when the task was begun, or swapped
  StripeInfo to;
  StripeId stripe() const { return to.id; }
  // Shards that nobody uses when the task ends.
  const std::vector<Column>& leftovers() const { return swapped ? from.columns : to.columns; }
  bool operator==(const WidenRecord&) const = default;
};
std::string EncodeWiden(const WidenRecord& w);
Result<WidenRecord> DecodeWiden(std::string_view bytes);

class WidenQueue {
 public:
  // False if the queue is full. A stripe that is in it already stays once, and becomes urgent if it is said to be. Urgent: the
  // stripe lacks copies.
  bool Add(StripeId stripe, bool urgent = false);
  std::optional<StripeId> Next(bool only_urgent = false);  // takes one, urgent ones first
  size_t waiting() const { return candidates_.size(); }

  void Start(WidenRecord record);
  const WidenRecord* Find(uint64_t task) const;
  bool HasStripe(StripeId stripe) const { return stripes_.count(stripe) > 0; }
  std::vector<uint64_t> Tasks() const;
  size_t in_flight() const { return tasks_.size(); }
  size_t being_made() const;  // those that are not made yet
  // For a node's heartbeat: the tasks that it was given before and has not made, and at most `slots` new ones.
  std::vector<const WidenRecord*> HandOut(const std::set<TargetId>& targets, uint32_t slots);
  void ForgetHandedOut(const std::set<TargetId>& targets);
  // Its node says that all new columns are there, with the digests of `wide`: those of the columns are to say so, too.
  // REQUIRES: it is not made yet.
  void Made(uint64_t task, StripeInfo wide, int64_t now_ns);
  bool IsMade(uint64_t task) const { return tasks_.at(task).made.has_value(); }
  // What it waits for to be proved, and since when; no targets: it does not.
  struct Proof {
    std::vector<TargetId> targets;
    int64_t since_ns = 0;
  };
  Proof ToBeProved(uint64_t task) const;
  // New columns on these targets that are to be proved, at most n of them.
  std::vector<Column> Unproved(const std::set<TargetId>& targets, size_t n) const;
  // The task that waits for this one to be proved; nullopt if none does.
  std::optional<uint64_t> TaskToProve(TargetId target, ShardId shard) const;
  // It is as was said. The stripe with all digests, if it was the last one.
  std::optional<StripeInfo> Proved(uint64_t task, ShardId shard);
  // The stripe was `from`, and is `to` now.
  void Swapped(uint64_t task, StripeInfo from, StripeInfo to);
  // True the first time in this process: the caller is to tell the sessions of the swapped task.
  bool BeginTelling(uint64_t task);
  void End(uint64_t task);

 private:
  struct Task {
    WidenRecord record;
    bool handed_out = false;
    std::optional<StripeInfo> made;  // as its node says
    std::set<ShardId> unproved;      // of `made`
    int64_t made_ns = 0;
    bool telling = false;
  };
  std::set<std::pair<bool, StripeId>> candidates_;  // (not urgent, stripe)
  std::map<uint64_t, Task> tasks_;
  std::set<StripeId> stripes_;  // of the tasks
};

}  // namespace stria
