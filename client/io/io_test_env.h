// For the tests of this folder: a fake cluster, and what readers and writers need, in virtual time.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/io/fake_data.h"
#include "client/io/stripe_reader.h"
#include "client/io/stripe_writer.h"
#include "client/io/write_all.h"
#include "common/exec/sim_run.h"
#include "common/random.h"
#include "stripe/layout.h"

namespace stria {

inline Layout MakeLayout(uint8_t groups, uint8_t k, uint8_t m, uint32_t unit_bytes, uint32_t rows,
                         Arrangement arrangement = Arrangement::kSpread) {
  Layout l;
  l.groups = groups;
  l.k = k;
  l.m = m;
  l.codec = DefaultCodec(k, m);
  l.arrangement = arrangement;
  l.unit_bytes = unit_bytes;
  l.stripe_bytes = uint64_t{unit_bytes} * rows * l.data_columns();
  return l;
}

// One of each kind that users can ask for, small ones.
inline std::vector<std::pair<std::string, Layout>> TestLayouts() {
  const uint32_t u = 64 * kKiB;
  return {
      {"linear", MakeLayout(1, 1, 0, u, 8)},
      {"raid0:4", MakeLayout(1, 4, 0, u, 4)},
      {"raid1:3", MakeLayout(1, 1, 2, u, 6)},
      {"raid5:4+1", MakeLayout(1, 4, 1, u, 4)},
      {"raid6:4+2", MakeLayout(1, 4, 2, u, 4)},
      {"rs:5+3", MakeLayout(1, 5, 3, u, 2)},
      {"rs:4+4", MakeLayout(1, 4, 4, u, 3)},
      {"raid10:6", MakeLayout(3, 1, 1, u, 4)},
      {"raid50:2x3+1", MakeLayout(2, 3, 1, u, 3)},
      {"raid5:3+1 unit 4K", MakeLayout(1, 3, 1, 4 * kKiB, 40)},
      {"raid6:3+2 unit 68K", MakeLayout(1, 3, 2, 68 * kKiB, 20)},
      {"gathered raid5:4+1", MakeLayout(1, 4, 1, u, 6, Arrangement::kGathered)},
      {"gathered rs:3+2 unit 4K", MakeLayout(1, 3, 2, 4 * kKiB, 300, Arrangement::kGathered)},
      {"gathered linear", MakeLayout(1, 1, 0, u, 4, Arrangement::kGathered)},
  };
}

// Random bytes in Buffers of random sizes.
inline BufferChain RandomPayload(Random& rng, uint64_t bytes) {
  BufferChain chain;
  while (bytes > 0) {
    const uint64_t n = std::min(bytes, rng.OneIn(3) ? rng.Between(1, 9000) : rng.Between(1, 300'000));
    std::vector<uint64_t> words(DivCeil(n, 8));
    for (uint64_t& w : words) w = rng.Next();
    chain.Append(Buffer::Copy({reinterpret_cast<const uint8_t*>(words.data()), n}));
    bytes -= n;
  }
  return chain;
}

inline std::vector<uint8_t> BytesOf(const BufferChain& chain) {
  std::vector<uint8_t> out(chain.size());
  chain.CopyTo(0, chain.size(), out.data());
  return out;
}

class IoEnv {
 public:
  explicit IoEnv(uint64_t seed, uint32_t nodes = 10, uint32_t disks = 1, DataPeersOptions options = {})
      : ex(seed, 4),
        rng(seed + 1),
        cluster(seed + 2, nodes, disks),
        peers(cluster, options),
        io{peers, codecs, pool},
        reader(io, [this](const BadShard& b) { bad.push_back(b); }) {
    peers.SetMap(cluster.Map());
  }

  StripeWritten Write(const Layout& layout, const BufferChain& payload) {
    return RunSim(
        ex, WriteWholeStripe(io, *cluster.Allocate(ShapeFor(layout, layout.stripe_bytes)), layout, payload));
  }
  // The bytes read, copied or shared by chance, or empty and the error in `error`.
  std::vector<uint8_t> Read(const StripeInfo& info, uint64_t offset, uint64_t length,
                            Error* error = nullptr) {
    std::vector<uint8_t> out(length, 0xee);
    Result<void> r;
    if (rng.OneIn(2)) {
      r = RunSim(ex, reader.Read(cluster.ReadGrant(info), offset, out));
    } else {
      const Result<BufferChain> shared = RunSim(ex, reader.ReadShared(cluster.ReadGrant(info), offset, length));
      r = shared.error();
      if (shared.ok()) out = BytesOf(*shared);
    }
    if (error) *error = r.error();
    if (!r.ok()) out.clear();
    return out;
  }

  SimExecutor ex;
  Random rng;
  FakeDataCluster cluster;
  InlinePool pool;
  CodecSet codecs;
  DataPeers peers;
  StripeIo io;
  std::vector<BadShard> bad;
  StripeReader reader;
};

// Allocates straight from the fake.
class FakeSource final : public GrantSource {
 public:
  FakeSource(FakeDataCluster* cluster, const Layout& layout) : cluster_(cluster), layout_(layout) {}
  Task<Result<StripeGrant>> Take(uint64_t, std::vector<TargetId> avoid) override {
    co_await Sleep(kMillisecond);
    ++taken;
    Result<StripeGrant> grant = cluster_->Allocate(ShapeFor(layout_, layout_.stripe_bytes), avoid);
    if (grant.ok()) grant->max_column_bytes = max_column_bytes;
    co_return grant;
  }
  void GiveBack(StripeId stripe) override { cluster_->NoteGivenBack(stripe); }
  size_t taken = 0;
  uint64_t max_column_bytes = 0;  // of all grants

 private:
  FakeDataCluster* cluster_;
  Layout layout_;
};

}  // namespace stria
