#include "client/cache/dirty_buffer.h"

#include <gtest/gtest.h>

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
  std::map<uint64_t, Layer> batches;
  Layer View() const {
    Layer out(kSpace, kClean);
    for (const auto& [n, l] : batches) Over(&out, l);
    Over(&out, fresh);
    return out;
  }
  static void Over(Layer* below, const Layer& above) {
    for (size_t i = 0; i < kSpace; ++i) {
      if (above[i] != kClean) (*below)[i] = above[i];
    }
  }
};

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
    std::vector<uint64_t> open;
    for (int step = 0; step < 100; ++step) {
      const uint64_t off = rng.Below(kSpace - 1);
      const uint64_t len = 1 + rng.Below(std::min<uint64_t>(40, kSpace - off));
      switch (rng.Below(7)) {
        case 0:
        case 1:
        case 2: {
          const auto v = static_cast<uint8_t>(step);
          d.Write(off, Fill(v, len));
          for (uint64_t i = off; i < off + len; ++i) m.fresh[i] = v;
          break;
        }
        case 3: {
          if (d.fresh_empty()) break;
          const uint64_t limit = 1 + rng.Below(60);
          auto batch = d.TakeBatch(limit);
          Layer l(kSpace, kClean);
          uint64_t left = limit;
          for (size_t i = 0; i < kSpace && left > 0; ++i) {
            if (m.fresh[i] == kClean) continue;
            l[i] = m.fresh[i];
            m.fresh[i] = kClean;
            --left;
          }
          m.batches[batch.number] = l;
          open.push_back(batch.number);
          EXPECT_EQ(batch.bytes, limit - left);
          break;
        }
        case 4: {  // the oldest commits
          if (open.empty()) break;
          d.Committed(open.front());
          m.batches.erase(open.front());
          open.erase(open.begin());
          break;
        }
        case 5: {  // any fails
          if (open.empty()) break;
          const size_t i = rng.Below(open.size());
          d.Failed(open[i]);
          const Layer mine = m.batches[open[i]];
          m.batches.erase(open[i]);
          for (size_t b = 0; b < kSpace; ++b) {
            if (mine[b] == kClean || m.fresh[b] != kClean) continue;
            bool newer = false;
            for (const auto& [n, l] : m.batches) newer = newer || (n > open[i] && l[b] != kClean);
            if (!newer) m.fresh[b] = mine[b];
          }
          open.erase(open.begin() + static_cast<ptrdiff_t>(i));
          break;
        }
        case 6: {
          const bool cut = rng.OneIn(4);
          if (cut) d.Truncate(off);
          else d.Punch(off, len);
          const uint64_t to = cut ? kSpace : off + len;
          for (uint64_t i = off; i < to; ++i) {
            m.fresh[i] = kClean;
            for (auto& [n, l] : m.batches) l[i] = kClean;
          }
          break;
        }
      }
      ASSERT_EQ(Read(d), m.View());
      uint64_t total = 0;
      for (int v : m.fresh) total += v != kClean;
      ASSERT_EQ(d.fresh_bytes(), total);
      for (const auto& [n, l] : m.batches) {
        for (int v : l) total += v != kClean;
      }
      ASSERT_EQ(d.bytes(), total);
    }
  }
}

TEST(DirtyBuffer, FirstRunIsContiguous) {
  PieceMap m;
  m.Insert(10, Fill(1, 5));
  m.Insert(15, Fill(2, 5));
  m.Insert(30, Fill(3, 5));
  EXPECT_EQ(m.FirstRun(), 10u);
}

}  // namespace
}  // namespace stria
