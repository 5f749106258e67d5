// Extents, stripes, commits.
//
// Who may read a file gets tokens for all columns of its stripes, because it may have to decode. In a fold some columns are other
// files': of files that the same clients may read (docs/folding.md), but for those that were moved or exported elsewhere since. To
// sign only a file's own columns there, a fold's record would have to say that it is mixed.
#include <algorithm>

#include "meta/cluster/node_identity.h"
#include "meta/files/files.h"
#include "stripe/stripe_form.h"
#include "stripe/layout.h"

namespace stria {
namespace {

// For want of space, columns get shorter than in a full stripe: down to this part of it, but whole units.
constexpr uint64_t kLeastColumnPart = 16;

uint64_t LeastColumnBytes(const Layout& layout, uint64_t full_bytes) {
  return std::max<uint64_t>(AlignDown(full_bytes / kLeastColumnPart, layout.unit_bytes), layout.unit_bytes);
}

// That a writer may make of one column. Those of gathered stripes are as long as who gathers wants them.
uint64_t MostColumnBytes(const Layout& layout, uint64_t for_want_of_space) {
  if (layout.arrangement == Arrangement::kGathered) return kMaxStripeBytes;
  const uint64_t full = layout.stripe_bytes / layout.data_columns();
  return for_want_of_space == 0 ? full : std::min(full, for_want_of_space);
}

NewStripe StripeAt(const ClusterView& view, const Layout& layout, const Placement& p) {
  NewStripe s;
  s.shape.groups = p.groups;
  s.shape.k = p.k;
  s.shape.m = p.m;
  s.shape.codec = p.k == layout.k && p.m == layout.m ? layout.codec : DefaultCodec(p.k, p.m);
  s.shape.unit_bytes = layout.unit_bytes;
  s.narrow = p.narrow;
  s.crowded = IsCrowded(view, s.shape, p.targets, layout.domain);
  s.targets = p.targets;
  return s;
}

}  // namespace

Task<Result<GetExtentsReply>> Files::GetExtents(GetExtentsRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->GateCaller(r.header));
  const int64_t deadline_ns = core_->DeadlineOf(r.header);
  const auto why = r.when_told ? WaitList::For::kMapping : WaitList::For::kPages;
  CO_RETURN_IF_ERROR(co_await grants_->FlushOthers(r.header.session, r.ino, deadline_ns, why));
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  std::optional<GetExtentsReply> reply;
  {
    Txn txn(core_->store());
    CO_ASSIGN_OR_RETURN(reply.emplace(), OpGetExtents(txn, coherence_->Ctx(r.header, nullptr), r));
  }
  for (StripeGrant& g : reply->stripes) core_->tokens().SignGrant(&g, kTokenRead, HolderOf(r.header));
  reply->tokens_live_ns = core_->options().token_ttl_ns;
  if (!r.header.session) co_return std::move(*reply);
  if (!grants_->table().DirtyHolder(r.header.session, r.ino)) {  // else it is for this once
    notices_->MayCache(r.header.session).Attr(r.ino).Data(r.ino);
  }
  // Bytes and size tell of a change as attributes do (GetAttr).
  if (r.when_told || !notices_->IsUntold(r.header.session, r.ino)) {
    co_await notices_->WaitToldOf(r.ino, r.header.session, why);
    CO_RETURN_IF_ERROR(sessions_->CheckSession(r.header));
  }
  co_return std::move(*reply);
}

// ---- Allocation ----

Task<Result<AllocateReply>> Files::Allocate(AllocateRequest r) {
  return runs_.Mutate<AllocateRequest, AllocateReply>(OpKind::kAllocate, std::move(r), this, &Files::RunAllocate,
                                                &Files::AfterAllocate);
}

Result<AllocateReply> Files::AllocateInTxn(Txn& txn, const OpCtx& ctx, const AllocateRequest& r) {
  ASSIGN_OR_RETURN(const Layout asked, OpAllocateLayout(txn, ctx, r.ino));
  const Layout layout = LayoutForPayload(asked, r.payload_bytes);
  host_->LayoutAsked(asked);
  const ClusterView view = cluster_->state().View();
  const SessionRecord* session = sessions_->table().Find(ctx.session);
  const NodeInfo* near = session == nullptr ? nullptr : cluster_->state().FindNodeByName(session->node_name);
  std::vector<NewStripe> stripes;
  std::vector<uint64_t> max_column_bytes;
  for (uint32_t i = 0; i < std::max<uint32_t>(r.count, 1); ++i) {
    PlaceRequest place;
    place.seed = core_->seeds().next() + i;
    place.shard_bytes = layout.stripe_bytes / layout.data_columns();
    place.least_shard_bytes = LeastColumnBytes(layout, place.shard_bytes);
    place.preferred = near == nullptr ? NodeId() : near->id;
    place.excluded = r.avoid;
    Result<Placement> placed = PlaceStripe(view, layout, place);
    if ((placed.code() == FsError::kTooFewDomains || (placed.ok() && placed->m < layout.m)) && !place.excluded.empty()) {
      // Better a disk that has just failed the client than none, or than fewer copies.
      place.excluded.clear();
      placed = PlaceStripe(view, layout, place);
    }
    if (placed.code() == FsError::kTooFewDomains) {
      if (Error never = AllBeingEmptied(view); !never.ok()) return never;
    }
    RETURN_IF_ERROR(placed);
    stripes.push_back(StripeAt(view, layout, *placed));
    const bool is_short = placed->shard_bytes < place.shard_bytes;
    max_column_bytes.push_back(is_short ? AlignDown(placed->shard_bytes, layout.unit_bytes) : 0);
    if (placed->short_of_space) break;  // a second one would be promised the same little space
  }
  ASSIGN_OR_RETURN(std::vector<StripeInfo> infos, OpAllocate(txn, ctx, r.ino, asked, stripes));
  core_->seeds().Used(stripes.size());
  AllocateReply reply;
  for (size_t i = 0; i < infos.size(); ++i) {
    StripeGrant g;
    g.info = std::move(infos[i]);
    g.max_column_bytes = max_column_bytes[i];
    reply.stripes.push_back(std::move(g));
  }
  reply.seq = txn.seq();
  return reply;
}

Task<Result<AllocateReply>> Files::RunAllocate(AllocateRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckSession(r.header));
  if (r.count > kMaxAllocateStripes || r.avoid.size() > kMaxTargets) {
    co_return Error(FsError::kBadRequest, "too many stripes or disks in one allocation");
  }
  // After a restart, not everyone who is there has been heard yet: no narrow stripes for that.
  const int64_t heard_ns = core_->started_ns() + cluster_->state().options().suspect_ns;
  while (cluster_->state().AwaitsFirstBeats() && core_->Now() < heard_ns) co_await core_->WaitProgress(heard_ns);
  Touched touched;
  bool too_many = false;
  const auto allocate = [&](Txn& txn, const OpCtx& ctx) -> Result<AllocateReply> {
    ASSIGN_OR_RETURN(const bool may, MayAllocate(txn, ctx.session, std::max<uint32_t>(r.count, 1)));
    if (may) return AllocateInTxn(txn, ctx, r);
    too_many = true;
    return Error(FsError::kBusy);  // no room that could be made
  };
  Result<AllocateReply> reply = co_await runs_.Apply<AllocateReply>(OpKind::kAllocate, r.header, &touched, allocate);
  if (too_many && !reply.ok()) {
    co_return Error(FsError::kRetryLater, "session " + std::to_string(r.header.session.v) + " has " + std::to_string(kMaxAllocatedPerSession) +
                                              " stripes allocated already: commit or give back some first");
  }
  co_return reply;
}

Task<Result<AllocateReply>> Files::AfterAllocate(AllocateRequest r, AllocateReply reply) {
  const uint64_t holder = HolderOf(r.header);
  // That of all of them, as it was: this may be the answer to a request that is repeated.
  std::optional<Layout> layout;
  for (const StripeGrant& g : reply.stripes) {
    if (holder == 0 || layout) break;
    Txn txn(core_->store());
    CO_ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, g.info.id));
    if (record) layout = record->layout;
  }
  for (StripeGrant& g : reply.stripes) {
    core_->tokens().SignGrant(&g, kTokenWrite, holder, layout ? MostColumnBytes(*layout, g.max_column_bytes) : kMaxStripeBytes);
  }
  co_return std::move(reply);
}

// ---- Commit ----

Task<Result<CommitReply>> Files::Commit(CommitRequest r) {
  return runs_.Mutate<CommitRequest, CommitReply>(OpKind::kCommit, std::move(r), this, &Files::RunCommit,
                                            &Files::AfterCommit);
}

// Shards may be lost between their seal and this commit: nothing is acknowledged with less than full
// redundancy. But what is repeated was acknowledged before they were lost: refused now it would be gone, with all its
// other shards. Its disk is scanned again until it is empty (meta/upkeep/repairer.h).
Result<void> Files::CheckDisksOf(const CommitRequest& r) const {
  if (sessions_->Repeats(r.header)) return Ok();
  for (const StripeInfo& s : r.stripes) {
    for (const Column& c : s.columns) {
      if (!c.shard || cluster_->state().FindTarget(c.target) == nullptr) continue;
      if (cluster_->state().StateOf(c.target) != ColumnState::kMissing) continue;
      return Error(FsError::kConflict, "stripe " + std::to_string(s.id.v) + " has a shard on " +
                                           cluster_->state().TargetName(c.target) + ", which is gone; write it again");
    }
  }
  return Ok();
}

Task<Result<CommitReply>> Files::RunCommit(CommitRequest r) {
  const SessionId s = r.header.session;
  CO_RETURN_IF_ERROR(sessions_->CheckSession(r.header));
  if ((!r.extents.empty() || r.make) && !sessions_->Repeats(r.header)) {
    // What is given back, or becomes a hole, is taken on a full disk as well.
    if (Error full = CheckRoom(core_->room(), OpKind::kClone); !full.ok()) co_return full;
  }
  // Who has reclaimed the exclusive lease is in nobody's way, whatever others reclaim.
  const InodeId mine = r.make ? r.make->parent : r.ino;
  const bool exclusive = grants_->table().ModeOf(s, mine) == LeaseMode::kExclusive;
  if (!exclusive || r.header.replay_order != 0) CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  const auto commit = [&](Txn& txn, const OpCtx& ctx) -> Result<CommitReply> {
    RETURN_IF_ERROR(CheckDisksOf(r));
    return r.make ? MakeAndCommit(txn, ctx, r) : OpCommit(txn, ctx, r);
  };
  std::optional<Grants::DirVisit> visit;
  if (r.make) {
    CO_RETURN_IF_ERROR(CheckMake(r));
    if (!IsNumberOf(r.header, r.ino)) co_return Error(FsError::kConflict, "it was not given the number of what it makes");
  }
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, mine, commit));
  if (r.make) {
    CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.ino, commit));
    CO_RETURN_IF_ERROR(MayLookBeforeRecall(r.header, r.make->parent, r.make->name));
    CO_ASSIGN_OR_RETURN(Grants::DirVisit in, co_await grants_->Visit(r.header, r.make->parent));
    visit.emplace(std::move(in));
  }
  if (r.ino && (r.make || !exclusive)) {
    CO_RETURN_IF_ERROR(co_await grants_->ClearForChange(s, r.ino, core_->DeadlineOf(r.header)));
  }
  Touched touched;
  Result<CommitReply> reply = co_await runs_.Apply<CommitReply>(OpKind::kCommit, r.header, &touched, commit);
  if (!reply.ok() || !r.ino) co_return reply;
  if (r.make) CO_RETURN_IF_ERROR(co_await AnnounceMade(r, touched));
  CO_RETURN_IF_ERROR(host_->Committed(r.stripes));
  CO_RETURN_IF_ERROR(co_await AnnounceData(s, r.ino, touched));
  // Allocations are not replayed after a crash, so a commit that can be finds its stripes only if they are durable.
  // The bytes took longer to write than the allocation to sync, as a rule.
  CO_RETURN_IF_ERROR(co_await core_->WaitDurable(touched.allocated));
  co_return reply;
}

// The bytes of ino have changed: others forget them, the session may keep what it is told.
Task<Result<void>> Files::AnnounceData(SessionId s, InodeId ino, const Touched& touched) {
  if (grants_->HasAlone(s, ino)) {
    // Nobody else caches anything of the inode, so nobody is waited for:
    // a recall's flush must not depend on others' events, which may wait for flushes themselves.
    notices_->TellData(ino, s);
  } else {
    co_await notices_->Announce(s, touched, {ino});
  }
  if (!sessions_->table().Exists(s)) co_return sessions_->table().Gone(s);
  notices_->MayCache(s).Attr(ino).Data(ino);
  co_return Ok();
}

Task<Result<CommitReply>> Files::AfterCommit(CommitRequest r, CommitReply reply) {
  if (r.durable && !Sabotaged(Sabotage::kAckBeforeSync)) CO_RETURN_IF_ERROR(co_await core_->WaitDurable(reply.seq));
  co_return std::move(reply);
}

// ---- Clone ----

Task<Result<CloneReply>> Files::Clone(CloneRequest r) {
  return runs_.Mutate<CloneRequest, CloneReply>(OpKind::kClone, std::move(r), this, &Files::RunClone,
                                          &Files::AfterClone);
}

Task<Result<CloneReply>> Files::RunClone(CloneRequest r) {
  const SessionId s = r.header.session;
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  const int64_t deadline_ns = core_->DeadlineOf(r.header);
  const auto clone = [&](Txn& txn, const OpCtx& ctx) { return OpClone(txn, ctx, r); };
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.to, clone));
  CO_RETURN_IF_ERROR(co_await grants_->FlushOthers(s, r.from, deadline_ns));
  CO_RETURN_IF_ERROR(co_await grants_->ClearForChange(s, r.to, deadline_ns));
  CO_RETURN_IF_ERROR(sessions_->CheckSession(r.header));
  Touched touched;
  Result<CloneReply> reply = co_await runs_.Apply<CloneReply>(OpKind::kClone, r.header, &touched, clone);
  if (!reply.ok() || reply->cloned == 0) co_return reply;
  CO_RETURN_IF_ERROR(co_await AnnounceData(s, r.to, touched));
  co_return reply;
}

// Durable before the answer: done again after a restart, it might find another source.
Task<Result<CloneReply>> Files::AfterClone(CloneRequest r, CloneReply reply) {
  if (reply.seq) CO_RETURN_IF_ERROR(co_await core_->WaitDurable(reply.seq));
  co_return std::move(reply);
}

// ---- Stripes ----

// A data server's word on its own disks counts at once, another's when the shard's own node has looked at it. Where nobody proves
// who he is all are believed.
Task<Result<Empty>> Files::ReportShard(ReportShardRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  if (!r.header.session && !r.header.peer) CO_RETURN_IF_ERROR(sessions_->CheckAdmin(r.header));
  if (!r.header.session && r.header.peer && r.header.peer->role != Role::kData) {
    co_return Error::Denial(r.header.peer->ToString() + " reports a shard without a session: only data servers do");
  }
  TargetId read_from;
  if (r.header.session) {
    // Who was given it to read; a token that has expired meanwhile says as much.
    if (const uint64_t holder = HolderOf(r.header); holder != 0) {
      CO_ASSIGN_OR_RETURN(read_from, core_->tokens().TargetOf(r.token, r.shard, holder));
    } else {
      CO_ASSIGN_OR_RETURN(const ShardToken token, DecodeToken(r.token));
      CO_RETURN_IF_ERROR(core_->verifier().Check(token, r.shard, token.target, kTokenRead, 0));
      read_from = token.target;
    }
  }
  // A server that does not answer is the cluster's business (heartbeats), not its shards'.
  if (!IsShardLoss(r.reason)) co_return Empty();
  Txn txn(core_->store());
  if (!r.stripe && r.shard) {
    // A data server's scrub knows only the shard.
    for (TargetId t : cluster_->state().Targets()) {
      CO_ASSIGN_OR_RETURN(const auto found, txn.Read<TargetStripeRecord>(TargetShardKey(t, r.shard)));
      if (!found) continue;
      r.stripe = found->stripe;
      r.column = found->column;
      break;
    }
  }
  CO_ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, r.stripe));
  if (!record || record->state != StripeState::kLive || r.column >= record->info.columns.size() ||
      record->info.columns[r.column].shard != r.shard || !r.shard) {
    co_return Empty();  // it has been replaced meanwhile
  }
  if (read_from && record->info.columns[r.column].target != read_from) co_return Empty();
  const TargetId on = record->info.columns[r.column].target;
  if (r.header.peer && !IsOwnTarget(cluster_->state(), r.header, on)) {
    host_->Doubted({r.stripe, r.column, r.shard, r.reason}, on, r.header.peer->Holder());
    co_return Empty();
  }
  if (const Result<void> noted = host_->FoundBad({r.stripe, r.column, r.shard, r.reason}); !noted.ok()) {
    core_->Fail(noted.error());
    co_return noted.error();
  }
  co_return Empty();
}

}  // namespace stria
