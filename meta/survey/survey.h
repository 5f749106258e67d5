// The survey: what cannot be read or is lost, what the loss of a node would cost, and what new stripes would be with fewer
// disks. Everything here only looks; nothing decides by it but people and the verbs that refuse to lose data.
//
// Owns: the last survey of damage and the last count of exposure, with their ages, and the layouts asked for lately.
// Invariant: what is given as of now is of this map and this store, or says how old it is.
//
// Called by the metadata server: its handlers and its clock. Sees the store, the cluster, and which shards are bad.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/admin_api.h"
#include "api/meta_api.h"
#include "common/exec/task.h"
#include "meta/cluster/cluster_state.h"
#include "meta/cluster/layouts_asked.h"
#include "meta/core/bad_shards.h"
#include "meta/store/txn.h"
#include "meta/survey/exposure.h"
#include "meta/survey/stripe_files.h"

namespace stria {

// All of it outlives the survey.
struct SurveyEnv {
  Executor* executor = nullptr;
  MetaStore* store = nullptr;
  const ClusterState* cluster = nullptr;
  const BadShards* bad = nullptr;
};

struct Damage {
  uint64_t degraded = 0;
  std::set<StripeId> lost;
  GoneColumns gone;        // of each of those, the columns that are not readable at all
  uint64_t hit = 0;             // have a shard on one of those that were asked about, and are not lost
  std::set<StripeId> some_hit;  // of these, for the names of files; bounded
};

class Survey {
 public:
  // `max_hit`: stripes on disks that may be removed whose files are named; all are counted. `count_at_once` stripes are counted when somebody asks; more, now and then beforehand.
  Survey(const SurveyEnv& env, size_t count_at_once, size_t max_hit = 100'000)
      : env_(env), count_at_once_(count_at_once), max_hit_(max_hit) {}
  ~Survey() { Stop(); }
  void Stop() { scope_.CancelAll(); }

  // ---- Damage ----
  Task<Result<Damage>> DamageNow();  // of a moment ago, if that is dear
  // Of the cluster as it is, if `gone` were gone too: looks at every stripe with a shard on a target that cannot be read, or
  // on one of `gone`.
  Task<Result<Damage>> DamageWithout(std::set<TargetId> gone);
  // Stripes that would be lost without these, and are not now.
  Task<Result<uint64_t>> LostWithout(std::vector<TargetId> targets);
  Task<Result<CanRemoveReply>> CanRemove(std::vector<TargetId> targets);
  // Files of one kind, a page. `scrubs` are for kUnfit.
  Task<Result<FilesReply>> Files(FilesRequest r, std::vector<ScrubProgress> scrubs);

  // ---- Exposure: what the loss of one node would cost ----
  // Never fails: where the store is damaged, status is wanted most.
  Task<NodeLoss> NodeLossNow();
  void CountAhead();  // begins a count, if there is to be one; at every tick
  const std::optional<Exposure>& exposure() const { return exposure_; }

  // ---- Room for layouts ----
  // Stripes of it were asked for.
  void NoteAsked(const Layout& layout) { asked_.Note(layout, env_.executor->NowNs()); }
  // Of the layouts in use, those of which new stripes are not as they ask.
  Result<std::vector<LayoutRoom>> LackingRooms() const;
  // "; new stripes of layout raid5:4+1 will be 3+1 until another node joins": once these are not used any more.
  Result<std::string> RoomsWithout(const std::vector<TargetId>& targets) const;

 private:
  int64_t Now() const { return env_.executor->NowNs(); }
  bool IsUnreadable(StripeId stripe, uint16_t column, const Column& c) const;
  Result<void> SurveyStripe(Txn& txn, StripeId id, const std::set<TargetId>& gone, Damage* out) const;
  bool IsExposureOld() const;
  void CountStripe(const StripeRecord& record, Exposure* out) const;
  Task<Result<void>> CountExposure(bool at_leisure);
  Task<void> CountSlowly();
  Result<std::map<std::string, Layout>> LayoutsInUse(bool of_stripes) const;

  const SurveyEnv env_;
  const size_t count_at_once_;
  const size_t max_hit_;
  std::optional<Damage> damage_;  // good while nothing changes
  std::pair<uint64_t, CommitSeq> damage_of_;
  int64_t damage_until_ns_ = 0;
  std::optional<Exposure> exposure_;  // the last whole count
  bool counting_ = false;
  bool counting_failed_ = false;  // the last time
  int64_t count_again_ns_ = 0;
  LayoutsAsked asked_;
  TaskScope scope_;  // last: its tasks use everything above
};

}  // namespace stria
