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

}  // namespace

GrainMemory::GrainMemory(size_t max_blocks) : sets_(std::max<size_t>(1, max_blocks / kWays)) {}

std::span<GrainMemory::Block> GrainMemory::PlacesOf(ShardId shard, uint64_t number) {
  const uint64_t mixed = (shard.v * 0x9e3779b97f4a7c15 + number) * 0xff51afd7ed558ccd;
  return {&blocks_[(mixed >> 20) % sets_ * kWays], kWays};
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

void GrainMemory::Put(ShardId shard, uint64_t number, const BufferChain& bytes) {
  if (blocks_.empty()) blocks_.resize(sets_ * kWays);
  Block* place = nullptr;
  for (Block& b : PlacesOf(shard, number)) {
    const bool same = b.shard == shard && b.number == number;
    if (place == nullptr || same || b.used < place->used) place = &b;
    if (same) break;
  }
  *place = Block{shard, static_cast<uint32_t>(number), static_cast<uint32_t>(bytes.size()), ++clock_, {}};
  const Buffer whole = bytes.Flatten();
  for (uint64_t at = 0; at < whole.size(); at += kGrainBytes) {
    place->registers[at / kGrainBytes] = BareRegister(whole.span().subspan(at, std::min<uint64_t>(kGrainBytes, whole.size() - at)));
  }
}

std::optional<LeftOut> GrainMemory::Find(ShardId shard, uint64_t offset, uint64_t length, uint64_t omit_head,
                                         uint64_t omit_tail) {
  CHECK(omit_head < kChecksumBlockBytes && omit_tail < kChecksumBlockBytes && omit_head + omit_tail < length);
  LeftOut out;
  out.head_bytes = AlignDown(omit_head, kGrainBytes);
  const uint64_t last = LastBlock(length);
  const uint64_t last_bytes = length - last;
  const uint64_t wanted_of_last = length - omit_tail > last ? length - omit_tail - last : 0;
  if (wanted_of_last == 0) return std::nullopt;  // the block is not wanted at all
  const uint64_t read_of_last = std::min(AlignUp(wanted_of_last, kGrainBytes), last_bytes);
  out.tail_bytes = last_bytes - read_of_last;
  if (!out.any()) return std::nullopt;
  const uint64_t first_block = offset / kChecksumBlockBytes;
  if (out.head_bytes != 0) {
    const uint64_t bytes = std::min(kChecksumBlockBytes, length);
    const Block* block = Get(shard, first_block, bytes);
    if (block == nullptr) return std::nullopt;
    out.head = Joined(block->registers, bytes, 0, out.head_bytes / kGrainBytes);
  }
  if (out.tail_bytes != 0) {
    const Block* block = Get(shard, first_block + last / kChecksumBlockBytes, last_bytes);
    if (block == nullptr) return std::nullopt;
    out.tail = Joined(block->registers, last_bytes, read_of_last / kGrainBytes, DivCeil(last_bytes, kGrainBytes));
  }
  return out;
}

void GrainMemory::Learn(ShardId shard, uint64_t offset, const BufferChain& bytes, uint64_t omit_head, uint64_t omit_tail) {
  const uint64_t length = bytes.size();
  if (length == 0) return;
  const uint64_t first_block = offset / kChecksumBlockBytes;
  const uint64_t last = LastBlock(length);
  if (omit_head >= kGrainBytes) Put(shard, first_block, bytes.Slice(0, std::min(kChecksumBlockBytes, length)));
  if (omit_tail > 0 && (last > 0 || omit_head < kGrainBytes)) {
    Put(shard, first_block + last / kChecksumBlockBytes, bytes.Slice(last, length - last));
  }
}

}  // namespace stria
