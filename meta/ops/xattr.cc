#include "meta/ops/nodes.h"

namespace stria {
namespace {

bool StartsWith(const std::string& s, std::string_view prefix) { return s.rfind(prefix, 0) == 0; }

// The name's namespace is kept here. As Linux: too long or empty is ERANGE.
Error CheckXattrName(const std::string& name) {
  if (name.empty() || name.size() > kMaxXattrNameBytes || name.find('\0') != name.npos) {
    return Error(FsError::kRange, "the name of an extended attribute has 1 to 255 bytes");
  }
  for (std::string_view space : {"user.", "trusted.", "security."}) {
    if (!StartsWith(name, space)) continue;
    if (name.size() == space.size()) return Error(FsError::kInval, "the attribute has no name");
    return Error();
  }
  return Error(FsError::kNotSupported, "extended attributes are of user.*, trusted.* or security.*");
}

Error CheckRights(Txn& txn, const OpCtx& ctx, const InodeRecord& rec, const std::string& name, bool write) {
  const Attr& attr = rec.attr;
  if (StartsWith(name, "trusted.")) {
    if (ctx.IsRoot()) return Error();
    return Error(write ? FsError::kPerm : FsError::kNoData);
  }
  if (StartsWith(name, "security.")) {
    if (write && !ctx.IsRoot()) return Error(FsError::kPerm);
    return write ? Error() : MayKnow(txn, ctx, rec);
  }
  if (attr.type != FileType::kFile && attr.type != FileType::kDirectory) {
    return Error(write ? FsError::kPerm : FsError::kNoData);
  }
  if (write && attr.type == FileType::kDirectory && (attr.mode & kModeSticky) != 0 && !IsOwner(ctx, attr)) {
    return Error(FsError::kPerm);
  }
  if (!MayAccess(ctx, attr, write ? kMayWrite : kMayRead, AclIn(txn, rec))) return Error(FsError::kAccess);
  if (write && StartsWith(name, "user.stria.")) {
    return Error(FsError::kPerm, "attributes user.stria.* are read-only");
  }
  return Error();
}

Result<InodeRecord> CheckedInode(Txn& txn, const OpCtx& ctx, const XattrRequest& r, bool write) {
  if (Error e = CheckXattrName(r.name); !e.ok()) return e;
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, r.ino));
  if (Error e = CheckRights(txn, ctx, rec, r.name, write); !e.ok()) return e;
  return rec;
}

}  // namespace

Result<XattrReply> OpGetXattr(Txn& txn, const OpCtx& ctx, const XattrRequest& r) {
  if (AclOf(r.name)) return OpGetAcl(txn, ctx, r);
  RETURN_IF_ERROR(CheckedInode(txn, ctx, r, false));
  ASSIGN_OR_RETURN(std::optional<XattrRecord> x, txn.Read<XattrRecord>(XattrKey(r.ino, r.name)));
  if (!x) return Error(FsError::kNoData);
  XattrReply reply;
  reply.value = std::move(x->value);
  return reply;
}

Result<XattrReply> OpListXattr(Txn& txn, const OpCtx& ctx, const XattrRequest& r) {
  ASSIGN_OR_RETURN(const InodeRecord rec, GetInode(txn, r.ino));
  if (Error e = MayKnow(txn, ctx, rec); !e.ok()) return e;
  ASSIGN_OR_RETURN(auto rows, txn.ScanPrefix(Family::kXattrs, InodeKey(r.ino), kMaxXattrsPerInode));
  XattrReply reply;
  for (const KvEntry& row : rows) {
    InodeId ino;
    std::string name;
    if (!ParseXattrKey(row.first, &ino, &name)) {
      return CorruptRecord(Family::kXattrs, row.first, "its key does not decode");
    }
    if (StartsWith(name, "trusted.") && !ctx.IsRoot()) continue;
    reply.names.push_back(std::move(name));
  }
  return reply;
}

Result<XattrReply> OpSetXattr(Txn& txn, const OpCtx& ctx, const XattrRequest& r) {
  if (r.value.size() > kMaxXattrValueBytes) {
    return Error(FsError::kTooBig, "an extended attribute has at most 64 KiB");
  }
  if (AclOf(r.name)) return OpSetAcl(txn, ctx, r);
  ASSIGN_OR_RETURN(InodeRecord rec, CheckedInode(txn, ctx, r, true));
  const std::string key = XattrKey(r.ino, r.name);
  ASSIGN_OR_RETURN(std::optional<XattrRecord> old, txn.Read<XattrRecord>(key));
  if (old && r.create) return Error(FsError::kExist);
  if (!old && r.replace) return Error(FsError::kNoData);
  const size_t old_bytes = old ? r.name.size() + old->value.size() : 0;
  const size_t bytes = rec.xattr_bytes - old_bytes + r.name.size() + r.value.size();
  if (bytes > kMaxXattrsBytes || (!old && rec.xattr_count >= kMaxXattrsPerInode)) {
    return Error(FsError::kNoSpace,
                 "the extended attributes of a file have at most 128 KiB, and are at most 1024");
  }
  rec.xattr_bytes = static_cast<uint32_t>(bytes);
  if (!old) ++rec.xattr_count;
  rec.attr.ctime_ns = ctx.now_ns;
  txn.Write(key, XattrRecord{r.value});
  RETURN_IF_ERROR(PutInode(txn, ctx, &rec));
  XattrReply reply;
  reply.seq = txn.seq();
  return reply;
}

Result<XattrReply> OpRemoveXattr(Txn& txn, const OpCtx& ctx, const XattrRequest& r) {
  if (AclOf(r.name)) {
    XattrRequest none = r;
    none.value.clear();
    return OpSetAcl(txn, ctx, none);
  }
  InodeRecord rec;
  if (r.name == kCapabilityXattr) {
    // The kernel removes it for the caller who changes the file.
    ASSIGN_OR_RETURN(rec, GetInode(txn, r.ino));
    const bool changes = IsOwner(ctx, rec.attr) || MayAccess(ctx, rec.attr, kMayWrite, AclIn(txn, rec)) ||
                         (ctx.open && ctx.HasOpen(r.ino, true));
    if (!changes) return Error(FsError::kPerm);
  } else {
    ASSIGN_OR_RETURN(rec, CheckedInode(txn, ctx, r, true));
  }
  ASSIGN_OR_RETURN(const bool had, DropXattr(txn, &rec, r.name));
  if (!had) return Error(FsError::kNoData);
  rec.attr.ctime_ns = ctx.now_ns;
  RETURN_IF_ERROR(PutInode(txn, ctx, &rec));
  XattrReply reply;
  reply.seq = txn.seq();
  return reply;
}

}  // namespace stria
