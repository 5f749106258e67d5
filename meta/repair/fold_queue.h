// Stripes whose columns are to be put together under one parity, and folds that are being made. A pure state machine; the
// driver is meta/upkeep/folder, what is chosen stripe/fold_plan.
//
//     found by a scan      PlanFolds: parity reserved        all parity made: swapped in      every session told
//   -----------------> candidate -----------------> task --------------------------> swapped -----------------> done
//                                                    | failed, or a member is another by now    copies dropped
//                                                    '-> done: parity dropped
//
// Persistent are the tasks (what they have reserved must not leak). Candidates, and which parity is made already, are
// found again: by the next scan, and by handing the work out once more. What does not fit is found by a later scan, when
// others have been folded; each failure domain has room of its own, so that the files of one node, written one after the
// other, do not keep out those of the others, without which they cannot be folded. Not thread-safe.
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
  std::vector<uint64_t> tasks;  // one per parity column; the first is the fold's too. None is 0
  bool swapped = false;         // the fold is what files use
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
  // Seen by a scan at `now_ns`, as it is now. One that is another than before is as new. False: full.
  bool Note(FoldKind kind, FoldUnit unit, int64_t now_ns);
  void Drop(StripeId stripe);
  // The scan has seen all stripes: those that it has not seen are no candidates any more.
  void EndScan();
  // Candidates that have been as they are since `since_ns`, by kind.
  std::map<FoldKind, std::vector<FoldUnit>> Ripe(int64_t since_ns) const;
  size_t waiting() const { return candidates_.size(); }

  // ---- Tasks ----
  void Start(FoldRecord record);
  const FoldRecord* Find(uint64_t task) const;
  // The fold that this is a parity column's task of, and its column.
  struct Part {
    const FoldRecord* record = nullptr;  // null: of none
    uint16_t column = 0;
  };
  Part FindPart(uint64_t part) const;
  // A member of a fold under way, or a fold that is not told of yet.
  bool HasStripe(StripeId stripe) const { return stripes_.count(stripe) > 0; }
  std::vector<uint64_t> Tasks() const;
  size_t in_flight() const { return tasks_.size(); }
  // Bytes of parity reserved on the disk that may not be there yet.
  uint64_t PromisedBytes(TargetId target) const;
  // For a node's heartbeat: what was handed out before and is not made yet, and at most `slots` new ones.
  std::vector<Part> HandOut(const std::set<TargetId>& targets, uint32_t slots);
  void ForgetHandedOut(const std::set<TargetId>& targets);
  // The column was made. Nothing if it was before.
  void Made(uint64_t part, uint64_t digest);
  // The fold with the digests of all its columns, when all are made.
  std::optional<FoldPlan> WhenMade(uint64_t task) const;
  void Swapped(FoldRecord record);
  // The sessions are being told: true once per swapped task of this process.
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
    std::map<uint64_t, uint64_t> digests;  // of what is made, by part
    bool telling = false;
  };
  using Room = std::pair<FoldKind, DomainKey>;
  static Room RoomOf(const Candidate& c) { return {c.kind, c.unit.columns.front().domain}; }
  std::map<StripeId, Candidate> candidates_;
  std::map<Room, size_t> taken_;  // candidates
  std::map<uint64_t, Task> tasks_;
  std::map<uint64_t, uint64_t> parts_;  // task of each part
  std::set<StripeId> stripes_;
};

}  // namespace stria
