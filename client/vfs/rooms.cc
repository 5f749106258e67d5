#include "client/vfs/rooms.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/session/believed.h"

namespace stria {

VfsRooms::VfsRooms(const VfsOptions& options, MetaSession& session, StripeIo io, StripePool& pool, StripeReader& reader,
                   KernelCache& kernel)
    : session_(session),
      turns(session.options().timeout_ns, [this] { return session_.LeaseLeftNs() > 0; }),
      leases(ForLeases()),
      nodes(options.max_cached_entries, ForNodes()),
      mappings(options.mapping_bytes, session.options().timeout_ns, ForMappings()),
      inodes(ForInodes()),
      file_locks(ForLocks(), calls, scope),
      last_known(options.show_last_known, ForLastKnown(), nodes.attrs(), nodes.entries()),
      atimes(options.relatime, ForAtimes(), scope),
      residence(ForResidence(), session, io.peers, reader),
      teller(ForTeller(), session, io.peers),
      write_back(OptionsOfWriteBack(options), ForWriteBack(), counters, scope),
      blocks(options.block_cache_bytes, reader, [this] { return session_.BeginRead(); }, counters, scope),
      read_path(options.readahead_bytes, mappings, blocks, io.peers, scope),
      kernel_view(kernel, ForKernelView(), scope),
      made_ahead(options.make_ahead, ForMadeAhead(), counters, scope),
      take_ups(ForTakeUps(), scope),
      attrs(inodes, nodes, made_ahead, kernel_view, [this] { return session_.LeaseLeftNs(); }),
      come_back({inodes, nodes, last_known, leases, made_ahead, write_back, file_locks, take_ups, kernel_view}, ForComeBack(),
                scope),
      commits({inodes, attrs, nodes, write_back, made_ahead, session, pool, counters}, io, ForCommits()),
      keeper({inodes, leases, turns, attrs, nodes, write_back, made_ahead, commits, come_back, session}, scope),
      ahead(inodes, nodes, attrs, leases, made_ahead, come_back, [this] { return session_.generation(); },
            [this](const Caller& who) { return AsBelieved(session_.believed(), who); }),
      attr_calls({inodes, attrs, nodes, last_known, leases, turns, kernel_view, write_back, made_ahead, ahead, commits, session,
                  calls}),
      names({inodes, attrs, nodes, last_known, made_ahead, commits, keeper, attr_calls, session, calls}, scope),
      file_calls({options.sync_on_close, options.sync_writes},
            {inodes, attrs, nodes, leases, turns, kernel_view, write_back, made_ahead, ahead, commits, keeper, come_back, session,
             counters, calls},
            scope),
      reads({attrs, nodes, leases, mappings, read_path, atimes, made_ahead, commits, keeper, come_back, attr_calls, kernel_view,
             io.peers, session, counters, calls}),
      ranges({attrs, nodes, leases, turns, mappings, write_back, commits, keeper, come_back, file_calls, reads, pool, session, calls},
             io),
      xattrs({inodes, attrs, nodes, made_ahead, ahead, residence, teller, ranges, session, calls}),
      recalls(inodes, leases, nodes, kernel_view, ForRecalls()),
      session_events({inodes, nodes, leases, attrs, made_ahead, file_locks, kernel_view, kernel, recalls, come_back}),
      kernel_side(attrs, nodes, kernel_view, kernel, session, scope),
      report(inodes, nodes, write_back, calls, counters) {}

// Frames first: they refer to everything else.
VfsRooms::~VfsRooms() { scope.CancelAll(); }

InodesNeeds VfsRooms::ForInodes() {
  InodesNeeds needs;
  needs.make = [this](InodeId ino) {
    auto inode = std::make_shared<VfsInode>(ino, residence.TallyOf(ino), mappings.budget());
    inode->lease.BelongsTo(session_.generation());  // what it learns before it is granted anything is of this session, too
    return inode;
  };
  needs.release = [this](const VfsInodePtr& inode) { scope.Spawn(keeper.ReleaseInode(inode)); };
  return needs;
}

NodeCacheNeeds VfsRooms::ForNodes() {
  NodeCacheNeeds needs;
  needs.generation = [this] { return session_.generation(); };
  needs.lease_left_ns = [this] { return session_.LeaseLeftNs(); };
  return needs;
}

FileLocksNeeds VfsRooms::ForLocks() {
  FileLocksNeeds needs;
  needs.ask = [this](LockRequest r) { return session_.Call(&MetaService::Lock, std::move(r)); };
  needs.change = [this](LockRequest r) { return session_.Mutate(&MetaService::Lock, std::move(r)); };
  needs.generation = [this] { return session_.generation(); };
  needs.maybe_unused = [this](const InodeLocksPtr& locks) {
    if (const auto inode = inodes.With(&VfsInode::locks, locks.get())) inodes.DropIfIdle(inode);
  };
  return needs;
}

LastKnownNeeds VfsRooms::ForLastKnown() {
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

AtimesNeeds VfsRooms::ForAtimes() {
  AtimesNeeds needs;
  needs.may_tell = [this](InodeAtimePtr of) { return reads.MayTellRead(inodes.With(&VfsInode::atime, of.get())); };
  needs.tell = [this](InodeAtimePtr of, std::optional<int64_t> read_ns) {
    return reads.TellRead(inodes.With(&VfsInode::atime, of.get()), read_ns);
  };
  needs.maybe_unused = [this](const InodeAtimePtr& of) {
    if (const auto inode = inodes.With(&VfsInode::atime, of.get())) inodes.LetGo(inode);
  };
  return needs;
}

FileTellerNeeds VfsRooms::ForTeller() {
  FileTellerNeeds needs;
  needs.commit = [this](InodeId ino) -> Task<Result<void>> {
    const VfsInodePtr inode = inodes.Find(ino);
    if (!inode || inode->writes.clean()) co_return Ok();
    co_return co_await commits.FlushInode(inode, false);
  };
  needs.stat = [this](Caller who, InodeId ino) -> Task<Result<Attr>> {
    CO_ASSIGN_OR_RETURN(const EntryOut now, co_await attr_calls.GetAttr(std::move(who), ino));
    co_return now.attr;
  };
  return needs;
}

ResidenceNeeds VfsRooms::ForResidence() {
  ResidenceNeeds needs;
  FileTellerNeeds as_the_teller = ForTeller();
  needs.commit = std::move(as_the_teller.commit);
  needs.stat = std::move(as_the_teller.stat);
  needs.changed = [this](InodeId ino) { attrs.ChangedUntold(ino); };
  needs.layout_is = [this](InodeId ino, const Layout& layout) {
    if (VfsInode* const n = inodes.Look(ino)) n->layout = layout;
  };
  return needs;
}

MappingsNeeds VfsRooms::ForMappings() {
  MappingsNeeds needs;
  needs.ask = [this](GetExtentsRequest r) { return session_.Call(&MetaService::GetExtents, std::move(r), Caller()); };
  needs.may_keep = [this](const InodeMappingPtr& of) {
    const auto inode = inodes.With(&VfsInode::mapping, of.get());
    return inode && leases.Holds(inode->lease, false) && !inode->lease.shared();
  };
  return needs;
}

LeasesNeeds VfsRooms::ForLeases() {
  LeasesNeeds needs;
  needs.generation = [this] { return session_.generation(); };
  needs.term = [this] { return session_.term(); };
  needs.era = [this] { return session_.era(); };
  needs.number_call = [this] { return session_.NumberCall(); };
  needs.lease_left_ns = [this] { return session_.LeaseLeftNs(); };
  needs.release = [this](InodeRequest r) { return session_.Call(&MetaService::Release, std::move(r), Caller()); };
  needs.lease_done = [this](LeaseDoneRequest r) { return session_.Call(&MetaService::LeaseDone, std::move(r), Caller()); };
  needs.maybe_unused = [this](const InodeLeasePtr& of) {
    if (const auto inode = inodes.With(&VfsInode::lease, of.get())) inodes.DropIfIdle(inode);
  };
  return needs;
}

TakeUpsNeeds VfsRooms::ForTakeUps() {
  const auto inode_of = [this](const InodeTakeUpPtr& of) { return inodes.With(&VfsInode::take_up, of.get()); };
  TakeUpsNeeds needs;
  needs.flush = [this, inode_of](InodeTakeUpPtr of) -> Task<void> {
    if (const auto inode = inode_of(of)) (void)co_await commits.FlushInode(inode, false);
  };
  needs.head_seal = [inode_of](const InodeTakeUpPtr& of) {
    const auto inode = inode_of(of);
    return inode ? inode->writes.dirty().head_seal() : 0;
  };
  needs.ended = [this, inode_of](const InodeTakeUpPtr& of) {
    if (const auto inode = inode_of(of)) come_back.TookUp(*inode);
  };
  needs.maybe_unused = [this, inode_of](const InodeTakeUpPtr& of) {
    if (const auto inode = inode_of(of)) inodes.LetGo(inode);
  };
  return needs;
}

WriteBackOptions VfsRooms::OptionsOfWriteBack(const VfsOptions& options) const {
  WriteBackOptions out;
  out.dirty_limit_bytes = options.dirty_limit_bytes;
  out.max_batches_per_inode = options.max_batches_per_inode;
  out.delay_ns = options.write_back_delay_ns;
  out.timeout_ns = session_.options().timeout_ns;
  return out;
}

WriteBackNeeds VfsRooms::ForWriteBack() {
  const auto of = [this](const InodeWritesPtr& writes) { return inodes.With(&VfsInode::writes, writes.get()); };
  WriteBackNeeds needs;
  needs.store = [this, of](InodeWritesPtr writes, BufferChain payload) -> Task<Result<std::vector<WrittenPiece>>> {
    const VfsInodePtr inode = of(writes);
    if (!inode) co_return Error(FsError::kFenced);
    co_return co_await commits.Store(inode, std::move(payload));
  };
  needs.give_back = [this](const std::vector<WrittenPiece>& written, FsError why) { commits.GiveBack(written, why); };
  needs.commit = [this, of](InodeWritesPtr writes, std::vector<StripeInfo> stripes, std::vector<Extent> extents,
                            uint64_t grow_to, bool durable) -> Task<Result<void>> {
    const VfsInodePtr inode = of(writes);
    if (!inode) co_return Error(FsError::kFenced);
    CO_RETURN_IF_ERROR(co_await commits.CommitPieces(inode, std::move(stripes), std::move(extents), grow_to, durable));
    co_return Ok();
  };
  needs.each = [this](const std::function<void(const InodeWritesPtr&)>& what) {
    for (const auto& [ino, n] : inodes.all()) {
      if (!n->writes.clean()) what(WritesOf(n));
    }
  };
  needs.committed = [this, of](const InodeWritesPtr& writes) {
    const VfsInodePtr inode = of(writes);
    if (inode) take_ups.CommittedTo(TakeUpOf(inode), writes->dirty().head_seal());
  };
  needs.failed = [this, of](const InodeWritesPtr& writes) {
    if (const auto inode = of(writes)) commits.DropUnreachable(inode);
  };
  needs.ended = [this, of](const InodeWritesPtr& writes) {
    if (const auto inode = of(writes)) inodes.LetGo(inode);
  };
  needs.ended_lost = [this, of](const InodeWritesPtr& writes) {
    if (const auto inode = of(writes)) inodes.DropIfIdle(inode);
  };
  return needs;
}

KernelViewNeeds VfsRooms::ForKernelView() {
  KernelViewNeeds needs;
  needs.may_show_growth = [this](const InodeInKernelPtr& of) {
    const auto inode = inodes.With(&VfsInode::in_kernel, of.get());
    return inode && inode->reading > 0 && !inode->turns.being_cut() && !nodes.IsResizing(inode->ino);
  };
  needs.being_cut = [this](const InodeInKernelPtr& of) {
    const auto inode = inodes.With(&VfsInode::in_kernel, of.get());
    return inode && inode->turns.being_cut();
  };
  needs.look = [this](InodeInKernelPtr of) -> Task<Result<FileGrowth>> {
    const auto inode = inodes.With(&VfsInode::in_kernel, of.get());
    if (!inode) co_return FileGrowth();
    co_return co_await reads.LookForGrowth(inode);
  };
  needs.pages_may_come = [this] { write_back.WakeRoomWaits(); };  // those that wait for room do so no more
  return needs;
}

MadeAheadNeeds VfsRooms::ForMadeAhead() {
  const auto of = [this](const InodeMadePtr& made) { return inodes.With(&VfsInode::made, made.get()); };
  MadeAheadNeeds needs;
  needs.now_is = [this] { return std::pair(session_.generation(), session_.term()); };
  needs.tell = [this, of](InodeMadePtr made, bool durable) { return commits.CommitMade(of(made), durable); };
  needs.lost = [this, of](const InodeMadePtr& made, const MadeFile& file) { commits.CouldNotBeMade(of(made), file); };
  needs.maybe_unused = [this, of](const InodeMadePtr& made) {
    if (const auto inode = of(made)) inodes.DropIfIdle(inode);
  };
  needs.pause_ended = [this](InodeId dir) {  // it may have another layout now
    VfsInode* const n = inodes.Look(dir);
    if (n && n->attr.type == FileType::kDirectory) n->layout_known = false;
  };
  return needs;
}

ComeBackNeeds VfsRooms::ForComeBack() {
  ComeBackNeeds needs;
  needs.generation = [this] { return session_.generation(); };
  needs.number_call = [this] { return session_.NumberCall(); };
  needs.paths = [this](InodeRequest r) { return session_.Call(&MetaService::Paths, std::move(r), Caller()); };
  needs.unknown_lost = [this](InodeId ino) { session_.lost_changes().Lose({ino}); };
  needs.all_lost = [this] {
    blocks.Clear();
    made_ahead.ForgetNumbers();
  };
  return needs;
}

CommitsNeeds VfsRooms::ForCommits() {
  CommitsNeeds needs;
  needs.lose = [this](const VfsInodePtr& inode, const std::string& why) { come_back.Lose(inode, why); };
  return needs;
}

RecallsNeeds VfsRooms::ForRecalls() {
  RecallsNeeds needs;
  needs.era = [this] { return session_.era(); };
  needs.flush_held = [this](VfsInodePtr inode) { return commits.FlushHeld(std::move(inode)); };
  needs.flush = [this](VfsInodePtr inode) { return commits.FlushInode(std::move(inode), false); };
  needs.was_given_back = [this](const VfsInodePtr& inode, uint64_t call, bool surely) {
    keeper.WasGivenBack(inode, call, surely);
  };
  return needs;
}

}  // namespace stria
