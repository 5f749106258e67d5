#include "meta/ops/nodes.h"

#include <algorithm>
#include <array>

#include "meta/ops/acl.h"
#include "meta/ops/extents.h"

namespace stria {
namespace {
constexpr size_t kMaxNamesAsked = 64;
}  // namespace

Result<InodeRecord> GetInode(Txn& txn, InodeId ino) {
  ASSIGN_OR_RETURN(std::optional<InodeRecord> rec, txn.Read<InodeRecord>(InodeKey(ino)));
  if (rec && rec->dead()) {
    ASSIGN_OR_RETURN(const bool orphan, txn.Has<OrphanRecord>(InodeKey(ino)));
    if (!orphan) rec.reset();
  }
  if (!rec) return Error(FsError::kStale, "inode " + std::to_string(ino.v) + " does not exist any more");
  return std::move(*rec);
}

Result<InodeRecord> GetDir(Txn& txn, InodeId ino) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, ino));
  if (!rec.is_dir()) return Error(FsError::kNotDir);
  return rec;
}

Result<InodeRecord> GetSearchableDir(Txn& txn, const OpCtx& ctx, InodeId ino) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetDir(txn, ino));
  if (!MayAccess(ctx, rec.attr, kMayExec, AclIn(txn, rec))) return Error(FsError::kAccess);
  return rec;
}

Error MayKnow(Txn& txn, const OpCtx& ctx, const InodeRecord& rec) {
  if (IsOwner(ctx, rec.attr)) return Error();
  if (rec.attr.type != FileType::kSymlink) {
    const std::string acl = AclIn(txn, rec);
    for (uint32_t want : {kMayExec, kMayRead, kMayWrite}) {
      if (MayAccess(ctx, rec.attr, want, acl)) return Error();
    }
    if (ctx.HasOpen(rec.attr.ino, false) || ctx.HasOpen(rec.attr.ino, true)) return Error();
  }
  const auto names = txn.ScanPrefix(Family::kParents, InodeKey(rec.attr.ino), kMaxNamesAsked);
  if (!names.ok()) return names.error();
  for (const KvEntry& name : *names) {
    ParentKeyParts key;
    if (ParseParentKey(name.first, &key) && GetSearchableDir(txn, ctx, key.parent).ok()) return Error();
  }
  return Error(FsError::kAccess);
}

Result<bool> DropXattr(Txn& txn, InodeRecord* rec, std::string_view name) {
  const std::string key = XattrKey(rec->attr.ino, name);
  ASSIGN_OR_RETURN(const std::optional<XattrRecord> had, txn.Read<XattrRecord>(key));
  if (!had) return false;
  rec->xattr_bytes -= static_cast<uint32_t>(name.size() + had->value.size());
  --rec->xattr_count;
  txn.Delete(Family::kXattrs, key);
  return true;
}

Result<void> DropCapability(Txn& txn, InodeRecord* rec) {
  if (rec->xattr_count > 0 && !rec->is_dir()) RETURN_IF_ERROR(DropXattr(txn, rec, kCapabilityXattr));
  return Ok();
}

Result<void> PutInode(Txn& txn, const OpCtx& ctx, InodeRecord* rec, bool data) {
  if (data) RETURN_IF_ERROR(DropCapability(txn, rec));
  ASSIGN_OR_RETURN(rec->attr.version, txn.Stamp());
  if (data) {
    rec->attr.data_version = rec->attr.version;
    if (!rec->is_dir()) ctx.touched->data.insert(rec->attr.ino);
  }
  ctx.touched->attrs.insert(rec->attr.ino);
  txn.Write(InodeKey(rec->attr.ino), *rec);
  return Ok();
}

Result<void> PutChangedDir(Txn& txn, const OpCtx& ctx, InodeRecord* dir) {
  dir->attr.mtime_ns = ctx.now_ns;
  dir->attr.ctime_ns = ctx.now_ns;
  return PutInode(txn, ctx, dir, true);
}

Result<std::optional<DentryRecord>> FindDentry(Txn& txn, InodeId parent, std::string_view name) {
  return txn.Read<DentryRecord>(DentryKey(parent, name));
}

Result<void> AddDentry(Txn& txn, const OpCtx& ctx, InodeRecord* dir, std::string_view name, InodeId ino,
                       FileType type) {
  const InodeId parent = dir->attr.ino;
  ASSIGN_OR_RETURN(auto same_hash,
                   txn.ScanPrefix(Family::kDentries, DentryHashKey(parent, NameHash(name)), kMaxSlots));
  std::array<bool, kMaxSlots + 1> taken{};
  for (const KvEntry& e : same_hash) {
    ASSIGN_OR_RETURN(DentryRecord other, DentryRecord::Decode(e.first, e.second));
    taken[other.slot] = true;
  }
  DentryRecord rec{ino, type, 1};
  while (taken[rec.slot]) {
    if (rec.slot == kMaxSlots) {
      return Error(FsError::kNoSpace, "too many names in the directory have the same hash; choose another");
    }
    ++rec.slot;
  }
  txn.Write(DentryKey(parent, name), rec);
  txn.Write(ParentKey(ino, parent, name), ParentRecord());
  ++dir->attr.size;
  ctx.touched->entries.emplace(parent, name);
  return Ok();
}

void ReplaceDentry(Txn& txn, const OpCtx& ctx, InodeId dir, std::string_view name, const DentryRecord& old,
                   InodeId ino, FileType type) {
  txn.Delete(Family::kParents, ParentKey(old.ino, dir, name));
  txn.Write(DentryKey(dir, name), DentryRecord{ino, type, old.slot});
  txn.Write(ParentKey(ino, dir, name), ParentRecord());
  ctx.touched->entries.emplace(dir, name);
}

void RemoveDentry(Txn& txn, const OpCtx& ctx, InodeRecord* dir, std::string_view name, InodeId ino) {
  const InodeId parent = dir->attr.ino;
  txn.Delete(Family::kDentries, DentryKey(parent, name));
  txn.Delete(Family::kParents, ParentKey(ino, parent, name));
  if (dir->attr.size > 0) --dir->attr.size;
  ctx.touched->entries.emplace(parent, name);
}

Result<void> DropLink(Txn& txn, const OpCtx& ctx, InodeRecord* rec) {
  rec->attr.nlink = rec->is_dir() ? 0 : rec->attr.nlink - 1;
  rec->attr.ctime_ns = ctx.now_ns;
  if (rec->attr.nlink > 0) return PutInode(txn, ctx, rec);
  const InodeId ino = rec->attr.ino;
  ctx.touched->nameless.insert(ino);
  if (ctx.IsInUse(ino)) {
    ctx.touched->orphaned.insert(ino);
    txn.Write(InodeKey(ino), OrphanRecord());
    return PutInode(txn, ctx, rec);
  }
  ctx.touched->attrs.insert(ino);
  ASSIGN_OR_RETURN(rec->attr.version, txn.Stamp());
  return FreeInode(txn, rec, ctx.touched);
}

namespace {

Result<void> FreeXattrs(Txn& txn, InodeId ino) {
  ASSIGN_OR_RETURN(auto names, txn.ScanPrefix(Family::kXattrs, InodeKey(ino), kMaxXattrsPerInode));
  for (KvEntry& e : names) txn.Delete(Family::kXattrs, std::move(e.first));
  return Ok();
}

}  // namespace

Result<void> FreeInode(Txn& txn, InodeRecord* rec, Touched* touched, uint64_t from) {
  const InodeId ino = rec->attr.ino;
  uint64_t done_to = kMaxFileBytes;
  if (rec->extent_count > 0) {
    ASSIGN_OR_RETURN(done_to, DropRange(txn, rec, from, kMaxFileBytes, touched));
  }
  const size_t xattr_key_bytes = rec->xattr_bytes + size_t{rec->xattr_count} * 8;
  if (done_to < kMaxFileBytes || !txn.Fits(rec->xattr_count + 8, xattr_key_bytes + 4 * kKiB)) {
    rec->masks = {{std::min(done_to, kMaxFileBytes - 1), kMaxFileBytes}};
    txn.Write(InodeKey(ino), *rec);
    txn.Write(InodeKey(ino), IntentRecord());
    touched->trim.insert(ino);
    return Ok();
  }
  if (rec->xattr_count > 0) RETURN_IF_ERROR(FreeXattrs(txn, ino));
  txn.Delete(Family::kInodes, InodeKey(ino));
  if (!rec->masks.empty()) txn.Delete(Family::kIntents, InodeKey(ino));
  txn.AddCount(rec->is_dir() ? Counter::kDirectories : Counter::kFiles, -1);
  return Ok();
}

Result<void> SetSize(Txn& txn, InodeRecord* rec, uint64_t size, Touched* touched) {
  if (size > kMaxFileBytes) return Error(FsError::kFBig);
  const uint64_t former = rec->attr.size;
  rec->attr.size = size;
  if (size >= former || rec->extent_count == 0) return Ok();
  const bool had_masks = !rec->masks.empty();
  // Beyond the size there are only masked extents; a store would pass the ones that were cut off before one by one.
  const uint64_t end = had_masks ? kMaxFileBytes : former;
  ASSIGN_OR_RETURN(const uint64_t done_to, DropRange(txn, rec, size, end, touched));
  rec->masks = SubtractMask(rec->masks, {size, kMaxFileBytes});
  if (done_to < end) rec->masks.push_back({done_to, kMaxFileBytes});
  if (rec->masks.size() > kMaxMasks) {
    touched->trim.insert(rec->attr.ino);
    return Error(FsError::kRetryLater, "the file is being trimmed; try again");
  }
  if (had_masks || !rec->masks.empty()) SetIntent(txn, *rec, touched);
  return Ok();
}

}  // namespace stria
