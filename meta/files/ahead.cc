// Files that their makers tell of with the first commit.
#include <utility>

#include "meta/files/files.h"

namespace stria {

Task<Result<std::optional<Grants::DirVisit>>> Files::VisitIfDir(const OpHeader& h, InodeId ino) {
  bool is_dir = false;
  {
    Txn txn(core_->store());
    InodeRequest get;
    get.ino = ino;
    const Result<NodeReply> found = OpGetAttr(txn, coherence_->Ctx(h, nullptr), get);
    is_dir = found.ok() && found->attr.type == FileType::kDirectory;
  }
  if (!is_dir) co_return std::optional<Grants::DirVisit>();
  CO_ASSIGN_OR_RETURN(Grants::DirVisit visit, co_await grants_->Visit(h, ino));
  co_return std::optional<Grants::DirVisit>(std::move(visit));
}

Task<Result<std::optional<Grants::DirVisit>>> Files::VisitNamedDir(
    const OpHeader& h, InodeId parent, const std::string& name, const std::function<Result<void>(InodeId)>& may) {
  while (true) {
    const InodeId there = DirNamed(h, parent, name);
    if (!there) co_return std::optional<Grants::DirVisit>();
    CO_RETURN_IF_ERROR(may(there));
    CO_ASSIGN_OR_RETURN(Grants::DirVisit visit, co_await grants_->Visit(h, there));
    // Meanwhile the name may have become another's.
    if (DirNamed(h, parent, name) == there) co_return std::optional<Grants::DirVisit>(std::move(visit));
    if (core_->Now() >= core_->DeadlineOf(h)) co_return Error(FsError::kDeadline, "the name changes all the time");
  }
}

InodeId Files::DirNamed(const OpHeader& h, InodeId parent, const std::string& name) {
  Txn txn(core_->store());
  NameRequest r;
  r.parent = parent;
  r.name = name;
  const Result<NodeReply> found = OpLookup(txn, coherence_->Ctx(h, nullptr), r);
  return found.ok() && found->attr.type == FileType::kDirectory ? found->attr.ino : InodeId();
}

Task<void> Files::GrantAhead(const OpHeader& h, const MakeNodeRequest& r, OpenReply* reply) {
  const SessionId s = h.session;
  const InodeId dir = r.parent;
  // The client was told who is believed (OpenSessionReply::believed), and makes files for these only. Each is checked when it is told of.
  if (!reply->created || !coherence_->IsBelieved(h) || !sessions_->table().Exists(s)) co_return;
  if (!RoomToGrow(core_->room())) co_return;  // what was made beforehand could not be kept
  if (grants_->OthersVisit(dir, s) || notices_->OthersKnowNames(dir, s)) co_return;
  if (notices_->HasUntoldNames(dir)) co_return;
  if (grants_->table().IsOpen(dir) && !grants_->table().IsOpenBy(s, dir)) co_return;
  {
    // Files that are made there inherit it.
    Txn txn(core_->store());
    LayoutRequest get;
    get.ino = dir;
    const Result<LayoutReply> layout = OpGetLayout(txn, coherence_->Ctx(h, nullptr), get);
    if (!layout.ok() || layout->layout != reply->layout) co_return;
  }
  bool had = false;
  if (!grants_->TakeAlone(h, dir, &had)) co_return;
  reply->alone = reply->sets = true;
  reply->alone_proof = coherence_->ProofOf(h, dir, 1, kOpenWrite);
  if (r.numbers > 0) {
    const uint32_t count = std::min(r.numbers, kMaxNumbersAhead);
    if (const InodeId first = core_->store().TakeInodes(count)) {
      numbers_.Grant(s, first, count);
      reply->first_number = first;
      reply->numbers = count;
      reply->numbers_proof = coherence_->ProofOf(h, first, count, kOpenRead | kOpenWrite | kOpenNumber);
    }
  }
  // From now on only the session knows its times: nobody else may go on with what they were (AcquireLease).
  if (!had) notices_->TellAndNote(dir, s);
  co_await notices_->WaitToldOf(dir, s, WaitList::For::kOpen);
}

Result<void> Files::CheckMake(const CommitRequest& r) {
  if (r.ino && !r.append) return Ok();
  return Error(FsError::kBadRequest, "a commit makes the file that it is of, and appends nothing to it");
}

bool Files::IsNumberOf(const OpHeader& h, InodeId ino) const {
  return numbers_.Has(h.session, ino) || (coherence_->Proved(h.session, h.opened, ino) & kOpenNumber) != 0;
}

Result<CommitReply> Files::MakeAndCommit(Txn& txn, const OpCtx& ctx, const CommitRequest& r) {
  OpCtx making = ctx;
  if (r.make->made_ns) making.now_ns = *r.make->made_ns;
  making.own_number = numbers_.Has(ctx.session, r.ino);
  making.former_number = (coherence_->Proved(ctx.session, ctx.opened, r.ino) & kOpenNumber) != 0;
  ASSIGN_OR_RETURN(const OpenReply made, OpMakeAhead(txn, making, *r.make, r.ino));
  if (made.created && r.make->set) {
    SetAttrRequest set;
    set.ino = r.ino;
    set.mode = r.make->set->mode;
    set.uid = r.make->set->uid;
    set.gid = r.make->set->gid;
    set.atime_ns = r.make->set->atime_ns;
    set.mtime_ns = r.make->set->mtime_ns;
    RETURN_IF_ERROR(OpSetAttr(txn, ctx, set));
  }
  OpCtx writing = ctx;
  writing.made = r.ino;
  ASSIGN_OR_RETURN(CommitReply reply, OpCommit(txn, writing, r));
  reply.parent = made.node.parent;
  return reply;
}

Task<Result<void>> Files::AnnounceMade(const CommitRequest& r, const Touched& touched) {
  const SessionId s = r.header.session;
  const InodeId dir = r.make->parent;
  numbers_.Used(s, r.ino);
  grants_->OpenAsMade(r.header, r.ino);
  notices_->MayCache(s).Entry(dir, r.make->name).Attr(dir);
  // Of a directory that it has to itself nobody is told, nor waited for: who recalls it waits for this.
  if (grants_->table().ModeOf(s, dir) == LeaseMode::kExclusive) co_return Ok();
  co_await notices_->Announce(s, touched, {r.ino, dir});
  co_await notices_->WaitTold(dir);
  co_return Ok();
}

}  // namespace stria
