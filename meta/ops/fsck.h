// The consistency check of a metadata store: every record against every other it should agree with.
// Used by `stria fsck`, by the simulator and after each random test.
//
//   dentries <-> parents <-> inodes (types, link counts, one tree)      xattrs, orphans, intents -> inodes
//   inodes (sizes, counts) <-> extents <-> stripe_refs, ref_bytes <-> stripes <-> target_stripes
//   session_stripes <-> allocated stripes       garbage: in no stripe       ids below their allocators
//
// Reads all of the store once, with point reads besides; memory is some 200 bytes per inode and stripe.
// The store must not change meanwhile: run it on a snapshot (any thread) or a checkpoint, or on the metadata's executor thread.
#pragma once

#include <atomic>

#include "api/meta_api.h"
#include "common/error.h"
#include "common/kv/kv.h"
#include "meta/ops/op_ctx.h"
#include "meta/store/txn.h"

namespace stria {

inline constexpr size_t kMaxFsckProblems = 1000;
inline constexpr size_t kMaxFsckRepairs = 1000;  // of one call; the others are found by the next

// Problems are sentences; none is clean. Errors: the store cannot be read at all; kCancelled soon after `stop` is set (null: never).
Result<FsckReply> CheckStore(KvStore& kv, const std::atomic<bool>* stop = nullptr);

// Repairs only what is safe: it corrects records and counts that follow from other records, removes names of missing inodes,
// and makes unused shards garbage. It leaves facts that only one record has, and possible traces of lost data: where two
// records disagree on whether bytes are in use, they count as in use. Each repair is a transaction of its own (the store is as
// consistent as before after any number of them).
struct FsckRepairs {
  std::vector<std::string> done;      // a sentence each, in order; with dry_run: the repairs to do
  std::vector<std::string> problems;  // that are left; with dry_run: that are there
};
// Errors: those of CheckStore and Commit. `touched`: changes that the caller must announce.
Result<FsckRepairs> RepairStore(MetaStore& store, bool dry_run, Touched* touched);

}  // namespace stria
