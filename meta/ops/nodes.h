// Shared by the operations on names: reading and writing inodes and directory entries with all the
// records that belong to them. Internal to meta/ops.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "meta/ops/access.h"
#include "meta/ops/ops.h"

namespace stria {

// kStale if there is none, or it is dead and nobody has it open.
Result<InodeRecord> GetInode(Txn& txn, InodeId ino);
// kNotDir too.
Result<InodeRecord> GetDir(Txn& txn, InodeId ino);
// A directory in which names may be looked up: kAccess without execute permission.
Result<InodeRecord> GetSearchableDir(Txn& txn, const OpCtx& ctx, InodeId ino);

// Gives the record a new version (data: and a new data_version), notes it, writes it.
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

// Frees a dead inode with all it has; what is too much for this transaction is left masked to TrimStep.
Result<void> FreeInode(Txn& txn, InodeRecord* rec, Touched* touched);

// Sets the size, dropping or masking what is beyond it. The caller writes the record.
Result<void> SetSize(Txn& txn, InodeRecord* rec, uint64_t size, Touched* touched);

}  // namespace stria
