// The queue of repairs: stripes that need repair, tasks in flight, shards that readers found bad, the progress of targets that
// are being emptied, and the throttle. A pure state machine: meta/upkeep/repairer fills it from the store and carries out the
// repairs that PlanRepairs chooses.
//
// Persistent are only the tasks (their reserved shards must not leak), bad shards (nothing else tells what a reader found),
// settings, and how much was done. After a restart a walk over target_stripes finds the rest.
//
//     found by a scan / a reader        PlanRepairs            reported, column swapped
//   ----------------------------> candidate ----> in flight ----------------------------> done
//                                   ^    |            | failed, or its node is gone
//                                   |    v            v
//                                   '-- parked (no place, too few survivors, or waits for a retry)
//
// Bounds: kMaxRepairCandidates; the next scan finds the stripes that did not fit. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "common/error.h"
#include "stripe/repair_plan.h"

namespace stria {

inline constexpr size_t kMaxRepairCandidates = 256 * 1024;  // waiting and parked
inline constexpr size_t kMaxBadShards = 64 * 1024;
inline constexpr int64_t kRateWindowNs = 30 * kSecond;
inline constexpr int64_t kRepairRetryNs = 20 * kSecond;  // after a task that failed

struct RepairTaskRecord {
  uint64_t task = 0;
  StripeId stripe;
  uint16_t column = 0;
  RepairKind kind = RepairKind::kRebuild;
  ShardId old_shard;
  TargetId old_target;
  ShardId new_shard;
  TargetId new_target;
  uint64_t shard_bytes = 0;
  bool copy = false;
  bool crowded = false;
  bool operator==(const RepairTaskRecord&) const = default;
};
std::string EncodeRepairTask(const RepairTaskRecord& t);
Result<RepairTaskRecord> DecodeRepairTask(std::string_view bytes);

// True if a server that answered so has lost the shard; false if the shard may only be out of reach.
bool IsShardLoss(FsError reason);
struct ReportedShard {
  StripeId stripe;
  uint16_t column = 0;
  ShardId shard;
  FsError reason = FsError::kChecksum;
  bool operator==(const ReportedShard&) const = default;
};
std::string EncodeBadShard(const ReportedShard& b);
Result<ReportedShard> DecodeBadShard(std::string_view bytes);

struct RepairSettings {
  bool paused = false;
  uint64_t limit_bytes_per_s = 0;  // 0: no limit
  bool rebalance = false;          // until it is done
  bool operator==(const RepairSettings&) const = default;
};
std::string EncodeRepairSettings(const RepairSettings& s);
Result<RepairSettings> DecodeRepairSettings(std::string_view bytes);

// How far the emptying of a target has come.
struct RepairDone {
  uint64_t stripes = 0;
  uint64_t bytes = 0;
  bool operator==(const RepairDone&) const = default;
};
std::string EncodeRepairDone(const RepairDone& d);
Result<RepairDone> DecodeRepairDone(std::string_view bytes);

class RepairQueue {
 public:
  enum class Parked : uint8_t {
    kUnrepairable,  // too few survivors, for good
    kWaiting,       // too few survivors until suspect nodes return
    kHomeless,      // no disk can take the shard
    kRetry,         // a task failed
    kUnmovable,     // nothing is lost, and there is no better place now
  };

  // ---- Candidates ----
  // The stripe needs repair. Those with the least `spare` (SpareShards) come first. A second call replaces the value. False:
  // full.
  bool Add(StripeId stripe, int spare);
  // The stripe needs no repair any more. It may be parked, or unknown.
  void Forget(StripeId stripe);
  std::vector<StripeId> Best(size_t n) const;
  // The stripe waits until `until_ns` or UnparkAll. `targets`: targets that cannot be emptied meanwhile.
  void Park(StripeId stripe, Parked why, std::vector<TargetId> targets, int64_t until_ns);
  void Unpark(int64_t now_ns);
  void UnparkAll() { Unpark(INT64_MAX); }
  uint64_t StuckOn(TargetId target) const;  // kUnrepairable and kHomeless
  size_t waiting() const { return order_.size(); }
  size_t parked() const { return parked_.size(); }

  // ---- Tasks in flight ----
  void Start(const RepairTaskRecord& record, RepairTask plan);
  const RepairTaskRecord* Find(uint64_t task) const;
  void End(uint64_t task) { tasks_.erase(task); }
  std::vector<RepairTask> InFlight() const;
  bool HasTask(StripeId stripe) const;
  // For a node's heartbeat: the tasks that it was given before, and at most `slots` new ones.
  std::vector<RepairTaskRecord> HandOut(const std::set<TargetId>& targets, uint32_t slots);
  // The server of the node with these targets has started anew, and does not know its tasks.
  void ForgetHandedOut(const std::set<TargetId>& targets);
  std::vector<RepairTaskRecord> Where(const std::function<bool(const RepairTaskRecord&)>& match) const;
  size_t in_flight() const { return tasks_.size(); }

  // ---- Bad shards ----
  // False if the shard is known to be bad already, or there are too many.
  bool MarkBad(const ReportedShard& bad);
  void ClearBad(StripeId stripe, uint16_t column) { bad_.erase({stripe, column}); }
  bool IsBad(StripeId stripe, uint16_t column, ShardId shard) const;
  std::set<StripeId> BadStripes() const;
  const std::map<std::pair<StripeId, uint16_t>, ReportedShard>& bad() const { return bad_; }

  // ---- Settings and throttle ----
  RepairSettings settings;
  bool MayStart(int64_t now_ns) const { return !settings.paused && now_ns >= next_start_ns_; }
  void Started(uint64_t bytes, int64_t now_ns);

  // ---- Progress of a target being emptied ----
  void BeginTarget(TargetId target, std::string reason);
  void LoadDone(TargetId target, RepairDone done);  // after a restart
  RepairDone DoneOf(TargetId target) const;
  std::vector<TargetId> Targets() const;
  void EndTarget(TargetId target) { progress_.erase(target); }
  bool HasTarget(TargetId target) const { return progress_.count(target) > 0; }
  // A scan found this much still on the target.
  void SetRemaining(TargetId target, uint64_t stripes, uint64_t bytes);
  void Done(TargetId old_target, uint64_t bytes, int64_t now_ns);
  std::vector<RepairProgress> Progress(int64_t now_ns) const;

 private:
  struct Candidate {
    int spare = 0;
    std::optional<Parked> parked;
    std::vector<TargetId> targets;
    int64_t until_ns = 0;
  };
  struct InFlightTask {
    RepairTaskRecord record;
    RepairTask plan;
    bool handed_out = false;
  };
  struct TargetProgress {
    std::string reason;
    uint64_t stripes_done = 0, bytes_done = 0;
    uint64_t stripes_left = 0, bytes_left = 0;
    std::deque<std::pair<int64_t, uint64_t>> recent;  // (when, bytes), at most kRateWindowNs old
  };

  std::map<StripeId, Candidate> candidates_;
  std::set<std::pair<int, StripeId>> order_;  // those not parked
  std::set<StripeId> parked_;
  std::map<uint64_t, InFlightTask> tasks_;
  std::map<std::pair<StripeId, uint16_t>, ReportedShard> bad_;
  int64_t next_start_ns_ = 0;
  std::map<TargetId, TargetProgress> progress_;
};

}  // namespace stria
