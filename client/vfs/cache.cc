// Attributes and entries that the session's lease lets us remember.
#include <algorithm>
#include <utility>

#include "api/dir_time.h"
#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"

namespace stria {
namespace {
// The kernel never keeps attributes longer than this, nor than the lease.
constexpr int64_t kMaxAttrValidNs = 10 * kSecond;
constexpr int64_t kGrowingNs = 1 * kSecond;
constexpr size_t kMaxPiecesCounted = 1024;  // of what is dirty, for each stat

// Programs that copy files (tar -S, cp --sparse) take what is not allocated for holes, and do not look there for data: too much
// is better than too little, and what is not known is counted. (The size of our own writes is in n.attr.)
uint64_t AllocatedWithDirty(const VfsInode& n, const Attr& attr) {
  const uint64_t size = std::max(attr.size, n.attr_known && n.knows_better() ? n.attr.size : 0);
  const uint64_t most = std::max(attr.allocated_bytes, size);
  const uint64_t committed = attr.allocated_bytes;
  if (committed >= most) return committed;
  if (n.writes.dirty().pieces_count() > kMaxPiecesCounted) return std::min(most, committed + n.writes.dirty().bytes());
  uint64_t fresh = 0;
  for (const DirtyPiece& p : n.writes.Find(0, kMaxFileBytes)) {
    fresh += p.bytes.size();
    const auto mapped = n.mapping.known().Lookup(p.offset, p.bytes.size());
    if (!mapped) continue;
    for (const Segment& s : *mapped) {
      if (s.kind != Segment::Kind::kHole) fresh -= s.length;
    }
  }
  return std::min(most, committed + fresh);
}
}  // namespace

int64_t Vfs::AttrValidNs() const { return std::clamp<int64_t>(session_.LeaseLeftNs(), 0, kMaxAttrValidNs); }

std::shared_ptr<VfsInode> Vfs::InodeOf(InodeId ino) {
  auto& slot = inodes_[ino];
  if (slot) return slot;
  slot = std::make_shared<VfsInode>(ino, residence_.TallyOf(ino), mappings_.budget());
  slot->lease.BelongsTo(session_.generation());  // what it learns before it is granted anything is of this session, too
  return slot;
}

EntryOut Vfs::Newest(Attr attr) {
  EntryOut out;
  if (const MadeAhead::In* made = made_ahead_.Unknown(attr.ino)) {
    attr.size += made->files.size();
    attr.mtime_ns = attr.ctime_ns = DirTime(attr.mtime_ns, made->last_ns);
  }
  auto it = inodes_.find(attr.ino);
  if (it != inodes_.end() && it->second->atime.newest_ns()) attr.atime_ns = *it->second->atime.newest_ns();
  if (it != inodes_.end() && !it->second->writes.clean()) attr.allocated_bytes = AllocatedWithDirty(*it->second, attr);
  if (it != inodes_.end() && it->second->attr_known && it->second->knows_better()) {
    const VfsInode& n = *it->second;
    // Our own unflushed writes are newer than what the server says.
    if (!n.writes.clean() || n.writes.mtime_ns()) {
      attr.size = n.attr.size;
      attr.mtime_ns = std::max(attr.mtime_ns, n.attr.mtime_ns);
      attr.ctime_ns = std::max(attr.ctime_ns, n.attr.ctime_ns);
    }
  }
  out.attr = attr;
  return out;
}

EntryOut Vfs::Overlay(const Attr& attr) {
  EntryOut out = Newest(attr);
  if (nodes_.IsResizing(attr.ino) || IsGrowing(attr.ino)) return out;
  auto it = inodes_.find(attr.ino);
  if (it != inodes_.end() && PagesGated(*it->second)) return out;
  out.attr_valid_ns = AttrValidNs();
  if (it != inodes_.end()) {
    it->second->in_kernel.AttrShown(attr.version);
  }
  return out;
}

bool Vfs::IsGrowing(InodeId ino) const {
  const auto it = inodes_.find(ino);
  if (it == inodes_.end() || it->second->writers == 0) return false;
  return it->second->in_kernel.GrewSince(Executor::Current().NowNs() - kGrowingNs);
}

bool Vfs::PagesGated(const VfsInode& n) const {
  if (!n.in_kernel.has_pages()) return false;
  const bool nobody_writes = n.writers == 0 && n.lease.caches();
  const bool new_enough = n.in_kernel.PagesAre(n.in_kernel.WantedAt(n.attr.data_version));
  return !nobody_writes || !new_enough || nodes_.IsResizing(n.ino);
}

Task<void> Vfs::GatePages(std::shared_ptr<VfsInode> inode) {
  if (inode->in_kernel.has_pages()) co_await ForgetShown(inode->ino);
}

void Vfs::UpdateInode(const Attr& attr, bool current) {
  auto node = inodes_.find(attr.ino);
  if (node == inodes_.end()) return;
  VfsInode& n = *node->second;
  if (Overtaken(n, attr)) return;
  if (current) n.attr_stale = false;
  const bool local_is_newer = n.attr_known && n.knows_better() && (!n.writes.clean() || n.writes.mtime_ns());
  const Attr mine = n.attr;
  n.attr = attr;
  n.attr_known = n.attr_known || current;
  if (!local_is_newer) return;
  n.attr.size = mine.size;
  n.attr.mtime_ns = std::max(attr.mtime_ns, mine.mtime_ns);
  n.attr.ctime_ns = std::max(attr.ctime_ns, mine.ctime_ns);
}

bool Vfs::Overtaken(const VfsInode& n, const Attr& answer) { return answer.version < n.attr.version; }

EntryOut Vfs::Remember(const Attr& attr, uint64_t since) {
  if (const auto it = inodes_.find(attr.ino); it != inodes_.end() && Overtaken(*it->second, attr)) return Newest(attr);
  UpdateInode(attr, since == nodes_.epoch());
  if (const auto kept = nodes_.Remember(attr, since)) return Overlay(*kept);
  return Newest(attr);
}

EntryOut Vfs::RememberNode(const NodeReply& reply, uint64_t since) {
  if (reply.parent) (void)Remember(*reply.parent, since);
  if (reply.parent2) (void)Remember(*reply.parent2, since);
  if (!reply.held_elsewhere) return Remember(reply.attr, since);
  UpdateInode(reply.attr, false);
  AttrChanged(reply.attr.ino);
  return Newest(reply.attr);
}

void Vfs::AttrChanged(InodeId ino) {
  nodes_.ForgetAttr(ino);
  auto node = inodes_.find(ino);
  if (node == inodes_.end()) return;
  node->second->attr_stale = true;
  if (node->second->attr.type == FileType::kDirectory) node->second->layout_known = false;
  // The server pushes once: what comes after, also of the size, is asked for.
  if (!node->second->knows_better()) node->second->attr_known = false;
}

void Vfs::ChangedUntold(InodeId ino) {
  nodes_.Invalidate();  // answers that are on their way may be from before it
  AttrChanged(ino);
}

Task<void> Vfs::Resizing::Begin() { return vfs_->ForgetShown(ino_); }

void Vfs::SizeShown(InodeId ino, uint64_t size) {
  if (auto it = inodes_.find(ino); it != inodes_.end()) it->second->in_kernel.SizeShown(size);
}

Task<void> Vfs::ForgetShown(InodeId ino) {
  auto it = inodes_.find(ino);
  return kernel_view_.ForgetShown(ino, it == inodes_.end() ? nullptr : InKernel(it->second));
}

Task<void> Vfs::ForgetOlder(const Attr& seen) {
  auto it = inodes_.find(seen.ino);
  if (it == inodes_.end() || it->second->in_kernel.shown_version() >= seen.version) co_return;
  const std::shared_ptr<VfsInode> inode = it->second;
  nodes_.Invalidate();  // answers that are on their way
  nodes_.ForgetAttrBefore(seen.ino, seen.version);
  co_await ForgetShown(seen.ino);
  inode->in_kernel.ShownUpTo(seen.version);
}

int64_t Vfs::NameValidNs(InodeId parent, const std::string& name, InodeId ino) {
  return nodes_.LeadsTo(parent, name, ino) ? AttrValidNs() : 0;
}

void Vfs::ForgetEverything() {
  nodes_.Clear();
  last_known_.Forget();
}

}  // namespace stria
