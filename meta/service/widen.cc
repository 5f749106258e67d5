// Stripes that were written narrow because too few domains were there are laid out over as many columns as their layout
// asks for, only while nothing else waits for repair. Bookkeeping: meta/repair/widen_queue.h.
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

namespace stria {
namespace {

constexpr size_t kMaxWidens = 16;          // in flight
constexpr int kMaxWidenTries = 64;         // candidates looked at in a round
constexpr size_t kMaxWidenUses = 4096;     // extents of a stripe: so many sessions' caches are told
constexpr int64_t kWidenAgainNs = 30 * kSecond;  // after a task that failed

uint32_t DataColumnsInUse(const StripeInfo& info) {
  uint32_t n = 0;
  for (uint16_t c = 0; c < info.shape.data_columns(); ++c) n += info.columns[c].length > 0;
  return n;
}

}  // namespace

// Those that are narrow may be widened at once, if it was only this writer that found too few domains.
Result<void> MetaServer::NoteNarrow(const std::vector<StripeInfo>& committed) {
  if (store_->Count(Counter::kNarrow) == 0) return Ok();
  Txn txn(*store_);
  for (const StripeInfo& s : committed) {
    ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, s.id));
    if (record && record->info.narrow) widens_.Add(s.id);
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
  return health && std::ranges::all_of(health->columns, [](ColumnState s) { return s == ColumnState::kOk; });
}

// What the stripe is to be; nullopt if there is no room for that now.
std::optional<StripeInfo> MetaServer::WideFormOf(const StripeRecord& record) {
  const uint64_t payload = record.info.shape.payload_bytes;
  const Layout layout = LayoutForPayload(record.layout, payload);
  StripeInfo wide;
  wide.id = record.info.id;
  wide.shape = ShapeFor(layout, payload);
  const ClusterView view = cluster_->View();
  PlaceRequest place;
  place.seed = place_seed_++;
  for (uint32_t g = 0; g < wide.shape.groups; ++g) {
    place.shard_bytes = std::max(place.shard_bytes, GroupBytes(wide.shape, g));
  }
  const Result<Placement> placed = PlaceStripe(view, layout, place);
  if (!placed.ok() || placed->narrow) return std::nullopt;
  std::vector<TargetId> targets;
  for (uint16_t c = 0; c < wide.shape.columns(); ++c) {
    Column column;
    column.length = ColumnBytes(wide.shape, ColumnIndex(c));
    if (column.length > 0) column.target = placed->targets[c];
    targets.push_back(column.target);
    wide.columns.push_back(column);
  }
  wide.crowded = IsCrowded(view, wide.shape, targets, record.layout.domain);
  return wide;
}

Result<void> MetaServer::WidenSome() {
  RETURN_IF_ERROR(CheckWidens());
  if (repairs_.waiting() > 0 || cluster_->AwaitsFirstBeats()) return Ok();
  for (int i = 0; i < kMaxWidenTries; ++i) {
    if (widens_.in_flight() >= kMaxWidens || !repairs_.MayStart(Now())) return Ok();
    const std::optional<StripeId> next = widens_.Next();
    if (!next) return Ok();
    const Result<void> started = StartWiden(*next);
    if (!started.ok()) {
      widens_.Add(*next);
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
  if (gathered || layout.data_columns() <= DataColumnsInUse(record->info)) {
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
