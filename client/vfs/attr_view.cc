#include "client/vfs/attr_view.h"

#include <algorithm>
#include <utility>

#include "api/dir_time.h"

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

int64_t AttrView::AttrValidNs() const { return std::clamp<int64_t>(lease_left_ns_(), 0, kMaxAttrValidNs); }

EntryOut AttrView::Newest(Attr attr) {
  EntryOut out;
  if (const MadeAhead::In* made = made_ahead_.Unknown(attr.ino)) {
    attr.size += made->files.size();
    attr.mtime_ns = attr.ctime_ns = DirTime(attr.mtime_ns, made->last_ns);
  }
  if (const VfsInode* const n = inodes_.Look(attr.ino)) {
    if (n->atime.newest_ns()) attr.atime_ns = *n->atime.newest_ns();
    if (!n->writes.clean()) attr.allocated_bytes = AllocatedWithDirty(*n, attr);
    // Our own unflushed writes are newer than what the server says.
    if (n->attr_known && n->knows_better() && (!n->writes.clean() || n->writes.mtime_ns())) {
      attr.size = n->attr.size;
      attr.mtime_ns = std::max(attr.mtime_ns, n->attr.mtime_ns);
      attr.ctime_ns = std::max(attr.ctime_ns, n->attr.ctime_ns);
    }
  }
  out.attr = attr;
  return out;
}

EntryOut AttrView::Overlay(const Attr& attr) {
  EntryOut out = Newest(attr);
  if (nodes_.IsResizing(attr.ino) || IsGrowing(attr.ino)) return out;
  VfsInode* const n = inodes_.Look(attr.ino);
  if (n && (PagesGated(*n) || MayBeStoresAlone(*n))) return out;
  out.attr_valid_ns = AttrValidNs();
  if (n) n->in_kernel.AttrShown(attr.version);
  return out;
}

bool AttrView::IsGrowing(InodeId ino) const {
  const VfsInode* const n = inodes_.Look(ino);
  return n && n->writers > 0 && n->in_kernel.GrewSince(Executor::Current().NowNs() - kGrowingNs);
}

bool AttrView::PagesGated(const VfsInode& n) const {
  if (!n.in_kernel.has_pages()) return false;
  const bool nobody_writes = n.writers == 0 && n.lease.caches();
  const bool new_enough = n.in_kernel.PagesAre(n.in_kernel.WantedAt(n.attr.data_version));
  return !nobody_writes || !new_enough || nodes_.IsResizing(n.ino);
}

bool AttrView::MayBeStoresAlone(const VfsInode& n) {
  return n.may_be_mapped_to_write() && n.attr.size > 0 && n.attr.allocated_bytes == 0 && n.writes.clean();
}

Task<void> AttrView::GatePages(VfsInodePtr inode) {
  if (inode->in_kernel.has_pages() || MayBeStoresAlone(*inode)) co_await ForgetShown(inode->ino);
}

void AttrView::UpdateInode(const Attr& attr, bool current) {
  VfsInode* const found = inodes_.Look(attr.ino);
  if (!found) return;
  VfsInode& n = *found;
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

bool AttrView::Overtaken(const VfsInode& n, const Attr& answer) { return answer.version < n.attr.version; }

EntryOut AttrView::Remember(const Attr& attr, uint64_t since) {
  if (const VfsInode* const n = inodes_.Look(attr.ino); n && Overtaken(*n, attr)) return Newest(attr);
  UpdateInode(attr, since == nodes_.epoch());
  if (const auto kept = nodes_.Remember(attr, since)) return Overlay(*kept);
  return Newest(attr);
}

EntryOut AttrView::RememberNode(const NodeReply& reply, uint64_t since) {
  if (reply.parent) (void)Remember(*reply.parent, since);
  if (reply.parent2) (void)Remember(*reply.parent2, since);
  if (!reply.held_elsewhere) return Remember(reply.attr, since);
  UpdateInode(reply.attr, false);
  AttrChanged(reply.attr.ino);
  return Newest(reply.attr);
}

void AttrView::AttrChanged(InodeId ino) {
  nodes_.ForgetAttr(ino);
  VfsInode* const n = inodes_.Look(ino);
  if (!n) return;
  n->attr_stale = true;
  if (n->attr.type == FileType::kDirectory) n->layout_known = false;
  // The server pushes once: what comes after, also of the size, is asked for.
  if (!n->knows_better()) n->attr_known = false;
}

void AttrView::ChangedUntold(InodeId ino) {
  nodes_.Invalidate();  // answers that are on their way may be from before it
  AttrChanged(ino);
}

void AttrView::SizeShown(InodeId ino, uint64_t size) {
  if (VfsInode* const n = inodes_.Look(ino)) n->in_kernel.SizeShown(size);
}

Task<void> AttrView::ForgetShown(InodeId ino) {
  return kernel_view_.ForgetShown(ino, InKernel(inodes_.Find(ino)));
}

Task<void> AttrView::ForgetOlder(const Attr& seen) {
  const VfsInodePtr inode = inodes_.Find(seen.ino);
  if (!inode || inode->in_kernel.shown_version() >= seen.version) co_return;
  nodes_.Invalidate();  // answers that are on their way
  nodes_.ForgetAttrBefore(seen.ino, seen.version);
  co_await ForgetShown(seen.ino);
  inode->in_kernel.ShownUpTo(seen.version);
}

int64_t AttrView::NameValidNs(InodeId parent, const std::string& name, InodeId ino) {
  return nodes_.LeadsTo(parent, name, ino) ? AttrValidNs() : 0;
}

}  // namespace stria
