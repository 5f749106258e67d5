#include "stripe/checksum.h"

#include <isa-l.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/check.h"

namespace stria {
namespace {

static_assert(std::endian::native == std::endian::little, "ids and tables are hashed as they lie in memory");

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, bit-reflected: bit 31 is x^0
constexpr uint32_t kOne = 0x80000000;         // x^0

// The CRC register after `bytes`, without the inversions before and after: crc32_iscsi works on the bare
// register, unlike ISA-L's other CRCs.
uint32_t Advance(uint32_t reg, std::span<const uint8_t> bytes) {
  CHECK(bytes.size() <= kChecksumBlockBytes);
  return crc32_iscsi(const_cast<uint8_t*>(bytes.data()), static_cast<int>(bytes.size()), reg);
}

uint32_t AdvanceIds(uint32_t reg, uint64_t shard, uint64_t block_index) {
  std::array<uint8_t, 16> prefix;
  std::memcpy(prefix.data(), &shard, 8);
  std::memcpy(prefix.data() + 8, &block_index, 8);
  return Advance(reg, prefix);
}

uint32_t Seed(ShardId shard, uint64_t block_index) { return AdvanceIds(~0u, shard.v, block_index); }

// Product of two polynomials modulo the CRC's.
constexpr uint32_t MultiplyModulo(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

// [i] = x^(8 * 2^i): the effect of 2^i zero bytes on the register is a multiplication by it.
constexpr std::array<uint32_t, 32> kZeroBytes = [] {
  std::array<uint32_t, 32> powers{};
  powers[0] = kOne >> 8;
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = MultiplyModulo(powers[i - 1], powers[i - 1]);
  return powers;
}();

// The operator of `bytes` zero bytes.
uint32_t ZeroShift(uint64_t bytes) {
  CHECK(bytes <= kChecksumBlockBytes);
  uint32_t shift = kOne;
  for (size_t i = 0; bytes != 0; ++i, bytes >>= 1) {
    if (bytes & 1) shift = MultiplyModulo(shift, kZeroBytes[i]);
  }
  return shift;
}

// The register after bytes that have `bare` as their own.
uint32_t AdvanceOver(uint32_t reg, uint32_t bare, uint64_t bytes) {
  return bytes == 0 ? reg : MultiplyModulo(reg, ZeroShift(bytes)) ^ bare;
}

// From 0, without inversion.
uint32_t Bare(const BufferChain& bytes) {
  uint32_t reg = 0;
  for (const Buffer& b : bytes.parts()) reg = Advance(reg, b.span());
  return reg;
}

// The change of the register before the block's bytes by a change of id. The block number cancels out.
uint32_t SeedDifference(ShardId from, ShardId to) { return AdvanceIds(0, from.v ^ to.v, 0); }

}  // namespace

uint32_t BlockCrc(ShardId shard, uint64_t block_index, std::span<const uint8_t> block) {
  return ~Advance(Seed(shard, block_index), block);
}

std::vector<uint32_t> ChecksumTable(ShardId shard, std::span<const uint8_t> bytes) {
  ChecksumBuilder builder(shard);
  builder.Append(bytes);
  return builder.Table();
}

uint64_t TableDigest(std::span<const uint32_t> table, uint64_t shard_bytes) {
  return XXH3_64bits_withSeed(table.data(), table.size_bytes(), shard_bytes);
}

void ChecksumBuilder::Append(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const uint64_t in_block = length_bytes_ % kChecksumBlockBytes;
    if (in_block == 0) register_ = Seed(shard_, length_bytes_ / kChecksumBlockBytes);
    const uint64_t n = std::min<uint64_t>(bytes.size(), kChecksumBlockBytes - in_block);
    register_ = Advance(register_, bytes.first(n));
    length_bytes_ += n;
    if (in_block + n == kChecksumBlockBytes) table_.push_back(~register_);
    bytes = bytes.subspan(n);
  }
}

std::vector<uint32_t> ChecksumBuilder::Table() const {
  std::vector<uint32_t> table = table_;
  if (length_bytes_ % kChecksumBlockBytes != 0) table.push_back(~register_);
  return table;
}

std::optional<uint64_t> FirstBadBlock(ShardId shard, uint64_t first_block, std::span<const uint8_t> bytes,
                                      std::span<const uint32_t> table_part) {
  return FirstBadBlock(shard, first_block, bytes, LeftOut(), table_part);
}

std::optional<uint64_t> FirstBadBlock(ShardId shard, uint64_t first_block, std::span<const uint8_t> bytes,
                                      const LeftOut& left_out, std::span<const uint32_t> table_part) {
  const uint64_t blocks = ChecksumBlocks(left_out.head_bytes + bytes.size() + left_out.tail_bytes);
  for (uint64_t i = 0; i < blocks; ++i) {
    if (i >= table_part.size()) return first_block + i;
    uint32_t reg = Seed(shard, first_block + i);
    uint64_t room = kChecksumBlockBytes;
    if (i == 0) {
      reg = AdvanceOver(reg, left_out.head, left_out.head_bytes);
      room -= left_out.head_bytes;
    }
    const auto here = bytes.first(std::min<uint64_t>(room, bytes.size()));
    bytes = bytes.subspan(here.size());
    reg = Advance(reg, here);
    if (i + 1 == blocks) reg = AdvanceOver(reg, left_out.tail, left_out.tail_bytes);
    if (~reg != table_part[i]) return first_block + i;
  }
  return std::nullopt;
}

LeftOut CutEnds(BufferChain* bytes, uint64_t head_bytes, uint64_t tail_bytes) {
  CHECK(head_bytes < kChecksumBlockBytes && tail_bytes < kChecksumBlockBytes);
  CHECK(head_bytes + tail_bytes < bytes->size());
  const uint64_t kept = bytes->size() - head_bytes - tail_bytes;
  LeftOut out{head_bytes, tail_bytes, Bare(bytes->Slice(0, head_bytes)), Bare(bytes->Slice(head_bytes + kept, tail_bytes))};
  *bytes = bytes->Slice(head_bytes, kept);
  return out;
}

LeftOut CutEnds(BufferChain* bytes, uint64_t head_bytes, uint64_t tail_bytes, const LeftOut& outside) {
  CHECK(outside.head_bytes <= head_bytes && outside.tail_bytes <= tail_bytes);
  const LeftOut inner = CutEnds(bytes, head_bytes - outside.head_bytes, tail_bytes - outside.tail_bytes);
  return {head_bytes, tail_bytes, AdvanceOver(outside.head, inner.head, inner.head_bytes),
          AdvanceOver(inner.tail, outside.tail, outside.tail_bytes)};
}

uint32_t BareRegister(std::span<const uint8_t> bytes) { return Advance(0, bytes); }

uint32_t JoinRegisters(uint32_t first, uint32_t second, uint64_t second_bytes) {
  return AdvanceOver(first, second, second_bytes);
}

uint32_t BlockCrcOf(ShardId shard, uint64_t block_index, uint32_t bare, uint64_t block_bytes) {
  return ~AdvanceOver(Seed(shard, block_index), bare, block_bytes);
}

uint32_t Reseed(uint32_t crc, ShardId from, ShardId to, uint64_t block_bytes) {
  return crc ^ MultiplyModulo(SeedDifference(from, to), ZeroShift(block_bytes));
}

std::vector<uint32_t> ReseedTable(std::span<const uint32_t> table, ShardId from, ShardId to,
                                  uint64_t shard_bytes) {
  CHECK(table.size() == ChecksumBlocks(shard_bytes));
  std::vector<uint32_t> out(table.begin(), table.end());
  const uint32_t seed = SeedDifference(from, to);
  const uint32_t full = MultiplyModulo(seed, ZeroShift(kChecksumBlockBytes));
  for (uint32_t& crc : out) crc ^= full;
  if (const uint64_t rest = shard_bytes % kChecksumBlockBytes; rest != 0) {
    out.back() ^= full ^ MultiplyModulo(seed, ZeroShift(rest));
  }
  return out;
}

}  // namespace stria
