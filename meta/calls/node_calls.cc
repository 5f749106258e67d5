// Nodes: registration, heartbeats, the work they are given and report.
#include <algorithm>

#include "common/sabotage.h"
#include "meta/calls/node_calls.h"
#include "meta/cluster/node_identity.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kMaxReports = 65536;
constexpr size_t kMaxCheckShards = 65536;
constexpr size_t kComparePage = 1024;
constexpr size_t kParityStripes = 64;  // in a reply: each brings its columns and tokens

}  // namespace

// Without a certificate root is believed to be a data server.
Result<void> NodeCalls::CheckNode(const OpHeader& h) const {
  return h.peer ? core_->CheckHeader(h) : sessions_->CheckAdmin(h);
}

Task<Result<RegisterNodeReply>> NodeCalls::RegisterNode(RegisterNodeRequest r) {
  CO_RETURN_IF_ERROR(core_->CheckHeader(r.header));
  CO_RETURN_IF_ERROR(AcceptRegistration(cluster_->state(), r));
  if (!r.header.peer) CO_RETURN_IF_ERROR(core_->verifier().CheckNode(r.proof, r.uuid, r.name));
  co_return co_await cluster_->Register(std::move(r));
}

Task<Result<HeartbeatReply>> NodeCalls::Heartbeat(HeartbeatRequest r) {
  CO_RETURN_IF_ERROR(CheckNode(r.header));
  CO_RETURN_IF_ERROR(AcceptNode(cluster_->state(), r.header, r.node, "sends the heartbeat"));
  HeartbeatReply reply;
  CO_ASSIGN_OR_RETURN(const std::vector<TargetId> here, cluster_->TakeBeat(r, &reply));
  if (reply.register_again) co_return std::move(reply);
  if (rooms_->events != nullptr) rooms_->events->NoteBeat(r.node, r.wall_ns, r.version);
  CO_ASSIGN_OR_RETURN(reply.deletes, cluster_->DeletesFor(here, Deletable(), HolderOf(r.header)));
  CO_ASSIGN_OR_RETURN(NodeWork work, rooms_->upkeep->WorkFor({here.begin(), here.end()}, r.rebuild_slots, HolderOf(r.header)));
  reply.rebuilds = std::move(work.rebuilds);
  reply.widens = std::move(work.widens);
  reply.checks = std::move(work.checks);
  co_return std::move(reply);
}

// Only what no reader can need any more, and no power cut brings back: the shards would be named again, and gone. Nor while a
// restore of the metadata's backup would need them.
GarbageUpTo NodeCalls::Deletable() const {
  const CommitSeq durable = core_->store().durable_seq();
  GarbageUpTo upto{std::min({sessions_->table().MinSeen(), durable, rooms_->archives->DeletableUpTo()}), durable, core_->started_seq()};
  if (Sabotaged(Sabotage::kCollectAtOnce)) upto.acked = CommitSeq(UINT64_MAX);
  return upto;
}

Task<Result<Empty>> NodeCalls::ReportWork(ReportWorkRequest r) {
  CO_RETURN_IF_ERROR(CheckNode(r.header));
  CO_RETURN_IF_ERROR(AcceptNode(cluster_->state(), r.header, r.node, "reports the work"));
  if (Error e = cluster_->state().CheckEpoch(r.node, r.epoch); !e.ok()) co_return e;
  if (r.deleted.size() > kMaxReports || r.rebuilt.size() > kMaxReports || r.widened.size() > kMaxReports || r.checked.size() > kMaxReports) {
    co_return Error(FsError::kBadRequest, "too many results in one report");
  }
  Result<void> done = cluster_->TakeDeleted(r.node, r.deleted);
  if (done.ok()) done = rooms_->upkeep->TakeResults(r.node, r.rebuilt, r.widened);
  if (done.ok()) done = rooms_->upkeep->TakeChecked(r.node, r.checked);
  if (!done.ok()) {
    core_->Fail(done.error());
    co_return done.error();
  }
  rooms_->upkeep->Wake();
  co_return Empty();
}

Task<Result<CheckShardsReply>> NodeCalls::CheckShards(CheckShardsRequest r) {
  CO_RETURN_IF_ERROR(CheckNode(r.header));
  CO_RETURN_IF_ERROR(AcceptTarget(cluster_->state(), r.header, r.target, "asks for the shards"));
  if (r.shards.size() > kMaxCheckShards) co_return Error(FsError::kBadRequest, "too many shards in one question");
  CheckShardsReply reply;
  reply.incarnation = core_->store().super()->incarnation;
  reply.term = core_->term();
  Txn txn(core_->store());
  for (ShardId s : r.shards) {
    CO_ASSIGN_OR_RETURN(const bool known, IsShardKnown(txn, r.target, s));
    if (!known) reply.unknown.push_back(s);
  }
  if (rooms_->archives->HoldsUnknown()) {
    // They may be of files that were written after the moment that was restored.
    rooms_->archives->NoteHeld(r, reply.unknown.size());
    reply.unknown.clear();
  }
  co_return std::move(reply);
}

Task<Result<ClusterMap>> NodeCalls::GetMap(InodeRequest r) {
  CO_RETURN_IF_ERROR(core_->CheckHeader(r.header));
  ClusterMap map = cluster_->state().Map();
  map.server_version = core_->options().version;
  map.wall_ns = core_->Wall();
  co_return std::move(map);
}

Task<Result<ScrubOrder>> NodeCalls::ReportScrub(ReportScrubRequest r) {
  CO_RETURN_IF_ERROR(CheckNode(r.header));
  CO_RETURN_IF_ERROR(AcceptNode(cluster_->state(), r.header, r.node, "reports the scrubs"));
  if (Error e = cluster_->state().CheckEpoch(r.node, r.epoch); !e.ok()) co_return e;
  for (const ScrubProgress& p : r.disks) {
    CO_RETURN_IF_ERROR(AcceptTarget(cluster_->state(), r.header, p.target, "reports the scrub"));
    const TargetInfo* t = cluster_->state().FindTarget(p.target);
    if (t == nullptr || t->node != r.node) co_return Error(FsError::kBadRequest, "a scrub of a disk of another node");
  }
  Result<ScrubOrder> order = rooms_->upkeep->TakeScrub(r.disks);
  if (!order.ok()) core_->Fail(order.error());
  co_return order;
}

// Only live stripes count: their shards were sealed before they were committed, and have the digests that
// were committed. Who holds the shards looks again before it believes that one is missing.
Task<Result<CompareShardsReply>> NodeCalls::CompareShards(CompareShardsRequest r) {
  CO_RETURN_IF_ERROR(CheckNode(r.header));
  CO_RETURN_IF_ERROR(AcceptTarget(cluster_->state(), r.header, r.target, "asks for the shards"));
  if (r.held.size() > kMaxComparedShards) co_return Error(FsError::kBadRequest, "too many shards in one question");
  std::map<ShardId, uint64_t> held;
  for (const HeldShard& h : r.held) held[h.shard] = h.digest;
  CompareShardsReply reply;
  reply.term = core_->term();
  for (ShardId after = r.after; after < r.last;) {
    Txn txn(core_->store());
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

Task<Result<ListParityReply>> NodeCalls::ListParity(ListParityRequest r) {
  CO_RETURN_IF_ERROR(CheckNode(r.header));
  CO_RETURN_IF_ERROR(AcceptTarget(cluster_->state(), r.header, r.target, "asks for the parity"));
  ListParityReply reply;
  reply.last = r.last;
  for (ShardId after = r.after; after < r.last;) {
    Txn txn(core_->store());
    CO_ASSIGN_OR_RETURN(const auto page, ListTargetShards(txn, r.target, after, kComparePage));
    for (const TargetShard& s : page) {
      after = s.shard;
      if (s.shard > r.last) break;
      if (s.record.pending) continue;
      CO_ASSIGN_OR_RETURN(const auto record, GetStripeRecord(txn, s.record.stripe));
      const std::optional<StripeHealth> health = record ? rooms_->upkeep->repairer().HealthOf(*record) : std::nullopt;
      if (!health) continue;
      const StripeShape& shape = record->info.shape;
      const ColumnIndex column(s.record.column);
      if (GroupOf(shape, column) != 0 || IndexInGroup(shape, column) != shape.k) continue;
      const auto lacks = [](ColumnState c) { return c == ColumnState::kMissing || c == ColumnState::kSuspect; };
      if (std::ranges::any_of(health->columns, lacks)) continue;
      reply.stripes.emplace_back().info = record->info;
      core_->tokens().SignGrant(&reply.stripes.back(), kTokenRead, HolderOf(r.header));
      if (reply.stripes.size() < kParityStripes) continue;
      reply.last = s.shard;
      co_return std::move(reply);
    }
    if (page.size() < kComparePage) break;
    co_await Yield();
  }
  co_return std::move(reply);
}

}  // namespace stria
