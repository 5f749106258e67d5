// Shared by the operations on names: reading and writing inodes and directory entries with all the
// records that belong to them. Internal to meta/ops.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "meta/ops/access.h"
#include "meta/ops/acl.h"
#include "meta/ops/ops.h"

namespace stria {

// kStale if there is none, or it is dead and was not in use when it died.
Result<InodeRecord> GetInode(Txn& txn, InodeId ino);
// kNotDir too.
Result<InodeRecord> GetDir(Txn& txn, InodeId ino);
// A directory in which names may be looked up: kAccess without execute permission.
Result<InodeRecord> GetSearchableDir(Txn& txn, const OpCtx& ctx, InodeId ino);

// For things that have no permissions of their own (the target of a symlink, attributes that every user may read): a caller
// with a path to the inode can search its directory. So these are told to a caller who could have come that way, who owns the
// inode, or who may do anything with it. kAccess to every other caller, who has only its number.
Error MayKnow(Txn& txn, const OpCtx& ctx, const InodeRecord& rec);

// The caller must write the record. False: it has no such attribute.
Result<bool> DropXattr(Txn& txn, InodeRecord* rec, std::string_view name);
// File capabilities go when the file's bytes or owners change, for every caller (capabilities(7)).
inline constexpr std::string_view kCapabilityXattr = "security.capability";
Result<void> DropCapability(Txn& txn, InodeRecord* rec);

// Gives the record a new version (data: and a new data_version, and capabilities go), notes it, writes it.
Result<void> PutInode(Txn& txn, const OpCtx& ctx, InodeRecord* rec, bool data = false);
// For changes of a directory's entries: times, then PutInode.
Result<void> PutChangedDir(Txn& txn, const OpCtx& ctx, InodeRecord* dir);

Result<std::optional<DentryRecord>> FindDentry(Txn& txn, InodeId parent, std::string_view name);
// A new entry: the dentry and its parents record, entry count of `dir` (which the caller writes).
// kNoSpace if too many names of the directory have the same hash.
Result<void> AddDentry(Txn& txn, const OpCtx& ctx, InodeRecord* dir, std::string_view name, InodeId ino,
                       FileType type);
// An entry now names another inode; its cookie stays.
void ReplaceDentry(Txn& txn, const OpCtx& ctx, InodeId dir, std::string_view name, const DentryRecord& old,
                   InodeId ino, FileType type);
void RemoveDentry(Txn& txn, const OpCtx& ctx, InodeRecord* dir, std::string_view name, InodeId ino);

// One name of the inode is gone (a directory: its only one). Orphans or frees it if it was the last.
Result<void> DropLink(Txn& txn, const OpCtx& ctx, InodeRecord* rec);

// ---- Access control lists (acl_ops.cc)
// The list behind the extended attribute of this name: kAccessAcl, kDefaultAcl, 0 none.
uint8_t AclOf(std::string_view xattr);
Result<std::optional<Acl>> GetAcl(Txn& txn, const InodeRecord& rec, uint8_t which);
// The access list for MayAccess and its like: "" if there is none; one that allows nothing if it cannot be read.
std::string AclIn(Txn& txn, const InodeRecord& rec);
// Sets or removes a list and its counts; the caller writes the record.
Result<void> PutAcl(Txn& txn, InodeRecord* rec, uint8_t which, const std::optional<Acl>& acl);
// Extended attributes that are lists. No value: no list.
Result<XattrReply> OpGetAcl(Txn& txn, const OpCtx& ctx, const XattrRequest& r);
Result<XattrReply> OpSetAcl(Txn& txn, const OpCtx& ctx, const XattrRequest& r);
// Mode and lists of a new inode: `mode` as asked for, minus the umask; but if `dir` has a default list, that is inherited and
// the umask does not count.
Result<void> Inherit(Txn& txn, const InodeRecord& dir, uint32_t umask, InodeRecord* rec);

// Frees a dead inode with its records. If that is too much for this transaction, the rest is left masked to TrimStep, which
// calls it again: all extents below `from` are gone already.
Result<void> FreeInode(Txn& txn, InodeRecord* rec, Touched* touched, uint64_t from = 0);

// Sets the size, dropping or masking extents beyond it. The caller writes the record.
Result<void> SetSize(Txn& txn, InodeRecord* rec, uint64_t size, Touched* touched);

}  // namespace stria
