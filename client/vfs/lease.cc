// Data leases of files: what the server grants at an open, and how it is given back. (What the server recalls: events.cc.)
#include <optional>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"
#include "common/sabotage.h"
#include "common/token.h"

namespace stria {
namespace {
// Idle leased inodes kept for the next open; beyond this those used longest ago are given back.
constexpr size_t kMaxIdleInodes = 20'000;
constexpr int64_t kReleaseAgainNs = 1 * kSecond;  // if no server has answered
// Of the mapping that an open asks for: a small file's.
constexpr uint64_t kOpenMapBytes = 1 * kMiB;
}  // namespace

bool Vfs::HoldsFor(const VfsInode& n, bool for_write) const {
  if (n.generation != session_.generation() || session_.LeaseLeftNs() <= 0) return false;
  if (!for_write) return n.lease != LeaseMode::kNone;
  return n.for_write && (n.lease == LeaseMode::kExclusive || n.lease == LeaseMode::kShared);
}

void Vfs::TakeGrant(const std::shared_ptr<VfsInode>& inode, const OpenReply& reply, bool for_read, bool for_write,
                    uint64_t asked) {
  VfsInode& n = *inode;
  if (n.generation != session_.generation()) {
    // A former session's grant: what it buffered is lost, its handles give EIO.
    DropState(n);
  }
  // What is mapped was told for one read, and nobody said when it changed.
  if (n.lease == LeaseMode::kNone || n.lease == LeaseMode::kShared) {
    n.mapping.Forget();
  }
  // What was buffered under a higher lease is flushed under it: the server believes in that until the recall that it
  // has sent is answered.
  const bool keeps = n.buffers_writes() && !n.writes.clean() && reply.lease != LeaseMode::kExclusive;
  if (!keeps) n.lease = reply.lease;
  // Answered before this grant came: the server counts on it. (kShared is the least that is granted.)
  if (!keeps && n.recalled_at > asked && n.lease != LeaseMode::kShared) n.lease = n.recalled_to;
  // Where writes under way will end, and append, only the server knows: what is written beside them is not buffered.
  if (n.shared_writes > 0 && n.lease == LeaseMode::kExclusive) n.lease = LeaseMode::kShared;
  // What is not committed yet is of before the session lapsed, and it may turn out that it is not to be.
  if (n.base_version && n.lease != LeaseMode::kNone) n.lease = LeaseMode::kShared;
  ++n.grants;
  n.owes_release = 0;
  // Of two answers that overtook each other the one that says more counts.
  const uint8_t had = RightsIn(n.proof), has = RightsIn(reply.proof);
  if ((had & ~has) == 0 || (has & ~had & kOpenWrite) != 0) {
    if ((had & ~has & kOpenRead) != 0) n.for_read = false;
    n.proof = reply.proof;
  }
  n.for_read = n.for_read || for_read;
  n.for_write = n.for_write || for_write;
  n.layout = reply.layout;
  n.layout_known = true;
  // A change of our own may have been answered before.
  if ((!n.attr_known || n.writes.clean()) && reply.node.attr.version >= n.attr.version) {
    n.attr = reply.node.attr;
    n.attr_known = n.told_at <= asked;
  }
  n.Committed(session_.term(), reply.node.seq);
}

Task<Result<void>> Vfs::KnowAttr(std::shared_ptr<VfsInode> inode, bool for_pages) {
  VfsInode& n = *inode;
  while (!n.attr_known && HoldsFor(n, false) && n.lease != LeaseMode::kShared) {
    const uint64_t asked = events_seen_;
    const uint64_t since = nodes_.epoch();
    if (for_pages) {
      GetExtentsRequest r;  // of nothing
      r.ino = n.ino;
      CO_ASSIGN_OR_RETURN(const GetExtentsReply reply,
                          co_await session_.Call(&MetaService::GetExtents, std::move(r), Caller()));
      if (n.told_at <= asked) UpdateInode(reply.attr, true);
      continue;
    }
    InodeRequest r;
    r.ino = n.ino;
    CO_ASSIGN_OR_RETURN(const NodeReply reply, co_await session_.Call(&MetaService::GetAttr, std::move(r), Caller()));
    if (n.told_at <= asked && !reply.held_elsewhere) UpdateInode(reply.attr, true);
    (void)RememberNode(reply, since);
  }
  co_return Ok();
}

Task<Result<void>> Vfs::Acquire(Caller who, std::shared_ptr<VfsInode> inode, bool for_read, bool for_write,
                                bool truncate, bool again) {
  CO_ASSIGN_OR_RETURN(SemaphoreHold held, co_await turns_.Take(TurnsOf(inode), &InodeTurns::open_mu, truncate ? "truncation" : "open"));
  SemaphoreHold both;
  if (Sabotaged(Sabotage::kOpenHoldsLeaseMu)) {
    CO_ASSIGN_OR_RETURN(both, co_await turns_.Take(TurnsOf(inode), &InodeTurns::lease_mu, "open"));
  }
  // A shared lease is asked for anew: the next one may be better.
  const bool shared = inode->lease == LeaseMode::kShared && !again;
  if (!truncate && inode->layout_known && HoldsFor(*inode, for_write) && (inode->for_read || !for_read) && !shared) {
    if (again) co_return Ok();
    co_return co_await KnowAttr(inode);
  }
  std::optional<NoWrites> no_writes;
  std::optional<Resizing> resizing;
  std::optional<WriteBackPause> pause;
  if (truncate) {
    no_writes.emplace(TurnsOf(inode));
    // What is cut off goes first, too (as in SetAttr): until the answer others read what was there before, and that is not
    // what was there before the last writes. Unless there is no place for it: then it stays with us until it is cut off.
    if (const auto flushed = co_await FlushInode(inode, false); FindsNoPlace(flushed.code())) {
      pause.emplace(WritesOf(inode));
      co_await pause->Begin();
    } else {
      CO_RETURN_IF_ERROR(flushed);
    }
    resizing.emplace(this, inode->ino);
    co_await resizing->Begin();
  }
  const uint64_t since = nodes_.epoch();
  const uint64_t asked = events_seen_;
  OpenRequest r;
  r.ino = inode->ino;
  r.header.opened = inode->proof;
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
    Opening opening(this, inode.get());
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
  RememberNode(reply.node, truncate ? nodes_.SinceChange(since) : since);
  if (again) co_return Ok();  // who needs them asks, in his own way
  co_return co_await KnowAttr(inode);
}

void Vfs::TakeMapping(VfsInode& n, const OpenReply& reply, int64_t asked_ns) {
  // A recall that was answered meanwhile left less than was granted.
  const bool caches = n.lease == reply.lease && (n.lease == LeaseMode::kRead || n.lease == LeaseMode::kExclusive);
  if (reply.mapping && caches) n.mapping.Add(0, *reply.mapping, asked_ns);
}

Vfs::Opening::Opening(Vfs* vfs, VfsInode* n) : vfs_(vfs), n_(n) { ++n_->opening; }

Vfs::Opening::~Opening() {
  --n_->opening;
  if (!granted) vfs_->OweRelease(*n_);
}

// What was asked of the server may have been done in a try that it could not answer, whatever the last one said.
void Vfs::OweRelease(VfsInode& n) {
  if (n.lease == LeaseMode::kNone && n.generation == session_.generation()) n.owes_release = session_.NumberCall();
}

Task<void> Vfs::ReleaseInode(std::shared_ptr<VfsInode> inode) {
  while (!co_await TryRelease(inode)) co_await Sleep(kReleaseAgainNs);
  DropIfIdle(inode);
}

Task<bool> Vfs::TryRelease(std::shared_ptr<VfsInode> inode) {
  VfsInode& n = *inode;
  // What it made, before the call that gives it back has its number.
  const auto unknown = [&] { return n.made.file() || made_ahead_.Unknown(n.ino) != nullptr; };
  if (unknown()) (void)co_await FlushHeld(inode);
  if (unknown()) co_return true;
  InodeRequest r;
  r.ino = n.ino;
  const uint64_t call = r.header.trace_id = session_.NumberCall();
  // A Create that began before may open it again before this arrives: then the server would take for given back
  // what the Create's answer grants. One that begins later has a higher number, and outlasts this.
  const uint64_t grants = n.grants;
  while (!creates_.empty() && creates_.begin()->first < call) co_await create_ended_.Wait();
  const auto held = co_await n.turns.open_mu.Lock();
  n.turns.open_mu.HeldFor("release");
  // Who was granted it again gives it back.
  if (n.readers + n.writers > 0 || n.opening > 0 || !n.writes.clean() || n.grants != grants) co_return true;
  if (made_ahead_.Unknown(n.ino) != nullptr) co_return true;  // it is used: it goes when it has not been for longer
  if (n.generation != session_.generation() || (n.lease == LeaseMode::kNone && n.owes_release == 0)) co_return true;
  DropLease(n);
  n.owes_release = call;
  const uint64_t term = r.header.term = session_.term();
  const auto done = co_await session_.Call(&MetaService::Release, std::move(r), Caller());
  // In another term of the server it was of nothing; what the session claimed then may have been this still.
  if (done.ok() && session_.term() == term && n.owes_release == call) n.owes_release = 0;
  co_return n.owes_release != call;
}

void Vfs::DropLease(VfsInode& n) {
  n.lease = LeaseMode::kNone;
  n.for_read = n.for_write = false;
  n.mapping.Forget();
  n.in_kernel.KeptPagesAreOld();
}

// As ReleaseInode, but open_mu is not held over the call: who opens the file meanwhile need not wait for a name. Opens that
// begin meanwhile have higher numbers, and outlast it; none that began before may be under way.
template <class Req>
std::shared_ptr<VfsInode> Vfs::GiveBackWith(Req* r, InodeId ino) {
  auto it = inodes_.find(ino);
  if (it == inodes_.end() || !creates_.empty()) return nullptr;
  const std::shared_ptr<VfsInode> inode = it->second;
  VfsInode& n = *inode;
  const bool held = n.generation == session_.generation() && n.lease != LeaseMode::kNone;
  const bool used = n.made.file() || !n.idle() || n.turns.waited_for() || n.atime.telling() || n.locks.in_use();
  if (!held || used || !n.attr_known || n.attr_stale || n.attr.nlink != 1) return nullptr;
  r->release = ino;
  r->header.trace_id = session_.NumberCall();
  r->header.term = session_.term();
  DropLease(n);
  n.attr_known = false;
  n.owes_release = r->header.trace_id;
  return inode;
}

template std::shared_ptr<VfsInode> Vfs::GiveBackWith(NameRequest*, InodeId);
template std::shared_ptr<VfsInode> Vfs::GiveBackWith(RenameRequest*, InodeId);

void Vfs::WasGivenBack(const std::shared_ptr<VfsInode>& inode, uint64_t call, bool surely) {
  const bool owes = inode->owes_release == call;  // else it was granted again, or told
  if (owes && surely) inode->owes_release = 0;
  if (owes && !surely) scope_.Spawn(ReleaseInode(inode));
  else DropIfIdle(inode);
}

void Vfs::DropIfIdle(const std::shared_ptr<VfsInode>& inode) {
  auto it = inodes_.find(inode->ino);
  if (it == inodes_.end() || it->second != inode) return;
  if (inode->in_use()) {
    if (inode->idle()) KeepIdle(*inode);
    return;
  }
  if (inode->kept_at) kept_.erase(*std::exchange(inode->kept_at, std::nullopt));
  inodes_.erase(it);
}

void Vfs::KeepIdle(VfsInode& n) {
  if (n.kept_at) {
    kept_.splice(kept_.end(), kept_, *n.kept_at);
  } else {
    n.kept_at = kept_.insert(kept_.end(), n.ino);
  }
  if (kept_.size() <= kMaxIdleInodes) return;
  const std::shared_ptr<VfsInode> oldest = inodes_.at(kept_.front());
  kept_.pop_front();
  oldest->kept_at.reset();
  if (oldest->idle()) scope_.Spawn(ReleaseInode(oldest));  // else it comes back when it is
}

void Vfs::LetGo(const std::shared_ptr<VfsInode>& inode) {
  const bool held = inode->lease != LeaseMode::kNone || inode->owes_release > 0;
  if (inode->idle() && held && !inode->worth_keeping()) {
    scope_.Spawn(ReleaseInode(inode));
  } else {
    DropIfIdle(inode);
  }
}

}  // namespace stria
