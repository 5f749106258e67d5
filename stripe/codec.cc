#include "stripe/codec.h"

#include <isa-l.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/check.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kTableBytes = 32;                 // ISA-L's, per coefficient
constexpr size_t kMaxCallBytes = size_t{1} << 30;  // ISA-L counts in int
constexpr size_t kXorAlignment = 64;               // xor_gen stores past the cache, a line at a time

bool Ascends(std::span<const uint32_t> columns, uint32_t limit) {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] >= limit || (i > 0 && columns[i] <= columns[i - 1])) return false;
  }
  return true;
}

uint64_t BitSet(std::span<const uint32_t> columns) {
  uint64_t bits = 0;
  for (const uint32_t c : columns) bits |= uint64_t{1} << c;
  return bits;
}

// Turns the n x n matrix `a` into its inverse (Gauss-Jordan). False if it is singular.
bool Invert(uint8_t* a, uint8_t* inverse, uint32_t n) {
  std::fill(inverse, inverse + n * n, 0);
  for (uint32_t i = 0; i < n; ++i) inverse[i * n + i] = 1;
  for (uint32_t column = 0; column < n; ++column) {
    uint32_t pivot = column;
    while (pivot < n && a[pivot * n + column] == 0) ++pivot;
    if (pivot == n) return false;
    if (pivot != column) {
      std::swap_ranges(a + pivot * n, a + pivot * n + n, a + column * n);
      std::swap_ranges(inverse + pivot * n, inverse + pivot * n + n, inverse + column * n);
    }
    const uint8_t scale = gf_inv(a[column * n + column]);
    for (uint32_t j = 0; j < n; ++j) {
      a[column * n + j] = gf_mul(a[column * n + j], scale);
      inverse[column * n + j] = gf_mul(inverse[column * n + j], scale);
    }
    for (uint32_t row = 0; row < n; ++row) {
      const uint8_t factor = a[row * n + column];
      if (row == column || factor == 0) continue;
      for (uint32_t j = 0; j < n; ++j) {
        a[row * n + j] ^= gf_mul(factor, a[column * n + j]);
        inverse[row * n + j] ^= gf_mul(factor, inverse[column * n + j]);
      }
    }
  }
  return true;
}

// Sum of >= 2 sources with xor_gen. False if the pointers are not aligned as it needs.
bool XorAligned(std::span<const uint8_t* const> sources, uint8_t* output, size_t length) {
  uintptr_t low_bits = reinterpret_cast<uintptr_t>(output) | length;
  for (const uint8_t* s : sources) low_bits |= reinterpret_cast<uintptr_t>(s);
  if (low_bits % kXorAlignment != 0) return false;
  std::array<void*, kMaxDataColumns + 1> vectors;
  for (size_t i = 0; i < sources.size(); ++i) vectors[i] = const_cast<uint8_t*>(sources[i]);
  vectors[sources.size()] = output;
  return xor_gen(static_cast<int>(sources.size() + 1), static_cast<int>(length), vectors.data()) == 0;
}

}  // namespace

ParityCodec::ParityCodec(uint32_t k, uint32_t m, Codec codec) : k_(k), m_(m), codec_(codec) {
  CHECK(CodecFits(codec, k, m), "this codec cannot code this many columns");
  matrix_.resize((k + m) * k);
  const int rows = static_cast<int>(k + m);
  if (codec == Codec::kCauchy) {
    gf_gen_cauchy1_matrix(matrix_.data(), rows, static_cast<int>(k));
  } else if (codec == Codec::kVandermonde) {
    gf_gen_rs_matrix(matrix_.data(), rows, static_cast<int>(k));
  } else {
    for (uint32_t i = 0; i < k; ++i) matrix_[i * k + i] = 1;
    std::fill(matrix_.begin() + k * k, matrix_.end(), uint8_t{1});
  }
  encode_ = Expand(std::span<const uint8_t>(matrix_).subspan(k * k));
}

ParityCodec::Tables ParityCodec::Expand(std::span<const uint8_t> coefficients) const {
  Tables tables;
  tables.rows = static_cast<uint32_t>(coefficients.size() / k_);
  tables.sum_only = tables.rows == 1 &&
                    std::all_of(coefficients.begin(), coefficients.end(), [](uint8_t c) { return c == 1; });
  tables.expanded.resize(coefficients.size() * kTableBytes);
  for (size_t i = 0; i < coefficients.size(); ++i) {
    gf_vect_mul_init(coefficients[i], &tables.expanded[i * kTableBytes]);
  }
  return tables;
}

void ParityCodec::Apply(const Tables& tables, std::span<const uint8_t* const> sources,
                        std::span<uint8_t* const> outputs, size_t length) const {
  // Leave out the columns of zeros, with their part of every row.
  std::array<const uint8_t*, kMaxDataColumns> inputs;
  std::array<uint8_t, kMaxParity * kMaxDataColumns * kTableBytes> packed;
  uint32_t n = 0;
  for (const uint8_t* s : sources) n += s != nullptr;
  if (n == 0) {
    for (uint8_t* out : outputs) std::memset(out, 0, length);
    return;
  }
  uint8_t* table = const_cast<uint8_t*>(tables.expanded.data());  // ISA-L only reads it
  for (uint32_t i = 0, to = 0; i < k_; ++i) {
    if (sources[i] == nullptr) continue;
    inputs[to] = sources[i];
    for (uint32_t row = 0; n < k_ && row < tables.rows; ++row) {
      std::memcpy(&packed[(row * n + to) * kTableBytes], &table[(row * k_ + i) * kTableBytes], kTableBytes);
    }
    ++to;
  }
  if (n < k_) table = packed.data();

  for (size_t done = 0; done < length;) {
    const size_t bytes = std::min(length - done, kMaxCallBytes);
    std::array<uint8_t*, kMaxParity> out;
    for (uint32_t row = 0; row < tables.rows; ++row) out[row] = outputs[row] + done;
    const std::span<const uint8_t* const> in(inputs.data(), n);
    if (tables.sum_only && n == 1) {
      std::memcpy(out[0], in[0], bytes);
    } else if (!tables.sum_only || !XorAligned(in, out[0], bytes)) {
      ec_encode_data(static_cast<int>(bytes), static_cast<int>(n), static_cast<int>(tables.rows), table,
                     const_cast<uint8_t**>(inputs.data()), out.data());
    }
    done += bytes;
    for (uint32_t i = 0; i < n; ++i) inputs[i] += bytes;
  }
}

void ParityCodec::Encode(std::span<const uint8_t* const> data, std::span<uint8_t* const> parity,
                         size_t length) const {
  CHECK(data.size() == k_ && parity.size() == m_);
  if (m_ == 0 || length == 0) return;
  if (codec_ != Codec::kCopy) return Apply(encode_, data, parity, length);
  for (uint8_t* out : parity) {
    if (data[0]) {
      std::memcpy(out, data[0], length);
    } else {
      std::memset(out, 0, length);
    }
  }
}

void ParityCodec::EncodePadded(std::span<const std::span<const uint8_t>> data,
                               std::span<uint8_t* const> parity, size_t length) const {
  CHECK(data.size() == k_ && parity.size() == m_);
  // Between two neighbouring column ends every column either has bytes or is zeros.
  for (size_t begin = 0; begin < length;) {
    size_t end = length;
    std::array<const uint8_t*, kMaxDataColumns> inputs;
    for (uint32_t i = 0; i < k_; ++i) {
      CHECK(data[i].size() <= length);
      inputs[i] = data[i].size() > begin ? data[i].data() + begin : nullptr;
      if (inputs[i]) end = std::min(end, data[i].size());
    }
    std::array<uint8_t*, kMaxParity> outputs;
    for (uint32_t j = 0; j < m_; ++j) outputs[j] = parity[j] + begin;
    Encode({inputs.data(), k_}, {outputs.data(), m_}, end - begin);
    begin = end;
  }
}

std::vector<uint8_t> ParityCodec::DecodeMatrix(std::span<const uint32_t> available,
                                               std::span<const uint32_t> wanted) const {
  CHECK(available.size() == k_ && Ascends(available, k_ + m_) && Ascends(wanted, k_ + m_));
  CHECK((BitSet(available) & BitSet(wanted)) == 0, "a column is both there and wanted");
  // The e lost data columns solve e equations, one for each parity column at hand:
  //   sum over lost l of C(p,l) d_l  =  p  +  sum over data columns i at hand of C(p,i) d_i.
  std::array<uint32_t, kMaxParity> lost;
  uint32_t e = 0;
  const uint64_t at_hand = BitSet(available);
  for (uint32_t i = 0; i < k_; ++i) {
    if (!(at_hand >> i & 1)) lost[e++] = i;
  }
  const uint32_t* parity = available.data() + (k_ - e);  // the last e of `available`
  std::array<uint8_t, kMaxParity * kMaxParity> system, inverse;
  for (uint32_t p = 0; p < e; ++p) {
    for (uint32_t l = 0; l < e; ++l) system[p * e + l] = Coefficient(parity[p], lost[l]);
  }
  CHECK(Invert(system.data(), inverse.data(), e), "every erasure of a valid codec decodes");

  // solution[l][i]: the factor of available[i] in lost[l].
  std::vector<uint8_t> solution(e * k_);
  for (uint32_t l = 0; l < e; ++l) {
    for (uint32_t i = 0; i < k_; ++i) {
      uint8_t sum = 0;
      if (i >= k_ - e) {
        sum = inverse[l * e + (i - (k_ - e))];
      } else {
        for (uint32_t p = 0; p < e; ++p)
          sum ^= gf_mul(inverse[l * e + p], Coefficient(parity[p], available[i]));
      }
      solution[l * k_ + i] = sum;
    }
  }
  std::vector<uint8_t> rows(wanted.size() * k_);
  for (size_t w = 0; w < wanted.size(); ++w) {
    for (uint32_t i = 0; i < k_; ++i) {
      uint8_t sum = i < k_ - e ? Coefficient(wanted[w], available[i]) : 0;
      for (uint32_t l = 0; l < e; ++l) sum ^= gf_mul(Coefficient(wanted[w], lost[l]), solution[l * k_ + i]);
      rows[w * k_ + i] = sum;
    }
  }
  return rows;
}

std::shared_ptr<const ParityCodec::Tables> ParityCodec::DecodeTables(std::span<const uint32_t> available,
                                                                     std::span<const uint32_t> wanted) const {
  CHECK(available.size() == k_ && Ascends(available, k_ + m_) && Ascends(wanted, k_ + m_));
  const uint64_t available_bits = BitSet(available);
  const uint64_t wanted_bits = BitSet(wanted);
  {
    std::lock_guard lock(mutex_);
    for (const CacheEntry& entry : cache_) {
      if (entry.available == available_bits && entry.wanted == wanted_bits) return entry.tables;
    }
  }
  auto tables = std::make_shared<const Tables>(Expand(DecodeMatrix(available, wanted)));
  std::lock_guard lock(mutex_);
  CacheEntry entry{available_bits, wanted_bits, tables};
  if (cache_.size() < kMaxCachedTables) {
    cache_.push_back(std::move(entry));
  } else {
    cache_[oldest_] = std::move(entry);
    oldest_ = (oldest_ + 1) % kMaxCachedTables;
  }
  return tables;
}

void ParityCodec::Reconstruct(std::span<const uint32_t> available, std::span<const uint8_t* const> sources,
                              std::span<const uint32_t> wanted, std::span<uint8_t* const> outputs,
                              size_t length) const {
  CHECK(sources.size() == available.size() && outputs.size() == wanted.size());
  if (wanted.empty() || length == 0) return;
  Apply(*DecodeTables(available, wanted), sources, outputs, length);
}

const ParityCodec& CodecSet::For(uint32_t k, uint32_t m, Codec codec) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<ParityCodec>& slot = codecs_[{k, m, codec}];
  if (!slot) slot = std::make_unique<ParityCodec>(k, m, codec);
  return *slot;
}

}  // namespace stria
