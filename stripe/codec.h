// Parity arithmetic of one group: k data columns, m parity columns, over GF(2^8) with polynomial 0x11d,
// carried out by ISA-L. Columns of a group are numbered data 0..k-1, parity k..k+m-1.
//
// Byte i of every output depends only on byte i of every input: callers may code any sub-range, in any
// order, on any thread. A null input pointer stands for a column of zeros (the padding of a column that
// is shorter than its group, layout.h) and costs nothing. Pointers need no alignment. Outputs overlap
// neither inputs nor each other.
//
// The parity bytes are part of the disk format (golden values in the test):
//   kCopy         p_j = d_0
//   kXor          p_0 = d_0 ^ d_1 ^ ...
//   kVandermonde  p_j = sum of 2^(i*j) d_i     every erasure decodes for m <= 3 and k <= 32, tested
//   kCauchy       p_j = sum of d_i / ((k+j) ^ i)   every erasure decodes for k + m <= 256
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "stripe/types.h"

namespace stria {

// Immutable but for a bounded cache of decoding tables behind a mutex: const methods may be called from
// any number of threads at once. Wrong arguments are a programmer's error (CHECK).
class ParityCodec {
 public:
  static constexpr size_t kMaxCachedTables = 64;  // <= 4 KiB each; the oldest leaves first

  // REQUIRES CodecFits(codec, k, m) (layout.h).
  ParityCodec(uint32_t k, uint32_t m, Codec codec);
  ParityCodec(const ParityCodec&) = delete;
  ParityCodec& operator=(const ParityCodec&) = delete;

  uint32_t k() const { return k_; }
  uint32_t m() const { return m_; }

  // Computes all m parity columns of `length` bytes from k data columns.
  void Encode(std::span<const uint8_t* const> data, std::span<uint8_t* const> parity, size_t length) const;

  // The same for data columns of differing lengths <= length, which count as zero-padded to it.
  void EncodePadded(std::span<const std::span<const uint8_t>> data, std::span<uint8_t* const> parity,
                    size_t length) const;

  // Computes the columns `wanted` (data or parity) from exactly k other columns, `available`. Both lists
  // ascend and share no column; sources[i] belongs to available[i], outputs[i] to wanted[i].
  void Reconstruct(std::span<const uint32_t> available, std::span<const uint8_t* const> sources,
                   std::span<const uint32_t> wanted, std::span<uint8_t* const> outputs, size_t length) const;

  // The coefficients that Reconstruct uses: wanted.size() rows of k, not cached.
  std::vector<uint8_t> DecodeMatrix(std::span<const uint32_t> available,
                                    std::span<const uint32_t> wanted) const;

 private:
  // One row of coefficients per output, in the form that ISA-L wants.
  struct Tables {
    uint32_t rows = 0;
    bool sum_only = false;          // one row, of ones
    std::vector<uint8_t> expanded;  // 32 bytes per coefficient, row after row
  };

  uint8_t Coefficient(uint32_t column, uint32_t data_column) const {
    return matrix_[column * k_ + data_column];
  }
  Tables Expand(std::span<const uint8_t> coefficients) const;
  std::shared_ptr<const Tables> DecodeTables(std::span<const uint32_t> available,
                                             std::span<const uint32_t> wanted) const;
  void Apply(const Tables& tables, std::span<const uint8_t* const> sources, std::span<uint8_t* const> outputs,
             size_t length) const;

  const uint32_t k_;
  const uint32_t m_;
  const Codec codec_;
  std::vector<uint8_t> matrix_;  // (k + m) x k; the first k rows are the identity
  Tables encode_;

  struct CacheEntry {
    uint64_t available = 0;  // bit sets of columns
    uint64_t wanted = 0;
    std::shared_ptr<const Tables> tables;
  };
  mutable std::mutex mutex_;
  mutable std::vector<CacheEntry> cache_;  // a ring once it is full
  mutable size_t oldest_ = 0;
};

// The codecs that a process has met, made on first use and kept: at most one per valid (k, m, codec),
// some 300. Thread-safe; references stay valid as long as the set.
class CodecSet {
 public:
  // REQUIRES a shape that validates.
  const ParityCodec& For(const StripeShape& shape) { return For(shape.k, shape.m, shape.codec); }
  const ParityCodec& For(uint32_t k, uint32_t m, Codec codec);

 private:
  std::mutex mutex_;
  std::map<std::tuple<uint32_t, uint32_t, Codec>, std::unique_ptr<ParityCodec>> codecs_;
};

}  // namespace stria
