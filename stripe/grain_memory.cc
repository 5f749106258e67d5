#include "stripe/grain_memory.h"

#include <algorithm>

#include "common/check.h"

namespace stria {
namespace {

// The register of the grains [begin, end) of a block of so many bytes; its last may be short.
uint32_t Joined(std::span<const uint32_t> registers, uint64_t block_bytes, uint64_t begin, uint64_t end) {
  uint32_t reg = 0;
  for (uint64_t i = begin; i < end; ++i) {
    reg = JoinRegisters(reg, registers[i], std::min(kGrainBytes, block_bytes - i * kGrainBytes));
  }
  return reg;
}

// The last block of a range: where it begins.
uint64_t LastBlock(uint64_t length) { return AlignDown(length - 1, kChecksumBlockBytes); }

// Whole grains at both ends of a range that need not be read. Of the last block something is, or neither is left out.
LeftOut GrainsOutside(uint64_t length, uint64_t omit_head, uint64_t omit_tail) {
  CHECK(omit_head < kChecksumBlockBytes && omit_tail < kChecksumBlockBytes && omit_head + omit_tail < length);
  const uint64_t last_bytes = length - LastBlock(length);
  if (omit_tail >= last_bytes) return {};
  LeftOut out;
  out.head_bytes = AlignDown(omit_head, kGrainBytes);
  out.tail_bytes = last_bytes - std::min(AlignUp(last_bytes - omit_tail, kGrainBytes), last_bytes);
  return out;
}

}  // namespace

GrainMemory::GrainMemory(size_t max_blocks) : sets_(std::max<size_t>(1, max_blocks / kWays)) {}

std::span<GrainMemory::Block> GrainMemory::PlacesOf(ShardId shard, uint64_t number) {
  uint64_t x = shard.v * 0x9e3779b97f4a7c15 + number;
  x = (x ^ (x >> 32)) * 0xff51afd7ed558ccd;
  x ^= x >> 32;
  return {&blocks_[(x >> 12) % sets_ * kWays], kWays};
}

const GrainMemory::Block* GrainMemory::Get(ShardId shard, uint64_t number, uint64_t bytes) {
  if (blocks_.empty()) return nullptr;
  for (Block& b : PlacesOf(shard, number)) {
    if (b.shard != shard || b.number != number || b.bytes != bytes) continue;
    b.used = ++clock_;
    return &b;
  }
  return nullptr;
}

void GrainMemory::Put(ShardId shard, uint64_t number, const BufferChain& bytes, uint32_t checksum) {
  Block fresh{shard, static_cast<uint32_t>(number), static_cast<uint32_t>(bytes.size()), 0, {}};
  const Buffer whole = bytes.Flatten();
  for (uint64_t at = 0; at < whole.size(); at += kGrainBytes) {
    fresh.registers[at / kGrainBytes] = BareRegister(whole.span().subspan(at, std::min<uint64_t>(kGrainBytes, whole.size() - at)));
  }
  const uint32_t all = Joined(fresh.registers, whole.size(), 0, DivCeil(whole.size(), kGrainBytes));
  if (BlockCrcOf(shard, number, all, whole.size()) != checksum) return;
  if (blocks_.empty()) blocks_.resize(sets_ * kWays);
  Block* place = nullptr;
  for (Block& b : PlacesOf(shard, number)) {
    const bool same = b.shard == shard && b.number == number;
    if (place == nullptr || same || b.used < place->used) place = &b;
    if (same) break;
  }
  fresh.used = ++clock_;
  *place = fresh;
}

std::optional<LeftOut> GrainMemory::Find(ShardId shard, uint64_t offset, uint64_t length, uint64_t omit_head,
                                         uint64_t omit_tail) {
  LeftOut out = GrainsOutside(length, omit_head, omit_tail);
  if (!out.any()) return std::nullopt;
  const uint64_t first_block = offset / kChecksumBlockBytes;
  if (out.head_bytes != 0) {
    const uint64_t bytes = std::min(kChecksumBlockBytes, length);
    const Block* block = Get(shard, first_block, bytes);
    if (block == nullptr) return std::nullopt;
    out.head = Joined(block->registers, bytes, 0, out.head_bytes / kGrainBytes);
  }
  if (out.tail_bytes != 0) {
    const uint64_t last = LastBlock(length), bytes = length - last;
    const Block* block = Get(shard, first_block + last / kChecksumBlockBytes, bytes);
    if (block == nullptr) return std::nullopt;
    out.tail = Joined(block->registers, bytes, (bytes - out.tail_bytes) / kGrainBytes, DivCeil(bytes, kGrainBytes));
  }
  return out;
}

void GrainMemory::Learn(ShardId shard, uint64_t offset, const BufferChain& bytes, uint64_t omit_head, uint64_t omit_tail,
                        std::span<const uint32_t> table_part) {
  const uint64_t length = bytes.size();
  const LeftOut outside = GrainsOutside(length, omit_head, omit_tail);
  const uint64_t first_block = offset / kChecksumBlockBytes;
  const uint64_t last = LastBlock(length), last_index = last / kChecksumBlockBytes;
  if (last_index >= table_part.size()) return;
  if (outside.head_bytes != 0) Put(shard, first_block, bytes.Slice(0, std::min(kChecksumBlockBytes, length)), table_part[0]);
  if (outside.tail_bytes != 0 && (last > 0 || outside.head_bytes == 0)) {
    Put(shard, first_block + last_index, bytes.Slice(last, length - last), table_part[last_index]);
  }
}

}  // namespace stria
