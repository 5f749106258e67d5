#include "client/vfs/ahead_maker.h"

#include <utility>

namespace stria {
namespace {
constexpr uint32_t kSetIds = 06000;
}  // namespace

void AheadMaker::AskAhead(const Caller& who, InodeId parent, MakeNodeRequest* r) {
  if (!made_ahead_.Wants(parent) || !nodes_.IsWhole(parent) || !believed_(who)) return;
  const VfsInode* const dir = inodes_.Look(parent);
  const bool alone = dir && leases_.Holds(dir->lease, true) && dir->layout_known;
  const bool numbers = made_ahead_.NumbersLeft();
  if (alone && numbers) return;
  r->ahead = true;
  r->numbers = numbers ? 0 : MadeAhead::kNumbersAtOnce;
}

void AheadMaker::TakeAhead(InodeId parent, const OpenReply& reply, uint64_t asked) {
  if (!reply.alone) return;
  if (reply.numbers > 0) made_ahead_.TakeNumbers(reply.first_number, reply.numbers, reply.numbers_proof, reply.sets);
  const VfsInodePtr dir = inodes_.Of(parent);
  VfsInode& n = *dir;
  if (n.lease.generation() != generation_()) come_back_.DropState(n);
  n.lease.TakeAlone(reply.alone_proof, asked);
  n.layout = reply.layout;
  n.layout_known = true;
  if (reply.node.parent && !n.lease.ToldSince(asked) && reply.node.parent->version >= n.attr.version) {
    n.attr = *reply.node.parent;
    n.attr_known = true;
    n.attr_stale = false;
  }
  inodes_.LetGo(dir);
}

VfsInodePtr AheadMaker::MakeFile(const Caller& caller, InodeId parent, const std::string& name, uint32_t mode) {
  if (name.empty() || (mode & kSetIds) != 0 || !made_ahead_.MayMakeIn(parent)) return nullptr;
  const VfsInode* const found = inodes_.Look(parent);
  if (!found) return nullptr;
  const VfsInode& dir = *found;
  // It may be on its way to be given up.
  if (!dir.buffers_writes() || !leases_.Holds(dir.lease, true) || dir.turns.changing() || dir.turns.waited_for()) return nullptr;
  if (!dir.attr_known || dir.attr_stale || !dir.layout_known) return nullptr;
  const std::optional<Caller> believed = believed_(caller);
  if (!believed || !MadeAhead::SurelyMayCreate(*believed, dir.attr)) return nullptr;
  const Caller& who = *believed;
  if (!nodes_.IsWhole(parent) || nodes_.FindEntry(parent, name) != InodeId()) return nullptr;
  if (nodes_.IsChanging(parent, name) || !made_ahead_.HasRoom()) return nullptr;

  const MadeAhead::Number number = made_ahead_.TakeNumber();
  const int64_t now_ns = Executor::Current().WallNs();
  MadeFile r;
  r.parent = parent;
  r.name = name;
  r.mode = mode;
  r.umask = who.umask;
  r.made_ns = now_ns;

  const VfsInodePtr inode = inodes_.Of(number.ino);
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
  return inode;
}

VfsInode* AheadMaker::Untold(InodeId ino) {
  if (made_ahead_.empty()) return nullptr;
  VfsInode* const found = inodes_.Look(ino);
  if (!found || !found->made.file()) return nullptr;
  VfsInode& n = *found;
  if (n.made.telling() || n.made.tried_to_tell() || !n.buffers_writes() || !leases_.Holds(n.lease, true)) return nullptr;
  return n.turns.changing() || n.turns.waited_for() || n.turns.being_cut() ? nullptr : &n;  // as in MakeAhead
}

std::optional<EntryOut> AheadMaker::SetAhead(const Caller& who, InodeId ino, const SetAttrIn& set) {
  VfsInode* const untold = Untold(ino);
  if (untold == nullptr || set.size) return std::nullopt;
  VfsInode& n = *untold;
  const std::optional<Caller> believed = believed_(who);
  if (!believed || !made_ahead_.MayChange(n.made, *believed, n.attr, set.mode, set.uid, set.gid)) return std::nullopt;

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
  return attrs_.Overlay(n.attr);
}

}  // namespace stria
