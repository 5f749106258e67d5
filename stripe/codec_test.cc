#include "stripe/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "common/random.h"
#include "common/sanitized.h"
#include "stripe/layout.h"

namespace stria {
namespace {

// The oracle: GF(2^8) mod x^8+x^4+x^3+x^2+1 by shift and add, and parity from its definition.
uint8_t SlowMul(uint8_t a, uint8_t b) {
  uint8_t product = 0;
  for (; b; b = static_cast<uint8_t>(b >> 1)) {
    if (b & 1) product ^= a;
    a = static_cast<uint8_t>((a << 1) ^ (a & 0x80 ? 0x1d : 0));
  }
  return product;
}

struct Field {
  uint8_t product[256][256];
  Field() {
    for (int a = 0; a < 256; ++a) {
      for (int b = 0; b < 256; ++b) product[a][b] = SlowMul(static_cast<uint8_t>(a), static_cast<uint8_t>(b));
    }
  }
  uint8_t Inverse(uint8_t a) const {
    for (int b = 1; b < 256; ++b) {
      if (product[a][b] == 1) return static_cast<uint8_t>(b);
    }
    return 0;
  }
  uint8_t Power(uint8_t a, uint32_t n) const {
    uint8_t r = 1;
    while (n--) r = product[r][a];
    return r;
  }
};

const Field& Gf() {
  static const Field field;
  return field;
}

uint8_t OracleCoefficient(Codec codec, uint32_t k, uint32_t parity, uint32_t data) {
  switch (codec) {
    case Codec::kVandermonde:
      return Gf().Power(2, parity * data);
    case Codec::kCauchy:
      return Gf().Inverse(static_cast<uint8_t>((k + parity) ^ data));
    default:
      return 1;
  }
}

std::vector<Codec> CodecsFor(uint32_t k, uint32_t m) {
  std::vector<Codec> codecs;
  for (const Codec c : {Codec::kCopy, Codec::kXor, Codec::kVandermonde, Codec::kCauchy}) {
    if (CodecFits(c, k, m)) codecs.push_back(c);
  }
  return codecs;
}

std::string Name(uint32_t k, uint32_t m, Codec codec) {
  return std::to_string(k) + "+" + std::to_string(m) + " codec " + std::to_string(static_cast<int>(codec));
}

// Random data columns followed by the parity that the definition gives.
std::vector<std::vector<uint8_t>> OracleGroup(uint32_t k, uint32_t m, Codec codec, size_t length,
                                              Random& rng) {
  std::vector<std::vector<uint8_t>> columns(k + m, std::vector<uint8_t>(length));
  for (uint32_t i = 0; i < k; ++i) {
    for (uint8_t& b : columns[i]) b = static_cast<uint8_t>(rng.Next());
  }
  for (uint32_t j = 0; j < m; ++j) {
    for (uint32_t i = 0; i < k; ++i) {
      const uint8_t* row = Gf().product[OracleCoefficient(codec, k, j, i)];
      for (size_t b = 0; b < length; ++b) columns[k + j][b] ^= row[columns[i][b]];
    }
  }
  return columns;
}

std::vector<uint32_t> Complement(const std::vector<uint32_t>& set, uint32_t n) {
  std::vector<uint32_t> rest;
  for (uint32_t i = 0; i < n; ++i) {
    if (!std::binary_search(set.begin(), set.end(), i)) rest.push_back(i);
  }
  return rest;
}

// The next ascending choice of set.size() numbers below n; false after the last.
bool NextChoice(std::vector<uint32_t>& set, uint32_t n) {
  const size_t size = set.size();
  for (size_t i = size; i-- > 0;) {
    if (set[i] + (size - i) < n) {
      ++set[i];
      for (size_t j = i + 1; j < size; ++j) set[j] = set[j - 1] + 1;
      return true;
    }
  }
  return false;
}

// Every choice of k columns to decode from is the complement of an erasure of exactly m, so these are
// all decodings there are; smaller erasures only want fewer of the rows.
void InvertEveryErasure(uint32_t k, uint32_t m, Codec codec) {
  SCOPED_TRACE(Name(k, m, codec));
  Random rng(k * 100 + m);
  const ParityCodec coder(k, m, codec);
  const auto columns = OracleGroup(k, m, codec, 2, rng);
  std::vector<uint32_t> erased(m);
  for (uint32_t i = 0; i < m; ++i) erased[i] = i;
  do {
    const std::vector<uint32_t> available = Complement(erased, k + m);
    const std::vector<uint8_t> matrix = coder.DecodeMatrix(available, erased);
    for (uint32_t w = 0; w < m; ++w) {
      uint8_t first = 0, second = 0;
      for (uint32_t i = 0; i < k; ++i) {
        const uint8_t* row = Gf().product[matrix[w * k + i]];
        first ^= row[columns[available[i]][0]];
        second ^= row[columns[available[i]][1]];
      }
      ASSERT_EQ(first, columns[erased[w]][0]);
      ASSERT_EQ(second, columns[erased[w]][1]);
    }
  } while (NextChoice(erased, k + m));
}

TEST(ParityCodec, EveryErasureOfTwoParitiesDecodes) {
  for (uint32_t k = 1; k <= kMaxDataColumns; ++k) {
    for (uint32_t m = 1; m <= 2; ++m) {
      for (const Codec codec : CodecsFor(k, m)) InvertEveryErasure(k, m, codec);
    }
  }
}

TEST(ParityCodec, EveryErasureOfThreeParitiesDecodes) {
  for (uint32_t k = 1; k <= kMaxDataColumns; ++k) {
    for (const Codec codec : CodecsFor(k, 3)) InvertEveryErasure(k, 3, codec);
  }
}

TEST(ParityCodec, EveryErasureOfFourParitiesDecodes) {
  constexpr uint32_t kStep = kSanitized ? 4 : 1;
  for (uint32_t k = kMaxDataColumns; k > 0; k -= std::min(k, kStep)) {
    for (const Codec codec : CodecsFor(k, 4)) InvertEveryErasure(k, 4, codec);
  }
}

// Why kVandermonde stops at m = 3: with parities 0, 1 and 3 of a fourth some three lost columns of 32
// have no solution.
TEST(ParityCodec, VandermondeOfFourParitiesWouldNotAlwaysDecode) {
  const auto at = [](uint32_t parity, uint32_t column) { return Gf().Power(2, parity * column); };
  const auto mul = [](uint8_t a, uint8_t b) { return Gf().product[a][b]; };
  int singular = 0;
  std::vector<uint32_t> lost = {0, 1, 2};
  do {  // the determinant of rows (1, x, x^3)
    uint8_t determinant = 0;
    for (int i = 0; i < 3; ++i) {
      const uint32_t a = lost[i], b = lost[(i + 1) % 3];
      determinant ^= mul(at(1, a), at(3, b)) ^ mul(at(3, a), at(1, b));
    }
    singular += determinant == 0;
  } while (NextChoice(lost, kMaxDataColumns));
  EXPECT_GT(singular, 0);
  EXPECT_FALSE(CodecFits(Codec::kVandermonde, 4, 4));
}

// A buffer whose bytes begin at a chosen misalignment.
struct Buffer {
  std::vector<uint8_t> storage;
  size_t offset;
  Buffer(size_t length, size_t misalign) : storage(length + 192, 0xee) {
    const auto address = reinterpret_cast<uintptr_t>(storage.data());
    offset = (64 - address % 64) % 64 + misalign;
  }
  uint8_t* data() { return storage.data() + offset; }
};

void CodeBytes(uint32_t k, uint32_t m, Codec codec, size_t length, bool aligned, Random& rng) {
  SCOPED_TRACE(Name(k, m, codec) + " length " + std::to_string(length));
  CodecSet set;
  const ParityCodec& coder = set.For(k, m, codec);
  const auto expected = OracleGroup(k, m, codec, length, rng);
  std::vector<Buffer> buffers;
  std::vector<const uint8_t*> data;
  std::vector<uint8_t*> parity;
  for (uint32_t i = 0; i < k + m; ++i) buffers.emplace_back(length, aligned ? 0 : rng.Below(64));
  for (uint32_t i = 0; i < k; ++i) std::copy(expected[i].begin(), expected[i].end(), buffers[i].data());
  for (uint32_t i = 0; i < k; ++i) data.push_back(buffers[i].data());
  for (uint32_t i = k; i < k + m; ++i) parity.push_back(buffers[i].data());
  coder.Encode(data, parity, length);
  for (uint32_t i = k; i < k + m; ++i) {
    ASSERT_TRUE(std::equal(expected[i].begin(), expected[i].end(), buffers[i].data()));
    ASSERT_EQ(buffers[i].data()[length], 0xee);
  }

  for (int round = 0; round < 6; ++round) {
    std::vector<uint32_t> erased;
    while (erased.size() < m) {
      const auto c = static_cast<uint32_t>(rng.Below(k + m));
      if (std::find(erased.begin(), erased.end(), c) == erased.end()) erased.push_back(c);
    }
    std::sort(erased.begin(), erased.end());
    const std::vector<uint32_t> available = Complement(erased, k + m);
    std::vector<uint32_t> wanted = erased;
    if (rng.OneIn(2)) wanted.resize(rng.Below(m) + 1);
    std::vector<const uint8_t*> sources;
    for (const uint32_t c : available) sources.push_back(buffers[c].data());
    std::vector<Buffer> out;
    std::vector<uint8_t*> outputs;
    for (size_t w = 0; w < wanted.size(); ++w) out.emplace_back(length, aligned ? 0 : rng.Below(64));
    for (Buffer& b : out) outputs.push_back(b.data());
    coder.Reconstruct(available, sources, wanted, outputs, length);
    for (size_t w = 0; w < wanted.size(); ++w) {
      ASSERT_TRUE(std::equal(expected[wanted[w]].begin(), expected[wanted[w]].end(), outputs[w]));
      ASSERT_EQ(outputs[w][length], 0xee);
    }
  }
}

TEST(ParityCodec, CodesBytesOfAnyLengthAndAlignmentLikeTheDefinition) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    const auto m = static_cast<uint32_t>(rng.Between(1, 4));
    const auto k = static_cast<uint32_t>(rng.OneIn(4) ? 1 : rng.Between(1, 32));
    const std::vector<Codec> codecs = CodecsFor(k, m);
    size_t length = rng.Below(300);
    if (rng.OneIn(3)) length = rng.Below(5000);
    if (rng.OneIn(4)) length = 64 * rng.Between(1, 40);
    CodeBytes(k, m, codecs[rng.Below(codecs.size())], length, rng.OneIn(2), rng);
  }
}

TEST(ParityCodec, NullSourcesAreColumnsOfZeros) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    const auto m = static_cast<uint32_t>(rng.Between(1, 4));
    const auto k = static_cast<uint32_t>(rng.Between(1, 9));
    const std::vector<Codec> codecs = CodecsFor(k, m);
    const Codec codec = codecs[rng.Below(codecs.size())];
    SCOPED_TRACE(Name(k, m, codec));
    const size_t length = 500;
    // Ragged columns: EncodePadded against zeros written out.
    std::vector<std::vector<uint8_t>> data(k);
    std::vector<std::vector<uint8_t>> padded(k);
    std::vector<std::span<const uint8_t>> spans;
    for (uint32_t i = 0; i < k; ++i) {
      data[i].resize(rng.OneIn(3) ? 0 : rng.Below(length + 1));
      for (uint8_t& b : data[i]) b = static_cast<uint8_t>(rng.Next());
      padded[i] = data[i];
      padded[i].resize(length, 0);
      spans.emplace_back(data[i]);
    }
    std::vector<std::vector<uint8_t>> parity(m, std::vector<uint8_t>(length, 0xaa)), slow = parity;
    std::vector<uint8_t*> fast_out, slow_out;
    std::vector<const uint8_t*> in;
    for (uint32_t j = 0; j < m; ++j) fast_out.push_back(parity[j].data()), slow_out.push_back(slow[j].data());
    for (uint32_t i = 0; i < k; ++i) in.push_back(padded[i].data());
    const ParityCodec coder(k, m, codec);
    coder.EncodePadded(spans, fast_out, length);
    coder.Encode(in, slow_out, length);
    ASSERT_EQ(parity, slow);
    // Decode data column 0 with the empty ones given as null.
    std::vector<uint32_t> available;
    std::vector<const uint8_t*> sources;
    for (uint32_t i = 1; i <= k; ++i) {
      available.push_back(i);
      const bool empty = i < k && data[i].empty();
      sources.push_back(empty ? nullptr : i < k ? padded[i].data() : parity[0].data());
    }
    std::vector<uint8_t> out(length, 0xbb);
    uint8_t* outputs[] = {out.data()};
    const uint32_t wanted[] = {0};
    coder.Reconstruct(available, sources, wanted, outputs, length);
    ASSERT_EQ(out, padded[0]);
  }
}

TEST(ParityCodec, AnySubRangeCodesAlone) {
  Random rng(5);
  const auto columns = OracleGroup(6, 3, Codec::kVandermonde, 4000, rng);
  const ParityCodec coder(6, 3, Codec::kVandermonde);
  const uint32_t available[] = {1, 2, 4, 5, 6, 8};
  const uint32_t wanted[] = {0, 3, 7};
  for (int i = 0; i < 200; ++i) {
    const size_t begin = rng.Below(4000), length = rng.Below(4000 - begin) + 1;
    std::vector<const uint8_t*> sources;
    for (const uint32_t c : available) sources.push_back(columns[c].data() + begin);
    std::vector<uint8_t> a(length), b(length), c(length);
    uint8_t* outputs[] = {a.data(), b.data(), c.data()};
    coder.Reconstruct(available, sources, wanted, outputs, length);
    for (int w = 0; w < 3; ++w)
      ASSERT_TRUE(std::equal(outputs[w], outputs[w] + length, columns[wanted[w]].data() + begin));
  }
}

// The parity bytes are on disk: these may never change.
TEST(ParityCodec, GoldenBytes) {
  const uint8_t d[4][4] = {
      {0x00, 0x01, 0x80, 0xff}, {0x10, 0x53, 0xca, 0x7e}, {0xff, 0x02, 0x1d, 0x33}, {0x9a, 0xbc, 0xde, 0xf1}};
  const auto encode = [&](uint32_t m, Codec codec) {
    const uint8_t* data[] = {d[0], d[1], d[2], d[3]};
    std::vector<uint8_t> out(4 * m);
    std::vector<uint8_t*> parity;
    for (uint32_t j = 0; j < m; ++j) parity.push_back(&out[4 * j]);
    ParityCodec(4, m, codec).Encode(data, parity, 4);
    std::string hex;
    for (const uint8_t b : out) hex += "0123456789abcdef"[b >> 4], hex += "0123456789abcdef"[b & 15];
    return hex;
  };
  EXPECT_EQ(encode(1, Codec::kXor), "75ec8943");
  EXPECT_EQ(encode(3, Codec::kVandermonde), "75ec89435f26c314424cdb9b");
  EXPECT_EQ(encode(4, Codec::kCauchy), "e6d2f168c8d25e92409c68e468503796");
}

TEST(ParityCodec, OneObjectServesManyThreadsWithMoreErasuresThanItCaches) {
  const uint32_t k = 10, m = 4;
  Random rng(3);
  const auto columns = OracleGroup(k, m, Codec::kCauchy, 100, rng);
  CodecSet set;
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const ParityCodec& coder = set.For(k, m, Codec::kCauchy);
      Random own(t % 2);
      for (int i = 0; i < 400; ++i) {
        std::vector<uint32_t> erased = {
            static_cast<uint32_t>(own.Below(3)), static_cast<uint32_t>(own.Between(3, 6)),
            static_cast<uint32_t>(own.Between(7, 9)), static_cast<uint32_t>(own.Between(10, 13))};
        const std::vector<uint32_t> available = Complement(erased, k + m);
        std::vector<const uint8_t*> sources;
        for (const uint32_t c : available) sources.push_back(columns[c].data());
        std::vector<std::vector<uint8_t>> out(m, std::vector<uint8_t>(100));
        std::vector<uint8_t*> outputs;
        for (auto& o : out) outputs.push_back(o.data());
        coder.Reconstruct(available, sources, erased, outputs, 100);
        for (uint32_t w = 0; w < m; ++w) wrong[t] += out[w] != columns[erased[w]];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace stria
