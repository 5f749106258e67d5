#include "client/vfs/lease_keeper.h"

#include <optional>
#include <utility>

#include "common/sabotage.h"

namespace stria {
namespace {
constexpr int64_t kReleaseAgainNs = 1 * kSecond;  // if no server has answered
// Of the mapping that an open asks for: a small file's.
constexpr uint64_t kOpenMapBytes = 1 * kMiB;
}  // namespace

LeaseKeeper::LeaseKeeper(LeaseKeeperRooms rooms, TaskScope& scope)
    : inodes_(rooms.inodes), leases_(rooms.leases), turns_(rooms.turns), attrs_(rooms.attrs), nodes_(rooms.nodes),
      write_back_(rooms.write_back), made_ahead_(rooms.made_ahead), commits_(rooms.commits), come_back_(rooms.come_back),
      session_(rooms.session), scope_(scope) {}

void LeaseKeeper::TakeGrant(const VfsInodePtr& inode, const OpenReply& reply, bool for_read, bool for_write,
                    uint64_t asked) {
  VfsInode& n = *inode;
  if (n.lease.generation() != session_.generation()) {
    // A former session's grant: what it buffered is lost, its handles give EIO.
    come_back_.DropState(n);
  }
  // What is mapped was told for one read, and nobody said when it changed.
  if (!n.lease.caches()) {
    n.mapping.Forget();
  }
  InodeLease::Bounds bounds;
  bounds.dirty = !n.writes.clean();
  bounds.shared_writes = n.shared_writes > 0;
  bounds.of_before = n.take_up.any();
  n.lease.Take({reply.lease, for_read, for_write, asked}, reply.proof, bounds);
  n.layout = reply.layout;
  n.layout_known = true;
  // A change of our own may have been answered before.
  if ((!n.attr_known || n.writes.clean()) && reply.node.attr.version >= n.attr.version) {
    n.attr = reply.node.attr;
    n.attr_known = !n.lease.ToldSince(asked);
  }
  n.Committed(session_.term(), reply.node.seq);
}

Task<Result<void>> LeaseKeeper::KnowAttr(VfsInodePtr inode, bool for_pages) {
  VfsInode& n = *inode;
  while (!n.attr_known && leases_.Holds(n.lease, false) && !n.lease.shared()) {
    const uint64_t asked = leases_.events_seen();
    const uint64_t since = nodes_.epoch();
    if (for_pages) {
      GetExtentsRequest r;  // of nothing
      r.ino = n.ino;
      CO_ASSIGN_OR_RETURN(const GetExtentsReply reply,
                          co_await session_.Call(&MetaService::GetExtents, std::move(r), Caller()));
      if (!n.lease.ToldSince(asked)) attrs_.UpdateInode(reply.attr, true);
      continue;
    }
    InodeRequest r;
    r.ino = n.ino;
    CO_ASSIGN_OR_RETURN(const NodeReply reply, co_await session_.Call(&MetaService::GetAttr, std::move(r), Caller()));
    if (!n.lease.ToldSince(asked) && !reply.held_elsewhere) attrs_.UpdateInode(reply.attr, true);
    (void)attrs_.RememberNode(reply, since);
  }
  co_return Ok();
}

Task<Result<void>> LeaseKeeper::Acquire(Caller who, VfsInodePtr inode, bool for_read, bool for_write,
                                bool truncate, bool again) {
  CO_ASSIGN_OR_RETURN(SemaphoreHold held, co_await turns_.Take(TurnsOf(inode), &InodeTurns::open_mu, truncate ? "truncation" : "open"));
  SemaphoreHold both;
  if (Sabotaged(Sabotage::kOpenHoldsLeaseMu)) {
    CO_ASSIGN_OR_RETURN(both, co_await turns_.Take(TurnsOf(inode), &InodeTurns::lease_mu, "open"));
  }
  // A shared lease is asked for anew: the next one may be better.
  const bool shared = inode->lease.shared() && !again;
  if (!truncate && inode->layout_known && leases_.Holds(inode->lease, for_write) && (inode->lease.for_read() || !for_read) && !shared) {
    if (again) co_return Ok();
    co_return co_await KnowAttr(inode);
  }
  std::optional<NoWrites> no_writes;
  std::optional<AttrView::Resizing> resizing;
  std::optional<WriteBackPause> pause;
  if (truncate) {
    no_writes.emplace(TurnsOf(inode));
    // What is cut off goes first, too (as in SetAttr): until the answer others read what was there before, and that is not
    // what was there before the last writes. Unless there is no place for it: then it stays with us until it is cut off.
    if (const auto flushed = co_await commits_.FlushInode(inode, false); FindsNoPlace(flushed.code())) {
      pause.emplace(WritesOf(inode));
      co_await pause->Begin();
    } else {
      CO_RETURN_IF_ERROR(flushed);
    }
    resizing.emplace(&attrs_, inode->ino);
    co_await resizing->Begin();
  }
  const uint64_t since = nodes_.epoch();
  const uint64_t asked = leases_.events_seen();
  OpenRequest r;
  r.ino = inode->ino;
  r.header.opened = inode->lease.proof();
  r.for_write = for_write;
  r.for_read = for_read;
  r.truncate = truncate;
  r.check_access = !again;
  const int64_t asked_ns = Executor::Current().NowNs();
  const uint64_t epoch = inode->mapping.epoch();
  if (!truncate && !inode->mapping.known().Covers(0, 1, asked_ns)) r.map_bytes = kOpenMapBytes;
  // Opening twice is opening once; only truncation must not be repeated.
  std::optional<Result<OpenReply>> answer;
  {
    Leases::Opening opening(&leases_, &inode->lease);
    answer.emplace(truncate ? co_await session_.Mutate(&MetaService::Open, std::move(r), who)
                            : co_await session_.Call(&MetaService::Open, std::move(r), who));
    opening.granted = answer->ok();
  }
  CO_RETURN_IF_ERROR(*answer);
  const OpenReply& reply = **answer;
  if (truncate) {
    inode->mapping.Forget();
    inode->writes.Truncate(0);  // pages of mappings that came meanwhile
    inode->in_kernel.KeptPagesAreOld();
    inode->attr_known = false;
  }
  const bool undisturbed = inode->mapping.epoch() == epoch;
  TakeGrant(inode, reply, for_read, for_write, asked);
  if (undisturbed) TakeMapping(*inode, reply, asked_ns);
  write_back_.Account(inode->writes);
  pause.reset();
  resizing.reset();
  no_writes.reset();
  attrs_.RememberNode(reply.node, truncate ? nodes_.SinceChange(since) : since);
  if (again) co_return Ok();  // who needs them asks, in his own way
  co_return co_await KnowAttr(inode);
}

void LeaseKeeper::TakeMapping(VfsInode& n, const OpenReply& reply, int64_t asked_ns) {
  // A recall that was answered meanwhile left less than was granted.
  const bool caches = n.lease.mode() == reply.lease && n.lease.caches();
  if (reply.mapping && caches) n.mapping.Add(0, *reply.mapping, asked_ns);
}

Task<void> LeaseKeeper::ReleaseInode(VfsInodePtr inode) {
  while (!co_await TryRelease(inode)) co_await Sleep(kReleaseAgainNs);
  inodes_.DropIfIdle(inode);
}

Task<bool> LeaseKeeper::TryRelease(VfsInodePtr inode) {
  VfsInode& n = *inode;
  // What it made, before the call that gives it back has its number.
  const auto unknown = [&] { return n.made.file() || made_ahead_.Unknown(n.ino) != nullptr; };
  if (unknown()) (void)co_await commits_.FlushHeld(inode);
  if (unknown()) co_return true;
  const uint64_t call = session_.NumberCall();
  // A Create that began before may open it again before this arrives: then the server would take for given back
  // what the Create's answer grants. One that begins later has a higher number, and outlasts this.
  const uint64_t grants = n.lease.grants();
  co_await leases_.CreatesBefore(call);
  const auto held = co_await n.turns.open_mu.Lock();
  n.turns.open_mu.HeldFor("release");
  // Who was granted it again gives it back.
  if (n.readers + n.writers > 0 || n.lease.opening() || !n.writes.clean() || n.lease.grants() != grants) co_return true;
  if (made_ahead_.Unknown(n.ino) != nullptr) co_return true;  // it is used: it goes when it has not been for longer
  if (n.lease.generation() != session_.generation() || (n.lease.none() && n.lease.owes() == 0)) co_return true;
  n.DropLease();
  co_return co_await leases_.Release(LeaseOf(inode), call);
}

// As ReleaseInode, but open_mu is not held over the call: who opens the file meanwhile need not wait for a name. Opens that
// begin meanwhile have higher numbers, and outlast it; none that began before may be under way.
template <class Req>
VfsInodePtr LeaseKeeper::GiveBackWith(Req* r, InodeId ino) {
  const VfsInodePtr inode = inodes_.Find(ino);
  if (!inode || leases_.creating()) return nullptr;
  VfsInode& n = *inode;
  const bool held = n.lease.generation() == session_.generation() && !n.lease.none();
  const bool used = n.made.file() || !n.idle() || n.turns.waited_for() || n.atime.telling() || n.locks.in_use();
  if (!held || used || !n.attr_known || n.attr_stale || n.attr.nlink != 1) return nullptr;
  r->release = ino;
  n.DropLease();
  n.attr_known = false;
  const Leases::GivenBack given = leases_.GiveBack(n.lease);
  r->header.trace_id = given.call;
  r->header.term = given.term;
  return inode;
}

template VfsInodePtr LeaseKeeper::GiveBackWith(NameRequest*, InodeId);
template VfsInodePtr LeaseKeeper::GiveBackWith(RenameRequest*, InodeId);

void LeaseKeeper::WasGivenBack(const VfsInodePtr& inode, uint64_t call, bool surely) {
  if (leases_.WasGivenBack(inode->lease, call, surely)) inodes_.DropIfIdle(inode);
  else scope_.Spawn(ReleaseInode(inode));
}

}  // namespace stria
