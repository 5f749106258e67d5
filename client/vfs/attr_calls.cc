#include "client/vfs/attr_calls.h"

#include <optional>
#include <utility>

namespace stria {
namespace {
bool SetsOnlySize(const SetAttrIn& set) {
  return set.size && !set.mode && !set.uid && !set.gid && !set.atime_ns && !set.mtime_ns && !set.atime_now && !set.mtime_now;
}
}  // namespace

AttrCalls::AttrCalls(AttrCallsRooms rooms)
    : inodes_(rooms.inodes), attrs_(rooms.attrs), nodes_(rooms.nodes), last_known_(rooms.last_known), leases_(rooms.leases),
      turns_(rooms.turns), kernel_view_(rooms.kernel_view), write_back_(rooms.write_back), made_ahead_(rooms.made_ahead),
      ahead_(rooms.ahead), commits_(rooms.commits), session_(rooms.session), calls_(rooms.calls) {}

Task<Result<EntryOut>> AttrCalls::GetAttr(Caller who, InodeId ino) {
  const CallList::Call under_way(&calls_, "stat of", ino);
  const VfsInodePtr inode = inodes_.Find(ino);
  if (inode && AttrView::MayBeStoresAlone(*inode)) co_await kernel_view_.ForgetPagesForOthers(InKernel(inode));
  const bool gated = inode && attrs_.PagesGated(*inode);
  const bool cut = inode && nodes_.IsResizing(ino) && inode->writes.clean();  // whether it is already only the server knows
  if (inode && inode->buffers_writes() && inode->attr_known && !inode->attr_stale && !cut &&
      inode->lease.generation() == session_.generation() && session_.LeaseLeftNs() > 0) {
    const EntryOut out = attrs_.Overlay(inode->attr);
    if (gated) co_await kernel_view_.DropOldPages(InKernel(inode), inode->attr.data_version);  // the lease may go meanwhile
    co_return out;
  }
  if (const auto attr = gated ? std::nullopt : nodes_.FindAttr(ino)) co_return attrs_.Overlay(*attr);
  if (const auto removed = nodes_.RemovedDir(ino)) co_return attrs_.Overlay(*removed);
  while (true) {
    const uint64_t since = nodes_.epoch();
    const uint64_t known = inode ? inode->attr.version : 0;
    InodeRequest r;
    r.ino = ino;
    CO_ASSIGN_OR_RETURN(const NodeReply reply,
                        co_await last_known_.Or(session_.Call(&MetaService::GetAttr, std::move(r), who),
                                                last_known_.Directory(ino)));
    // Bytes that were buffered here when the server was asked, and that a program knows it has written, were committed meanwhile:
    // this answer lacks them, and nothing here has them any more.
    if (inode && inode->attr.version != known && AttrView::Overtaken(*inode, reply.attr)) continue;
    const EntryOut out = attrs_.RememberNode(reply, since);
    if (gated) co_await kernel_view_.DropOldPages(InKernel(inode), reply.attr.data_version);
    co_return out;
  }
}

Task<Result<EntryOut>> AttrCalls::SetAttr(Caller who, InodeId ino, SetAttrIn set) {
  const CallList::Call under_way(&calls_, "change of attributes of", ino);
  if (auto done = ahead_.SetAhead(who, ino, set)) co_return *std::move(done);
  const MadeAhead::Pause pause(&made_ahead_, ino);
  // Who opens it while it is cut waits: what he writes is not among what goes.
  const VfsInodePtr inode = set.size ? inodes_.Of(ino) : inodes_.Find(ino);
  auto changed = co_await ChangeAttr(std::move(who), ino, inode, set);
  if (inode) inodes_.LetGo(inode);
  co_return changed;
}

// `inode` as far as it is in use here.
Task<Result<EntryOut>> AttrCalls::ChangeAttr(Caller who, InodeId ino, VfsInodePtr inode, SetAttrIn set) {
  SemaphoreHold held;
  std::optional<NoWrites> no_writes;
  std::optional<AttrView::Resizing> resizing;
  bool unflushed = false, cut = false;
  if (inode) {
    CO_ASSIGN_OR_RETURN(held, co_await turns_.Take(TurnsOf(inode), &InodeTurns::open_mu, "change of attributes"));
    no_writes.emplace(TurnsOf(inode));
    // Of what the server never had nothing is stored to be cut off at once: it goes from here, and the rest is what the file
    // shall be. Who has it open for writing is not refused.
    if (set.size && SetsOnlySize(set) && leases_.Holds(inode->lease, true) && inode->CutsDirtyBytesOnly(*set.size)) {
      resizing.emplace(&attrs_, ino);
      co_await resizing->Begin();
      if ((cut = leases_.Holds(inode->lease, true) && inode->CutsDirtyBytesOnly(*set.size))) {
        inode->CutDirty(*set.size, Executor::Current().WallNs());
        write_back_.Account(inode->writes);
      }
    }
    // What was written before must not come after: sizes and times of older writes would win. All of it goes
    // first, even what is cut off at once: if this client dies between the two, the file holds what a prefix
    // of its writes made.
    if (!inode->writes.clean() || inode->writes.mtime_ns()) {
      const auto flushed = co_await commits_.FlushInode(inode, false);
      unflushed = FindsNoPlace(flushed.code()) && set.size && (cut || *set.size < inode->attr.size);
      if (!unflushed) CO_RETURN_IF_ERROR(flushed);
    }
  }
  if (inode && (set.atime_ns || set.atime_now)) inode->atime.Forget();  // it is older
  SetAttrRequest r;
  r.ino = ino;
  r.mode = set.mode;
  r.uid = set.uid;
  r.gid = set.gid;
  r.size = set.size;
  r.atime_ns = set.atime_ns;
  r.mtime_ns = set.mtime_ns;
  r.atime_now = set.atime_now;
  r.mtime_now = set.mtime_now;
  r.kill_suid = set.kill_suid;
  if (inode) r.header.opened = inode->lease.proof();
  if (set.size && !resizing) {
    resizing.emplace(&attrs_, ino);
    co_await resizing->Begin();
  }
  const uint64_t since = nodes_.epoch();
  auto reply = co_await (unflushed ? commits_.CutUnflushed(inode, std::move(r), who)
                                   : session_.Mutate(&MetaService::SetAttr, std::move(r), who));
  if (!reply.ok()) co_return reply.error();
  if (inode) inode->Committed(session_.term(), reply->seq);
  // It may have been created over meanwhile.
  if (VfsInode* const now = inodes_.Look(ino); now && set.size) {
    VfsInode& n = *now;
    n.mapping.Forget(*set.size, kMaxFileBytes);
    n.writes.Truncate(*set.size);  // pages of mappings that came meanwhile
    if (reply->attr.version >= n.attr.version) n.attr = reply->attr;
    write_back_.Account(n.writes);
  }
  const EntryOut out = attrs_.RememberNode(*reply, nodes_.SinceChange(since));
  co_return out;
}

}  // namespace stria
