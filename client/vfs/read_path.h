// Room: the read path, from what a range has at one moment to its bytes. Newest bytes win: dirty pieces over extents;
// extents lead to stripes; stripes are read through blocks when the reader is sequential, else just the asked range.
//
// Owns: what each open file is read like, and how far is fetched ahead of it (FileReader, a part of the handle).
//
// Invariants:
//  - the pieces of a range are taken at one moment, without an await: stripes never change, so their bytes may be fetched later;
//  - nothing is fetched ahead of who does not read from front to back, nor behind the end of the file; nor, for a reader of
//    what lies on this node, what does not.
// Which moment that is Reads knows (MapRead): it looks at the lease.
//
// Called by: Reads. Calls: Mappings and StripeBlocks, which know nothing of it; no other room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "client/cache/dirty_buffer.h"
#include "client/cache/extent_cache.h"
#include "client/io/peers.h"
#include "client/vfs/file_reader.h"
#include "client/vfs/mappings.h"
#include "client/vfs/stripe_blocks.h"
#include "common/buffer.h"
#include "common/exec/task.h"
#include "locality/read_tally.h"

namespace stria {

// What a range has at one moment, uncopied as far as possible.
struct ReadParts {
  bool patient = true;  // with data servers that may be back soon
  std::vector<BufferChain> pieces;               // in order
  std::vector<Task<Result<BufferChain>>> parts;  // still to be fetched
  std::vector<size_t> read_into;                 // of pieces, for each of parts
};

class ReadPath {
 public:
  // All of them outlive it; `scope` is cancelled before it goes. `most_ahead`: bytes fetched ahead of one reader.
  ReadPath(uint64_t most_ahead, Mappings& mappings, StripeBlocks& blocks, const DataPeers& peers, TaskScope& scope)
      : most_ahead_(most_ahead), mappings_(mappings), blocks_(blocks), peers_(peers), scope_(scope) {}
  ReadPath(const ReadPath&) = delete;
  ReadPath& operator=(const ReadPath&) = delete;

  // An error that says that the mapping, or its tokens, may be of before.
  static bool MappingIsOld(FsError e) { return e == FsError::kNoSuchShard || e == FsError::kTokenExpired; }

  // [offset, end): dirty bytes over the mapping. False if that does not cover what they do not. `sequential`: NextRead.
  Result<bool> Add(const std::vector<DirtyPiece>& dirty, const ExtentCache& extents, uint64_t offset, uint64_t end,
                   bool sequential, const Tallies& tally, ReadParts* out);
  // That the mapping is old it says only if nothing else went wrong.
  static Task<Result<BufferChain>> Fetch(ReadParts parts);

  // The reader wants this next, of a file of `size` bytes: whether it goes through blocks, as it reads from front to back.
  // Begins what is to be fetched ahead of it, if the mapping may be kept (`caches`).
  bool NextRead(FileReader* reader, const InodeMappingPtr& mapping, const Tallies& tally, uint64_t offset,
                uint64_t length, uint64_t size, bool caches);

  // The shard on a disk of this node that is as long as the file, `size` bytes, and begins with its first `known` bytes,
  // which are mapped. Its disk is fit to be read.
  std::optional<ShardRead> LocalShard(const ExtentCache& extents, uint64_t size, uint64_t known) const;

 private:
  static uint64_t RunBehind(const ExtentCache& extents, const Segment& s);
  bool LiesHere(const ExtentCache& extents, uint64_t offset) const;
  Task<void> Prefetch(InodeMappingPtr mapping, Tallies tally, uint64_t offset, uint64_t length);

  const uint64_t most_ahead_;
  Mappings& mappings_;
  StripeBlocks& blocks_;
  const DataPeers& peers_;
  TaskScope& scope_;
};

}  // namespace stria
