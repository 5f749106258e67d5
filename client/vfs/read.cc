// Reading: newest bytes win. Dirty pieces over extents; extents lead to stripes; stripes are read
// through the block cache when the reader is sequential, else just the asked range.
#include <algorithm>
#include <string>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"
#include "stripe/layout.h"

namespace stria {
namespace {
constexpr uint64_t kBlock = BlockCache::kBlockBytes;
// One fetch of readahead: whole rows of a default stripe, few requests.
constexpr uint64_t kFetchBytes = 4 * kMiB;
constexpr uint64_t kFirstWindowBytes = 1 * kMiB;
// Mapping asked ahead of the reader, so that a scan does not ask for each piece.
constexpr uint64_t kMapAheadBytes = 256 * kMiB;
// A range is asked again when its shards are gone or its tokens are old, and when the mapping changed
// while it was being asked.
constexpr int kMaxReadAttempts = 8;

constexpr uint64_t kZeroBytes = 64 * kKiB;

// A hole's bytes; all of them are the same memory.
BufferChain Zeros(uint64_t length) {
  static const Buffer zeros = Buffer::FromString(std::string(kZeroBytes, '\0'));
  BufferChain out;
  for (; length > 0; length -= std::min(length, kZeroBytes)) out.Append(zeros.Slice(0, std::min(length, kZeroBytes)));
  return out;
}

bool MappingIsOld(FsError e) { return e == FsError::kNoSuchShard || e == FsError::kTokenExpired; }

}  // namespace

Task<Result<void>> Vfs::EnsureExtents(std::shared_ptr<VfsInode> inode, uint64_t offset, uint64_t length) {
  VfsInode& n = *inode;
  for (int attempt = 0; attempt < kMaxReadAttempts; ++attempt) {
    const bool may_cache = HoldsFor(n, false) && n.lease != LeaseMode::kShared;
    if (may_cache && n.extents.Covers(offset, length, Executor::Current().WallNs())) co_return Ok();
    const uint64_t epoch = n.extent_epoch;
    uint64_t at = offset;
    const uint64_t ahead = may_cache ? std::max(length, std::min(kMapAheadBytes, kMaxFileBytes - offset)) : length;
    const uint64_t need = RangeEnd(offset, length);
    const uint64_t end = RangeEnd(offset, ahead);
    while (at < need) {
      GetExtentsRequest r;
      r.ino = n.ino;
      r.offset = at;
      r.length = end - at;
      CO_ASSIGN_OR_RETURN(GetExtentsReply reply,
                          co_await session_.Call(&MetaService::GetExtents, std::move(r), Caller()));
      if (n.extent_epoch != epoch) break;
      if (reply.covered_to <= at) co_return Error(FsError::kIo, "the metadata server gave no mapping for a range");
      n.extents.Add(at, reply);
      at = reply.covered_to;
    }
    // Shared inodes are asked each time; the answer is used for this one read.
    if (n.extent_epoch == epoch) co_return Ok();
  }
  co_return Error(FsError::kIo, "the mapping of this file changes faster than it can be read");
}

Task<Result<BufferChain>> Vfs::Read(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length) {
  std::shared_ptr<VfsInode> inode = h->inode;
  VfsInode& n = *inode;
  CO_RETURN_IF_ERROR(CheckHandle(*h));
  if (!HoldsFor(n, false)) CO_RETURN_IF_ERROR(co_await Acquire(who, inode, h->write, false));
  uint64_t size = n.attr.size;
  if (n.lease == LeaseMode::kShared || n.lease == LeaseMode::kNone) {
    CO_ASSIGN_OR_RETURN(const EntryOut now, co_await GetAttr(who, n.ino));
    size = now.attr.size;
  }
  ++counters_.read_calls;
  if (offset >= size || length == 0) co_return BufferChain();
  length = std::min(length, size - offset);
  if (length > kMaxReadBytes) length = kMaxReadBytes;
  CO_ASSIGN_OR_RETURN(BufferChain bytes, co_await ReadRange(inode, offset, length, h.get()));
  CHECK(bytes.size() == length, "a read gives what was asked for");
  counters_.read_bytes += length;
  co_return bytes;
}

Task<Result<BufferChain>> Vfs::ReadRange(std::shared_ptr<VfsInode> inode, uint64_t offset, uint64_t length,
                                         VfsHandle* h) {
  VfsInode& n = *inode;
  const uint64_t end = offset + length;
  // Taken first: a batch that commits meanwhile is in here or in the mapping, never in neither.
  const std::vector<DirtyPiece> dirty = n.dirty.Find(offset, length);
  const bool sequential = NoteSequence(inode, h, offset, length);
  BufferChain out;
  for (size_t i = 0; i <= dirty.size(); ++i) {
    const uint64_t at = offset + out.size();
    const uint64_t next = i < dirty.size() ? dirty[i].offset : end;
    if (next > at) {
      CO_ASSIGN_OR_RETURN(const BufferChain gap, co_await ReadGap(inode, at, next - at, sequential));
      out.Append(gap);
    }
    if (i < dirty.size()) out.Append(dirty[i].bytes);
  }
  co_return out;
}

Task<Result<BufferChain>> Vfs::ReadGap(std::shared_ptr<VfsInode> inode, uint64_t offset, uint64_t length,
                                       bool sequential) {
  VfsInode& n = *inode;
  Error last;
  for (int attempt = 0; attempt < kMaxReadAttempts; ++attempt) {
    ReadGuard guard = session_.BeginRead();
    CO_RETURN_IF_ERROR(co_await EnsureExtents(inode, offset, length));
    std::vector<BufferChain> pieces;
    std::vector<size_t> read_into;  // of pieces, for each of parts
    std::vector<Task<Result<BufferChain>>> parts;
    for (const Segment& s : n.extents.Lookup(offset, length)) {
      BufferChain& piece = pieces.emplace_back();
      switch (s.kind) {
        case Segment::Kind::kHole: piece = Zeros(s.length); break;
        case Segment::Kind::kInline: piece.Append(Buffer::FromString(s.inline_bytes)); break;
        case Segment::Kind::kStripe: {
          const StripeGrant* grant = n.extents.FindStripe(s.stripe);
          if (!grant) co_return Error(FsError::kIo, "the mapping names a stripe without saying where it is");
          read_into.push_back(pieces.size() - 1);
          parts.push_back(ReadStripePart(*grant, s.stripe_offset, s.length, sequential, n.tally));
          break;
        }
      }
    }
    last = Error();
    if (parts.size() == 1) {
      auto one = co_await std::move(parts[0]);
      if (!one.ok()) {
        last = one.error();
      } else {
        pieces[read_into[0]] = std::move(*one);
      }
    } else if (!parts.empty()) {
      std::vector<Result<BufferChain>> all = co_await WhenAll(std::move(parts));
      for (size_t i = 0; i < all.size(); ++i) {
        if (all[i].ok()) {
          pieces[read_into[i]] = std::move(*all[i]);
        } else if (last.ok() || MappingIsOld(last.code)) {
          last = all[i].error();
        }
      }
    }
    if (last.ok()) {
      BufferChain out;
      for (const BufferChain& piece : pieces) out.Append(piece);
      co_return out;
    }
    if (!MappingIsOld(last.code)) break;
    if (last.code == FsError::kNoSuchShard) ++counters_.lost_mappings;
    ++n.extent_epoch;
    n.extents.Clear();
  }
  co_return Error(FsError::kIo, "inode " + std::to_string(n.ino.v) + " at " + std::to_string(offset) + "+" +
                                    std::to_string(length) + ": " + last.ToString());
}

Task<Result<BufferChain>> Vfs::ReadStripePart(StripeGrant grant, uint64_t stripe_offset, uint64_t length,
                                              bool via_cache, std::shared_ptr<ReadTally> tally) {
  const uint64_t payload = grant.info.shape.payload_bytes;
  if (stripe_offset > payload || length > payload - stripe_offset) {
    co_return Error(FsError::kIo, "an extent reaches beyond stripe " + std::to_string(grant.info.id.v));
  }
  BufferChain out;
  uint64_t at = stripe_offset;
  const uint64_t end = stripe_offset + length;
  while (at < end) {
    const BlockCache::Key key{grant.info.id, at / kBlock};
    BlockCache::BlockPtr block = blocks_.Find(key);
    const uint64_t block_end = std::min((at / kBlock + 1) * kBlock, payload);
    if (!block && via_cache) {
      const uint64_t end_block = std::min<uint64_t>(DivCeil(end, kBlock), at / kBlock + kFetchBytes / kBlock);
      StartFetch(grant, at / kBlock, end_block, tally);
      block = blocks_.Find(key);
    }
    if (!block) {
      // Just the asked range, as far as no cached block follows.
      uint64_t run = std::min(block_end, end);
      while (run < end && !blocks_.Find({grant.info.id, run / kBlock})) run = std::min(run + kBlock, end);
      counters_.fetched_bytes += run - at;
      CO_ASSIGN_OR_RETURN(const BufferChain direct, co_await reader_.ReadShared(grant, at, run - at, tally));
      out.Append(direct);
      at = run;
      continue;
    }
    co_await block->filled.Wait();
    if (!block->error.ok()) co_return block->error;
    const uint64_t in_block = at % kBlock;
    const uint64_t n = std::min(block_end, end) - at;
    if (in_block + n > block->bytes.size()) co_return Error(FsError::kIo, "a cached block is too short");
    out.Append(block->bytes.Slice(in_block, n));
    counters_.cache_hit_bytes += n;
    if (via_cache && at + n == block_end) blocks_.Demote(key);
    at += n;
  }
  co_return out;
}

void Vfs::StartFetch(const StripeGrant& grant, uint64_t first_block, uint64_t end_block,
                     std::shared_ptr<ReadTally> tally) {
  const uint64_t payload = grant.info.shape.payload_bytes;
  std::vector<BlockCache::BlockPtr> blocks;
  for (uint64_t b = first_block; b < end_block; ++b) {
    if (b * kBlock >= payload || blocks_.Find({grant.info.id, b})) break;
    blocks.push_back(blocks_.Add({grant.info.id, b}, std::min(kBlock, payload - b * kBlock)));
  }
  if (!blocks.empty()) scope_.Spawn(FetchBlocks(grant, first_block, std::move(blocks), std::move(tally)));
}

Task<void> Vfs::FetchBlocks(StripeGrant grant, uint64_t first_block, std::vector<BlockCache::BlockPtr> blocks,
                            std::shared_ptr<ReadTally> tally) {
  const uint64_t from = first_block * kBlock;
  const uint64_t to = std::min((first_block + blocks.size()) * kBlock, grant.info.shape.payload_bytes);
  counters_.fetched_bytes += to - from;
  ReadGuard guard = session_.BeginRead();
  const Result<BufferChain> r = co_await reader_.ReadShared(grant, from, to - from, std::move(tally));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint64_t at = i * kBlock;
    if (r.ok()) {
      blocks_.Filled(blocks[i], r->Slice(at, std::min<uint64_t>(kBlock, r->size() - at)));
    } else {
      blocks_.Failed({grant.info.id, first_block + i}, blocks[i], r.error());
    }
  }
}

bool Vfs::NoteSequence(const std::shared_ptr<VfsInode>& inode, VfsHandle* h, uint64_t offset, uint64_t length) {
  if (!h) return false;
  const uint64_t end = offset + length;
  // Kernel requests of one stream may arrive a little out of order.
  const uint64_t slack = 1 * kMiB;
  const bool follows = offset + slack >= h->next_offset && offset <= h->next_offset + slack;
  if (!follows) {
    h->window_bytes = 0;
    h->ahead_to = 0;
    h->next_offset = end;
    return false;
  }
  h->next_offset = std::max(h->next_offset, end);
  h->streak_bytes += length;
  if (h->window_bytes == 0) {
    // The first read of a file, or the second in a row elsewhere.
    if (offset != 0 && h->streak_bytes < 2 * length) return false;
    h->window_bytes = kFirstWindowBytes;
    h->ahead_to = end;
  }
  if (inode->lease == LeaseMode::kShared) return false;
  if (h->ahead_to < end + h->window_bytes / 2) {
    const uint64_t from = std::max(h->ahead_to, end);
    const uint64_t to = std::min(end + h->window_bytes, inode->attr.size);
    if (to > from && prefetches_ < kMaxPrefetches) {
      ++prefetches_;
      scope_.Spawn(Prefetch(inode, from, to - from));
      h->ahead_to = to;
    }
    h->window_bytes = std::min(h->window_bytes * 2, options_.readahead_bytes);
  }
  return true;
}

// The byte is in a gathered column of this client's node. What is not known does not lie here.
bool Vfs::LiesHere(const VfsInode& n, uint64_t offset) const {
  const NodeId local = io_.peers.local_node();
  if (!local) return false;
  for (const Segment& s : n.extents.Lookup(offset, 1)) {
    const StripeGrant* grant = s.kind == Segment::Kind::kStripe ? n.extents.FindStripe(s.stripe) : nullptr;
    if (!grant || !grant->info.shape.gathered() || s.stripe_offset >= grant->info.shape.payload_bytes) return false;
    const Location at = Locate(grant->info.shape, s.stripe_offset);
    return io_.peers.NodeOf(grant->info.columns[at.column.v].target) == local;
  }
  return false;
}

Task<void> Vfs::Prefetch(std::shared_ptr<VfsInode> inode, uint64_t offset, uint64_t length) {
  auto known = co_await EnsureExtents(inode, offset, length);
  --prefetches_;
  if (!known.ok()) co_return;
  // A reader of what lies here is likely to stop where that ends: others read the rest where it lies.
  const bool here = offset > 0 && LiesHere(*inode, offset - 1);
  for (const Segment& s : inode->extents.Lookup(offset, length)) {
    if (here && !LiesHere(*inode, s.file_offset)) break;
    if (s.kind != Segment::Kind::kStripe) continue;
    const StripeGrant* grant = inode->extents.FindStripe(s.stripe);
    if (!grant) continue;
    uint64_t stripe_end = s.stripe_offset + s.length;
    if (here) stripe_end = std::min(stripe_end, s.stripe_offset + Locate(grant->info.shape, s.stripe_offset).run_bytes);
    const uint64_t end = DivCeil(stripe_end, kBlock);
    for (uint64_t b = s.stripe_offset / kBlock; b < end;) {
      const uint64_t next = std::min(end, AlignDown(b, kFetchBytes / kBlock) + kFetchBytes / kBlock);
      // A part may be there already: fetch the runs between.
      for (uint64_t i = b; i < next; ++i) {
        if (!blocks_.Find({s.stripe, i})) StartFetch(*grant, i, next, inode->tally);
      }
      b = next;
    }
  }
}

Task<Result<uint64_t>> Vfs::Seek(Caller who, VfsHandlePtr h, uint64_t offset, bool hole) {
  std::shared_ptr<VfsInode> inode = h->inode;
  CO_RETURN_IF_ERROR(CheckHandle(*h));
  // The mapping knows only what is committed.
  if (!inode->dirty.clean()) CO_RETURN_IF_ERROR(co_await FlushInode(inode, false));
  CO_ASSIGN_OR_RETURN(const EntryOut now, co_await GetAttr(who, inode->ino));
  const uint64_t size = now.attr.size;
  if (offset >= size) co_return Error(FsError::kNxio);
  uint64_t at = offset;
  while (at < size) {
    const uint64_t length = std::min(kMapAheadBytes, size - at);
    CO_RETURN_IF_ERROR(co_await EnsureExtents(inode, at, length));
    for (const Segment& s : inode->extents.Lookup(at, length)) {
      if ((s.kind == Segment::Kind::kHole) == hole) co_return s.file_offset;
    }
    at += length;
  }
  if (hole) co_return size;
  co_return Error(FsError::kNxio);
}

}  // namespace stria
