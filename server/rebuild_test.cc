#include "server/rebuild.h"

#include <gtest/gtest.h>

#include "server/node_testing.h"
#include "server/parity_check.h"
#include "server/silent_peers.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kNodes = 9;
constexpr size_t kSpare = 9;  // where new shards go

class RebuildTest : public ::testing::Test {
 protected:
  RebuildTest() : ex_(1), nodes_(ex_, 5, kNodes), connector_(&nodes_) {}

  // Stores a stripe of `layout`, column c on node c + 1, and remembers its columns' bytes.
  StripeGrant MakeStripe(const Layout& layout, uint64_t payload_bytes) {
    StripeGrant grant;
    grant.info.id = StripeId(++next_stripe_);
    grant.info.shape = ShapeFor(layout, payload_bytes);
    const StripeShape& shape = grant.info.shape;
    columns_.assign(shape.columns(), "");
    for (uint32_t c = 0; c < shape.data_columns(); ++c) {
      const uint64_t n = ColumnBytes(shape, ColumnIndex(static_cast<uint16_t>(c)));
      columns_[c] = BytesOf(ShardId(1000 + c), n);
    }
    for (uint32_t g = 0; g < shape.groups; ++g) EncodeGroup(shape, g);
    for (uint32_t c = 0; c < shape.columns(); ++c) {
      Column column;
      column.length = columns_[c].size();
      std::string token;
      if (column.length > 0) {
        column.shard = ShardId(++next_shard_);
        column.target = TargetId(c + 1);
        column.digest = DigestOf(column.shard, columns_[c]);
        token = nodes_.Token(column.shard, c + 1, kTokenRead);
        Put(c + 1, column.shard, columns_[c]);
      }
      grant.info.columns.push_back(column);
      grant.tokens.push_back(token);
    }
    EXPECT_TRUE(ValidateStripe(grant.info).ok()) << ValidateStripe(grant.info);
    return grant;
  }
  void EncodeGroup(const StripeShape& shape, uint32_t group) {
    const uint64_t n = GroupBytes(shape, group);
    std::vector<std::span<const uint8_t>> data;
    std::vector<uint8_t*> parity;
    for (uint32_t i = 0; i < uint32_t{shape.k} + shape.m; ++i) {
      std::string& bytes = columns_[ColumnOf(shape, group, i).v];
      if (i < shape.k) {
        data.push_back({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
      } else {
        bytes.resize(n);
        parity.push_back(reinterpret_cast<uint8_t*>(bytes.data()));
      }
    }
    if (n > 0 && shape.m > 0) codecs_.For(shape).EncodePadded(data, parity, n);
  }
  void Put(size_t node, ShardId shard, const std::string& bytes) {
    Result<void> w = RunSim(ex_, nodes_.store(node)->Write(shard, 0, BufferChain(Buffer::FromString(bytes)),
                                                           TableOf(shard, bytes), false));
    ASSERT_TRUE(w.ok()) << w.error();
    ASSERT_TRUE(RunSim(ex_, nodes_.store(node)->Seal(shard, bytes.size())).ok());
  }

  // Through what data servers have between them, and how long it takes.
  RebuildResult RebuildSoon(const StripeGrant& grant, uint16_t column, int64_t* took_ns) {
    SilentPeers peers(&connector_);
    connected_ = &peers;
    const int64_t began_ns = ex_.NowNs();
    RebuildResult r = Rebuild(grant, column, {});
    *took_ns = ex_.NowNs() - began_ns;
    connected_ = &connector_;
    return r;
  }
  RebuildResult Rebuild(const StripeGrant& grant, uint16_t column, std::vector<uint16_t> lost,
                        bool copy = false) {
    RebuildWork work;
    work.task = ++next_task_;
    work.stripe = grant;
    work.lost = std::move(lost);
    work.column = column;
    work.copy = copy;
    work.new_shard = ShardId(++next_shard_);
    work.new_target = TargetId(kSpare);
    new_shard_ = work.new_shard;
    RebuildEnv env;
    env.map = std::make_shared<const ClusterMap>(nodes_.map);
    env.connector = connected_;
    env.codecs = &codecs_;
    env.cpu_pool = &pool_;
    env.store = nodes_.store(kSpare);
    env.gate = gate_;
    last_ = work;
    last_env_ = env;
    return RunSim(ex_, RunRebuild(work, env));
  }
  void ExpectMade(const RebuildResult& r, uint16_t column) {
    const std::string& want = columns_[column];
    ASSERT_EQ(r.result.code, FsError::kOk) << r.result.message;
    EXPECT_EQ(r.length, want.size());
    EXPECT_EQ(r.digest, DigestOf(new_shard_, want));
    // What the metadata server compares; parity that is made for the first time has nothing to be compared with.
    const bool first = last_.stripe.info.columns[column].shard == new_shard_;
    EXPECT_EQ(r.table, first ? std::vector<uint32_t>() : TableOf(new_shard_, want));
    const Result<ShardBytes> got = RunSim(ex_, nodes_.store(kSpare)->Read(new_shard_, 0, want.size()));
    ASSERT_TRUE(got.ok()) << got.error();
    EXPECT_EQ(Flat(got->bytes), want);
  }
  void FlipBit(const StripeGrant& grant, uint16_t column, uint64_t offset) {
    SimDiskMedia& media = *nodes_.nodes.at(column + 1u).sim->disk_media;
    ASSERT_TRUE(media.FlipBit(RawShardName(grant.info.columns[column].shard), offset, 2));
  }
  static Layout MakeLayout(uint8_t k, uint8_t m, Codec codec, uint8_t groups = 1) {
    Layout l;
    l.groups = groups;
    l.k = k;
    l.m = m;
    l.codec = codec;
    l.unit_bytes = 64 * kKiB;
    l.stripe_bytes = 16 * kMiB / (uint64_t{groups} * k * l.unit_bytes) * groups * k * l.unit_bytes;
    return l;
  }

  SimExecutor ex_;
  SimNodes nodes_;
  SimConnector connector_;
  DataConnector* connected_ = &connector_;
  CodecSet codecs_;
  InlinePool pool_;
  std::vector<std::string> columns_;
  uint64_t next_stripe_ = 0, next_shard_ = 0, next_task_ = 0;
  ShardId new_shard_;
  RebuildWork last_;
  RebuildEnv last_env_;
  BackgroundGate* gate_ = nullptr;
};

TEST_F(RebuildTest, WhatItWritesYieldsToOthers) {
  const Layout layout = MakeLayout(2, 1, Codec::kXor);
  const StripeGrant grant = MakeStripe(layout, layout.stripe_bytes);
  BackgroundOptions options;
  options.floor_bytes_per_s = kMiB;
  BackgroundGate gate(options);
  gate_ = &gate;
  const GateUse others = gate.Foreground(0);
  for (const bool copy : {false, true}) {
    const int64_t began = ex_.NowNs();
    ExpectMade(Rebuild(grant, 0, {}, copy), 0);
    const auto bytes = static_cast<int64_t>(columns_[0].size());
    EXPECT_GE(ex_.NowNs() - began, (bytes - 2 * static_cast<int64_t>(kMaxRebuildWindowBytes)) * kSecond / kMiB);
  }
  EXPECT_EQ(gate.stats().background_bytes, 2 * columns_[0].size());
}

// Within seconds, although each of the columns may be asked for first. A range that only a silent node's columns have fails as
// soon.
TEST_F(RebuildTest, DoesNotWaitForTheSilent) {
  const Layout layout = MakeLayout(3, 2, Codec::kCauchy);
  for (const bool disk : {false, true}) {
    for (uint16_t column = 0; column < 5; ++column) {
      SCOPED_TRACE((disk ? "disk of column " : "node of column ") + std::to_string(column));
      const StripeGrant grant = MakeStripe(layout, layout.stripe_bytes);
      const uint16_t silent = (column + 1) % 5;
      SimDiskFaults& faults = nodes_.nodes.at(silent + 1u).sim->disk_media->faults;
      if (disk) faults.hung = true;
      else connector_.silent = {"node" + std::to_string(silent + 1)};
      int64_t took_ns = 0;
      ExpectMade(RebuildSoon(grant, column, &took_ns), column);
      EXPECT_LE(took_ns, 8 * kSecond);
      EXPECT_TRUE(RebuildSoon(grant, column, &took_ns).bad_columns.empty()) << "nothing is known to be lost";
      faults.hung = false;
      connector_.silent.clear();
      ex_.RunFor(10 * kSecond);
    }
  }
  const Layout mirrored = MakeLayout(1, 1, Codec::kCopy);
  const StripeGrant grant = MakeStripe(mirrored, kMiB);
  connector_.silent = {"node1"};
  int64_t took_ns = 0;
  EXPECT_EQ(RebuildSoon(grant, 1, &took_ns).result.code, FsError::kUnavailable);
  EXPECT_LE(took_ns, 8 * kSecond);
}

TEST_F(RebuildTest, ParityIsCompared) {
  ParityCheckEnv env{std::make_shared<const ClusterMap>(nodes_.map), &connector_, &codecs_, &pool_};
  const std::vector<Layout> layouts = {MakeLayout(4, 1, Codec::kXor), MakeLayout(1, 2, Codec::kCopy),
                                       MakeLayout(4, 4, Codec::kCauchy), MakeLayout(2, 1, Codec::kXor, 2)};
  for (const Layout& layout : layouts) {
    for (const uint64_t payload : {uint64_t{100}, 3 * kMiB + 7, 9 * kMiB}) {
      SCOPED_TRACE("k=" + std::to_string(layout.k) + " m=" + std::to_string(layout.m) + " " + std::to_string(payload));
      StripeGrant grant = MakeStripe(layout, payload);
      Result<ParityCheckResult> r = RunSim(ex_, CheckParity(grant, env));
      ASSERT_TRUE(r.ok()) << r.error();
      EXPECT_TRUE(r->fits);
      EXPECT_TRUE(r->wrong.empty());
      uint64_t total = 0;
      for (const Column& c : grant.info.columns) total += c.length;
      EXPECT_EQ(r->bytes_read, total);

      // A column that is whole, but differs from the record: an older or a strange one.
      const auto column = static_cast<uint16_t>(std::find_if(columns_.begin(), columns_.end(), [](const auto& c) {
                                                  return !c.empty();
                                                }) - columns_.begin());
      Column& c = grant.info.columns[column];
      ASSERT_TRUE(RunSim(ex_, nodes_.store(column + 1u)->Delete(std::vector<ShardId>(1, c.shard))).ok());
      std::string other = columns_[column];
      other[other.size() / 2] ^= 1;
      Put(column + 1u, c.shard, other);
      r = RunSim(ex_, CheckParity(grant, env));
      ASSERT_TRUE(r.ok()) << r.error();
      EXPECT_EQ(r->wrong, std::vector<uint16_t>{column});

      // The same, but it was written so: nothing tells which column is wrong.
      c.digest = DigestOf(c.shard, other);
      r = RunSim(ex_, CheckParity(grant, env));
      ASSERT_TRUE(r.ok()) << r.error();
      EXPECT_FALSE(r->fits);
      EXPECT_TRUE(r->wrong.empty());
    }
  }
  const StripeGrant grant = MakeStripe(layouts[0], 9 * kMiB);
  FlipBit(grant, 4, 1'000'000);
  EXPECT_EQ(RunSim(ex_, CheckParity(grant, env))->wrong, std::vector<uint16_t>{4});
  connector_.down = {"node2"};
  EXPECT_EQ(RunSim(ex_, CheckParity(grant, env)).code(), FsError::kUnavailable);
  EXPECT_EQ(RunSim(ex_, CheckParity(StripeGrant(), env)).ok(), false);
}

TEST_F(RebuildTest, EveryColumnOfManyShapes) {
  const std::vector<Layout> layouts = {MakeLayout(4, 1, Codec::kXor), MakeLayout(1, 2, Codec::kCopy),
                                       MakeLayout(5, 3, Codec::kVandermonde),
                                       MakeLayout(4, 4, Codec::kCauchy), MakeLayout(2, 1, Codec::kXor, 2)};
  for (const Layout& layout : layouts) {
    for (const uint64_t bytes : {uint64_t{10}, uint64_t{200'000}, uint64_t{5'000'001}}) {
      const StripeGrant grant = MakeStripe(layout, bytes);
      for (uint16_t c = 0; c < grant.info.columns.size(); ++c) {
        SCOPED_TRACE("k " + std::to_string(layout.k) + " bytes " + std::to_string(bytes) + " column " +
                     std::to_string(c));
        if (columns_[c].empty()) continue;
        ExpectMade(Rebuild(grant, c, {c}), c);
      }
    }
  }
}

TEST_F(RebuildTest, GatheredColumnsOfDifferentLengths) {
  Layout layout = MakeLayout(3, 2, Codec::kVandermonde);
  layout.arrangement = Arrangement::kGathered;
  const StripeGrant grant = MakeStripe(layout, 12'345'678);
  for (uint16_t c = 0; c < grant.info.columns.size(); ++c) ExpectMade(Rebuild(grant, c, {c}), c);
}

TEST_F(RebuildTest, BadSourcesAreReplacedAndNamed) {
  const StripeGrant grant = MakeStripe(MakeLayout(3, 3, Codec::kVandermonde), 6'000'000);
  FlipBit(grant, 1, 1'000'000);
  const RebuildResult one = Rebuild(grant, 0, {0});
  ExpectMade(one, 0);
  FlipBit(grant, 2, 0);
  connector_.down.insert("node4");
  const RebuildResult r = Rebuild(grant, 0, {0});
  EXPECT_EQ(r.result.code, FsError::kUnavailable) << r.result.message;  // two bad, one away
  EXPECT_EQ(r.bad_columns, (std::vector<uint16_t>{1, 2}));
  EXPECT_EQ(RunSim(ex_, nodes_.store(kSpare)->Read(new_shard_, 0, 10)).code(), FsError::kNoSuchShard);
  EXPECT_EQ(nodes_.store(kSpare)->open_shards(), 0u);
  connector_.down.clear();
  ExpectMade(Rebuild(grant, 0, {0}), 0);
}

TEST_F(RebuildTest, TooFewSurvivors) {
  const StripeGrant grant = MakeStripe(MakeLayout(3, 1, Codec::kXor), 6'000'000);
  EXPECT_EQ(Rebuild(grant, 0, {0, 1}).result.code, FsError::kIo);
}

TEST_F(RebuildTest, AConsistentLieIsFound) {
  StripeGrant grant = MakeStripe(MakeLayout(3, 2, Codec::kVandermonde), 6'000'000);
  // Column 1 came back as an older state of its disk: other bytes with checksums that fit them.
  const ShardId shard = grant.info.columns[1].shard;
  ASSERT_TRUE(RunSim(ex_, nodes_.store(2)->Delete({shard})).ok());
  Put(2, shard, BytesOf(ShardId(4242), columns_[1].size()));
  for (int i = 0; i < 4; ++i) {  // whichever sources come first
    const RebuildResult r = Rebuild(grant, 0, {0});
    ExpectMade(r, 0);
    if (!r.bad_columns.empty()) EXPECT_EQ(r.bad_columns, (std::vector<uint16_t>{1}));
  }
  ExpectMade(Rebuild(grant, 1, {1}), 1);
  const RebuildResult copied = Rebuild(grant, 1, {}, true);  // moving the lie: made from parity instead
  ExpectMade(copied, 1);
  EXPECT_EQ(copied.bad_columns, (std::vector<uint16_t>{1}));
}

TEST_F(RebuildTest, CopiesOneColumnAndFallsBackToParity) {
  const StripeGrant grant = MakeStripe(MakeLayout(4, 1, Codec::kXor), 9'000'000);
  const RebuildResult r = Rebuild(grant, 2, {}, true);
  ExpectMade(r, 2);
  EXPECT_EQ(r.bytes_read, columns_[2].size());
  FlipBit(grant, 2, 1'500'000);
  const RebuildResult fallen = Rebuild(grant, 2, {}, true);
  ExpectMade(fallen, 2);
  EXPECT_EQ(fallen.bad_columns, (std::vector<uint16_t>{2}));
  const StripeGrant plain = MakeStripe(MakeLayout(4, 0, Codec::kNone), 9'000'000);
  ExpectMade(Rebuild(plain, 3, {}, true), 3);
}

TEST_F(RebuildTest, DoneTwiceIsDoneOnce) {
  const StripeGrant grant = MakeStripe(MakeLayout(4, 1, Codec::kXor), 9'000'000);
  const RebuildResult first = Rebuild(grant, 2, {2});
  ExpectMade(first, 2);
  const RebuildResult again = RunSim(ex_, RunRebuild(last_, last_env_));
  EXPECT_EQ(again.digest, first.digest);
  EXPECT_EQ(again.bytes_read, 0u);
}

// Parity of columns that had none: it names the new shard as its own, and its digest is not known.
TEST_F(RebuildTest, ParityIsMadeForTheFirstTime) {
  for (const auto& [codec, m] : std::vector<std::pair<Codec, uint8_t>>{{Codec::kXor, 1}, {Codec::kVandermonde, 2}}) {
    Layout layout = MakeLayout(4, m, codec);
    layout.arrangement = Arrangement::kGathered;
    StripeGrant grant = MakeStripe(layout, layout.stripe_bytes - 123456);
    std::vector<uint16_t> parity;
    for (uint16_t c = 4; c < 4 + m; ++c) {
      parity.push_back(c);
      grant.info.columns[c].digest = 0;
    }
    for (uint16_t c : parity) {
      grant.info.columns[c].shard = ShardId(next_shard_ + 1);  // as Rebuild calls it
      RebuildResult r = Rebuild(grant, c, parity);
      ASSERT_EQ(grant.info.columns[c].shard, new_shard_);
      ExpectMade(r, c);
      EXPECT_TRUE(r.bad_columns.empty());
      const RebuildResult again = RunSim(ex_, RunRebuild(last_, last_env_));
      EXPECT_EQ(again.result.code, FsError::kOk);
      EXPECT_EQ(again.digest, r.digest);
      EXPECT_EQ(again.bytes_read, 0u) << "it was there already";
    }
  }
}

TEST_F(RebuildTest, NoParityIsMadeOfBadData) {
  const Layout layout = MakeLayout(4, 1, Codec::kXor);
  StripeGrant grant = MakeStripe(layout, layout.stripe_bytes);
  grant.info.columns[4].digest = 0;
  grant.info.columns[4].shard = ShardId(next_shard_ + 1);
  FlipBit(grant, 2, 300000);
  RebuildResult r = Rebuild(grant, 4, {4});
  EXPECT_NE(r.result.code, FsError::kOk);
  EXPECT_EQ(r.bad_columns, std::vector<uint16_t>{2});
  // One came back as an older state of its disk: other bytes with checksums that fit them.
  grant = MakeStripe(layout, layout.stripe_bytes);
  ASSERT_TRUE(RunSim(ex_, nodes_.store(2)->Delete({grant.info.columns[1].shard})).ok());
  Put(2, grant.info.columns[1].shard, BytesOf(ShardId(4242), columns_[1].size()));
  grant.info.columns[4].digest = 0;
  grant.info.columns[4].shard = ShardId(next_shard_ + 1);
  r = Rebuild(grant, 4, {4});
  EXPECT_NE(r.result.code, FsError::kOk);
  EXPECT_EQ(r.bad_columns, std::vector<uint16_t>{1});
  // Data is never "made for the first time".
  grant = MakeStripe(layout, layout.stripe_bytes);
  grant.info.columns[0].shard = ShardId(next_shard_ + 1);
  EXPECT_EQ(Rebuild(grant, 0, {}).result.code, FsError::kBadRequest);
}

TEST_F(RebuildTest, ExpiredTokensAndMalformedWork) {
  StripeGrant grant = MakeStripe(MakeLayout(4, 1, Codec::kXor), 9'000'000);
  ex_.RunFor(2 * 3600 * kSecond);
  EXPECT_EQ(Rebuild(grant, 2, {2}).result.code, FsError::kTokenExpired);
  EXPECT_EQ(Rebuild(grant, 200, {}).result.code, FsError::kBadRequest);
  grant.info.columns[0].length += 1;
  EXPECT_EQ(Rebuild(grant, 2, {2}).result.code, FsError::kCorrupt);
}

}  // namespace
}  // namespace stria
