// The operations of the metadata server, one per file of this folder. Conventions in op_ctx.h.
//
// Semantics are those of Linux on ext4: the order of checks too, as far as an application can see it.
// Errors that every operation may give: kStale (the inode is gone), kNotDir, kAccess, kNameTooLong,
// kInval (a name with '/' or NUL), kCorrupt, kIo. `reply.seq` is that of the transaction; 0 if nothing
// was changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/meta_api.h"
#include "common/error.h"
#include "meta/ops/op_ctx.h"
#include "meta/store/txn.h"

namespace stria {

inline constexpr size_t kMaxDirEntriesPerReply = 4096;
inline constexpr size_t kMaxDirReplyBytes = 1 * kMiB;
inline constexpr size_t kMaxExtentsPerReply = 4096;
inline constexpr size_t kMaxStripesPerReply = 1024;
inline constexpr size_t kMaxColumnsPerReply = 16384;  // of those stripes: each brings a token
inline constexpr size_t kMaxInlinePerReply = 2 * kMiB;
inline constexpr size_t kMaxInlinePerInode = 1 * kMiB;  // more: kTooBig, write stripes
inline constexpr size_t kMaxPathsPerReply = 1000;
inline constexpr size_t kMaxPathsBytes = 1 * kMiB;
inline constexpr size_t kMaxPathDepth = 4096;           // deeper ones are named by their tail
inline constexpr size_t kMaxDirDepth = 65536;           // for rename of directories: kLoop
inline constexpr size_t kMaxAllocateStripes = 16;
inline constexpr size_t kMaxAllocatedPerSession = 4096;  // stripes that it has neither committed nor given back
// One step of background work leaves the batch at most half full, so that it never blocks others long.
inline constexpr size_t kTrimRecords = kMaxBatchRecords / 2;
inline constexpr size_t kTrimBytes = kMaxBatchBytes / 2;

// ---- Store ----

struct FormatParams {
  Uuid cluster;
  Uuid store;
  Layout layout;  // of the root
  int64_t now_ns = 0;
};
// The superblock and the root directory (root, 0755). kExist on a store that has one.
Result<void> FormatStore(Txn& txn, const FormatParams& params);

// ---- Names ----

// "." and ".." too. kNoEnt.
Result<NodeReply> OpLookup(Txn& txn, const OpCtx& ctx, const NameRequest& r);
// mknod, mkdir, symlink, create. `open` of an existing file gives created=false. lease is not set.
Result<OpenReply> OpMakeNode(Txn& txn, const OpCtx& ctx, const MakeNodeRequest& r);
// The same of a file with this number, or kConflict. Nothing is done if that name is that inode already, and the caller has
// it open for writing, could open it so, or owns it; if he has not, kExist.
Result<OpenReply> OpMakeAhead(Txn& txn, const OpCtx& ctx, const MadeFile& file, InodeId ino);
Result<NodeReply> OpUnlink(Txn& txn, const OpCtx& ctx, const NameRequest& r);
Result<NodeReply> OpRmdir(Txn& txn, const OpCtx& ctx, const NameRequest& r);
// The attr of the reply is the moved inode's.
Result<NodeReply> OpRename(Txn& txn, const OpCtx& ctx, const RenameRequest& r);
Result<NodeReply> OpLink(Txn& txn, const OpCtx& ctx, const LinkRequest& r);
Result<ReadLinkReply> OpReadLink(Txn& txn, const OpCtx& ctx, const InodeRequest& r);
Result<ReadDirReply> OpReadDir(Txn& txn, const OpCtx& ctx, const ReadDirRequest& r);
// Some names of an inode, "/a/b": those that the caller could find by listing directories, from the root of his export if he is confined
// to one. They begin at the root of all nevertheless: whoever shows them to him leaves out what is above (meta/exports/confined_meta.h).
struct PathsPage {
  std::vector<std::string> paths;
  uint64_t hidden = 0;  // names besides, of this page, that the caller may not see
  std::string next;     // what to ask on with; "" if these were the last
};
// The names after `after`, a page's `next`; "" for the first ones. At most `limit`, and kMaxPathsBytes. kBadRequest: `after` is
// of another inode.
Result<PathsPage> OpPaths(Txn& txn, const OpCtx& ctx, InodeId ino, std::string_view after = {}, size_t limit = kMaxPathsPerReply);
// Whether the way up from a directory leads to `root`, or begins there. nullopt: there is no such directory, or it was removed, and so
// leads nowhere. kLoop: it is nested too deeply.
Result<std::optional<bool>> OpLiesBelow(Txn& txn, InodeId dir, InodeId root);

// ---- Attributes ----

Result<NodeReply> OpGetAttr(Txn& txn, const OpCtx& ctx, const InodeRequest& r);
Result<NodeReply> OpSetAttr(Txn& txn, const OpCtx& ctx, const SetAttrRequest& r);
// Checks access; truncates if asked. lease is not set. Marking it open is the session layer's.
Result<OpenReply> OpOpen(Txn& txn, const OpCtx& ctx, const OpenRequest& r);
// Whether the caller has the inode open, or could open it for reading or writing: kAccess if not. For locks.
Result<void> OpMayUse(Txn& txn, const OpCtx& ctx, InodeId ino);
Result<XattrReply> OpGetXattr(Txn& txn, const OpCtx& ctx, const XattrRequest& r);
Result<XattrReply> OpListXattr(Txn& txn, const OpCtx& ctx, const XattrRequest& r);
Result<XattrReply> OpSetXattr(Txn& txn, const OpCtx& ctx, const XattrRequest& r);
Result<XattrReply> OpRemoveXattr(Txn& txn, const OpCtx& ctx, const XattrRequest& r);
// Raw bytes of the targets in use; the reply is in bytes of files with the layout of `dir`, or the root's if that is no directory.
Result<StatFsReply> OpStatFs(Txn& txn, InodeId dir, uint64_t raw_total_bytes, uint64_t raw_free_bytes);
// Set (owner or root): only on directories and empty files.
Result<LayoutReply> OpGetLayout(Txn& txn, const OpCtx& ctx, const LayoutRequest& r);
Result<LayoutReply> OpSetLayout(Txn& txn, const OpCtx& ctx, const LayoutRequest& r);

// ---- Data ----

// Masked ranges are holes. Grants have `info` and as many empty tokens as columns.
Result<GetExtentsReply> OpGetExtents(Txn& txn, const OpCtx& ctx, const GetExtentsRequest& r);
// The layout to allocate with: of a file that the caller may write.
Result<Layout> OpAllocateLayout(Txn& txn, const OpCtx& ctx, InodeId ino);
// Where the columns of a new stripe go: the decision of placement.
struct NewStripe {
  StripeShape shape;              // payload_bytes == 0
  std::vector<TargetId> targets;  // shape.columns() of them
  bool narrow = false;
  bool crowded = false;
};
// Whether the session may have `more` stripes allocated, besides those that it has.
Result<bool> MayAllocate(Txn& txn, SessionId session, size_t more);
// Gives ids and records the stripes as allocated to ctx.session; uncommitted ones are collected when the session ends
// (OpCollectSession). At most kMaxAllocateStripes.
Result<std::vector<StripeInfo>> OpAllocate(Txn& txn, const OpCtx& ctx, InodeId ino, const Layout& layout,
                                           const std::vector<NewStripe>& stripes);
// Punches, then swaps in the extents, then grows. Stripes must be allocated to ctx.session and sealed: shape and columns as
// allocated, lengths by the shape. Extents may also show, elsewhere in the file, parts of other stripes that the file maps now;
// kBadRequest for other parts, which may be another file's bytes. kTooBig: split it, in write order. kConflict: a stripe is not
// (any more) in the state that the caller believes; write the bytes again. kRetryLater: trim first (touched.trim).
Result<CommitReply> OpCommit(Txn& txn, const OpCtx& ctx, const CommitRequest& r);
// kInval: the ranges overlap. kNotSupported: the files have different layouts. kTooBig: the target cannot
// take the source's inline bytes. Copy the bytes in both cases. kFBig. kRetryLater: as for OpCommit.
Result<CloneReply> OpClone(Txn& txn, const OpCtx& ctx, const CloneRequest& r);

// ---- Work that remains (by the server itself, no caller) ----

// Removes a bounded part of the masked extents; frees the inode when it is dead and empty. True: more to do, in another
// transaction.
Result<bool> TrimStep(Txn& txn, InodeId ino, Touched* touched);
// Inodes with work for TrimStep, after `after`.
Result<std::vector<InodeId>> ListTrims(Txn& txn, InodeId after, size_t limit);
// An unlinked inode that no session has open any more: frees it (or leaves the rest to TrimStep).
Result<void> OpReapOrphan(Txn& txn, InodeId ino, int64_t now_ns, Touched* touched);
Result<std::vector<InodeId>> ListOrphans(Txn& txn, InodeId after, size_t limit);
// Frees stripes allocated to a session that is no more, a bounded number. True: more to do.
Result<bool> OpCollectSession(Txn& txn, SessionId session, Touched* touched);

// ---- Stripes ----

Result<std::optional<StripeRecord>> GetStripeRecord(Txn& txn, StripeId stripe);
// Frees an allocated stripe: its shards become garbage. kConflict if it is live.
Result<void> OpFreeStripe(Txn& txn, StripeId stripe, Touched* touched);
// Forgets an allocated stripe with its shards, which are unknown from then on. Only for a restored store: the shards may hold
// bytes that were written after the archived moment. kConflict if it is live.
Result<void> OpForgetStripe(Txn& txn, StripeId stripe);
// A new shard for `column` of a live stripe, to be made on `target`: known (CheckShards), not used yet.
Result<ShardId> OpReserveShard(Txn& txn, StripeId stripe, uint16_t column, TargetId target);
// The rebuild did not happen: the reserved shard becomes garbage. Nothing if it is not reserved.
Result<void> OpDropReservedShard(Txn& txn, TargetId target, ShardId shard);
// The column's shard is replaced; the old one becomes garbage. kConflict if the column is not
// `old_shard` any more or the length differs (the new shard is then still reserved), kNoEnt if the
// stripe is gone. `crowded` is the stripe's new flag. The digest is a new one (checksums are seeded with
// the ShardId): the node that made the shard has checked its bytes against the old one.
Result<void> OpSwapColumn(Txn& txn, StripeId stripe, uint16_t column, ShardId old_shard,
                          const Column& new_column, bool crowded);
// New shards for columns of `wide` that have none (lengths and targets are set): a live stripe is to be laid out over them, or
// a fold gets them. Known, not used yet, as after OpReserveShard.
Result<void> OpReserveStripe(Txn& txn, StripeInfo* wide);
// The stripe becomes `wide`, which holds the same payload and may be narrow, too. Its former shards stay reserved: its readers
// are told first, then the shards are dropped. Returns the stripe as it was. kConflict if it is not narrow any more (the new
// shards are then still reserved), kNoEnt if it is gone.
Result<StripeInfo> OpWidenStripe(Txn& txn, const StripeInfo& wide);
// The stripe uses as many columns as its layout would for so few bytes. Nothing if it is not live, or not narrow.
Result<void> OpSetWide(Txn& txn, StripeId stripe);
// Sets the flag of a live stripe whose disks were carried elsewhere. Does nothing if it is not live, or has the flag.
Result<void> OpSetCrowded(Txn& txn, StripeId stripe, bool crowded);
// Files that use the stripe: (inode, file offset) of at most `limit` extents.
struct StripeUse {
  InodeId ino;
  uint64_t file_offset = 0;
};
// Those after one of them, if there is one, in order of inodes and offsets.
Result<std::vector<StripeUse>> ListStripeUses(Txn& txn, StripeId stripe, size_t limit, const StripeUse* after = nullptr);
// The bytes that files use of each data column of a live stripe.
struct StripeUsage {
  std::vector<uint64_t> column_bytes;  // per data column, bytes of extents; more than its length if files share it
  std::vector<InodeId> files;          // that use it, in order
  uint32_t refs = 0;                   // extents
  uint64_t stamp = 0;                  // another one when bytes of one of the files have changed (or more of them use it)
};
// kTooBig if more than `limit` extents use it.
Result<StripeUsage> ReadStripeUsage(Txn& txn, const StripeInfo& info, size_t limit);
// Columns of several stripes that are to be put together (docs/folding.md).
struct FoldMember {
  StripeId stripe;
  uint16_t column = 0;  // a data column, that files use
  bool operator==(const FoldMember&) const = default;
};
struct FoldPlan {
  StripeInfo fold;  // gathered, one group; data column i is that of members[i], with its shard; parity is reserved
  Layout layout;    // of the fold's record
  std::vector<FoldMember> members;
  bool operator==(const FoldPlan&) const = default;
};
// The fold becomes a live stripe. Files use it where they used its members, at the same bytes of the same shards; the members'
// stripes end. Their other shards are returned and stay reserved: readers are told first, then the shards are dropped
// (OpDropReservedShard). Files whose extents change are in touched.data. kConflict, and nothing is changed, if a member is not
// what it was when the fold was planned, if files use a column of its stripe that is not in the plan, or if the parity is not
// reserved. kTooBig: more than `max_refs` extents.
Result<std::vector<Column>> OpFold(Txn& txn, const FoldPlan& plan, size_t max_refs, Touched* touched);
// Shards of a target, by shard id after `after`: live, pending, or of stripes that are being filled.
struct TargetShard {
  ShardId shard;
  TargetStripeRecord record;
};
Result<std::vector<TargetShard>> ListTargetShards(Txn& txn, TargetId target, ShardId after, size_t limit);
// True if the shard is used, being written or waiting to be deleted there.
Result<bool> IsShardKnown(Txn& txn, TargetId target, ShardId shard);

// ---- Garbage ----

struct GarbageShard {
  ShardId shard;
  StripeId stripe;
  CommitSeq seq;
};
// Garbage that may be deleted: what every session has acknowledged. Shards of stripes that were never committed do not wait for
// that, unless they were allocated before the server started: then a commit may have been seen and lost.
struct GarbageUpTo {
  CommitSeq acked;
  CommitSeq durable;
  CommitSeq started = CommitSeq(UINT64_MAX);  // the last commit before this start of the server
};
// Looks at `limit` garbage shards of the target after `after`, gives those that may be deleted.
struct GarbagePage {
  std::vector<GarbageShard> shards;
  ShardId last;       // continue after this one
  bool end = false;
};
Result<GarbagePage> ListGarbage(Txn& txn, TargetId target, ShardId after, GarbageUpTo upto, size_t limit);
// The data server has deleted it (or the target is gone for good).
Result<void> OpGarbageDeleted(Txn& txn, TargetId target, ShardId shard);

}  // namespace stria
