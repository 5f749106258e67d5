// Names and attributes.
#include <algorithm>

#include "meta/files/files.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {
// Of what the answer to an open tells of the mapping.
constexpr uint64_t kMaxOpenMapBytes = 4 * kMiB;
constexpr size_t kMaxOpenExtents = 64;
}  // namespace

std::vector<InodeId> Files::Covered(const NodeReply& r) const {
  std::vector<InodeId> out = {r.attr.ino};
  if (r.parent) out.push_back(r.parent->ino);
  if (r.parent2) out.push_back(r.parent2->ino);
  return out;
}

// Notes what the session may cache of its reply, or keeps it from caching.
Result<NodeReply> Files::SettleNode(const OpHeader& h, NodeReply reply) {
  if (!h.session) return reply;
  if (!sessions_->table().Exists(h.session)) return sessions_->table().Gone(h.session);
  Notices::Caching cache(notices_, h.session);
  if (reply.parent) cache.Attr(reply.parent->ino);
  if (reply.parent2) cache.Attr(reply.parent2->ino);
  const InodeId ino = reply.attr.ino;
  reply.held_elsewhere = static_cast<bool>(grants_->table().DirtyHolder(h.session, ino));
  if (!reply.held_elsewhere) cache.Attr(ino);
  return reply;
}

Task<Result<NodeReply>> Files::Lookup(NameRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->GateCaller(r.header));
  const int64_t deadline_ns = core_->DeadlineOf(r.header);
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.parent, [&](Txn& t, const OpCtx& c) { return OpLookup(t, c, r); }));
  CO_ASSIGN_OR_RETURN(const Grants::DirVisit visit, co_await grants_->Visit(r.header, r.parent));
  for (bool flushed = false;; flushed = true) {
    co_await notices_->WaitEvictions(r.header.session);
    CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
    std::optional<Result<NodeReply>> reply;
    {
      Txn txn(core_->store());
      reply.emplace(OpLookup(txn, coherence_->Ctx(r.header, nullptr), r));
    }
    if (reply->ok() && r.header.session) coherence_->NoteLookup(r.header.session, (*reply)->attr.ino);
    if (!reply->ok() && reply->code() != FsError::kNoEnt) co_return std::move(*reply);
    const bool dirty = reply->ok() && grants_->table().DirtyHolder(r.header.session, (*reply)->attr.ino);
    if (dirty && !flushed) {
      CO_RETURN_IF_ERROR(co_await grants_->FlushOthers(r.header.session, (*reply)->attr.ino, deadline_ns));
      CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
      continue;
    }
    if (r.header.session) {
      notices_->MayCache(r.header.session).Entry(r.parent, r.name);
    }
    Result<NodeReply> settled = reply->ok() ? SettleNode(r.header, std::move(**reply)) : std::move(*reply);
    co_await notices_->WaitTold(r.parent);
    if (settled.ok()) co_await notices_->WaitToldOf(settled->attr.ino, r.header.session);
    CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
    co_return settled;
  }
}

Task<Result<NodeReply>> Files::GetAttr(InodeRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->GateCaller(r.header));
  CO_RETURN_IF_ERROR(co_await grants_->FlushOthers(r.header.session, r.ino, core_->DeadlineOf(r.header)));
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  std::optional<Result<NodeReply>> reply;
  {
    Txn txn(core_->store());
    reply.emplace(OpGetAttr(txn, coherence_->Ctx(r.header, nullptr), r));
  }
  if (!reply->ok()) co_return std::move(*reply);
  Result<NodeReply> settled = SettleNode(r.header, std::move(**reply));
  co_await notices_->WaitToldOf(r.ino, r.header.session);
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  co_return settled;
}

// ---- Mutations of inodes ----

Task<Result<NodeReply>> Files::SetAttr(SetAttrRequest r) {
  return runs_.Mutate<SetAttrRequest, NodeReply>(OpKind::kSetAttr, std::move(r), this, &Files::RunSetAttr, nullptr);
}

Task<Result<NodeReply>> Files::RunSetAttr(SetAttrRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  const int64_t deadline_ns = core_->DeadlineOf(r.header);
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.ino, [&](Txn& t, const OpCtx& c) { return OpSetAttr(t, c, r); }));
  CO_ASSIGN_OR_RETURN(const std::optional<Grants::DirVisit> visit, co_await VisitIfDir(r.header, r.ino));
  // A remote truncate ends buffering; other changes only need what was written before to be in order.
  if (r.size) CO_RETURN_IF_ERROR(co_await grants_->ClearForChange(r.header.session, r.ino, deadline_ns));
  else if (!r.read_ns) CO_RETURN_IF_ERROR(co_await grants_->FlushOthers(r.header.session, r.ino, deadline_ns));
  Touched touched;
  Result<NodeReply> reply = co_await runs_.Apply<NodeReply>(
      OpKind::kSetAttr, r.header, &touched, [&](Txn& txn, const OpCtx& ctx) { return OpSetAttr(txn, ctx, r); });
  if (!reply.ok()) co_return reply;
  co_await notices_->Announce(r.header.session, touched, Covered(*reply));
  co_return SettleNode(r.header, std::move(*reply));
}

Task<Result<OpenReply>> Files::MakeNode(MakeNodeRequest r) {
  return runs_.Mutate<MakeNodeRequest, OpenReply>(OpKind::kMakeNode, std::move(r), this, &Files::RunMakeNode,
                                            &Files::AfterMakeNode);
}

Task<Result<OpenReply>> Files::RunMakeNode(MakeNodeRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  const auto make = [&](Txn& txn, const OpCtx& ctx) {
    OpCtx making = ctx;
    making.former_number = r.former && (coherence_->Proved(ctx.session, ctx.opened, r.former) & kOpenNumber) != 0;
    return OpMakeNode(txn, making, r);
  };
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.parent, make));
  CO_RETURN_IF_ERROR(MayLookBeforeRecall(r.header, r.parent, r.name));
  CO_ASSIGN_OR_RETURN(const Grants::DirVisit visit, co_await grants_->Visit(r.header, r.parent));
  co_await notices_->WaitEvictions(r.header.session);
  const int64_t deadline_ns = core_->DeadlineOf(r.header);
  while (r.open && r.truncate && !r.exclusive) {
    // An existing file is about to be truncated: whoever buffers writes to it gives that up first.
    InodeId there;
    {
      Txn txn(core_->store());
      NameRequest name;
      name.parent = r.parent;
      name.name = r.name;
      const Result<NodeReply> found = OpLookup(txn, coherence_->Ctx(r.header, nullptr), name);
      if (found.ok()) there = found->attr.ino;
    }
    if (!there || !grants_->table().DirtyHolder(r.header.session, there)) break;
    CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, there, make));
    CO_RETURN_IF_ERROR(co_await grants_->ClearForChange(r.header.session, there, deadline_ns));
  }
  Touched touched;
  Result<OpenReply> reply = co_await runs_.Apply<OpenReply>(OpKind::kMakeNode, r.header, &touched, make);
  if (!reply.ok()) {
    co_await notices_->WaitTold(r.parent);
    co_return reply;
  }
  if (reply->created && r.open && sessions_->table().Exists(r.header.session)) grants_->OpenAsMade(r.header, reply->node.attr.ino);
  notices_->MayCache(r.header.session).Entry(r.parent, r.name);
  co_await notices_->Announce(r.header.session, touched, Covered(reply->node));
  co_await notices_->WaitTold(r.parent);  // also if it was there already
  co_return reply;
}

Task<Result<OpenReply>> Files::AfterMakeNode(MakeNodeRequest r, OpenReply reply) {
  if (r.open && reply.node.attr.type == FileType::kFile) {
    const bool created = reply.created;
    CO_ASSIGN_OR_RETURN(reply, co_await TakeLease(r.header, created || r.for_read, true, std::move(reply)));
    if (created) reply.proof = coherence_->ProofOf(r.header, reply.node.attr.ino, 1, kOpenRead | kOpenWrite | kOpenNumber);
    if (r.ahead) co_await GrantAhead(r.header, r, &reply);
    co_return std::move(reply);
  }
  if (reply.created && reply.node.attr.type == FileType::kDirectory) reply.whole = NoteMadeDir(r.header, reply);
  if (reply.created) reply.proof = coherence_->ProofOf(r.header, reply.node.attr.ino, 1, kOpenNumber);
  CO_ASSIGN_OR_RETURN(reply.node, SettleNode(r.header, std::move(reply.node)));
  co_return std::move(reply);
}

// The session hears of each name that comes into the directory it has made. True if there is none yet.
bool Files::NoteMadeDir(const OpHeader& h, const OpenReply& made) {
  const InodeId dir = made.node.attr.ino;
  // Somebody may not know yet of a name that went.
  if (!sessions_->table().Exists(h.session) || notices_->NotesNamesOf(dir)) return false;
  Txn txn(core_->store());
  ReadDirRequest list;
  list.ino = dir;
  list.limit = 1;
  const Result<ReadDirReply> names = OpReadDir(txn, coherence_->Ctx(h, nullptr), list);
  if (!names.ok() || !names->entries.empty()) return false;
  notices_->MayCache(h.session).Listing(dir);
  return true;
}

Task<Result<OpenReply>> Files::Open(OpenRequest r) {
  return runs_.Mutate<OpenRequest, OpenReply>(OpKind::kOpen, std::move(r), this, &Files::RunOpen, &Files::AfterOpen);
}

Task<Result<OpenReply>> Files::RunOpen(OpenRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  if (!r.truncate) {
    Txn txn(core_->store());
    co_return OpOpen(txn, coherence_->Ctx(r.header, nullptr), r);
  }
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.ino, [&](Txn& t, const OpCtx& c) { return OpOpen(t, c, r); }));
  CO_RETURN_IF_ERROR(co_await grants_->ClearForChange(r.header.session, r.ino, core_->DeadlineOf(r.header)));
  Touched touched;
  Result<OpenReply> reply = co_await runs_.Apply<OpenReply>(
      OpKind::kOpen, r.header, &touched, [&](Txn& txn, const OpCtx& ctx) { return OpOpen(txn, ctx, r); });
  if (!reply.ok()) co_return reply;
  co_await notices_->Announce(r.header.session, touched, Covered(reply->node));
  co_return reply;
}

Task<Result<OpenReply>> Files::AfterOpen(OpenRequest r, OpenReply reply) {
  CO_ASSIGN_OR_RETURN(reply, co_await TakeLease(r.header, r.for_read, r.for_write || r.truncate, std::move(reply)));
  if (r.map_bytes > 0) AddMapping(r, &reply);
  co_return std::move(reply);
}

// What the first GetExtents would tell, if that is little, and would not have to wait.
void Files::AddMapping(const OpenRequest& r, OpenReply* reply) {
  if (reply->lease != LeaseMode::kRead && reply->lease != LeaseMode::kExclusive) return;
  const SessionId s = r.header.session;
  if (notices_->IsUntoldToOthers(s, r.ino)) return;
  GetExtentsRequest get;
  get.ino = r.ino;
  get.length = std::min(r.map_bytes, kMaxOpenMapBytes);
  std::optional<Result<GetExtentsReply>> mapping;
  {
    Txn txn(core_->store());
    mapping.emplace(OpGetExtents(txn, coherence_->Ctx(r.header, nullptr), get));
  }
  if (!mapping->ok() || (*mapping)->extents.size() > kMaxOpenExtents) return;
  size_t inline_bytes = 0;
  for (const Extent& e : (*mapping)->extents) inline_bytes += e.inline_bytes.size();
  if (inline_bytes > kMaxInlineBytes) return;
  for (StripeGrant& g : (*mapping)->stripes) core_->tokens().SignGrant(&g, kTokenRead, HolderOf(r.header));
  (*mapping)->tokens_live_ns = core_->options().token_ttl_ns;
  notices_->MayCache(s).Attr(r.ino).Data(r.ino);
  reply->mapping = std::move(**mapping);
}

// Marks the inode open and gets the lease; the attributes are read again, after what recalls flushed.
Task<Result<OpenReply>> Files::TakeLease(OpHeader h, bool for_read, bool for_write, OpenReply reply) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(h));
  if (Sessions::IsReplay(h)) co_return std::move(reply);  // who repeats it wants to know only that it is done
  const InodeId ino = reply.node.attr.ino;
  const bool data = reply.node.attr.type == FileType::kFile;
  const bool was_open = grants_->table().IsOpenBy(h.session, ino);
  CO_ASSIGN_OR_RETURN(reply.lease, co_await grants_->Acquire(h, ino, for_write, data));
  if (for_read) grants_->NoteReader(h.session, ino);
  reply.proof = coherence_->ProofOfOpen(h, ino);
  {
    Txn txn(core_->store());
    InodeRequest get;
    get.ino = ino;
    const Result<NodeReply> now = OpGetAttr(txn, coherence_->Ctx(h, nullptr), get);
    if (!now.ok()) {
      if (!was_open) grants_->TakeBack(h.session, ino);
      if (!reply.created || now.code() != FsError::kStale) co_return now.error();
      // It was made before a restart, and its maker asks again; until it did, nobody had it open, and somebody has
      // removed it. So it was made, and is gone.
      reply.lease = LeaseMode::kNone;
      reply.node.attr.nlink = 0;
      co_return std::move(reply);
    }
    reply.node.attr = now->attr;
  }
  CO_ASSIGN_OR_RETURN(reply.node, SettleNode(h, std::move(reply.node)));
  co_return std::move(reply);
}

Task<Result<Empty>> Files::Release(InodeRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckSession(r.header));
  grants_->GiveBack(r.header, r.ino);
  co_return Empty();
}

Task<Result<Empty>> Files::LeaseDone(LeaseDoneRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckSession(r.header));
  CO_RETURN_IF_ERROR(grants_->Done(r));
  co_return Empty();
}

// ---- Mutations of names ----

Task<Result<NodeReply>> Files::Unlink(NameRequest r) {
  return runs_.Mutate<NameRequest, NodeReply>(OpKind::kUnlink, std::move(r), this, &Files::RunUnlink, nullptr);
}

Task<Result<NodeReply>> Files::RunUnlink(NameRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.parent, [&](Txn& t, const OpCtx& c) { return OpUnlink(t, c, r); }));
  CO_ASSIGN_OR_RETURN(const Grants::DirVisit visit, co_await grants_->Visit(r.header, r.parent));
  if (r.release) grants_->GiveBack(r.header, r.release);  // first: what nobody has open goes with its name
  Touched touched;
  Result<NodeReply> reply = co_await runs_.Apply<NodeReply>(
      OpKind::kUnlink, r.header, &touched, [&](Txn& txn, const OpCtx& ctx) { return OpUnlink(txn, ctx, r); });
  if (!reply.ok()) {
    co_await notices_->WaitTold(r.parent);
    co_return reply;
  }
  notices_->MayCache(r.header.session).Entry(r.parent, r.name);  // it knows that the name is gone
  co_await notices_->Announce(r.header.session, touched, Covered(*reply));
  reply->released = static_cast<bool>(r.release);
  co_return SettleNode(r.header, std::move(*reply));
}

Task<Result<NodeReply>> Files::Rmdir(NameRequest r) {
  return runs_.Mutate<NameRequest, NodeReply>(OpKind::kRmdir, std::move(r), this, &Files::RunRmdir, nullptr);
}

Task<Result<NodeReply>> Files::RunRmdir(NameRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  const auto remove = [&](Txn& txn, const OpCtx& ctx) { return OpRmdir(txn, ctx, r); };
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.parent, remove));
  CO_ASSIGN_OR_RETURN(const Grants::DirVisit visit, co_await grants_->Visit(r.header, r.parent));
  const auto may = [&](InodeId victim) { return coherence_->CheckBeforeRecall(r.header, victim, remove); };
  CO_ASSIGN_OR_RETURN(const std::optional<Grants::DirVisit> victim, co_await VisitNamedDir(r.header, r.parent, r.name, may));
  Touched touched;
  Result<NodeReply> reply = co_await runs_.Apply<NodeReply>(OpKind::kRmdir, r.header, &touched, remove);
  if (!reply.ok()) {
    co_await notices_->WaitTold(r.parent);
    co_return reply;
  }
  co_await notices_->Announce(r.header.session, touched, Covered(*reply));
  co_return SettleNode(r.header, std::move(*reply));
}

// Of a request that names several inodes: what is wrong with one says nothing of another.
Result<void> Files::MayLookBeforeRecall(const OpHeader& h, InodeId dir, const std::string& name) {
  const NameRequest look{{}, dir, name, InodeId()};
  return coherence_->CheckBeforeRecall(h, dir, [&](Txn& txn, const OpCtx& ctx) { return OpLookup(txn, ctx, look); });
}

Task<Result<NodeReply>> Files::Rename(RenameRequest r) {
  return runs_.Mutate<RenameRequest, NodeReply>(OpKind::kRename, std::move(r), this, &Files::RunRename, nullptr);
}

Task<Result<NodeReply>> Files::RunRename(RenameRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  const auto move = [&](Txn& txn, const OpCtx& ctx) { return OpRename(txn, ctx, r); };
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.parent, move));
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.new_parent, move));
  CO_RETURN_IF_ERROR(MayLookBeforeRecall(r.header, r.parent, r.name));
  CO_RETURN_IF_ERROR(MayLookBeforeRecall(r.header, r.new_parent, r.new_name));
  CO_ASSIGN_OR_RETURN(const Grants::DirVisit from, co_await grants_->Visit(r.header, r.parent));
  CO_ASSIGN_OR_RETURN(const Grants::DirVisit to, co_await grants_->Visit(r.header, r.new_parent));
  // "write new, rename over old" must never show the new name without the new bytes.
  InodeId moved;
  {
    Txn txn(core_->store());
    NameRequest name;
    name.parent = r.parent;
    name.name = r.name;
    const Result<NodeReply> found = OpLookup(txn, coherence_->Ctx(r.header, nullptr), name);
    if (found.ok()) moved = found->attr.ino;
  }
  if (moved) CO_RETURN_IF_ERROR(co_await grants_->FlushOthers(r.header.session, moved, core_->DeadlineOf(r.header)));
  const auto may = [&](InodeId victim) { return coherence_->CheckBeforeRecall(r.header, victim, move); };
  CO_ASSIGN_OR_RETURN(const std::optional<Grants::DirVisit> replaced,
                      co_await VisitNamedDir(r.header, r.new_parent, r.new_name, may));
  if (r.release) grants_->GiveBack(r.header, r.release);  // as RunUnlink
  Touched touched;
  Result<NodeReply> reply = co_await runs_.Apply<NodeReply>(OpKind::kRename, r.header, &touched, move);
  if (!reply.ok()) {
    co_await notices_->WaitTold(r.parent);
    co_await notices_->WaitTold(r.new_parent);
    co_return reply;
  }
  notices_->MayCache(r.header.session).Entry(r.new_parent, r.new_name);
  std::vector<InodeId> covered = Covered(*reply);
  if (touched.nameless.contains(r.release)) covered.push_back(r.release);
  co_await notices_->Announce(r.header.session, touched, std::move(covered));
  reply->released = static_cast<bool>(r.release);
  // Two names of one file: nothing has changed, and who is told so knows that they are.
  co_await notices_->WaitTold(r.parent);
  co_await notices_->WaitTold(r.new_parent);
  co_return SettleNode(r.header, std::move(*reply));
}

Task<Result<NodeReply>> Files::Link(LinkRequest r) {
  return runs_.Mutate<LinkRequest, NodeReply>(OpKind::kLink, std::move(r), this, &Files::RunLink, nullptr);
}

Task<Result<NodeReply>> Files::RunLink(LinkRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  const auto link = [&](Txn& txn, const OpCtx& ctx) { return OpLink(txn, ctx, r); };
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.new_parent, link));
  CO_RETURN_IF_ERROR(MayLookBeforeRecall(r.header, r.new_parent, r.new_name));
  CO_ASSIGN_OR_RETURN(const Grants::DirVisit visit, co_await grants_->Visit(r.header, r.new_parent));
  CO_RETURN_IF_ERROR(co_await grants_->FlushOthers(r.header.session, r.ino, core_->DeadlineOf(r.header)));
  Touched touched;
  Result<NodeReply> reply = co_await runs_.Apply<NodeReply>(OpKind::kLink, r.header, &touched, link);
  if (!reply.ok()) {
    co_await notices_->WaitTold(r.new_parent);
    co_return reply;
  }
  notices_->MayCache(r.header.session).Entry(r.new_parent, r.new_name);
  co_await notices_->Announce(r.header.session, touched, Covered(*reply));
  co_return SettleNode(r.header, std::move(*reply));
}

// ---- Reads ----

Task<Result<ReadLinkReply>> Files::ReadLink(InodeRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  Txn txn(core_->store());
  co_return OpReadLink(txn, coherence_->Ctx(r.header, nullptr), r);
}

// What the session may cache of a listing; keeps it from caching what others have yet to tell or to hear.
void Files::NoteEntries(const ReadDirRequest& r, std::vector<DirEntry>* entries) {
  const SessionId s = r.header.session;
  Notices::Caching cache(notices_, s);
  cache.Listing(r.ino);
  for (DirEntry& e : *entries) {
    cache.Entry(r.ino, e.name);
    // Somebody buffers writes to it: its size is his secret until it is asked for by GetAttr. Nor is a change told
    // here while others still believe in what was before.
    if (e.attr && (grants_->table().DirtyHolder(s, e.ino) || notices_->HasUntold(e.ino))) e.attr.reset();
    if (e.attr) cache.Attr(e.ino);
  }
}

Task<Result<ReadDirReply>> Files::ReadDir(ReadDirRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.ino, [&](Txn& t, const OpCtx& c) { return OpReadDir(t, c, r); }));
  CO_ASSIGN_OR_RETURN(const Grants::DirVisit visit, co_await grants_->Visit(r.header, r.ino));
  co_await notices_->WaitEvictions(r.header.session);
  CO_RETURN_IF_ERROR(sessions_->CheckSession(r.header));
  std::optional<Result<ReadDirReply>> reply;
  {
    Txn txn(core_->store());
    reply.emplace(OpReadDir(txn, coherence_->Ctx(r.header, nullptr), r));
  }
  if (!reply->ok()) co_return std::move(*reply);
  NoteEntries(r, &(*reply)->entries);
  co_await notices_->WaitTold(r.ino);
  CO_RETURN_IF_ERROR(sessions_->CheckSession(r.header));
  co_return std::move(*reply);
}

Task<Result<StatFsReply>> Files::StatFs(InodeRequest r) {
  CO_RETURN_IF_ERROR(core_->CheckHeader(r.header));
  Txn txn(core_->store());
  const RawBytes raw = RawOf(cluster_->state());
  co_return OpStatFs(txn, r.ino, raw.total, raw.free);
}

// Whoever asks is told what listing directories would tell; an admin, or who says to be root without proof, all.
Task<Result<PathsReply>> Files::Paths(InodeRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  Txn txn(core_->store());
  CO_ASSIGN_OR_RETURN(PathsPage page, OpPaths(txn, coherence_->NamesCtx(r.header), r.ino));
  co_return PathsReply{std::move(page.paths), page.hidden, !page.next.empty()};
}

// ---- Extended attributes ----

Task<Result<XattrReply>> Files::GetXattr(XattrRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  Txn txn(core_->store());
  Result<XattrReply> reply = OpGetXattr(txn, coherence_->Ctx(r.header, nullptr), r);
  notices_->MayCache(r.header.session).Attr(r.ino);
  co_return reply;
}

Task<Result<XattrReply>> Files::ListXattr(XattrRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  Txn txn(core_->store());
  Result<XattrReply> reply = OpListXattr(txn, coherence_->Ctx(r.header, nullptr), r);
  notices_->MayCache(r.header.session).Attr(r.ino);
  co_return reply;
}

Task<Result<XattrReply>> Files::SetXattr(XattrRequest r) {
  return runs_.Mutate<XattrRequest, XattrReply>(OpKind::kSetXattr, std::move(r), this, &Files::RunSetXattr, nullptr);
}

Task<Result<XattrReply>> Files::RunSetXattr(XattrRequest r) { return ChangeXattr(OpKind::kSetXattr, OpSetXattr, std::move(r)); }

Task<Result<XattrReply>> Files::RemoveXattr(XattrRequest r) {
  return runs_.Mutate<XattrRequest, XattrReply>(OpKind::kRemoveXattr, std::move(r), this, &Files::RunRemoveXattr, nullptr);
}

Task<Result<XattrReply>> Files::RunRemoveXattr(XattrRequest r) { return ChangeXattr(OpKind::kRemoveXattr, OpRemoveXattr, std::move(r)); }

Task<Result<XattrReply>> Files::ChangeXattr(OpKind kind, decltype(&OpSetXattr) op, XattrRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  const auto change = [&](Txn& txn, const OpCtx& ctx) { return op(txn, ctx, r); };
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.ino, change));
  CO_ASSIGN_OR_RETURN(const std::optional<Grants::DirVisit> visit, co_await VisitIfDir(r.header, r.ino));
  Touched touched;
  Result<XattrReply> reply = co_await runs_.Apply<XattrReply>(kind, r.header, &touched, change);
  // The reply has no attributes, and it tells the caller to drop its cached ones. A notice to the caller besides would make its
  // kernel drop the answer to a GETATTR that runs meanwhile, and judge by a mode from before the change.
  if (reply.ok()) co_await notices_->Announce(r.header.session, touched, {r.ino});
  co_return reply;
}

// ---- Layout ----

Task<Result<LayoutReply>> Files::GetLayout(LayoutRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->GateCaller(r.header));
  Txn txn(core_->store());
  co_return OpGetLayout(txn, coherence_->Ctx(r.header, nullptr), r);
}

Task<Result<LayoutReply>> Files::SetLayout(LayoutRequest r) {
  return runs_.Mutate<LayoutRequest, LayoutReply>(OpKind::kSetLayout, std::move(r), this, &Files::RunSetLayout,
                                            &Files::AfterSetLayout);
}

Task<Result<LayoutReply>> Files::RunSetLayout(LayoutRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->GateCaller(r.header));
  CO_RETURN_IF_ERROR(coherence_->CheckBeforeRecall(r.header, r.ino, [&](Txn& t, const OpCtx& c) { return OpSetLayout(t, c, r); }));
  CO_ASSIGN_OR_RETURN(const std::optional<Grants::DirVisit> visit, co_await VisitIfDir(r.header, r.ino));
  if (!r.layout) co_return Error(FsError::kBadRequest, "no layout to set");
  if (Error e = ValidateLayout(*r.layout); !e.ok()) co_return e;  // what follows divides by its columns
  CO_RETURN_IF_ERROR(CheckLayoutFits(cluster_->state().View(), *r.layout));
  Touched touched;
  Result<LayoutReply> reply = co_await runs_.Apply<LayoutReply>(
      OpKind::kSetLayout, r.header, &touched, [&](Txn& txn, const OpCtx& ctx) { return OpSetLayout(txn, ctx, r); });
  if (reply.ok()) co_await notices_->Announce(r.header.session, touched, {r.ino});
  co_return reply;
}

Task<Result<LayoutReply>> Files::AfterSetLayout(LayoutRequest r, LayoutReply reply) {
  CO_RETURN_IF_ERROR(co_await core_->Sync());
  co_return std::move(reply);
}

// What the session was answered is durable. After a restart that holds only when the session has repeated what the server
// had not synced before: a call that was on its way meanwhile, from a client that does not know of the restart yet, is to
// be asked again.
Task<Result<Empty>> Files::Sync(InodeRequest r) {
  CO_RETURN_IF_ERROR(r.header.session ? sessions_->CheckSession(r.header) : core_->CheckHeader(r.header));
  if (Sabotaged(Sabotage::kAckBeforeSync)) co_return Empty();
  CO_RETURN_IF_ERROR(co_await core_->Sync());
  // The first that a client asks after it has reclaimed its session and repeated what was not durable.
  if (r.header.session && sessions_->table().Check(r.header.session, r.header.epoch).ok()) {
    sessions_->Replayed(r.header.session);
  }
  co_return Empty();
}

}  // namespace stria
