// Stripes that were written narrow because too few domains were there are laid out over as many columns as their layout
// asks for, or, if that cannot be had yet, so that they stand more (with all their copies, less crowded); but for
// those that lack copies only while nothing else waits for repair. Bookkeeping: meta/repair/widen_queue.h.
//
// One stripe:
//   1. StartWiden: its new columns are placed and reserved, and the task recorded, in one transaction
//   2. Heartbeat: the node of one of them gets it, again and again until it reports
//   3. TakeWidened: the stripe's columns are replaced in one transaction. The payload is the same, so extents, and what
//      clients have cached of it, stay true. The former shards stay reserved
//   4. TellWidened: who may have cached the mapping is told to forget it; then the former shards become garbage, which waits
//      as ever for reads under way. Unlike a column that repair replaces, all of them go at once
// The old shards are used until 3, and there until 4: nothing is lost whatever fails.
#include <algorithm>

#include "common/log.h"
#include "meta/service/cluster_keys.h"
#include "meta/service/meta_server_impl.h"
#include "stripe/layout.h"
#include "stripe/stripe_form.h"

namespace stria {
namespace {

constexpr size_t kMaxWidens = 16;          // in flight
constexpr int kMaxWidenTries = 64;         // candidates looked at in a round
constexpr size_t kMaxWidenUses = 4096;     // extents of a stripe: so many sessions' caches are told
constexpr int64_t kWidenAgainNs = 30 * kSecond;  // after a task that failed

uint64_t LongestColumn(const StripeShape& shape) {
  uint64_t bytes = 0;
  for (uint32_t g = 0; g < shape.groups; ++g) bytes = std::max(bytes, GroupBytes(shape, g));
  return bytes;
}

// The layout whose whole stripes are what was placed, for the same payload.
Layout LaidOutAs(Layout layout, const Placement& placed) {
  layout.groups = placed.groups;
  layout.k = placed.k;
  layout.m = placed.m;
  layout.codec = DefaultCodec(placed.k, placed.m);
  const uint64_t row = uint64_t{layout.data_columns()} * layout.unit_bytes;
  layout.stripe_bytes = AlignUp(layout.stripe_bytes, row);
  return layout;
}

uint32_t DataColumnsInUse(const StripeInfo& info) {
  uint32_t n = 0;
  for (uint16_t c = 0; c < info.shape.data_columns(); ++c) n += info.columns[c].length > 0;
  return n;
}

}  // namespace

// Those that are narrow may be widened at once, and those that are crowded spread, if it was only this writer that found
// too few domains.
Result<void> MetaServer::NoteCompromises(const std::vector<StripeInfo>& committed) {
  if (store_->Count(Counter::kNarrow) == 0 && store_->Count(Counter::kCrowded) == 0) return Ok();
  Txn txn(*store_);
  for (const StripeInfo& s : committed) {
    ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, s.id));
    if (!record) continue;
    if (record->info.narrow) widens_.Add(s.id, record->is_thin());
    const std::optional<StripeHealth> health = record->info.crowded ? HealthOf(*record) : std::nullopt;
    const std::optional<int> need = health ? NeedOf(*health) : std::nullopt;
    if (!need) continue;
    repairs_.Add(s.id, *need);
    repair_work_.Set();
  }
  return Ok();
}

// Whole, narrow, and nothing else is being done with it.
bool MetaServer::IsWidenable(const StripeRecord& record) const {
  if (record.state != StripeState::kLive || !record.info.narrow || repairs_.HasTask(record.info.id) ||
      widens_.HasStripe(record.info.id)) {
    return false;
  }
  const std::optional<StripeHealth> health = HealthOf(record);
  // What is misplaced has not been moved, or could not be: laid out anew it may fit.
  return health && std::ranges::all_of(health->columns, [](ColumnState s) {
           return s == ColumnState::kOk || s == ColumnState::kMisplaced;
         });
}

// What the stripe is to be; nullopt if there is no room for that now.
std::optional<StripeInfo> MetaServer::WideFormOf(const StripeRecord& record) {
  const uint64_t payload = record.info.shape.payload_bytes;
  Layout layout = LayoutForPayload(record.layout, payload);
  const ClusterView view = cluster_->View();
  PlaceRequest place;
  place.seed = place_seed_++;
  if (record.info.shape.gathered()) {  // thin: the one column that it has gets its copies
    layout.k = 1;
    layout.codec = DefaultCodec(1, layout.m);
    const TargetView* at = view.Find(record.info.columns[0].target);
    place.preferred = at == nullptr ? NodeId() : at->node;
  }
  place.shard_bytes = LongestColumn(ShapeFor(layout, payload));
  Result<Placement> placed = PlaceStripe(view, layout, place);
  if (placed.ok() && placed->narrow) {
    // Fewer columns are longer, and may not find that space.
    layout = LaidOutAs(layout, *placed);
    place.shard_bytes = LongestColumn(ShapeFor(layout, payload));
    placed = PlaceStripe(view, layout, place);
  }
  if (!placed.ok() || placed->narrow) return std::nullopt;
  StripeInfo wide;
  wide.id = record.info.id;
  wide.shape = ShapeFor(layout, payload);
  std::vector<TargetId> targets;
  for (uint16_t c = 0; c < wide.shape.columns(); ++c) {
    Column column;
    column.length = ColumnBytes(wide.shape, ColumnIndex(c));
    if (column.length > 0) column.target = placed->targets[c];
    targets.push_back(column.target);
    wide.columns.push_back(column);
  }
  wide.crowded = IsCrowded(view, wide.shape, targets, record.layout.domain);
  const Layout full = LayoutForPayload(record.layout, payload);
  wide.narrow = wide.shape.groups < full.groups || wide.shape.k < full.k || wide.shape.m < full.m;
  // Never less safe for being wider. Not wider and wider with each node that joins, but safer at once.
  std::vector<TargetId> former;
  for (const Column& c : record.info.columns) former.push_back(c.shard ? c.target : TargetId());
  const uint32_t rank = RankOf(view, wide.shape, targets, record.layout);
  const uint32_t rank_now = RankOf(view, record.info.shape, former, record.layout);
  if (rank > rank_now || (wide.narrow && rank == rank_now)) return std::nullopt;
  return wide;
}

Result<void> MetaServer::WidenSome() {
  RETURN_IF_ERROR(CheckWidens());
  if (cluster_->AwaitsFirstBeats()) return Ok();
  const bool only_urgent = repairs_.waiting() > 0;
  for (int i = 0; i < kMaxWidenTries; ++i) {
    if (widens_.in_flight() >= kMaxWidens || !repairs_.MayStart(Now())) return Ok();
    const std::optional<StripeId> next = widens_.Next(only_urgent);
    if (!next) return Ok();
    const Result<void> started = StartWiden(*next);
    if (!started.ok()) {
      widens_.Add(*next, only_urgent);
      return started;
    }
  }
  repair_work_.Set();
  return Ok();
}

Result<void> MetaServer::StartWiden(StripeId stripe) {
  Txn txn(*store_);
  ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, stripe));
  if (!record || !IsWidenable(*record)) return Ok();
  const Layout layout = LayoutForPayload(record->layout, record->info.shape.payload_bytes);
  // What is gathered stays where it is: its columns end where its writer wanted them to.
  const bool gathered = record->info.shape.gathered() || record->layout.arrangement != Arrangement::kSpread;
  const bool as_wide = gathered || layout.data_columns() <= DataColumnsInUse(record->info);
  if (as_wide && !record->is_thin()) {
    RETURN_IF_ERROR(OpSetWide(txn, stripe));
    RETURN_IF_ERROR(txn.Commit());
    unsynced_.Set();
    return Ok();
  }
  ASSIGN_OR_RETURN(const auto uses, ListStripeUses(txn, stripe, kMaxWidenUses + 1));
  if (uses.size() > kMaxWidenUses) return Ok();
  std::optional<StripeInfo> wide = WideFormOf(*record);
  if (!wide) return Ok();
  RETURN_IF_ERROR(OpReserveStripe(txn, &*wide));
  WidenRecord w;
  ASSIGN_OR_RETURN(w.task, txn.NewId(IdKind::kTask));
  w.from = record->info;
  w.to = *std::move(wide);
  std::vector<TargetId> used;
  for (const Column& c : w.to.columns) {
    if (c.shard) used.push_back(c.target);
  }
  w.executor = used[w.task % used.size()];
  txn.Put(Family::kRepairs, WidenKey(w.task), EncodeWiden(w));
  RETURN_IF_ERROR(txn.Commit());
  unsynced_.Set();
  repairs_.Started(w.to.shape.payload_bytes, Now());
  widens_.Start(std::move(w));
  return Ok();
}

// What nobody uses becomes garbage.
Result<void> MetaServer::EndWiden(uint64_t task) {
  const WidenRecord* w = widens_.Find(task);
  if (w == nullptr) return Ok();
  Txn txn(*store_);
  for (const Column& c : w->leftovers()) {
    if (c.shard) RETURN_IF_ERROR(OpDropReservedShard(txn, c.target, c.shard));
  }
  txn.Delete(Family::kRepairs, WidenKey(task));
  RETURN_IF_ERROR(txn.Commit());
  unsynced_.Set();
  widens_.End(task);
  return Ok();
}

// One that failed is tried again, but not at once.
Result<void> MetaServer::GiveUpWiden(uint64_t task) {
  RETURN_IF_ERROR(EndWiden(task));
  misfits_again_ns_ = std::min(misfits_again_ns_, Now() + kWidenAgainNs);
  return Ok();
}

// Ends tasks that nobody can carry out any more; goes on with those that a restart has interrupted.
Result<void> MetaServer::CheckWidens() {
  for (const uint64_t task : widens_.Tasks()) {
    const WidenRecord& w = *widens_.Find(task);
    if (w.swapped) {
      if (!window_over_ || !widens_.BeginTelling(task)) continue;  // clients may still claim what they have cached
      scope_.Spawn(TellWidened(task));
      continue;
    }
    const TargetInfo* target = cluster_->FindTarget(w.executor);
    const NodeInfo* node = target == nullptr ? nullptr : cluster_->FindNode(target->node);
    bool able = node != nullptr && node->state != NodeState::kDown && node->state != NodeState::kOut;
    for (const Column& c : w.to.columns) {
      able = able && (!c.shard || cluster_->StateOf(c.target) != ColumnState::kMissing);
    }
    Txn txn(*store_);
    ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, w.stripe()));
    if (!able || !record || !record->info.narrow) RETURN_IF_ERROR(GiveUpWiden(task));
  }
  return Ok();
}

Result<std::vector<WidenWork>> MetaServer::WidensFor(const std::set<TargetId>& targets, uint32_t slots) {
  std::vector<WidenWork> out;
  Txn txn(*store_);
  for (const WidenRecord* w : widens_.HandOut(targets, slots)) {
    ASSIGN_OR_RETURN(std::optional<StripeRecord> record, GetStripeRecord(txn, w->stripe()));
    if (!record || !record->info.narrow) continue;
    WidenWork work;
    work.task = w->task;
    work.from.info = std::move(record->info);
    work.to.info = w->to;
    SignGrant(&work.from, kTokenRead);
    SignGrant(&work.to, kTokenWrite);
    out.push_back(std::move(work));
  }
  return out;
}

Result<void> MetaServer::TakeWidened(const WidenResult& result) {
  const WidenRecord w = *widens_.Find(result.task);
  if (w.swapped) return Ok();
  if (result.result.code != FsError::kOk || result.digests.size() != w.to.columns.size()) {
    RETURN_IF_ERROR(NoteBadColumns(w.stripe(), &w.from, result.result.code, result.bad_columns));
    return GiveUpWiden(result.task);
  }
  StripeInfo wide = w.to;
  for (size_t i = 0; i < wide.columns.size(); ++i) {
    Column& c = wide.columns[i];
    if (c.shard && cluster_->StateOf(c.target) == ColumnState::kMissing) return GiveUpWiden(result.task);
    c.digest = result.digests[i];
  }
  Txn txn(*store_);
  Result<StripeInfo> was = OpWidenStripe(txn, wide);
  if (was.code() == FsError::kConflict || was.code() == FsError::kNoEnt) return GiveUpWiden(result.task);
  RETURN_IF_ERROR(was);
  WidenRecord swapped = w;
  swapped.swapped = true;
  swapped.from = *was;
  swapped.to = wide;
  txn.Put(Family::kRepairs, WidenKey(w.task), EncodeWiden(swapped));
  for (uint16_t c = 0; c < was->columns.size(); ++c) txn.Delete(Family::kRepairs, BadShardKey(w.stripe(), c));
  RETURN_IF_ERROR(txn.Commit());
  unsynced_.Set();
  for (uint16_t c = 0; c < was->columns.size(); ++c) repairs_.ClearBad(w.stripe(), c);
  widens_.Swapped(w.task, *std::move(was), std::move(wide));
  return Ok();
}

Task<void> MetaServer::TellWidened(uint64_t task) {
  Touched touched;
  {
    Txn txn(*store_);
    const auto uses = ListStripeUses(txn, widens_.Find(task)->stripe(), SIZE_MAX);
    if (!uses.ok()) co_return SetFatal(uses.error());
    for (const StripeUse& use : *uses) touched.data.insert(use.ino);
  }
  co_await Announce(SessionId(), touched, {});
  const Result<void> done = EndWiden(task);
  if (!done.ok()) SetFatal(done.error());
}

}  // namespace stria
