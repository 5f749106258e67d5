#include "client/vfs/ranges.h"

#include <memory>
#include <optional>
#include <utility>

#include "client/vfs/gather.h"
#include "common/sabotage.h"

namespace stria {

Ranges::Ranges(RangesRooms rooms, StripeIo io)
    : attrs_(rooms.attrs), nodes_(rooms.nodes), leases_(rooms.leases), turns_(rooms.turns), mappings_(rooms.mappings),
      write_back_(rooms.write_back), commits_(rooms.commits), keeper_(rooms.keeper), come_back_(rooms.come_back),
      file_calls_(rooms.file_calls), reads_(rooms.reads), pool_(rooms.pool), session_(rooms.session), calls_(rooms.calls), io_(io) {}

void Ranges::RangeChanged(VfsInode& n, uint64_t offset, uint64_t length, const Attr& attr, CommitSeq seq,
                       uint64_t since) {
  n.mapping.Forget(offset, length);
  n.Committed(session_.term(), seq);
  n.in_kernel.KeptPagesAreOld();
  n.attr = attr;
  write_back_.Account(n.writes);
  (void)attrs_.Remember(attr, nodes_.SinceChange(since));
}

Task<Result<void>> Ranges::Reshape(Caller who, VfsHandlePtr h, CommitRequest r, uint64_t offset, uint64_t length) {
  const CallList::Call under_way(&calls_, "change of a range of", h->inode->ino);
  VfsInodePtr inode = h->inode;
  CO_RETURN_IF_ERROR(come_back_.CheckHandle(*h));
  if (!leases_.Holds(inode->lease, true)) CO_RETURN_IF_ERROR(co_await keeper_.Acquire(who, inode, inode->lease.for_read(), true, false, /*again=*/true));
  CO_ASSIGN_OR_RETURN(SemaphoreHold held, co_await turns_.Take(TurnsOf(inode), &InodeTurns::open_mu, "change of a range"));
  const NoWrites no_writes(TurnsOf(inode));
  CO_RETURN_IF_ERROR(co_await commits_.FlushInode(inode, false));
  r.ino = inode->ino;
  r.header.opened = inode->lease.proof();
  AttrView::Resizing resizing(&attrs_, inode->ino);
  co_await resizing.Begin();
  const uint64_t since = nodes_.epoch();
  auto reply = co_await session_.Mutate(&MetaService::Commit, std::move(r), who);
  if (!reply.ok()) co_return reply.error();
  RangeChanged(*inode, offset, length, reply->attr, reply->seq, since);
  co_return Ok();
}

Task<Result<void>> Ranges::Punch(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length, bool keep_size) {
  if (length == 0 || offset > kMaxFileBytes - length) co_return Error(FsError::kInval);
  CommitRequest r;
  r.punch.emplace_back(offset, length);
  if (!keep_size) r.grow_to = offset + length;
  r.mtime_ns = Executor::Current().WallNs();
  co_return co_await Reshape(std::move(who), std::move(h), std::move(r), offset, length);
}

Task<Result<void>> Ranges::Grow(Caller who, VfsHandlePtr h, uint64_t size) {
  if (size > kMaxFileBytes) co_return Error(FsError::kFBig);
  CommitRequest r;
  r.grow_to = size;
  co_return co_await Reshape(std::move(who), std::move(h), std::move(r), size, kMaxFileBytes - size);
}

Task<Result<uint64_t>> Ranges::CopyRange(Caller who, VfsHandlePtr from, uint64_t from_offset, VfsHandlePtr to,
                                      uint64_t to_offset, uint64_t length) {
  const CallList::Call under_way(&calls_, "copy into", to->inode->ino);
  VfsInodePtr source = from->inode;
  VfsInodePtr target = to->inode;
  CO_RETURN_IF_ERROR(come_back_.CheckHandle(*from));
  CO_RETURN_IF_ERROR(come_back_.CheckHandle(*to));
  if (!from->read || !to->write) co_return Error(FsError::kBadF);
  if (length == 0) co_return 0;
  if (Sabotaged(Sabotage::kCloneInTwo) && length > 1000) {
    CO_ASSIGN_OR_RETURN(const uint64_t first, co_await CopyRange(who, from, from_offset, to, to_offset, 1000));
    if (first < 1000) co_return first;
    co_await Sleep(200 * kMillisecond);
    auto rest = co_await CopyRange(who, from, from_offset + first, to, to_offset + first, length - first);
    if (!rest.ok()) co_return rest;
    co_return first + *rest;
  }
  if (!leases_.Holds(target->lease, true)) CO_RETURN_IF_ERROR(co_await keeper_.Acquire(who, target, target->lease.for_read(), true, false, /*again=*/true));
  // The server makes the clone, of what it has.
  if (!source->writes.clean()) CO_RETURN_IF_ERROR(co_await commits_.FlushInode(source, false));
  CO_ASSIGN_OR_RETURN(SemaphoreHold held, co_await turns_.Take(TurnsOf(target), &InodeTurns::open_mu, "clone"));
  const NoWrites no_writes(TurnsOf(target));
  CO_RETURN_IF_ERROR(co_await commits_.FlushInode(target, false));
  CloneRequest r;
  r.from = source->ino;
  r.from_offset = from_offset;
  r.to = target->ino;
  r.to_offset = to_offset;
  r.length = length;
  AttrView::Resizing resizing(&attrs_, target->ino);
  co_await resizing.Begin();
  const uint64_t since = nodes_.epoch();
  auto reply = co_await session_.Mutate(&MetaService::Clone, std::move(r), who);
  if (reply.code() == FsError::kTooBig) co_return Error(FsError::kNotSupported, reply.error().message);
  if (!reply.ok()) co_return reply.error();
  RangeChanged(*target, to_offset, reply->cloned, reply->attr, reply->seq, since);
  target->KnownDurable({session_.term(), reply->seq});
  co_return reply->cloned;
}

// With the inode's open_mu and lease_mu.
class Ranges::HeldForGather : public FileForGather {
 public:
  HeldForGather(Ranges* room, VfsInodePtr inode) : room_(room), inode_(std::move(inode)) {}

  Task<Result<void>> Begin() {
    VfsInode& n = *inode_;
    unchanged_ = co_await n.turns.open_mu.Lock();
    n.turns.open_mu.HeldFor("gather");
    held_ = co_await n.turns.lease_mu.Lock();
    n.turns.lease_mu.HeldFor("gather");
    if (!held()) co_return Error(FsError::kBusy, "another mount has the file open");
    if (n.layout.arrangement != Arrangement::kGathered) {
      co_return Error(FsError::kInval, "the layout of the file is not gathered");
    }
    CO_RETURN_IF_ERROR(co_await room_->commits_.FlushInode(inode_, false));
    pause_.emplace(WritesOf(inode_));
    co_await pause_->Begin();
    co_return Ok();
  }

  const Layout& layout() const override { return inode_->layout; }
  uint64_t size() const override { return inode_->attr.size; }
  std::unique_ptr<GrantSource> Source() override { return room_->pool_.SourceFor(inode_->ino, inode_->layout); }
  bool held() const override { return room_->leases_.Holds(inode_->lease, true) && inode_->lease.mode() == LeaseMode::kExclusive; }

  Task<Result<BufferChain>> Read(uint64_t offset, uint64_t length) override {
    CO_RETURN_IF_ERROR(co_await room_->mappings_.Ensure(MappingOf(inode_), offset, length, false));
    const auto mapped = inode_->mapping.known().Lookup(offset, length).value_or(std::vector<Segment>());
    for (const Segment& s : mapped) {
      if (s.kind == Segment::Kind::kHole) co_return Error(FsError::kInval, "the range has a hole");
    }
    auto read = co_await room_->reads_.ReadRange(inode_, nullptr, offset, length);
    if (read.ok() && read->size() != length) co_return Error(FsError::kAgain, "the file became shorter meanwhile");
    co_return read;
  }

  Task<Result<void>> Swap(uint64_t offset, uint64_t length, StripeInfo stripe) override {
    VfsInode& n = *inode_;
    if (n.writes.clean()) n.writes.SetMtime(n.attr.mtime_ns);  // the content is what it was
    Extent extent{.file_offset = offset, .length = length, .stripe = stripe.id, .stripe_offset = 0};
    const auto reply = co_await room_->commits_.CommitPieces(inode_, {std::move(stripe)}, {std::move(extent)}, uint64_t{0}, false);
    if (n.writes.clean()) n.writes.SetMtime(std::nullopt);
    if (!reply.ok()) co_return reply.error();
    n.in_kernel.KeptPagesAreOld();
    if (n.writes.clean()) n.attr = reply->attr;
    co_return Ok();
  }

 private:
  Ranges* const room_;
  const VfsInodePtr inode_;
  SemaphoreHold unchanged_, held_;
  std::optional<WriteBackPause> pause_;
};

Task<Result<void>> Ranges::Gather(Caller who, InodeId ino, std::string text) {
  CO_ASSIGN_OR_RETURN(GatherRequest request, ParseGather(text));
  VfsHandle flags;
  flags.write = true;
  CO_ASSIGN_OR_RETURN(const OpenedFile opened, co_await file_calls_.Open(who, ino, /*truncate=*/false, std::move(flags)));
  const HoldForGather hold = [this, inode = opened.handle->inode]() -> Task<Result<std::unique_ptr<FileForGather>>> {
    auto file = std::make_unique<HeldForGather>(this, inode);
    CO_RETURN_IF_ERROR(co_await file->Begin());
    co_return std::unique_ptr<FileForGather>(std::move(file));
  };
  auto done = co_await GatherColumns(io_, std::move(request), hold);
  CO_RETURN_IF_ERROR(co_await file_calls_.Release(std::move(who), opened.handle));
  co_return done;
}

}  // namespace stria
