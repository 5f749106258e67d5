#include "client/vfs/vfs.h"

#include <sstream>
#include <utility>

#include "client/vfs/inode.h"
#include "common/sabotage.h"

namespace stria {

Vfs::Vfs(VfsOptions options, MetaSession& session, StripeIo io, StripePool& pool, StripeReader& reader,
         KernelCache& kernel)
    : options_(options), session_(session), io_(io), pool_(pool), reader_(reader), kernel_(kernel),
      turns_(session.options().timeout_ns, [this] { return session_.LeaseLeftNs() > 0; }),
      leases_(ForLeases()), nodes_(options.max_cached_entries, ForNodes()), mappings_(options.mapping_bytes, session.options().timeout_ns, ForMappings()),
      file_locks_(ForLocks(), calls_, scope_),
      last_known_(options.show_last_known, ForLastKnown(), nodes_.attrs(), nodes_.entries()),
      atimes_(options.relatime, ForAtimes(), scope_), residence_(ForResidence(), session, io_.peers, reader),
      write_back_(OptionsOfWriteBack(), ForWriteBack(), counters_, scope_),
      blocks_(options.block_cache_bytes, reader, [this] { return session_.BeginRead(); }, counters_, scope_),
      read_path_(options.readahead_bytes, mappings_, blocks_, io_.peers, scope_),
      kernel_view_(kernel, ForKernelView(), scope_), made_ahead_(options.make_ahead, ForMadeAhead(), counters_, scope_),
      take_ups_(ForTakeUps(), scope_) {}

// Frames first: they refer to everything else.
Vfs::~Vfs() { scope_.CancelAll(); }

void Vfs::Start() { scope_.Spawn(write_back_.Periodic()); }

Task<Result<void>> Vfs::FlushAll() {
  std::vector<std::shared_ptr<VfsInode>> dirty;
  for (auto& [ino, n] : inodes_) {
    if (!n->writes.clean() || n->made.file()) dirty.push_back(n);
  }
  Error first;
  for (auto& n : dirty) {
    auto r = co_await FlushInode(n, true);
    if (!r.ok() && first.ok()) first = r.error();
  }
  if (!first.ok()) co_return first;
  co_return Ok();
}

InodeLocksPtr Vfs::LocksOf(const std::shared_ptr<VfsInode>& inode) { return {inode, &inode->locks}; }

template <class Part>
std::shared_ptr<VfsInode> Vfs::InodeWith(Part VfsInode::*part, const Part* of) const {
  const auto it = inodes_.find(of->ino());
  return it != inodes_.end() && &((*it->second).*part) == of ? it->second : nullptr;
}

NodeCacheNeeds Vfs::ForNodes() {
  NodeCacheNeeds needs;
  needs.generation = [this] { return session_.generation(); };
  needs.lease_left_ns = [this] { return session_.LeaseLeftNs(); };
  return needs;
}

FileLocksNeeds Vfs::ForLocks() {
  FileLocksNeeds needs;
  needs.ask = [this](LockRequest r) { return session_.Call(&MetaService::Lock, std::move(r)); };
  needs.change = [this](LockRequest r) { return session_.Mutate(&MetaService::Lock, std::move(r)); };
  needs.generation = [this] { return session_.generation(); };
  needs.maybe_unused = [this](const InodeLocksPtr& locks) {
    if (const auto inode = InodeWith(&VfsInode::locks, locks.get())) DropIfIdle(inode);
  };
  return needs;
}

LastKnownNeeds Vfs::ForLastKnown() {
  LastKnownNeeds needs;
  needs.lease_left_ns = [this] { return session_.LeaseLeftNs(); };
  needs.generation = [this] { return session_.generation(); };
  needs.statfs = [this](Caller who) {
    InodeRequest r;
    r.ino = kRootInode;
    return session_.Call(&MetaService::StatFs, std::move(r), std::move(who));
  };
  return needs;
}

AtimesNeeds Vfs::ForAtimes() {
  AtimesNeeds needs;
  needs.may_tell = [this](InodeAtimePtr of) { return MayTellRead(InodeWith(&VfsInode::atime, of.get())); };
  needs.tell = [this](InodeAtimePtr of, std::optional<int64_t> read_ns) {
    return TellRead(InodeWith(&VfsInode::atime, of.get()), read_ns);
  };
  needs.maybe_unused = [this](const InodeAtimePtr& of) {
    if (const auto inode = InodeWith(&VfsInode::atime, of.get())) LetGo(inode);
  };
  return needs;
}

void Vfs::NoteRead(const std::shared_ptr<VfsInode>& inode, bool noatime) {
  if (inode->attr_known) atimes_.Note(InodeAtimePtr(inode, &inode->atime), inode->attr, noatime);
}

Task<bool> Vfs::MayTellRead(std::shared_ptr<VfsInode> inode) {
  if (!inode || !inode->attr_known || inode->lease.generation() != session_.generation()) co_return false;
  co_return !inode->made.file() || (co_await made_ahead_.Tell(MadeOf(inode), false)).ok();
}

Task<bool> Vfs::TellRead(std::shared_ptr<VfsInode> inode, std::optional<int64_t> read_ns) {
  if (!inode) co_return false;
  SetAttrRequest r;
  r.ino = inode->ino;
  r.header.opened = inode->lease.proof();
  r.read_ns = read_ns;
  r.read_version = inode->attr.version;
  const uint64_t since = nodes_.epoch();
  const auto reply = co_await session_.Mutate(&MetaService::SetAttr, std::move(r), Caller());
  if (reply.ok()) RememberNode(*reply, nodes_.SinceChange(since));
  co_return reply.ok();
}

ResidenceNeeds Vfs::ForResidence() {
  ResidenceNeeds needs;
  needs.commit = [this](InodeId ino) -> Task<Result<void>> {
    const auto it = inodes_.find(ino);
    if (it == inodes_.end() || it->second->writes.clean()) co_return Ok();
    co_return co_await FlushInode(it->second, false);
  };
  needs.stat = [this](Caller who, InodeId ino) -> Task<Result<Attr>> {
    CO_ASSIGN_OR_RETURN(const EntryOut now, co_await GetAttr(std::move(who), ino));
    co_return now.attr;
  };
  needs.changed = [this](InodeId ino) { ChangedUntold(ino); };
  needs.layout_is = [this](InodeId ino, const Layout& layout) {
    if (const auto it = inodes_.find(ino); it != inodes_.end()) it->second->layout = layout;
  };
  return needs;
}

InodeMappingPtr Vfs::MappingOf(const std::shared_ptr<VfsInode>& inode) { return {inode, &inode->mapping}; }

MappingsNeeds Vfs::ForMappings() {
  MappingsNeeds needs;
  needs.ask = [this](GetExtentsRequest r) { return session_.Call(&MetaService::GetExtents, std::move(r), Caller()); };
  needs.may_keep = [this](const InodeMappingPtr& of) {
    const auto inode = InodeWith(&VfsInode::mapping, of.get());
    return inode && HoldsFor(*inode, false) && !inode->lease.shared();
  };
  return needs;
}

InodeLeasePtr Vfs::LeaseOf(const std::shared_ptr<VfsInode>& inode) { return {inode, &inode->lease}; }

LeasesNeeds Vfs::ForLeases() {
  LeasesNeeds needs;
  needs.generation = [this] { return session_.generation(); };
  needs.term = [this] { return session_.term(); };
  needs.era = [this] { return session_.era(); };
  needs.number_call = [this] { return session_.NumberCall(); };
  needs.release = [this](InodeRequest r) { return session_.Call(&MetaService::Release, std::move(r), Caller()); };
  needs.lease_done = [this](LeaseDoneRequest r) { return session_.Call(&MetaService::LeaseDone, std::move(r), Caller()); };
  needs.maybe_unused = [this](const InodeLeasePtr& of) {
    if (const auto inode = InodeWith(&VfsInode::lease, of.get())) DropIfIdle(inode);
  };
  return needs;
}

InodeTakeUpPtr Vfs::TakeUpOf(const std::shared_ptr<VfsInode>& inode) { return {inode, &inode->take_up}; }

TakeUpsNeeds Vfs::ForTakeUps() {
  const auto inode_of = [this](const InodeTakeUpPtr& of) { return InodeWith(&VfsInode::take_up, of.get()); };
  TakeUpsNeeds needs;
  needs.flush = [this, inode_of](InodeTakeUpPtr of) -> Task<void> {
    if (const auto inode = inode_of(of)) (void)co_await FlushInode(inode, false);
  };
  needs.head_seal = [inode_of](const InodeTakeUpPtr& of) {
    const auto inode = inode_of(of);
    return inode ? inode->writes.dirty().head_seal() : 0;
  };
  needs.ended = [this, inode_of](const InodeTakeUpPtr& of) {
    if (const auto inode = inode_of(of)) TookUp(*inode);
  };
  needs.maybe_unused = [this, inode_of](const InodeTakeUpPtr& of) {
    if (const auto inode = inode_of(of)) LetGo(inode);
  };
  return needs;
}

InodeTurnsPtr Vfs::TurnsOf(const std::shared_ptr<VfsInode>& inode) { return {inode, &inode->turns}; }

InodeWritesPtr Vfs::WritesOf(const std::shared_ptr<VfsInode>& inode) { return {inode, &inode->writes}; }

WriteBackOptions Vfs::OptionsOfWriteBack() const {
  WriteBackOptions out;
  out.dirty_limit_bytes = options_.dirty_limit_bytes;
  out.max_batches_per_inode = options_.max_batches_per_inode;
  out.delay_ns = options_.write_back_delay_ns;
  out.timeout_ns = session_.options().timeout_ns;
  return out;
}

WriteBackNeeds Vfs::ForWriteBack() {
  const auto of = [this](const InodeWritesPtr& writes) { return InodeWith(&VfsInode::writes, writes.get()); };
  WriteBackNeeds needs;
  needs.store = [this, of](InodeWritesPtr writes, BufferChain payload) -> Task<Result<std::vector<WrittenPiece>>> {
    const std::shared_ptr<VfsInode> inode = of(writes);
    if (!inode) co_return Error(FsError::kFenced);
    co_return co_await Store(inode, std::move(payload));
  };
  needs.give_back = [this](const std::vector<WrittenPiece>& written, FsError why) { GiveBack(written, why); };
  needs.commit = [this, of](InodeWritesPtr writes, std::vector<StripeInfo> stripes, std::vector<Extent> extents,
                            uint64_t grow_to, bool durable) -> Task<Result<void>> {
    const std::shared_ptr<VfsInode> inode = of(writes);
    if (!inode) co_return Error(FsError::kFenced);
    CO_RETURN_IF_ERROR(co_await CommitPieces(inode, std::move(stripes), std::move(extents), grow_to, durable));
    co_return Ok();
  };
  needs.each = [this](const std::function<void(const InodeWritesPtr&)>& what) {
    for (const auto& [ino, n] : inodes_) {
      if (!n->writes.clean()) what(WritesOf(n));
    }
  };
  needs.committed = [this, of](const InodeWritesPtr& writes) {
    const std::shared_ptr<VfsInode> inode = of(writes);
    if (inode) take_ups_.CommittedTo(TakeUpOf(inode), writes->dirty().head_seal());
  };
  needs.failed = [this, of](const InodeWritesPtr& writes) {
    if (const auto inode = of(writes)) DropUnreachable(inode);
  };
  needs.ended = [this, of](const InodeWritesPtr& writes) {
    if (const auto inode = of(writes)) LetGo(inode);
  };
  needs.ended_lost = [this, of](const InodeWritesPtr& writes) {
    if (const auto inode = of(writes)) DropIfIdle(inode);
  };
  return needs;
}

InodeInKernelPtr Vfs::InKernel(const std::shared_ptr<VfsInode>& inode) {
  return inode ? InodeInKernelPtr(inode, &inode->in_kernel) : nullptr;
}

KernelViewNeeds Vfs::ForKernelView() {
  KernelViewNeeds needs;
  needs.may_show_growth = [this](const InodeInKernelPtr& of) {
    const auto inode = InodeWith(&VfsInode::in_kernel, of.get());
    return inode && inode->reading > 0 && !inode->turns.being_cut() && !nodes_.IsResizing(inode->ino);
  };
  needs.being_cut = [this](const InodeInKernelPtr& of) {
    const auto inode = InodeWith(&VfsInode::in_kernel, of.get());
    return inode && inode->turns.being_cut();
  };
  needs.look = [this](InodeInKernelPtr of) -> Task<Result<FileGrowth>> {
    const auto inode = InodeWith(&VfsInode::in_kernel, of.get());
    if (!inode) co_return FileGrowth();
    co_return co_await LookForGrowth(inode);
  };
  needs.pages_may_come = [this] { write_back_.WakeRoomWaits(); };  // those that wait for room do so no more
  return needs;
}

InodeMadePtr Vfs::MadeOf(const std::shared_ptr<VfsInode>& inode) { return {inode, &inode->made}; }

MadeAheadNeeds Vfs::ForMadeAhead() {
  const auto of = [this](const InodeMadePtr& made) { return InodeWith(&VfsInode::made, made.get()); };
  MadeAheadNeeds needs;
  needs.now_is = [this] { return std::pair(session_.generation(), session_.term()); };
  needs.tell = [this, of](InodeMadePtr made, bool durable) { return CommitMade(of(made), durable); };
  needs.lost = [this, of](const InodeMadePtr& made, const MadeFile& file) { CouldNotBeMade(of(made), file); };
  needs.maybe_unused = [this, of](const InodeMadePtr& made) {
    if (const auto inode = of(made)) DropIfIdle(inode);
  };
  needs.pause_ended = [this](InodeId dir) {  // it may have another layout now
    const auto it = inodes_.find(dir);
    if (it != inodes_.end() && it->second->attr.type == FileType::kDirectory) it->second->layout_known = false;
  };
  return needs;
}

Task<Result<void>> Vfs::SetLock(VfsHandlePtr h, LockIn lock, std::shared_ptr<LockWait> wait) {
  return file_locks_.Set(LocksOf(h->inode), lock, std::move(wait), [this, h] { return CheckHandle(*h); });
}

Task<Result<std::optional<FileLock>>> Vfs::TestLock(VfsHandlePtr h, LockIn lock) {
  const CallList::Call under_way(&calls_, "test of a lock of", h->inode->ino);
  CO_RETURN_IF_ERROR(CheckHandle(*h));
  co_return co_await file_locks_.Test(LocksOf(h->inode), lock);
}

Task<void> Vfs::DropLocks(std::shared_ptr<VfsInode> inode, LockKind kind, uint64_t owner) {
  return file_locks_.Drop(LocksOf(inode), kind, owner);
}

std::vector<FileLock> Vfs::HeldLocks() {
  std::vector<FileLock> out;
  if (Sabotaged(Sabotage::kForgetLocks)) return out;
  for (const auto& [ino, n] : inodes_) {
    for (const FileLock& held : n->locks.Held()) out.push_back(held);
  }
  return out;
}

std::string Vfs::Describe(InodeId ino) const {
  auto it = inodes_.find(ino);
  if (it == inodes_.end()) return "not in use here";
  const VfsInode& n = *it->second;
  std::ostringstream out;
  switch (n.lease.mode()) {
    case LeaseMode::kNone: out << "no lease"; break;
    case LeaseMode::kRead: out << "read lease"; break;
    case LeaseMode::kExclusive: out << "exclusive lease"; break;
    case LeaseMode::kShared: out << "shared lease"; break;
  }
  if (n.lease.for_write()) out << " for writing";
  if (n.lease.opening()) out << ", " << n.lease.opens_under_way() << " opens are under way";
  if (n.take_up.any()) out << ", with bytes of before the session lapsed";
  if (n.turns.open_mu.locked()) out << ", a call that changes it is under way (" << n.turns.open_mu.held_for() << ")";
  if (n.turns.lease_mu.locked()) out << ", it is being flushed for others (" << n.turns.lease_mu.held_for() << ")";
  if (n.turns.recalling()) out << ", its lease is being given up";
  if (n.in_kernel.forgetting()) out << ", the kernel is asked " << n.in_kernel.forgetting_calls() << " times to forget its pages";
  if (nodes_.IsResizing(ino)) out << ", its size is being changed";
  if (n.made.file()) out << (n.made.telling() ? ", the server is being told that it was made" : ", made and not told to the server yet");
  out << ", " << n.writes.dirty().bytes() << " bytes unwritten";
  if (!n.writes.clean()) {
    out << " (" << n.writes.dirty().batches() << " batches, " << n.writes.dirty().taken() << " on their way, " << n.writes.failures() << " failed";
    if (n.writes.pauses() > 0) out << ", held back by " << n.writes.pauses();
    if (n.writes.failing()) out << ", last error: " << n.writes.failure().ToString();
    out << ")";
  }
  out << "; " << write_back_.dirty_bytes() << " bytes of all files";
  return out.str();
}

std::vector<InodeWaits> Vfs::Waits() const {
  std::vector<InodeWaits> out;
  for (const auto& [ino, n] : inodes_) {
    const InodeTurns& turns = n->turns;
    InodeWaits w{ino, turns.open_mu.held_for(), turns.lease_mu.held_for(), turns.demand_at(), n->in_kernel.forgetting(), turns.being_cut()};
    w.room = n->writes.waits_for_room();
    w.dirty = !n->writes.clean();
    w.paused = n->writes.pauses() > 0;
    if (n->made.file()) w.ahead_in = n->made.file()->parent;
    const bool any = turns.changing() || w.demand != DemandAt::kNowhere || w.forgetting || w.cut || w.room || w.dirty || w.ahead_in;
    if (any) out.push_back(w);
  }
  return out;
}

}  // namespace stria
