// What files made ahead (made_ahead.h) are given of leases and names: whether a directory is ours alone, and what becomes of an
// inode of which the server has been told.
#include <algorithm>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"

namespace stria {
namespace {
constexpr uint32_t kSetIds = 06000;
}  // namespace

void Vfs::AskAhead(InodeId parent, MakeNodeRequest* r) {
  if (!made_ahead_.Wants(parent) || !nodes_.IsWhole(parent)) return;
  auto dir = inodes_.find(parent);
  const bool alone = dir != inodes_.end() && HoldsFor(*dir->second, true) && dir->second->layout_known;
  const bool numbers = made_ahead_.NumbersLeft();
  if (alone && numbers) return;
  r->ahead = true;
  r->numbers = numbers ? 0 : MadeAhead::kNumbersAtOnce;
}

void Vfs::TakeAhead(InodeId parent, const OpenReply& reply, uint64_t asked) {
  if (!reply.alone) return;
  if (reply.numbers > 0) made_ahead_.TakeNumbers(reply.first_number, reply.numbers, reply.numbers_proof, reply.sets);
  const std::shared_ptr<VfsInode> dir = InodeOf(parent);
  VfsInode& n = *dir;
  if (n.lease.generation() != session_.generation()) DropState(n);
  n.lease.TakeAlone(reply.alone_proof, asked);
  n.layout = reply.layout;
  n.layout_known = true;
  if (reply.node.parent && !n.lease.ToldSince(asked) && reply.node.parent->version >= n.attr.version) {
    n.attr = *reply.node.parent;
    n.attr_known = true;
    n.attr_stale = false;
  }
  LetGo(dir);
}

std::optional<Vfs::Opened> Vfs::MakeAhead(const Caller& who, InodeId parent, const std::string& name, uint32_t mode,
                                          const VfsHandle& flags) {
  if (name.empty() || (mode & kSetIds) != 0 || !made_ahead_.MayMakeIn(parent)) return std::nullopt;
  auto found = inodes_.find(parent);
  if (found == inodes_.end()) return std::nullopt;
  VfsInode& dir = *found->second;
  // It may be on its way to be given up.
  if (!dir.buffers_writes() || !HoldsFor(dir, true) || dir.turns.changing() || dir.turns.waited_for()) return std::nullopt;
  if (!dir.attr_known || dir.attr_stale || !dir.layout_known) return std::nullopt;
  if (!MadeAhead::SurelyMayCreate(who, dir.attr)) return std::nullopt;
  if (!nodes_.IsWhole(parent) || nodes_.FindEntry(parent, name) != InodeId()) return std::nullopt;
  if (nodes_.IsChanging(parent, name) || !made_ahead_.HasRoom()) return std::nullopt;

  const MadeAhead::Number number = made_ahead_.TakeNumber();
  const int64_t now_ns = Executor::Current().WallNs();
  MadeFile r;
  r.parent = parent;
  r.name = name;
  r.mode = mode;
  r.umask = who.umask;
  r.made_ns = now_ns;

  const std::shared_ptr<VfsInode> inode = InodeOf(number.ino);
  VfsInode& n = *inode;
  n.lease.TakeMade(number.proof);
  n.layout = dir.layout;
  n.layout_known = true;
  n.attr.ino = number.ino;
  n.attr.type = FileType::kFile;
  n.attr.mode = mode & ~(who.umask & 0777);
  n.attr.uid = who.uid;
  n.attr.gid = (dir.attr.mode & 02000) != 0 ? dir.attr.gid : who.gid;
  n.attr.nlink = 1;
  n.attr.atime_ns = n.attr.mtime_ns = n.attr.ctime_ns = now_ns;
  n.attr_known = true;
  n.mapping.Know(0, kMaxFileBytes, {});
  made_ahead_.Add(MadeOf(inode), std::move(r), who);
  nodes_.MadeHere(parent, name, number.ino);
  n.in_kernel.NothingShown();
  n.in_kernel.Grew(Executor::Current().NowNs());
  return MakeHandle(inode, flags);
}

VfsInode* Vfs::Untold(InodeId ino) {
  if (made_ahead_.empty()) return nullptr;
  auto found = inodes_.find(ino);
  if (found == inodes_.end() || !found->second->made.file()) return nullptr;
  VfsInode& n = *found->second;
  if (n.made.telling() || n.made.tried_to_tell() || !n.buffers_writes() || !HoldsFor(n, true)) return nullptr;
  return n.turns.changing() || n.turns.waited_for() || n.turns.being_cut() ? nullptr : &n;  // as in MakeAhead
}

std::optional<EntryOut> Vfs::SetAhead(const Caller& who, InodeId ino, const SetAttrIn& set) {
  VfsInode* const untold = Untold(ino);
  if (untold == nullptr || set.size) return std::nullopt;
  VfsInode& n = *untold;
  if (!made_ahead_.MayChange(n.made, who, n.attr, set.mode, set.uid, set.gid)) return std::nullopt;

  const int64_t now_ns = Executor::Current().WallNs();
  MadeFile::Set& all = made_ahead_.Change(n.made);
  const auto change = [](auto* told, auto* shown, auto value) { *told = *shown = value; };
  if (set.mode) change(&all.mode, &n.attr.mode, *set.mode);
  if (set.uid) change(&all.uid, &n.attr.uid, *set.uid);
  if (set.gid) change(&all.gid, &n.attr.gid, *set.gid);
  if (set.atime_ns || set.atime_now) {
    change(&all.atime_ns, &n.attr.atime_ns, set.atime_ns.value_or(now_ns));
    n.atime.Forget();  // it is older
  }
  if (set.mtime_ns || set.mtime_now) {
    change(&all.mtime_ns, &n.attr.mtime_ns, set.mtime_ns.value_or(now_ns));
    // Of what was written before as well: those bytes come later.
    if (!n.writes.clean()) n.writes.SetMtime(n.attr.mtime_ns);
  }
  n.attr.ctime_ns = now_ns;
  return Overlay(n.attr);
}

void Vfs::MadeAnswered(const std::shared_ptr<VfsInode>& inode, const Result<CommitReply>& reply, uint64_t since,
                       bool bare) {
  VfsInode& n = *inode;
  if (made_ahead_.Answered(MadeOf(inode), reply.error(), bare) != MadeAhead::Outcome::kKnown) return;
  n.take_up.Committed(reply->attr.data_version);
  if (reply->parent) (void)Remember(*reply->parent, since);
}

void Vfs::CouldNotBeMade(const std::shared_ptr<VfsInode>& inode, const MadeFile& file) {
  VfsInode& n = *inode;
  nodes_.ForgetEntry(file.parent, file.name);
  DropLease(n);
  n.lease.Owe(session_.NumberCall());  // after a restart of the server it was claimed
  n.attr_known = false;
  n.attr.nlink = 0;
  DropUnreachable(inode);
  n.writes.Wake();
  LetGo(inode);
}

// It is in use, as long as the server is being told.
Task<void> Vfs::CommitMade(std::shared_ptr<VfsInode> inode, bool durable) {
  VfsInode& n = *inode;
  CommitRequest r;
  r.ino = n.ino;
  r.make = made_ahead_.BeginTelling(n.made);
  r.header.opened = n.lease.proof();
  r.durable = durable;
  const uint64_t since = nodes_.epoch();
  const uint64_t generation = n.lease.generation();
  Result<CommitReply> reply = FsError::kFenced;
  if (generation == session_.generation()) {
    reply = co_await session_.Mutate(&MetaService::Commit, std::move(r), n.made.maker());
  }
  MadeAnswered(inode, reply, since, true);
  if (!reply.ok() || n.lease.generation() != generation) co_return;
  n.Committed(session_.term(), reply->seq);
  if (durable) n.KnownDurable({session_.term(), reply->seq});
  (void)Remember(reply->attr, nodes_.SinceChange(since));
  DropIfIdle(inode);
}

std::optional<Task<Result<void>>> Vfs::TellBefore(const SessionCallNames& named) { return made_ahead_.TellBefore(named); }

Task<Result<void>> Vfs::FlushHeld(std::shared_ptr<VfsInode> inode) {
  while (auto told = made_ahead_.TellBefore({inode->ino, InodeId()})) {
    CO_RETURN_IF_ERROR(co_await *std::move(told));
  }
  co_return co_await FlushInode(std::move(inode), false);
}

}  // namespace stria
