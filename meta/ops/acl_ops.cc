// Access control lists of inodes: kept as extended attributes, with a bit in the attributes that says that there
// is one. A list that says no more than the mode is not kept.
#include "meta/ops/nodes.h"

namespace stria {
namespace {

std::string NameOf(uint8_t which) { return std::string(which == kAccessAcl ? kAccessAclXattr : kDefaultAclXattr); }

}  // namespace

uint8_t AclOf(std::string_view xattr) {
  return xattr == kAccessAclXattr ? kAccessAcl : xattr == kDefaultAclXattr ? kDefaultAcl : 0;
}

Result<std::optional<Acl>> GetAcl(Txn& txn, const InodeRecord& rec, uint8_t which) {
  if ((rec.attr.acls & which) == 0) return std::optional<Acl>();
  ASSIGN_OR_RETURN(const auto row, txn.Read<XattrRecord>(XattrKey(rec.attr.ino, NameOf(which))));
  if (!row) return std::optional<Acl>();
  return Acl::Parse(row->value);
}

std::string AclIn(Txn& txn, const InodeRecord& rec) {
  if ((rec.attr.acls & kAccessAcl) == 0) return "";
  const auto row = txn.Read<XattrRecord>(XattrKey(rec.attr.ino, NameOf(kAccessAcl)));
  return row.ok() && *row ? (*row)->value : "unreadable";
}

Result<void> PutAcl(Txn& txn, InodeRecord* rec, uint8_t which, const std::optional<Acl>& acl) {
  const std::string name = NameOf(which);
  const std::string key = XattrKey(rec->attr.ino, name);
  ASSIGN_OR_RETURN(const auto old, txn.Read<XattrRecord>(key));
  const std::string value = acl ? acl->Encode() : "";
  const size_t had = old ? name.size() + old->value.size() : 0;
  const size_t has = acl ? name.size() + value.size() : 0;
  if (rec->xattr_bytes - had + has > kMaxXattrsBytes) {
    return Error(FsError::kNoSpace, "the extended attributes of a file have at most 128 KiB");
  }
  rec->xattr_bytes = static_cast<uint32_t>(rec->xattr_bytes - had + has);
  rec->xattr_count = rec->xattr_count + (acl ? 1 : 0) - (old ? 1 : 0);
  rec->attr.acls = static_cast<uint8_t>(acl ? rec->attr.acls | which : rec->attr.acls & ~which);
  if (acl) txn.Write(key, XattrRecord{value});
  else if (old) txn.Delete(Family::kXattrs, key);
  return Ok();
}

Result<XattrReply> OpGetAcl(Txn& txn, const OpCtx& ctx, const XattrRequest& r) {
  ASSIGN_OR_RETURN(const InodeRecord rec, GetInode(txn, r.ino));
  if (rec.attr.type == FileType::kSymlink) return Error(FsError::kNotSupported);
  if (Error e = MayKnow(txn, ctx, rec); !e.ok()) return e;
  ASSIGN_OR_RETURN(const std::optional<Acl> acl, GetAcl(txn, rec, AclOf(r.name)));
  if (!acl) return Error(FsError::kNoData);
  XattrReply reply;
  reply.value = acl->Encode();
  return reply;
}

Result<XattrReply> OpSetAcl(Txn& txn, const OpCtx& ctx, const XattrRequest& r) {
  const uint8_t which = AclOf(r.name);
  ASSIGN_OR_RETURN(std::optional<Acl> acl, Acl::Parse(r.value));
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, r.ino));
  if (rec.attr.type == FileType::kSymlink) return Error(FsError::kNotSupported, "symlinks have no access control");
  if (which == kDefaultAcl && !rec.is_dir() && acl) {
    return Error(FsError::kAccess, "only directories have default access control lists");
  }
  if (!IsOwner(ctx, rec.attr)) return Error(FsError::kPerm);
  if (which == kAccessAcl && acl) {
    rec.attr.mode = (rec.attr.mode & ~0777U) | acl->Mode();
    if (!ctx.IsRoot() && !ctx.InGroup(rec.attr.gid)) rec.attr.mode &= ~kModeSgid;
    if (acl->IsMinimal()) acl.reset();
  }
  RETURN_IF_ERROR(PutAcl(txn, &rec, which, acl));
  rec.attr.ctime_ns = ctx.now_ns;
  RETURN_IF_ERROR(PutInode(txn, ctx, &rec));
  XattrReply reply;
  reply.seq = txn.seq();
  return reply;
}

Result<void> Inherit(Txn& txn, const InodeRecord& dir, uint32_t umask, InodeRecord* rec) {
  if (rec->attr.type == FileType::kSymlink) return Ok();
  ASSIGN_OR_RETURN(const std::optional<Acl> inherited, GetAcl(txn, dir, kDefaultAcl));
  if (!inherited) {
    rec->attr.mode &= ~(umask & 0777);
    return Ok();
  }
  Acl access = *inherited;
  rec->attr.mode = access.Restrict(rec->attr.mode);
  if (!access.IsMinimal()) RETURN_IF_ERROR(PutAcl(txn, rec, kAccessAcl, access));
  if (rec->is_dir()) RETURN_IF_ERROR(PutAcl(txn, rec, kDefaultAcl, inherited));
  return Ok();
}

}  // namespace stria
