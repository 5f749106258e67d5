#include "meta/upkeep/widener.h"

#include <algorithm>

#include "common/log.h"
#include "meta/core/cluster_keys.h"
#include "meta/core/for_each.h"
#include "stripe/checksum.h"
#include "stripe/layout.h"
#include "stripe/relaid.h"
#include "stripe/stripe_form.h"

namespace stria {
namespace {

constexpr size_t kMaxWidens = 16;       // being made
constexpr size_t kMaxTasks = 64;        // also those that others are asked about, or are told of
constexpr int kMaxWidenTries = 64;     // candidates looked at in a round
constexpr size_t kMaxWidenUses = 4096;  // extents of a stripe: so many sessions' caches are told

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

Result<void> Widener::Load(Txn& txn) {
  return ForEachEntry(txn, Family::kRepairs, WidenPrefix(), [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(WidenRecord w, DecodeWiden(v));
    queue_.Start(std::move(w));
    return Ok();
  });
}

bool Widener::Consider(const StripeRecord& record) {
  return !IsWidenable(record) || queue_.Add(record.info.id, record.is_thin());
}

// Whole, narrow, and nothing else is being done with it.
bool Widener::IsWidenable(const StripeRecord& record) const {
  if (record.state != StripeState::kLive || !record.info.narrow || repairer_->HasTask(record.info.id) ||
      queue_.HasStripe(record.info.id)) {
    return false;
  }
  const std::optional<StripeHealth> health = repairer_->HealthOf(record);
  // What is misplaced has not been moved, or could not be: laid out anew it may fit.
  return health && std::ranges::all_of(health->columns, [](ColumnState s) {
           return s == ColumnState::kOk || s == ColumnState::kMisplaced;
         });
}

// What the stripe is to be; nullopt if there is no room for that now.
std::optional<StripeInfo> Widener::WideFormOf(const StripeRecord& record) {
  const uint64_t payload = record.info.shape.payload_bytes;
  Layout layout = LayoutForPayload(record.layout, payload);
  const ClusterView view = env_.cluster->View();
  PlaceRequest place;
  place.seed = env_.seeds->Take();
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

Result<void> Widener::Plan() {
  RETURN_IF_ERROR(CheckTasks());
  if (env_.cluster->AwaitsFirstBeats()) return Ok();
  const bool only_urgent = repairer_->waiting() > 0;
  for (int i = 0; i < kMaxWidenTries; ++i) {
    if (queue_.being_made() >= kMaxWidens || queue_.in_flight() >= kMaxTasks || !repairer_->MayStart()) return Ok();
    const std::optional<StripeId> next = queue_.Next(only_urgent);
    if (!next) return Ok();
    const Result<void> started = StartOne(*next);
    if (!started.ok()) {
      queue_.Add(*next, only_urgent);
      return started;
    }
  }
  env_.work->Set();
  return Ok();
}

Result<void> Widener::StartOne(StripeId stripe) {
  Txn txn(*env_.store);
  ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, stripe));
  if (!record || !IsWidenable(*record)) return Ok();
  const Layout layout = LayoutForPayload(record->layout, record->info.shape.payload_bytes);
  // What is gathered stays where it is: its columns end where its writer wanted them to.
  const bool gathered = record->info.shape.gathered() || record->layout.arrangement != Arrangement::kSpread;
  const bool as_wide = gathered || layout.data_columns() <= DataColumnsInUse(record->info);
  if (as_wide && !record->is_thin()) {
    RETURN_IF_ERROR(OpSetWide(txn, stripe));
    RETURN_IF_ERROR(txn.Commit());
    env_.host->Committed();
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
  env_.host->Committed();
  repairer_->Started(w.to.shape.payload_bytes);
  queue_.Start(std::move(w));
  return Ok();
}

// What nobody uses becomes garbage.
Result<void> Widener::End(uint64_t task) {
  const WidenRecord* w = queue_.Find(task);
  if (w == nullptr) return Ok();
  RETURN_IF_ERROR(DropTask(WidenKey(task), w->leftovers()));
  queue_.End(task);
  return Ok();
}

Result<void> Widener::GiveUp(uint64_t task) {
  RETURN_IF_ERROR(End(task));
  on_given_up_();
  return Ok();
}

// Ends tasks that nobody can carry out any more; goes on with those that a restart has interrupted.
Result<void> Widener::CheckTasks() {
  for (const uint64_t task : queue_.Tasks()) {
    const WidenRecord& w = *queue_.Find(task);
    if (w.swapped) {
      if (!env_.host->AreClaimsOver() || !queue_.BeginTelling(task)) continue;
      env_.scope->Spawn(Announce(task));
      continue;
    }
    const WidenQueue::Proof proof = queue_.ToBeProved(task);
    bool able = proof.targets.empty() ? TakesWork(w.executor) : Now() - proof.since_ns < kProveNs;
    for (const TargetId t : proof.targets) able = able && TakesWork(t);
    for (const Column& c : w.to.columns) {
      able = able && (!c.shard || env_.cluster->StateOf(c.target) != ColumnState::kMissing);
    }
    Txn txn(*env_.store);
    ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, w.stripe()));
    if (!able || !record || !record->info.narrow) RETURN_IF_ERROR(GiveUp(task));
  }
  return Ok();
}

Result<void> Widener::WorkFor(const std::set<TargetId>& here, uint32_t slots, NodeWork* work) {
  Txn txn(*env_.store);
  for (const WidenRecord* w : queue_.HandOut(here, slots)) {
    ASSIGN_OR_RETURN(std::optional<StripeRecord> record, GetStripeRecord(txn, w->stripe()));
    if (!record || !record->info.narrow) continue;
    WidenWork out;
    out.task = w->task;
    out.from.info = std::move(record->info);
    out.to.info = w->to;
    env_.tokens->SignGrant(&out.from, kTokenRead, work->holder);
    env_.tokens->SignGrant(&out.to, kTokenWrite, work->holder);
    work->widens.push_back(std::move(out));
  }
  for (const Column& c : queue_.Unproved(here, kProofsPerBeat)) work->checks.push_back({c.shard, c.target, c.digest});
  return Ok();
}

Result<bool> Widener::TakeWidened(NodeId from, const WidenResult& result) {
  const WidenRecord* task = queue_.Find(result.task);
  if (task == nullptr) return false;
  if (!IsOn(task->executor, from)) return true;
  if (task->swapped || queue_.IsMade(result.task)) return true;
  const WidenRecord w = *task;
  RETURN_IF_ERROR(Prove(from, w, result));
  return true;
}

// A disk that does not answer its node may do so later, but nothing is lost by another try with another one.
Result<bool> Widener::TakeChecked(NodeId from, const CheckResult& result) {
  const std::optional<uint64_t> task = queue_.TaskToProve(result.target, result.shard);
  if (!task) return false;
  if (!IsOn(result.target, from)) return true;
  const WidenRecord w = *queue_.Find(*task);
  if (result.result.code != FsError::kOk) {
    LogWarning("stripe {} was laid out anew by {}, and {} does not have what that says: it is not used, and it is tried again ({})",
               w.stripe().v, env_.cluster->TargetName(w.executor), env_.cluster->TargetName(result.target),
               result.result.error().message);
    RETURN_IF_ERROR(GiveUp(*task));
    return true;
  }
  if (const std::optional<StripeInfo> wide = queue_.Proved(*task, result.shard)) RETURN_IF_ERROR(SwapIn(w, *wide));
  return true;
}

// In each column are other bytes than before, but the payload is the same: what the node says of it must give the digests that were
// recorded of the old data columns, and then gives those of the new ones, and of parity that is a copy or a sum. Of other parity the
// node's word is taken, as of a fold's: wrong, it costs what the loss of these columns would, and a scrub finds it.
Result<bool> Widener::IsAsWritten(const WidenRecord& w, const WidenResult& result) const {
  Txn txn(*env_.store);
  ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, w.stripe()));
  if (!record || record->info.shape.payload_bytes != w.to.shape.payload_bytes) return false;
  const StripeInfo& was = record->info;
  const std::vector<uint64_t> ends = PiecesOf(was.shape, w.to.shape);
  if (result.pieces.size() != ends.size()) return false;
  const auto agree = [](const Column& c, const std::optional<std::vector<uint32_t>>& table, uint64_t digest) {
    return !c.shard || !table || TableDigest(*table, c.length) == digest;
  };
  const auto old_tables = TablesFromPieces(was, ends, result.pieces);
  for (size_t i = 0; i < was.shape.data_columns(); ++i) {
    if (!agree(was.columns[i], old_tables[i], was.columns[i].digest)) return false;
  }
  const auto new_tables = TablesFromPieces(w.to, ends, result.pieces);
  for (size_t i = 0; i < w.to.columns.size(); ++i) {
    if (!agree(w.to.columns[i], new_tables[i], result.digests[i])) return false;
  }
  return true;
}

Result<void> Widener::Prove(NodeId from, const WidenRecord& w, const WidenResult& result) {
  if (result.result.code != FsError::kOk || result.digests.size() != w.to.columns.size()) {
    RETURN_IF_ERROR(repairer_->NoteBadColumns(from, w.stripe(), &w.from, result.result.code, result.bad_columns));
    return GiveUp(result.task);
  }
  ASSIGN_OR_RETURN(const bool as_written, IsAsWritten(w, result));
  if (!as_written) {
    LogWarning("stripe {} was laid out anew by {} with other checksums than were written: that is not used, and it is tried again",
               w.stripe().v, env_.cluster->TargetName(w.executor));
    return GiveUp(result.task);
  }
  StripeInfo wide = w.to;
  for (size_t i = 0; i < wide.columns.size(); ++i) wide.columns[i].digest = result.digests[i];
  queue_.Made(w.task, std::move(wide), Now());
  return Ok();
}

Result<void> Widener::SwapIn(const WidenRecord& w, const StripeInfo& wide) {
  for (const Column& c : wide.columns) {
    if (c.shard && env_.cluster->StateOf(c.target) == ColumnState::kMissing) return GiveUp(w.task);
  }
  Txn txn(*env_.store);
  Result<StripeInfo> was = OpWidenStripe(txn, wide);
  if (was.code() == FsError::kConflict || was.code() == FsError::kNoEnt) return GiveUp(w.task);
  RETURN_IF_ERROR(was);
  WidenRecord swapped = w;
  swapped.swapped = true;
  swapped.from = *was;
  swapped.to = wide;
  txn.Put(Family::kRepairs, WidenKey(w.task), EncodeWiden(swapped));
  repairer_->DropBad(txn, w.stripe());
  RETURN_IF_ERROR(txn.Commit());
  env_.host->Committed();
  repairer_->ClearBad(w.stripe());
  queue_.Swapped(w.task, *std::move(was), wide);
  return Ok();
}

Task<void> Widener::Announce(uint64_t task) {
  Touched touched;
  {
    Txn txn(*env_.store);
    const auto uses = ListStripeUses(txn, queue_.Find(task)->stripe(), SIZE_MAX);
    if (!uses.ok()) co_return env_.host->Fail(uses.error());
    for (const StripeUse& use : *uses) touched.data.insert(use.ino);
  }
  co_await env_.host->Announce(std::move(touched));
  const Result<void> done = End(task);
  if (!done.ok()) env_.host->Fail(done.error());
}

}  // namespace stria
