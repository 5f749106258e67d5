// The queue of folds: stripes whose columns may be put together under one parity (candidates), and folds that are being made
// (tasks). A pure state machine: meta/upkeep/folder drives it, stripe/fold_plan chooses columns.
//
//     found by a scan      PlanFolds: parity reserved        all parity made: swapped in      every session told
//   -----------------> candidate -----------------> task --------------------------> swapped -----------------> done
//                                                    | failed, or a member is another by now    copies dropped
//                                                    '-> done: parity dropped
//
// Only tasks are persistent: the shards that they have reserved must not leak. After a restart the next scan finds the
// candidates again, and the nodes are given the parity to make once more.
// When the queue is full, a later scan finds the rest, after others have been folded. Each failure domain has room of its own: a
// fold needs columns of several domains, and the files that one node wrote in a row would else leave no room for the others'.
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
#include "meta/ops/ops.h"
#include "stripe/fold_plan.h"
#include "stripe/types.h"

namespace stria {

inline constexpr size_t kMaxFoldCandidates = 16384;
inline constexpr size_t kMaxFoldCandidatesPerDomain = 1024;  // of one kind, by their first column

struct FoldRecord {
  std::vector<uint64_t> tasks;  // one for each parity column, never 0; the first is also the number of the fold
  bool swapped = false;         // files use the fold
  FoldPlan plan;                // its parity has digests only when swapped
  std::vector<Column> copies;   // swapped: the members' shards that the fold does not use
  uint64_t task() const { return tasks.front(); }
  // Shards that nobody uses when the task ends.
  std::vector<Column> leftovers() const;
  bool operator==(const FoldRecord&) const = default;
};
std::string EncodeFold(const FoldRecord& f);
Result<FoldRecord> DecodeFold(std::string_view bytes);

class FoldQueue {
 public:
  // ---- Candidates ----
  // A scan saw this candidate at `now_ns`. If it has changed since the last scan, its age counts from now. False: full.
  bool Note(FoldKind kind, FoldUnit unit, int64_t now_ns);
  void Drop(StripeId stripe);
  // The scan has seen all stripes. Candidates that it did not see are dropped.
  void EndScan();
  // Candidates that have not changed since `since_ns`, by kind.
  std::map<FoldKind, std::vector<FoldUnit>> Ripe(int64_t since_ns) const;
  size_t waiting() const { return candidates_.size(); }

  // ---- Tasks ----
  void Start(FoldRecord record);
  const FoldRecord* Find(uint64_t task) const;
  // The fold and the parity column that a task makes.
  struct Part {
    const FoldRecord* record = nullptr;  // null: there is no such task
    uint16_t column = 0;
  };
  Part FindPart(uint64_t part) const;
  // The stripe is a member of a fold under way, or a fold that the sessions have not been told of yet.
  bool HasStripe(StripeId stripe) const { return stripes_.count(stripe) > 0; }
  std::vector<uint64_t> Tasks() const;
  size_t in_flight() const { return tasks_.size(); }
  // Bytes of parity that are reserved on the disk and may not be written yet.
  uint64_t PromisedBytes(TargetId target) const;
  // For a node's heartbeat: the parts that it was given before and has not made yet, and at most `slots` new ones.
  std::vector<Part> HandOut(const std::set<TargetId>& targets, uint32_t slots);
  void ForgetHandedOut(const std::set<TargetId>& targets);
  // The column was made. A second report changes nothing.
  void Made(uint64_t part, uint64_t digest);
  // The fold with the digests of all its columns, when all are made.
  std::optional<FoldPlan> WhenMade(uint64_t task) const;
  void Swapped(FoldRecord record);
  // True the first time in this process: the caller is to tell the sessions of the swapped task.
  bool BeginTelling(uint64_t task);
  void End(uint64_t task);

 private:
  struct Candidate {
    FoldKind kind;
    FoldUnit unit;
    int64_t since_ns = 0;
    bool seen = false;  // by the scan under way
  };
  struct Task {
    FoldRecord record;
    std::set<uint64_t> handed_out;
    std::map<uint64_t, uint64_t> digests;  // of parts that are made
    bool telling = false;
  };
  using Room = std::pair<FoldKind, DomainKey>;
  static Room RoomOf(const Candidate& c) { return {c.kind, c.unit.columns.front().domain}; }
  std::map<StripeId, Candidate> candidates_;
  std::map<Room, size_t> taken_;  // number of candidates
  std::map<uint64_t, Task> tasks_;
  std::map<uint64_t, uint64_t> parts_;  // task of each part
  std::set<StripeId> stripes_;
};

}  // namespace stria
