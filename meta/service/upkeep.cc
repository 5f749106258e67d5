// Upkeep (api/admin_api.h): scrubbing, what removing disks would cost, repairs begun at once.
#include <algorithm>

#include "common/log.h"
#include "meta/ops/fsck.h"
#include "meta/service/meta_server_impl.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kComparePage = 1024;
constexpr size_t kParityStripes = 64;  // in a reply: each brings its columns and tokens

}  // namespace

// Does not wait for grace periods any more, nor for those that were parked.
Result<std::string> MetaServer::StartRepair(bool dry_run) {
  std::string names;
  std::vector<NodeId> down;
  for (const NodeInfo& n : cluster_.state().Map().nodes) {
    if (n.state != NodeState::kDown) continue;
    down.push_back(n.id);
    names += (names.empty() ? "" : ", ") + n.name;
  }
  if (!dry_run) {
    for (NodeId n : down) cluster_.SetNodeOut(n);
    upkeep_->Hurry();
    RETURN_IF_ERROR(cluster_.Publish());
  }
  if (down.empty()) return std::string("no node is down; what waited is tried again");
  return names + " given up: what was there is made again elsewhere, and counts again if it returns before that";
}

Task<Result<UpkeepReply>> MetaServer::Upkeep(UpkeepRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  const bool changes = r.verb != UpkeepVerb::kStatus && !r.dry_run;
  if (changes) CO_RETURN_IF_ERROR(sessions_->CheckAdmin(r.header, "changes the cluster"));
  Result<std::string> message = std::string();
  switch (r.verb) {
    case UpkeepVerb::kStatus: break;
    case UpkeepVerb::kScrubStart:
    case UpkeepVerb::kScrubPause:
    case UpkeepVerb::kScrubResume: message = upkeep_->OrderScrub(r); break;
    case UpkeepVerb::kRebalanceStart:
    case UpkeepVerb::kRebalanceStop: message = co_await upkeep_->OrderRebalance(r); break;
    case UpkeepVerb::kRepairStart: message = StartRepair(r.dry_run); break;
    case UpkeepVerb::kForgetUnknown: message = archives_->ForgetUnknown(r.dry_run); break;
    case UpkeepVerb::kBackupNow:
      CO_RETURN_IF_ERROR(co_await archives_->BackupNow(r.dry_run, core_.DeadlineOf(r.header)));
      message = std::string("everything that is committed is in the backup");
      break;
  }
  if (!message.ok()) {
    core_.Fail(message.error());
    co_return message.error();
  }
  if (changes) {
    CO_RETURN_IF_ERROR(co_await core_.Sync());
  }
  UpkeepReply reply;
  reply.message = *std::move(message);
  upkeep_->Tell(&reply);
  reply.backup = archives_->State();
  std::set<StripeId> unfit;
  for (const ScrubProgress& p : reply.scrubs) unfit.insert(p.unfit.begin(), p.unfit.end());
  if (!sessions_->IsAdmin(r.header)) co_return std::move(reply);  // files are named to admins only
  CO_ASSIGN_OR_RETURN(const auto files, ListFilesOf(core_.store(), unfit, kMaxAffectedFiles));
  for (const LostFile& f : files) reply.unfit.push_back({f.ino, f.path, f.offset, f.length, false});
  co_return std::move(reply);
}

Task<Result<CanRemoveReply>> MetaServer::CanRemove(CanRemoveRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  for (TargetId t : r.targets) {
    const TargetInfo* info = cluster_.state().FindTarget(t);
    if (info == nullptr || info->state == TargetState::kRemoved) co_return Error(FsError::kNoEnt, "no such disk");
  }
  CO_ASSIGN_OR_RETURN(CanRemoveReply reply, co_await survey_->CanRemove(r.targets));
  if (!sessions_->IsAdmin(r.header)) {
    reply.more = !reply.files.empty();
    reply.files.clear();
  }
  co_return std::move(reply);
}

Task<Result<ScrubOrder>> MetaServer::ReportScrub(ReportScrubRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckAdmin(r.header));
  if (Error e = cluster_.state().CheckEpoch(r.node, r.epoch); !e.ok()) co_return e;
  for (const ScrubProgress& p : r.disks) {
    const TargetInfo* t = cluster_.state().FindTarget(p.target);
    if (t == nullptr || t->node != r.node) co_return Error(FsError::kBadRequest, "a scrub of a disk of another node");
  }
  Result<ScrubOrder> order = upkeep_->TakeScrub(r.disks);
  if (!order.ok()) core_.Fail(order.error());
  co_return order;
}

// Only live stripes count: their shards were sealed before they were committed, and have the digests that
// were committed. Who holds the shards looks again before it believes that one is missing.
Task<Result<CompareShardsReply>> MetaServer::CompareShards(CompareShardsRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckAdmin(r.header));
  if (r.held.size() > kMaxComparedShards) co_return Error(FsError::kBadRequest, "too many shards in one question");
  std::map<ShardId, uint64_t> held;
  for (const HeldShard& h : r.held) held[h.shard] = h.digest;
  CompareShardsReply reply;
  for (ShardId after = r.after; after < r.last;) {
    Txn txn(core_.store());
    CO_ASSIGN_OR_RETURN(const auto page, ListTargetShards(txn, r.target, after, kComparePage));
    for (const TargetShard& s : page) {
      after = s.shard;
      if (s.shard > r.last) break;
      if (s.record.pending) continue;
      CO_ASSIGN_OR_RETURN(const auto record, GetStripeRecord(txn, s.record.stripe));
      if (!record || record->state != StripeState::kLive) continue;
      const Column& c = record->info.columns[s.record.column];
      const auto it = held.find(s.shard);
      if (it == held.end()) reply.missing.push_back(s.shard);
      else if (it->second != c.digest) reply.wrong.push_back(s.shard);
      if (reply.missing.size() + reply.wrong.size() >= kMaxComparedShards) co_return std::move(reply);
    }
    if (page.size() < kComparePage) break;
    co_await Yield();
  }
  co_return std::move(reply);
}

Task<Result<ListParityReply>> MetaServer::ListParity(ListParityRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckAdmin(r.header));
  ListParityReply reply;
  reply.last = r.last;
  for (ShardId after = r.after; after < r.last;) {
    Txn txn(core_.store());
    CO_ASSIGN_OR_RETURN(const auto page, ListTargetShards(txn, r.target, after, kComparePage));
    for (const TargetShard& s : page) {
      after = s.shard;
      if (s.shard > r.last) break;
      if (s.record.pending) continue;
      CO_ASSIGN_OR_RETURN(const auto record, GetStripeRecord(txn, s.record.stripe));
      const std::optional<StripeHealth> health = record ? upkeep_->repairer().HealthOf(*record) : std::nullopt;
      if (!health) continue;
      const StripeShape& shape = record->info.shape;
      const ColumnIndex column(s.record.column);
      if (GroupOf(shape, column) != 0 || IndexInGroup(shape, column) != shape.k) continue;
      const auto lacks = [](ColumnState c) { return c == ColumnState::kMissing || c == ColumnState::kSuspect; };
      if (std::ranges::any_of(health->columns, lacks)) continue;
      reply.stripes.emplace_back().info = record->info;
      core_.tokens().SignGrant(&reply.stripes.back(), kTokenRead);
      if (reply.stripes.size() < kParityStripes) continue;
      reply.last = s.shard;
      co_return std::move(reply);
    }
    if (page.size() < kComparePage) break;
    co_await Yield();
  }
  co_return std::move(reply);
}

// On this thread, as Fsck.
Task<Result<FsckRepairReply>> MetaServer::FsckRepair(FsckRepairRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckAdmin(r.header, "checks the metadata: everybody waits meanwhile"));
  Touched touched;
  Result<FsckRepairs> repaired = RepairStore(core_.store(), r.dry_run, &touched);
  if (!r.dry_run) {
    cleaner_.NoteCommit(touched);
    if (!repaired.ok() && repaired.code() != FsError::kRetryLater) core_.Fail(repaired.error());
  }
  if (!repaired.ok()) co_return repaired.error();
  if (!r.dry_run) {
    for (const std::string& what : repaired->done) LogWarning("fsck: {}", what);
    co_await notices_->Announce(SessionId(), touched, {});
    CO_RETURN_IF_ERROR(co_await core_.Sync());
  }
  co_return FsckRepairReply{std::move(repaired->done), std::move(repaired->problems)};
}

}  // namespace stria
