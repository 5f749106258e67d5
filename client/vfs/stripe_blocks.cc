#include "client/vfs/stripe_blocks.h"

#include <algorithm>
#include <string>

namespace stria {
namespace {
// One fetch of readahead: whole rows of a default stripe, few requests.
constexpr uint64_t kFetchBytes = 4 * kMiB;
}  // namespace

bool StripeBlocks::WorthABlock(const StripeShape& shape, uint64_t stripe_offset, uint64_t run, uint64_t asked) {
  const uint64_t begin = AlignDown(stripe_offset, kBlock);
  if (begin >= shape.payload_bytes) return false;
  const uint64_t block = std::min(kBlock, shape.payload_bytes - begin);
  return run >= block / 2 || (run >= block / 8 && run >= 4 * asked);
}

Task<Result<BufferChain>> StripeBlocks::Read(SharedGrant grant, uint64_t stripe_offset, uint64_t length, How how,
                                             Tallies tally) {
  const uint64_t payload = grant->info.shape.payload_bytes;
  if (stripe_offset > payload || length > payload - stripe_offset) {
    co_return Error(FsError::kIo, "an extent reaches beyond stripe " + std::to_string(grant->info.id.v));
  }
  BufferChain out;
  uint64_t at = stripe_offset;
  const uint64_t end = stripe_offset + length;
  while (at < end) {
    const BlockCache::Key key{grant->info.id, at / kBlock};
    BlockCache::BlockPtr block = blocks_.Find(key);
    const uint64_t block_end = std::min((at / kBlock + 1) * kBlock, payload);
    if (!block && how.via_cache) {
      const uint64_t end_block = std::min<uint64_t>(DivCeil(end, kBlock), at / kBlock + kFetchBytes / kBlock);
      Fetch(grant, at / kBlock, end_block, tally);
      block = blocks_.Find(key);
    }
    if (block) co_await block->filled.Wait();
    if (!block || !block->error.ok()) {
      // Just the asked range, as far as no cached block follows. Also if more than that could not be fetched: what is
      // lost may be beside it.
      uint64_t run = std::min(block_end, end);
      while (run < end && !blocks_.Find({grant->info.id, run / kBlock})) run = std::min(run + kBlock, end);
      counters_.fetched_bytes += run - at;
      CO_ASSIGN_OR_RETURN(const BufferChain direct, co_await reader_.ReadShared(grant, at, run - at, tally, how.patient));
      out.Append(direct);
      at = run;
      continue;
    }
    const uint64_t in_block = at % kBlock;
    const uint64_t n = std::min(block_end, end) - at;
    if (in_block + n > block->bytes.size()) co_return Error(FsError::kIo, "a cached block is too short");
    out.Append(block->bytes.Slice(in_block, n));
    counters_.cache_hit_bytes += n;
    if (how.passes && at + n == block_end) blocks_.Demote(key);
    at += n;
  }
  co_return out;
}

void StripeBlocks::Fetch(const SharedGrant& grant, uint64_t first_block, uint64_t end_block,
                         Tallies tally) {
  const uint64_t payload = grant->info.shape.payload_bytes;
  std::vector<uint64_t> bytes;
  for (uint64_t b = first_block; b < end_block; ++b) {
    if (b * kBlock >= payload || blocks_.Find({grant->info.id, b})) break;
    bytes.push_back(std::min(kBlock, payload - b * kBlock));
  }
  for (const uint64_t n : bytes) fetching_bytes_ += n;
  std::vector<BlockCache::BlockPtr> blocks = blocks_.Add({grant->info.id, first_block}, bytes);
  if (!blocks.empty()) scope_.Spawn(Fill(grant, first_block, std::move(blocks), std::move(tally)));
}

Task<void> StripeBlocks::Fill(SharedGrant grant, uint64_t first_block, std::vector<BlockCache::BlockPtr> blocks,
                              Tallies tally) {
  const uint64_t from = first_block * kBlock;
  const uint64_t to = std::min((first_block + blocks.size()) * kBlock, grant->info.shape.payload_bytes);
  counters_.fetched_bytes += to - from;
  ReadGuard guard = begin_read_();
  // Readers who wait for these blocks read for themselves if they fail, with the mapping as it is then.
  const Result<BufferChain> r = co_await reader_.ReadShared(grant, from, to - from, std::move(tally), /*patient=*/false);
  fetching_bytes_ -= to - from;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint64_t at = i * kBlock;
    if (r.ok()) {
      blocks_.Filled(blocks[i], r->Slice(at, std::min<uint64_t>(kBlock, r->size() - at)));
    } else {
      blocks_.Failed({grant->info.id, first_block + i}, blocks[i], r.error());
    }
  }
}

void StripeBlocks::FetchAhead(const SharedGrant& grant, uint64_t stripe_offset, uint64_t stripe_end,
                              const Tallies& tally) {
  const uint64_t end = DivCeil(stripe_end, kBlock);
  for (uint64_t b = stripe_offset / kBlock; b < end;) {
    const uint64_t next = std::min(end, AlignDown(b, kFetchBytes / kBlock) + kFetchBytes / kBlock);
    // A part may be there already: fetch the runs between.
    for (uint64_t i = b; i < next; ++i) {
      if (!blocks_.Find({grant->info.id, i})) Fetch(grant, i, next, tally);
    }
    b = next;
  }
}

uint64_t StripeBlocks::RoomAhead(bool nothing_ahead) const {
  const uint64_t taken = fetching_bytes_ + ahead_bytes_;
  const uint64_t room = taken < most_on_its_way_ ? AlignDown(most_on_its_way_ - taken, kBlock) : 0;
  return std::max(room, nothing_ahead ? kLeastAheadBytes : 0);
}

bool StripeBlocks::BeginAhead(uint64_t bytes) {
  if (ahead_ >= kMaxAhead) return false;
  ++ahead_;
  ahead_bytes_ += bytes;
  return true;
}

void StripeBlocks::EndAhead(uint64_t bytes) {
  --ahead_;
  ahead_bytes_ -= bytes;
}

}  // namespace stria
