// Folding: columns that lie in mirrored stripes of their own are put together under one parity, and the mirrors dropped,
// only while nothing waits for repair, unless it is switched off. No data column moves. Plan: stripe/fold_plan.
// Bookkeeping: meta/repair/fold_queue.h.
//
// One fold:
//   1. ScanForFolds finds candidates; when they have been as they are for a while, PlanFolds chooses
//   2. StartFold: parity is placed and reserved, and the task recorded, in one transaction
//   3. Heartbeat: the nodes of the parity get it as a rebuild of a column that was never there, again and again until they
//      report. What is made already is not recorded: after a restart they are asked again, and report at once
//   4. SwapFold: if every member is what it was, files' extents refer to the fold; it is a stripe like any other from then
//      on. The copies stay reserved
//   5. TellFolded: who may have cached the mapping is told to forget it; then the copies become garbage, which waits as
//      ever for reads under way
// Members are used until 4, their copies are there until 5: nothing is lost whatever fails. A plan that fails leaves
// parity that becomes garbage.
//
// What finds no company of like length for kPatience times as long as it waits anyway is folded with what there is, and in
// fewer columns than the layout has, if that takes clearly less than now (FoldRule::kSaving). It goes on to be a candidate.
//
// A fold of which columns are dead is a candidate as any mirrored stripe is (WantsFolding): its live columns are folded
// together with others, and the dead ones with the old parity are left over like copies. Its last live column, if it has
// waited as long and found no company, is mirrored again: that is a fold of this one column, and made as any other, so
// that its copies are sealed before the old parity is given up.
//
// A file may be open meanwhile, also for writing: what it is told to forget is where its bytes are, not the bytes.
#include <algorithm>

#include "common/log.h"
#include "common/sabotage.h"
#include "meta/service/cluster_keys.h"
#include "meta/service/meta_server_impl.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kFoldPage = 256;
constexpr int64_t kFoldPageNs = 250 * kMillisecond;  // between two pages: a scan is never in a hurry
constexpr int64_t kFoldPlanNs = 5 * kSecond;         // after a plan of which nothing came
constexpr size_t kMaxPlannedFolds = 256;
constexpr int64_t kPatience = 5;  // times FoldOptions::age_ns

}  // namespace

Result<void> MetaServer::FoldSome() {
  RETURN_IF_ERROR(CheckFolds());
  if (!options_.fold.enabled || !window_over_ || repairs_.waiting() > 0 || cluster_->AwaitsFirstBeats()) return Ok();
  RETURN_IF_ERROR(ScanForFolds());
  if (planned_folds_.empty()) ChooseFolds();
  while (!planned_folds_.empty() && folds_.in_flight() < options_.fold.max_folds && repairs_.MayStart(Now())) {
    const PlannedFold next = std::move(planned_folds_.front());
    planned_folds_.pop_front();
    RETURN_IF_ERROR(StartFold(next.kind, next.units));
  }
  return Ok();
}

// Of what is ripe.
void MetaServer::ChooseFolds() {
  if (Now() < plan_folds_ns_ || folds_.in_flight() >= options_.fold.max_folds || !repairs_.MayStart(Now())) return;
  const auto choose = [this](int64_t age_ns, FoldRule rule) {
    for (const auto& [kind, units] : folds_.Ripe(Now() - age_ns)) {
      for (const FoldGroup& group : PlanFolds(units, kind, kMaxPlannedFolds, rule)) {
        if (Sabotaged(Sabotage::kLeaveLonely) && group.size() == 1 && units[group[0]].columns.size() == 1) continue;
        PlannedFold planned{kind, {}};
        for (const size_t i : group) planned.units.push_back(units[i]);
        planned_folds_.push_back(std::move(planned));
      }
    }
  };
  choose(options_.fold.age_ns, FoldRule::kTight);
  if (planned_folds_.empty() && folds_.in_flight() == 0) choose(kPatience * options_.fold.age_ns, FoldRule::kSaving);
  if (planned_folds_.empty()) plan_folds_ns_ = Now() + kFoldPlanNs;
}

// ---- 1. Candidates ----

Result<void> MetaServer::ScanForFolds() {
  if (Now() < folds_again_ns_) return Ok();
  if (!folds_after_) folds_after_ = StripeId();
  const ClusterView view = cluster_->View();
  Txn txn(*store_);
  ASSIGN_OR_RETURN(const auto rows, txn.Scan(Family::kStripes, StripeKey(StripeId(folds_after_->v + 1)),
                                             StripeKey(StripeId(UINT64_MAX)), kFoldPage));
  for (const KvEntry& row : rows) {
    ASSIGN_OR_RETURN(const StripeRecord record, StripeRecord::Decode(row.first, row.second));
    folds_after_ = record.info.id;
    ASSIGN_OR_RETURN(std::optional<Foldable> f, FoldableOf(txn, record, view));
    if (f) folds_.Note(f->kind, std::move(f->unit), Now());
  }
  folds_again_ns_ = Now() + kFoldPageNs;
  if (rows.size() == kFoldPage) return Ok();
  folds_.EndScan();
  folds_after_.reset();
  folds_again_ns_ = Now() + options_.fold.rest_ns;
  return Ok();
}

// What of the stripe is to be folded; nullopt if it is not, or cannot be now.
Result<std::optional<MetaServer::Foldable>> MetaServer::FoldableOf(Txn& txn, const StripeRecord& record,
                                                                   const ClusterView& view) const {
  const std::optional<Foldable> none;
  const StripeInfo& info = record.info;
  const Layout& layout = record.layout;
  if (record.state != StripeState::kLive || layout.arrangement != Arrangement::kGathered || layout.groups != 1 ||
      !info.shape.gathered() || info.shape.groups != 1 || repairs_.HasTask(info.id) || widens_.HasStripe(info.id) ||
      folds_.HasStripe(info.id)) {
    return none;
  }
  Foldable out;
  out.kind = {.k = layout.k, .m = layout.m, .domain = layout.domain};
  if (info.shape.k >= layout.k) {
    // Most stripes are whole: one look tells.
    ASSIGN_OR_RETURN(const auto used, txn.Read<RefBytesRecord>(StripeKey(info.id)));
    if (used && used->bytes >= info.shape.payload_bytes) return none;
  }
  const Result<StripeUsage> usage = ReadStripeUsage(txn, info, kMaxUnitRefs);
  if (usage.code() == FsError::kTooBig) return none;
  RETURN_IF_ERROR(usage);
  uint64_t live_bytes = 0;
  for (uint16_t c = 0; c < info.shape.data_columns(); ++c) {
    if (usage->column_bytes[c] == 0) continue;
    const TargetView* target = view.Find(info.columns[c].target);
    if (target == nullptr) return none;
    live_bytes += info.columns[c].length;
    out.unit.columns.push_back({ColumnIndex(c), DomainOf(*target, layout.domain), target->node, info.columns[c].length});
  }
  if (!WantsFolding(info.shape, live_bytes, static_cast<uint32_t>(out.unit.columns.size()), out.kind)) return none;
  out.unit.stripe = info.id;
  out.unit.refs = usage->refs;
  for (const Column& c : info.columns) out.unit.stored_bytes += c.length;
  out.unit.stamp = usage->stamp;
  return std::optional<Foldable>(std::move(out));
}

// ---- 2. Start ----

// Disks that may hold one fold: none shares a domain with another, and no node's loss takes more than m of them.
bool MetaServer::IsFoldSpread(const ClusterView& view, const FoldKind& kind, const std::vector<TargetId>& targets) {
  std::map<NodeId, uint32_t> columns;
  for (const TargetId t : targets) {
    const TargetView* target = view.Find(t);
    if (target == nullptr || ++columns[target->node] > kind.m) return false;
  }
  return !IsCrowded(view, targets, kind.domain);
}

// Puts the parity where no other column's domain is. False if there is no such place with room.
bool MetaServer::PlaceFoldParity(const ClusterView& view, const FoldKind& kind, StripeInfo* fold) {
  std::vector<TargetId> targets;
  for (const Column& c : fold->columns) targets.push_back(c.target);
  for (uint16_t c = static_cast<uint16_t>(fold->shape.data_columns()); c < fold->columns.size(); ++c) {
    RepairRequest place;
    place.lost = ColumnIndex(c);
    place.domain = kind.domain;
    place.needed_bytes = fold->columns[c].length;
    place.refuse = [&](const TargetView& t) {
      // What is kept for repair is not for this, nor what other folds are to have.
      if (t.free_bytes < place.needed_bytes + folds_.PromisedBytes(t.target)) return true;
      std::vector<TargetId> with = {t.target};
      std::ranges::copy_if(targets, std::back_inserter(with), [](TargetId other) { return bool{other}; });
      return !IsFoldSpread(view, kind, with);
    };
    const Result<RepairPlacement> placed = PlaceRepair(view, fold->shape, targets, place, place_seed_++);
    if (!placed.ok()) return false;
    targets[c] = fold->columns[c].target = placed->target;
  }
  return true;
}

// Nothing if something is not as it was when it was found, or there is no place: the next scan finds it again.
Result<void> MetaServer::StartFold(FoldKind kind, const std::vector<FoldUnit>& units) {
  const ClusterView view = cluster_->View();
  Txn txn(*store_);
  FoldRecord f;
  StripeInfo& fold = f.plan.fold;
  for (const FoldUnit& unit : units) {
    ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, unit.stripe));
    std::optional<Foldable> now;
    if (record) {
      ASSIGN_OR_RETURN(now, FoldableOf(txn, *record, view));
    }
    // What is dead of it is not needed: what survived the loss of more than m columns becomes safe again by this.
    const std::optional<StripeHealth> health = now ? HealthOf(*record) : std::nullopt;
    const auto is_ok = [&](const FoldColumn& c) { return health->columns[c.column.v] == ColumnState::kOk; };
    if (!health || now->kind != kind || now->unit != unit || !std::ranges::all_of(unit.columns, is_ok)) {
      folds_.Drop(unit.stripe);
      return Ok();
    }
    for (const FoldColumn& c : unit.columns) {
      f.plan.members.push_back({unit.stripe, c.column.v});
      fold.columns.push_back(record->info.columns[c.column.v]);
      fold.shape.column_bytes.push_back(c.length);
      fold.shape.payload_bytes += c.length;
    }
    if (f.plan.members.size() == unit.columns.size()) {
      f.plan.layout = record->layout;
      f.plan.layout.place = Place::kSpread;  // its columns are of several files
      f.plan.layout.place_node = NodeId();
      fold.shape.unit_bytes = record->info.shape.unit_bytes;
    }
  }
  CHECK(!f.plan.members.empty() && f.plan.members.size() <= kind.k);
  fold.shape.k = static_cast<uint8_t>(f.plan.members.size());
  fold.shape.m = kind.m;
  fold.shape.codec = DefaultCodec(fold.shape.k, fold.shape.m);
  for (uint32_t i = 0; i < kind.m; ++i) fold.columns.push_back({.length = GroupBytes(fold.shape, 0)});
  if (!PlaceFoldParity(view, kind, &fold)) {
    for (const FoldUnit& unit : units) folds_.Drop(unit.stripe);  // others may have a place: it is their turn
    return Ok();
  }
  ASSIGN_OR_RETURN(fold.id, txn.NewStripe());
  RETURN_IF_ERROR(OpReserveStripe(txn, &fold));
  for (uint32_t i = 0; i < kind.m; ++i) {
    ASSIGN_OR_RETURN(const uint64_t task, txn.NewId(IdKind::kTask));
    f.tasks.push_back(task);
  }
  txn.Put(Family::kRepairs, FoldKey(f.task()), EncodeFold(f));
  RETURN_IF_ERROR(txn.Commit());
  unsynced_.Set();
  repairs_.Started(fold.shape.payload_bytes, Now());
  folds_.Start(std::move(f));
  return Ok();
}

// What nobody uses becomes garbage.
Result<void> MetaServer::EndFold(uint64_t task) {
  const FoldRecord* f = folds_.Find(task);
  if (f == nullptr) return Ok();
  Txn txn(*store_);
  for (const Column& c : f->leftovers()) RETURN_IF_ERROR(OpDropReservedShard(txn, c.target, c.shard));
  txn.Delete(Family::kRepairs, FoldKey(task));
  RETURN_IF_ERROR(txn.Commit());
  unsynced_.Set();
  folds_.End(task);
  return Ok();
}

// ---- 3. Parity ----

// Its parity can be made, and is wanted: nobody who has a part in it is gone. A disk that may come back is waited for.
bool MetaServer::IsFoldAble(const FoldRecord& f) const {
  const StripeInfo& fold = f.plan.fold;
  std::vector<TargetId> targets;
  for (uint16_t c = 0; c < fold.columns.size(); ++c) {
    const TargetInfo* target = cluster_->FindTarget(fold.columns[c].target);
    const NodeInfo* node = target == nullptr ? nullptr : cluster_->FindNode(target->node);
    if (node == nullptr || node->state == NodeState::kDown || node->state == NodeState::kOut) return false;
    if (cluster_->StateOf(target->id) == ColumnState::kMissing) return false;
    targets.push_back(target->id);
  }
  for (size_t i = 0; i < f.plan.members.size(); ++i) {
    if (repairs_.IsBad(f.plan.members[i].stripe, f.plan.members[i].column, fold.columns[i].shard)) return false;
  }
  return IsFoldSpread(cluster_->View(), {fold.shape.k, fold.shape.m, f.plan.layout.domain}, targets);
}

// Ends tasks that nobody can carry out any more, or whose members have changed; goes on with those that a restart has
// interrupted, or that waited for a disk.
Result<void> MetaServer::CheckFolds() {
  for (const uint64_t task : folds_.Tasks()) {
    const FoldRecord& f = *folds_.Find(task);
    if (f.swapped) {
      if (!window_over_ || !folds_.BeginTelling(task)) continue;  // clients may still claim what they have cached
      scope_.Spawn(TellFolded(task));
      continue;
    }
    bool able = IsFoldAble(f);
    Txn txn(*store_);
    for (size_t i = 0; able && i < f.plan.members.size(); ++i) {
      const FoldMember& m = f.plan.members[i];
      ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, m.stripe));
      able = record && m.column < record->info.columns.size() && record->info.columns[m.column] == f.plan.fold.columns[i];
    }
    if (!able) RETURN_IF_ERROR(EndFold(task));
    else RETURN_IF_ERROR(SwapFold(task));
  }
  return Ok();
}

std::vector<RebuildWork> MetaServer::FoldWorkFor(const std::set<TargetId>& targets, uint32_t slots) {
  std::vector<RebuildWork> out;
  for (const FoldQueue::Part& part : folds_.HandOut(targets, repairs_.settings.paused ? 0 : slots)) {
    const StripeInfo& fold = part.record->plan.fold;
    const uint32_t first = fold.shape.data_columns();
    RebuildWork w;
    w.task = part.record->tasks[part.column - first];
    w.stripe.info = fold;
    SignGrant(&w.stripe, kTokenRead);
    for (uint16_t c = static_cast<uint16_t>(first); c < fold.columns.size(); ++c) w.lost.push_back(c);
    w.column = part.column;
    w.new_shard = fold.columns[part.column].shard;
    w.new_target = fold.columns[part.column].target;
    w.write_token = Sign(w.new_shard, w.new_target, kTokenWrite);
    out.push_back(std::move(w));
  }
  return out;
}

Result<void> MetaServer::TakeFoldParity(const RebuildResult& result) {
  const FoldQueue::Part part = folds_.FindPart(result.task);
  const FoldRecord f = *part.record;
  if (f.swapped) return Ok();
  if (result.result.code == FsError::kOk && result.length == f.plan.fold.columns[part.column].length) {
    folds_.Made(result.task, result.digest);
    return SwapFold(f.task());
  }
  // A fold needs every column, so that its result may tell of another trouble than theirs.
  const FsError cause = IsShardLoss(result.result.code) ? result.result.code : FsError::kChecksum;
  for (uint16_t c : result.bad_columns) {
    if (c >= f.plan.members.size()) continue;
    const FoldMember& m = f.plan.members[c];
    std::optional<StripeRecord> record;
    {
      Txn txn(*store_);
      ASSIGN_OR_RETURN(record, GetStripeRecord(txn, m.stripe));
    }
    if (!record || m.column >= record->info.columns.size() || record->info.columns[m.column] != f.plan.fold.columns[c]) continue;
    RETURN_IF_ERROR(NoteBadColumns(m.stripe, &record->info, cause, {m.column}));
  }
  plan_folds_ns_ = Now() + kFoldPlanNs;
  return EndFold(f.task());
}

// ---- 4. and 5. ----

// If all of its parity is made, and everything is there.
Result<void> MetaServer::SwapFold(uint64_t task) {
  std::optional<FoldPlan> plan = folds_.WhenMade(task);
  if (!plan || !window_over_) return Ok();
  if (!IsFoldAble(*folds_.Find(task))) return EndFold(task);
  for (const Column& c : plan->fold.columns) {
    if (cluster_->StateOf(c.target) == ColumnState::kSuspect) return Ok();
  }
  FoldRecord swapped = *folds_.Find(task);
  swapped.swapped = true;
  swapped.plan = *std::move(plan);
  Touched touched;
  std::vector<std::pair<StripeId, uint16_t>> bad;  // copies that are not needed any more
  {
    Txn txn(*store_);
    Result<std::vector<Column>> copies = OpFold(txn, swapped.plan, kMaxFoldRefs, &touched);
    if (copies.code() == FsError::kConflict || copies.code() == FsError::kTooBig) {
      LogDebug("fold {} is given up: {}", task, copies.error());
      return EndFold(task);
    }
    RETURN_IF_ERROR(copies);
    swapped.copies = *std::move(copies);
    txn.Put(Family::kRepairs, FoldKey(task), EncodeFold(swapped));
    for (const StripeId stripe : touched.freed) {
      for (auto it = repairs_.bad().lower_bound({stripe, 0}); it != repairs_.bad().end() && it->first.first == stripe; ++it) {
        txn.Delete(Family::kRepairs, BadShardKey(stripe, it->first.second));
        bad.push_back(it->first);
      }
    }
    RETURN_IF_ERROR(txn.Commit());
  }
  NoteCommit(touched);
  for (const auto& [stripe, column] : bad) repairs_.ClearBad(stripe, column);
  for (const StripeId stripe : touched.freed) repairs_.Forget(stripe);
  if (swapped.plan.members.size() == 1) {
    ++unfolded_;
  } else {
    ++folded_;
    folded_bytes_ += swapped.plan.fold.shape.payload_bytes;
  }
  folds_.Swapped(std::move(swapped));
  repair_work_.Set();
  return Ok();
}

Task<void> MetaServer::TellFolded(uint64_t task) {
  Touched touched;
  {
    Txn txn(*store_);
    const auto uses = ListStripeUses(txn, folds_.Find(task)->plan.fold.id, SIZE_MAX);
    if (!uses.ok()) co_return SetFatal(uses.error());
    for (const StripeUse& use : *uses) touched.data.insert(use.ino);
  }
  co_await Announce(SessionId(), touched, {});
  const Result<void> done = EndFold(task);
  if (!done.ok()) SetFatal(done.error());
}

}  // namespace stria
