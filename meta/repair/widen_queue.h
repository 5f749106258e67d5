// Narrow stripes that are to be laid out over more columns, and those that are being. A pure state machine; the driver is
// meta/upkeep/widener.
//
//     found by a scan        placed: shards reserved          made: swapped in        every session told
//   -----------------> candidate -----------------> task -----------------> swapped ---------------------> done
//                                                    | failed, or its node is gone          former shards dropped
//                                                    '-> done: new shards dropped
//
// Persistent are the tasks (what they have reserved must not leak). Candidates are found again by scans; what does not
// fit into kMaxWidenCandidates by the next one. Not thread-safe.
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
  TargetId executor;     // of whose node it is the task
  bool swapped = false;  // `to` is what the stripe is; before, `from` is
  StripeInfo from;       // as it was when it was begun, or swapped
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
  // False if it is full. Nothing for one that is known. Urgent: it lacks copies.
  bool Add(StripeId stripe, bool urgent = false);
  std::optional<StripeId> Next(bool only_urgent = false);  // takes one, those that are urgent first
  size_t waiting() const { return candidates_.size(); }

  void Start(WidenRecord record);
  const WidenRecord* Find(uint64_t task) const;
  bool HasStripe(StripeId stripe) const { return stripes_.count(stripe) > 0; }
  std::vector<uint64_t> Tasks() const;
  size_t in_flight() const { return tasks_.size(); }
  // For a node's heartbeat: its tasks that were handed out before, and at most `slots` new ones.
  std::vector<const WidenRecord*> HandOut(const std::set<TargetId>& targets, uint32_t slots);
  void ForgetHandedOut(const std::set<TargetId>& targets);
  // The stripe was `from`, and is `to` now.
  void Swapped(uint64_t task, StripeInfo from, StripeInfo to);
  // The sessions are being told: true once per swapped task of this process.
  bool BeginTelling(uint64_t task);
  void End(uint64_t task);

 private:
  struct Task {
    WidenRecord record;
    bool handed_out = false;
    bool telling = false;
  };
  std::set<std::pair<bool, StripeId>> candidates_;  // not urgent?
  std::map<uint64_t, Task> tasks_;
  std::set<StripeId> stripes_;  // of the tasks
};

}  // namespace stria
