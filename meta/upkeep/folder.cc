#include "meta/upkeep/folder.h"

#include <algorithm>

#include "common/log.h"
#include "common/sabotage.h"
#include "meta/core/cluster_keys.h"
#include "meta/core/for_each.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kFoldPage = 256;
constexpr int64_t kFoldPageNs = 250 * kMillisecond;  // between two pages: a scan is never in a hurry
constexpr int64_t kFoldPlanNs = 5 * kSecond;         // after a plan of which nothing came
constexpr size_t kMaxPlanned = 256;
constexpr int64_t kPatience = 5;  // times FoldOptions::age_ns

// Disks that may hold one fold: none shares a domain with another, and no node's loss takes more than m of them.
bool IsSpread(const ClusterView& view, const FoldKind& kind, const std::vector<TargetId>& targets) {
  std::map<NodeId, uint32_t> columns;
  for (const TargetId t : targets) {
    const TargetView* target = view.Find(t);
    if (target == nullptr || ++columns[target->node] > kind.m) return false;
  }
  return !IsCrowded(view, targets, kind.domain);
}

}  // namespace

Result<void> Folder::Load(Txn& txn) {
  return ForEachEntry(txn, Family::kRepairs, FoldPrefix(), [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(FoldRecord f, DecodeFold(v));
    queue_.Start(std::move(f));
    return Ok();
  });
}

void Folder::Tell(UpkeepReply* reply) const {
  reply->folding = {options_.enabled, queue_.in_flight(), queue_.waiting(), folded_, folded_bytes_};
}

Result<void> Folder::Plan() {
  RETURN_IF_ERROR(CheckTasks());
  if (!options_.enabled || !env_.host->AreClaimsOver() || repairer_->waiting() > 0 || env_.cluster->AwaitsFirstBeats()) return Ok();
  RETURN_IF_ERROR(Walk());
  if (planned_.empty()) Choose();
  while (!planned_.empty() && queue_.in_flight() < options_.max_folds && repairer_->MayStart()) {
    const Planned next = std::move(planned_.front());
    planned_.pop_front();
    RETURN_IF_ERROR(StartOne(next.kind, next.units));
  }
  return Ok();
}

// Of what is ripe.
void Folder::Choose() {
  if (Now() < choose_ns_ || queue_.in_flight() >= options_.max_folds || !repairer_->MayStart()) return;
  const auto choose = [this](int64_t age_ns, FoldRule rule) {
    for (const auto& [kind, units] : queue_.Ripe(Now() - age_ns)) {
      for (const FoldGroup& group : PlanFolds(units, kind, kMaxPlanned, rule)) {
        if (Sabotaged(Sabotage::kLeaveLonely) && group.size() == 1 && units[group[0]].columns.size() == 1) continue;
        Planned planned{kind, {}};
        for (const size_t i : group) planned.units.push_back(units[i]);
        planned_.push_back(std::move(planned));
      }
    }
  };
  choose(options_.age_ns, FoldRule::kTight);
  if (planned_.empty() && queue_.in_flight() == 0) choose(kPatience * options_.age_ns, FoldRule::kSaving);
  if (planned_.empty()) choose_ns_ = Now() + kFoldPlanNs;
}

// ---- 1. Candidates ----

Result<void> Folder::Walk() {
  if (Now() < again_ns_) return Ok();
  if (!after_) after_ = StripeId();
  const ClusterView view = env_.cluster->View();
  Txn txn(*env_.store);
  ASSIGN_OR_RETURN(const auto rows, txn.Scan(Family::kStripes, StripeKey(StripeId(after_->v + 1)),
                                             StripeKey(StripeId(UINT64_MAX)), kFoldPage));
  for (const KvEntry& row : rows) {
    ASSIGN_OR_RETURN(const StripeRecord record, StripeRecord::Decode(row.first, row.second));
    after_ = record.info.id;
    ASSIGN_OR_RETURN(std::optional<Foldable> f, FoldableOf(txn, record, view));
    if (f) queue_.Note(f->kind, std::move(f->unit), Now());
  }
  again_ns_ = Now() + kFoldPageNs;
  if (rows.size() == kFoldPage) return Ok();
  queue_.EndScan();
  after_.reset();
  again_ns_ = Now() + options_.rest_ns;
  return Ok();
}

// What of the stripe is to be folded; nullopt if it is not, or cannot be now.
Result<std::optional<Folder::Foldable>> Folder::FoldableOf(Txn& txn, const StripeRecord& record,
                                                                   const ClusterView& view) const {
  const std::optional<Foldable> none;
  const StripeInfo& info = record.info;
  const Layout& layout = record.layout;
  if (record.state != StripeState::kLive || layout.arrangement != Arrangement::kGathered || layout.groups != 1 ||
      !info.shape.gathered() || info.shape.groups != 1 || repairer_->HasTask(info.id) || widener_->HasStripe(info.id) ||
      queue_.HasStripe(info.id)) {
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
  if (env_.audience) {
    ASSIGN_OR_RETURN(out.kind.audience, env_.audience(txn, usage->files));
  }
  out.unit.stripe = info.id;
  out.unit.refs = usage->refs;
  for (const Column& c : info.columns) out.unit.stored_bytes += c.length;
  out.unit.stamp = usage->stamp;
  return std::optional<Foldable>(std::move(out));
}

// ---- 2. Start ----

// Puts the parity where no other column's domain is. False if there is no such place with room.
bool Folder::PlaceParity(const ClusterView& view, const FoldKind& kind, StripeInfo* fold) {
  std::vector<TargetId> targets;
  for (const Column& c : fold->columns) targets.push_back(c.target);
  for (uint16_t c = static_cast<uint16_t>(fold->shape.data_columns()); c < fold->columns.size(); ++c) {
    RepairRequest place;
    place.lost = ColumnIndex(c);
    place.domain = kind.domain;
    place.needed_bytes = fold->columns[c].length;
    place.refuse = [&](const TargetView& t) {
      // What is kept for repair is not for this, nor what other folds are to have.
      if (t.free_bytes < place.needed_bytes + queue_.PromisedBytes(t.target)) return true;
      std::vector<TargetId> with = {t.target};
      std::ranges::copy_if(targets, std::back_inserter(with), [](TargetId other) { return bool{other}; });
      return !IsSpread(view, kind, with);
    };
    const Result<RepairPlacement> placed = PlaceRepair(view, fold->shape, targets, place, env_.seeds->Take());
    if (!placed.ok()) return false;
    targets[c] = fold->columns[c].target = placed->target;
  }
  return true;
}

// Nothing if something is not as it was when it was found, or there is no place: the next scan finds it again.
Result<void> Folder::StartOne(FoldKind kind, const std::vector<FoldUnit>& units) {
  const ClusterView view = env_.cluster->View();
  Txn txn(*env_.store);
  FoldRecord f;
  StripeInfo& fold = f.plan.fold;
  for (const FoldUnit& unit : units) {
    ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, unit.stripe));
    std::optional<Foldable> now;
    if (record) {
      ASSIGN_OR_RETURN(now, FoldableOf(txn, *record, view));
    }
    // What is dead of it is not needed: what survived the loss of more than m columns becomes safe again by this.
    const std::optional<StripeHealth> health = now ? repairer_->HealthOf(*record) : std::nullopt;
    const auto is_ok = [&](const FoldColumn& c) { return health->columns[c.column.v] == ColumnState::kOk; };
    if (!health || now->kind != kind || now->unit != unit || !std::ranges::all_of(unit.columns, is_ok)) {
      queue_.Drop(unit.stripe);
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
  if (!PlaceParity(view, kind, &fold)) {
    for (const FoldUnit& unit : units) queue_.Drop(unit.stripe);  // others may have a place: it is their turn
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
  env_.host->Committed();
  repairer_->Started(fold.shape.payload_bytes);
  queue_.Start(std::move(f));
  return Ok();
}

// What nobody uses becomes garbage.
Result<void> Folder::End(uint64_t task) {
  const FoldRecord* f = queue_.Find(task);
  if (f == nullptr) return Ok();
  RETURN_IF_ERROR(DropTask(FoldKey(task), f->leftovers()));
  queue_.End(task);
  return Ok();
}

// ---- 3. Parity ----

// Its parity can be made, and is wanted: nobody who has a part in it is gone. A disk that may come back is waited for.
bool Folder::IsAble(const FoldRecord& f) const {
  const StripeInfo& fold = f.plan.fold;
  std::vector<TargetId> targets;
  for (uint16_t c = 0; c < fold.columns.size(); ++c) {
    const TargetInfo* target = env_.cluster->FindTarget(fold.columns[c].target);
    const NodeInfo* node = target == nullptr ? nullptr : env_.cluster->FindNode(target->node);
    if (node == nullptr || node->state == NodeState::kDown || node->state == NodeState::kOut) return false;
    if (env_.cluster->StateOf(target->id) == ColumnState::kMissing) return false;
    targets.push_back(target->id);
  }
  for (size_t i = 0; i < f.plan.members.size(); ++i) {
    if (repairer_->IsBad(f.plan.members[i].stripe, f.plan.members[i].column, fold.columns[i].shard)) return false;
  }
  return IsSpread(env_.cluster->View(), {fold.shape.k, fold.shape.m, f.plan.layout.domain}, targets);
}

// Ends tasks that nobody can carry out any more, or whose members have changed; goes on with those that a restart has
// interrupted, or that waited for a disk.
Result<void> Folder::CheckTasks() {
  for (const uint64_t task : queue_.Tasks()) {
    const FoldRecord& f = *queue_.Find(task);
    if (f.swapped) {
      if (!env_.host->AreClaimsOver() || !queue_.BeginTelling(task)) continue;
      env_.scope->Spawn(Announce(task));
      continue;
    }
    bool able = IsAble(f);
    Txn txn(*env_.store);
    for (size_t i = 0; able && i < f.plan.members.size(); ++i) {
      const FoldMember& m = f.plan.members[i];
      ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, m.stripe));
      able = record && m.column < record->info.columns.size() && record->info.columns[m.column] == f.plan.fold.columns[i];
    }
    if (!able) RETURN_IF_ERROR(End(task));
    else RETURN_IF_ERROR(SwapIn(task));
  }
  return Ok();
}

Result<void> Folder::WorkFor(const std::set<TargetId>& here, uint32_t slots, NodeWork* work) {
  for (const FoldQueue::Part& part : queue_.HandOut(here, repairer_->settings().paused ? 0 : slots)) {
    const StripeInfo& fold = part.record->plan.fold;
    const uint32_t first = fold.shape.data_columns();
    RebuildWork w;
    w.task = part.record->tasks[part.column - first];
    w.stripe.info = fold;
    env_.tokens->SignGrant(&w.stripe, kTokenRead, work->holder);
    for (uint16_t c = static_cast<uint16_t>(first); c < fold.columns.size(); ++c) w.lost.push_back(c);
    w.column = part.column;
    w.new_shard = fold.columns[part.column].shard;
    w.new_target = fold.columns[part.column].target;
    w.write_token = env_.tokens->Sign(w.new_shard, w.new_target, kTokenWrite, work->holder, fold.columns[part.column].length);
    work->rebuilds.push_back(std::move(w));
  }
  return Ok();
}

Result<bool> Folder::TakeRebuilt(NodeId from, const RebuildResult& result) {
  const FoldQueue::Part part = queue_.FindPart(result.task);
  if (part.record == nullptr) return false;
  if (IsOn(part.record->plan.fold.columns[part.column].target, from)) RETURN_IF_ERROR(TakeParity(from, part, result));
  return true;
}

Result<void> Folder::TakeParity(NodeId from, const FoldQueue::Part& part, const RebuildResult& result) {
  const FoldRecord f = *part.record;
  if (f.swapped) return Ok();
  // No digest of it was recorded, as it is made for the first time: the node's word is taken. That is sound for the data, whose
  // columns stay, with their digests. Wrong parity costs what the loss of its disk would: no node has more than m of the columns
  // (IsSpread). A scrub of the disk of the first parity compares all of them with the data. Made again it is compared as all else.
  if (result.result.code == FsError::kOk && result.length == f.plan.fold.columns[part.column].length) {
    queue_.Made(result.task, result.digest);
    return SwapIn(f.task());
  }
  // A fold needs every column, so that its result may tell of another trouble than theirs.
  const FsError cause = IsShardLoss(result.result.code) ? result.result.code : FsError::kChecksum;
  for (uint16_t c : result.bad_columns) {
    if (c >= f.plan.members.size()) continue;
    const FoldMember& m = f.plan.members[c];
    std::optional<StripeRecord> record;
    {
      Txn txn(*env_.store);
      ASSIGN_OR_RETURN(record, GetStripeRecord(txn, m.stripe));
    }
    if (!record || m.column >= record->info.columns.size() || record->info.columns[m.column] != f.plan.fold.columns[c]) continue;
    RETURN_IF_ERROR(repairer_->NoteBadColumns(from, m.stripe, &record->info, cause, {m.column}));
  }
  choose_ns_ = Now() + kFoldPlanNs;
  return End(f.task());
}

// ---- 4. and 5. ----

// Files may have been moved to where other clients see them since the fold was begun.
Result<bool> Folder::IsMixed(Txn& txn, const FoldPlan& plan) const {
  if (!env_.audience) return false;
  std::set<StripeId> seen;
  std::set<uint64_t> audiences;
  for (const FoldMember& m : plan.members) {
    if (!seen.insert(m.stripe).second) continue;
    ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, m.stripe));
    if (!record) return false;  // it cannot be made anyway
    const Result<StripeUsage> usage = ReadStripeUsage(txn, record->info, kMaxFoldRefs);
    if (usage.code() == FsError::kTooBig) return false;  // the same
    RETURN_IF_ERROR(usage);
    ASSIGN_OR_RETURN(const uint64_t audience, env_.audience(txn, usage->files));
    audiences.insert(audience);
  }
  return audiences.size() > 1;
}

// If all of its parity is made, and everything is there.
Result<void> Folder::SwapIn(uint64_t task) {
  std::optional<FoldPlan> plan = queue_.WhenMade(task);
  if (!plan || !env_.host->AreClaimsOver()) return Ok();
  if (!IsAble(*queue_.Find(task))) return End(task);
  for (const Column& c : plan->fold.columns) {
    if (env_.cluster->StateOf(c.target) == ColumnState::kSuspect) return Ok();
  }
  FoldRecord swapped = *queue_.Find(task);
  swapped.swapped = true;
  swapped.plan = *std::move(plan);
  Touched touched;
  {
    Txn txn(*env_.store);
    ASSIGN_OR_RETURN(const bool mixed, IsMixed(txn, swapped.plan));
    if (mixed) {
      LogDebug("fold {} is given up: other clients may read one of its files now than the others", task);
      return End(task);
    }
    Result<std::vector<Column>> copies = OpFold(txn, swapped.plan, kMaxFoldRefs, &touched);
    if (copies.code() == FsError::kConflict || copies.code() == FsError::kTooBig) {
      LogDebug("fold {} is given up: {}", task, copies.error());
      return End(task);
    }
    RETURN_IF_ERROR(copies);
    swapped.copies = *std::move(copies);
    txn.Put(Family::kRepairs, FoldKey(task), EncodeFold(swapped));
    for (const StripeId stripe : touched.freed) repairer_->DropBad(txn, stripe);
    RETURN_IF_ERROR(txn.Commit());
  }
  env_.host->Committed(touched);
  for (const StripeId stripe : touched.freed) {
    repairer_->ClearBad(stripe);
    repairer_->Drop(stripe);
  }
  if (swapped.plan.members.size() == 1) {
    ++unfolded_;
  } else {
    ++folded_;
    folded_bytes_ += swapped.plan.fold.shape.payload_bytes;
  }
  queue_.Swapped(std::move(swapped));
  env_.work->Set();
  return Ok();
}

Task<void> Folder::Announce(uint64_t task) {
  Touched touched;
  {
    Txn txn(*env_.store);
    const auto uses = ListStripeUses(txn, queue_.Find(task)->plan.fold.id, SIZE_MAX);
    if (!uses.ok()) co_return env_.host->Fail(uses.error());
    for (const StripeUse& use : *uses) touched.data.insert(use.ino);
  }
  co_await env_.host->Announce(std::move(touched));
  const Result<void> done = End(task);
  if (!done.ok()) env_.host->Fail(done.error());
}

}  // namespace stria
