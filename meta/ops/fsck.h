// The consistency check of a metadata store: every record against every other it should agree with.
// Used by `stria fsck`, by the simulator and after each random test.
//
//   dentries <-> parents <-> inodes (types, link counts, one tree)      xattrs, orphans, intents -> inodes
//   inodes (sizes, counts) <-> extents <-> stripe_refs, ref_bytes <-> stripes <-> target_stripes
//   session_stripes <-> allocated stripes       garbage: in no stripe       ids below their allocators
//
// Reads all of the store once, with point reads besides; memory is some 200 bytes per inode and stripe.
// The store must not change meanwhile: run it on the metadata's executor thread or on a checkpoint.
#pragma once

#include "api/meta_api.h"
#include "common/error.h"
#include "common/kv/kv.h"

namespace stria {

inline constexpr size_t kMaxFsckProblems = 1000;

// Problems are sentences; none is clean. Errors: the store cannot be read at all.
Result<FsckReply> CheckStore(KvStore& kv);

}  // namespace stria
