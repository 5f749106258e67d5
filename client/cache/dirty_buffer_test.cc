#include "client/cache/dirty_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/random.h"

namespace stria {
namespace {

// Oracle: one value per byte and layer.
constexpr int kClean = -1;
constexpr size_t kSpace = 200;
using Layer = std::vector<int>;

Buffer Fill(uint8_t value, size_t n) {
  std::vector<uint8_t> v(n, value);
  return Buffer::Copy(v);
}

class Model {
 public:
  Layer fresh = Layer(kSpace, kClean);
  std::vector<Layer> batches;  // oldest first
  Layer View() const {
    Layer out(kSpace, kClean);
    for (const Layer& l : batches) Over(&out, l);
    Over(&out, fresh);
    return out;
  }
  static void Over(Layer* below, const Layer& above) {
    for (size_t i = 0; i < kSpace; ++i) {
      if (above[i] != kClean) (*below)[i] = above[i];
    }
  }
};

uint64_t Count(const Layer& l) {
  uint64_t n = 0;
  for (int v : l) n += v != kClean;
  return n;
}

Layer Read(const DirtyBuffer& d) {
  Layer out(kSpace, kClean);
  uint64_t last = 0;
  for (const DirtyPiece& p : d.Find(0, kSpace)) {
    EXPECT_GE(p.offset, last);
    last = p.end();
    for (size_t i = 0; i < p.bytes.size(); ++i) out[p.offset + i] = p.bytes.data()[i];
  }
  return out;
}

TEST(DirtyBuffer, AgreesWithTheOracle) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    DirtyBuffer d;
    Model m;
    std::vector<uint64_t> taken;  // ids
    for (int step = 0; step < 120; ++step) {
      const uint64_t off = rng.Below(kSpace - 1);
      const uint64_t len = 1 + rng.Below(std::min<uint64_t>(40, kSpace - off));
      switch (rng.Below(8)) {
        case 0:
        case 1:
        case 2: {
          const auto v = static_cast<uint8_t>(step);
          d.Write(off, Fill(v, len));
          for (uint64_t i = off; i < off + len; ++i) m.fresh[i] = v;
          break;
        }
        case 3: {
          if (Count(m.fresh) > 0) m.batches.push_back(m.fresh);
          m.fresh = Layer(kSpace, kClean);
          d.Seal();
          break;
        }
        case 4: {
          auto batch = d.Take();
          EXPECT_EQ(batch.has_value(), taken.size() < m.batches.size());
          if (batch) taken.push_back(batch->id);
          break;
        }
        case 5: {  // the head commits
          if (std::find(taken.begin(), taken.end(), d.head()) == taken.end()) break;
          std::erase(taken, d.head());
          d.Committed(d.head());
          m.batches.erase(m.batches.begin());
          break;
        }
        case 6: {  // any fails; the head may be split
          if (taken.empty()) break;
          const uint64_t id = taken[rng.Below(taken.size())];
          std::erase(taken, id);
          if (id == d.head() && rng.OneIn(2)) {
            const uint64_t total = Count(m.batches[0]);
            EXPECT_EQ(d.SplitHead(id), total >= 2);
            if (total < 2) break;
            Layer front(kSpace, kClean);
            uint64_t want = total / 2;
            for (size_t i = 0; i < kSpace && want > 0; ++i) {
              if (m.batches[0][i] == kClean) continue;
              std::swap(front[i], m.batches[0][i]);
              --want;
            }
            m.batches.insert(m.batches.begin(), front);
          } else {
            d.PutBack(id);
          }
          break;
        }
        case 7: {
          const bool cut = rng.OneIn(4);
          if (cut) d.Truncate(off);
          else d.Punch(off, len);
          const uint64_t to = cut ? kSpace : off + len;
          for (uint64_t i = off; i < to; ++i) {
            m.fresh[i] = kClean;
            for (Layer& l : m.batches) l[i] = kClean;
          }
          break;
        }
      }
      ASSERT_EQ(Read(d), m.View());
      uint64_t total = Count(m.fresh);
      ASSERT_EQ(d.fresh().bytes(), total);
      for (const Layer& l : m.batches) total += Count(l);
      ASSERT_EQ(d.bytes(), total);
      ASSERT_EQ(d.batches(), m.batches.size());
      ASSERT_EQ(d.taken(), taken.size());
    }
  }
}

TEST(DirtyBuffer, PagesOfMappingsDoNotGrowTheFile) {
  DirtyBuffer d;
  d.Write(50, Fill(1, 50));
  d.Write(90, Fill(2, 60), /*grows=*/false);
  d.Seal();
  auto batch = d.Take();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->grow_to, 100u);
  ASSERT_TRUE(d.SplitHead(batch->id));
  auto front = d.Take();
  auto back = d.Take();
  ASSERT_TRUE(front && back);
  EXPECT_EQ(front->pieces.back().end(), 100u);
  EXPECT_EQ(front->grow_to, 100u);
  EXPECT_EQ(back->grow_to, 100u);
  d.PutBack(front->id);
  d.PutBack(back->id);
  d.Truncate(70);
  EXPECT_EQ(d.Take()->grow_to, 70u);
  d.Write(80, Fill(3, 10), /*grows=*/false);
  d.Seal();
  EXPECT_EQ(d.Take()->grow_to, 70u) << "the second half, of which nothing is left";
  EXPECT_EQ(d.Take()->grow_to, 0u);
}

TEST(DirtyBuffer, WhatIsCutOffAltogetherGrowsNothing) {
  DirtyBuffer d;
  d.Write(100, Fill(1, 50));
  d.Truncate(100);
  EXPECT_TRUE(d.clean());
  d.Write(0, Fill(2, 10));
  d.Seal();
  EXPECT_EQ(d.Take()->grow_to, 10u);
}

TEST(DirtyBuffer, FlushKnowsWhatItWaitsFor) {
  DirtyBuffer d;
  EXPECT_EQ(d.head_seal(), UINT64_MAX);
  d.Write(0, Fill(1, 10));
  d.Seal();
  d.Write(5, Fill(2, 10));
  d.Seal();
  const uint64_t mine = d.seals();
  d.Write(7, Fill(3, 1));
  d.Seal();
  EXPECT_LE(d.head_seal(), mine);
  auto first = d.Take();
  ASSERT_TRUE(d.SplitHead(first->id));
  EXPECT_EQ(d.head_seal(), 1u);
  for (int i = 0; i < 3; ++i) d.Committed(d.Take()->id);
  EXPECT_GT(d.head_seal(), mine);
  EXPECT_FALSE(d.clean());
}

}  // namespace
}  // namespace stria
