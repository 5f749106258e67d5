#include "server/widen.h"

#include <gtest/gtest.h>

#include "server/node_testing.h"
#include "stripe/checksum.h"
#include "stripe/layout.h"
#include "stripe/relaid.h"

namespace stria {
namespace {

constexpr size_t kNodes = 14;
constexpr size_t kFirstNew = 6;  // new columns are on nodes from here on

class WidenTest : public ::testing::Test {
 protected:
  WidenTest() : ex_(1), nodes_(ex_, 5, kNodes), connector_(&nodes_) {}

  static Layout MakeLayout(uint8_t groups, uint8_t k, uint8_t m, uint32_t unit) {
    Layout l;
    l.groups = groups;
    l.k = k;
    l.m = m;
    l.codec = DefaultCodec(k, m);
    l.unit_bytes = unit;
    l.stripe_bytes = kGiB / (uint64_t{groups} * k * unit) * groups * k * unit;
    return l;
  }
  // The bytes of all columns of a stripe with this payload, parity made in the plainest way.
  std::vector<std::string> ColumnsOf(const StripeShape& shape, const std::string& payload) {
    std::vector<std::string> out(shape.columns());
    for (uint16_t c = 0; c < shape.columns(); ++c) out[c].resize(ColumnBytes(shape, ColumnIndex(c)));
    for (uint64_t b = 0; b < payload.size();) {
      const Location at = Locate(shape, b);
      payload.copy(out[at.column.v].data() + at.shard_offset, std::min(at.run_bytes, payload.size() - b), b);
      b += at.run_bytes;
    }
    for (uint32_t g = 0; g < shape.groups && shape.m > 0; ++g) {
      std::vector<std::string> padded;
      std::vector<const uint8_t*> data;
      std::vector<uint8_t*> parity;
      padded.reserve(shape.k);
      for (uint32_t i = 0; i < uint32_t{shape.k} + shape.m; ++i) {
        std::string& column = out[ColumnOf(shape, g, i).v];
        if (i < shape.k) {
          padded.push_back(column);
          padded.back().resize(GroupBytes(shape, g));
          data.push_back(reinterpret_cast<const uint8_t*>(padded.back().data()));
        } else {
          parity.push_back(reinterpret_cast<uint8_t*>(column.data()));
        }
      }
      if (GroupBytes(shape, g) > 0) codecs_.For(shape).Encode(data, parity, GroupBytes(shape, g));
    }
    return out;
  }
  StripeGrant Grant(const StripeShape& shape, size_t first_node, uint8_t rights) {
    StripeGrant grant;
    grant.info.id = StripeId(7);
    grant.info.shape = shape;
    for (uint16_t c = 0; c < shape.columns(); ++c) {
      Column column;
      column.length = ColumnBytes(shape, ColumnIndex(c));
      if (column.length > 0) {
        column.shard = ShardId(++next_shard_);
        column.target = TargetId(static_cast<uint32_t>(first_node + c));
      }
      grant.tokens.push_back(column.length > 0 ? nodes_.Token(column.shard, first_node + c, rights) : "");
      grant.info.columns.push_back(column);
    }
    return grant;
  }
  void StoreOld(StripeGrant* grant, const std::vector<std::string>& columns) {
    for (size_t c = 0; c < columns.size(); ++c) {
      Column& column = grant->info.columns[c];
      if (column.length == 0) continue;
      column.digest = DigestOf(column.shard, columns[c]);
      Put(c + 1, column.shard, columns[c]);
    }
  }
  void Put(size_t node, ShardId shard, const std::string& bytes) {
    ASSERT_TRUE(RunSim(ex_, nodes_.store(node)->Write(shard, 0, BufferChain(Buffer::FromString(bytes)),
                                                      TableOf(shard, bytes), false)).ok());
    ASSERT_TRUE(RunSim(ex_, nodes_.store(node)->Seal(shard, bytes.size())).ok());
  }
  // A stripe of `narrow` that is to become one of `wide`.
  WidenWork Work(const Layout& narrow, const Layout& wide, const std::string& payload) {
    WidenWork work;
    work.task = ++next_task_;
    work.from = Grant(ShapeFor(narrow, payload.size()), 1, kTokenRead);
    StoreOld(&work.from, ColumnsOf(work.from.info.shape, payload));
    work.to = Grant(ShapeFor(wide, payload.size()), kFirstNew, kTokenWrite);
    return work;
  }
  WidenResult Run(const WidenWork& work) {
    WidenEnv env{std::make_shared<const ClusterMap>(nodes_.map), &connector_, &codecs_, &pool_};
    return RunSim(ex_, RunWiden(work, env));
  }
  void ExpectMade(const WidenWork& work, const WidenResult& r, const std::string& payload) {
    ASSERT_EQ(r.result.code, FsError::kOk) << r.result.message;
    EXPECT_EQ(r.task, work.task);
    const std::vector<std::string> want = ColumnsOf(work.to.info.shape, payload);
    ASSERT_EQ(r.digests.size(), want.size());
    // What it says of the payload gives the digests of both forms, as the metadata server compares them.
    const std::vector<uint64_t> ends = PiecesOf(work.from.info.shape, work.to.info.shape);
    ASSERT_EQ(r.pieces.size(), ends.size());
    const auto tables = TablesFromPieces(work.to.info, ends, r.pieces), old_tables = TablesFromPieces(work.from.info, ends, r.pieces);
    for (size_t c = 0; c < work.from.info.shape.data_columns(); ++c) {
      const Column& column = work.from.info.columns[c];
      if (column.length > 0) EXPECT_EQ(TableDigest(*old_tables[c], column.length), column.digest) << "old column " << c;
    }
    for (size_t c = 0; c < want.size(); ++c) {
      const Column& column = work.to.info.columns[c];
      if (column.length == 0) {
        EXPECT_EQ(r.digests[c], 0u);
        continue;
      }
      EXPECT_EQ(r.digests[c], DigestOf(column.shard, want[c]));
      if (tables[c]) EXPECT_EQ(r.digests[c], TableDigest(*tables[c], column.length)) << "column " << c;
      const Result<ShardBytes> got = RunSim(ex_, nodes_.store(kFirstNew + c)->Read(column.shard, 0, column.length));
      ASSERT_TRUE(got.ok()) << got.error();
      EXPECT_TRUE(Flat(got->bytes) == want[c]) << "column " << c;
    }
  }

  SimExecutor ex_;
  SimNodes nodes_;
  SimConnector connector_;
  CodecSet codecs_;
  InlinePool pool_;
  uint64_t next_shard_ = 0, next_task_ = 0;
};

TEST_F(WidenTest, ManyShapesAndLengths) {
  struct Row {
    Layout narrow, wide;
  };
  const std::vector<Row> rows = {
      {MakeLayout(1, 3, 1, 256 * kKiB), MakeLayout(1, 4, 1, 256 * kKiB)},
      {MakeLayout(1, 1, 1, 64 * kKiB), MakeLayout(1, 4, 1, 64 * kKiB)},
      {MakeLayout(1, 2, 2, 4 * kKiB), MakeLayout(1, 5, 2, 4 * kKiB)},
      {MakeLayout(1, 2, 2, 12 * kKiB), MakeLayout(1, 3, 2, 12 * kKiB)},
      {MakeLayout(1, 2, 1, 2 * kMiB), MakeLayout(1, 3, 1, 2 * kMiB)},
      {MakeLayout(1, 1, 1, 256 * kKiB), MakeLayout(2, 1, 1, 256 * kKiB)},
      {MakeLayout(1, 2, 0, 256 * kKiB), MakeLayout(1, 4, 0, 256 * kKiB)},
  };
  Random rng(3);
  for (const Row& row : rows) {
    for (const uint64_t length : {uint64_t{1}, uint64_t{100'000}, 3 * kMiB + 17, 9 * kMiB, 1 + rng.Below(20 * kMiB)}) {
      SCOPED_TRACE("k " + std::to_string(row.narrow.k) + " to " + std::to_string(row.wide.k) + " unit " +
                   std::to_string(row.wide.unit_bytes) + " bytes " + std::to_string(length));
      const std::string payload = BytesOf(ShardId(length), length);
      const WidenWork work = Work(row.narrow, row.wide, payload);
      ExpectMade(work, Run(work), payload);
      if (HasFatalFailure()) return;
      ExpectMade(work, Run(work), payload);  // handed out again after its report was lost
    }
  }
}

TEST_F(WidenTest, WhatIsNotAsItWasWrittenIsNotTaken) {
  const Layout narrow = MakeLayout(1, 2, 1, 256 * kKiB), wide = MakeLayout(1, 4, 1, 256 * kKiB);
  const std::string payload = BytesOf(ShardId(5), 6 * kMiB);
  WidenWork work = Work(narrow, wide, payload);
  ASSERT_TRUE(nodes_.nodes.at(2).sim->disk_media->FlipBit(RawShardName(work.from.info.columns[1].shard), 1'000'000, 3));
  WidenResult r = Run(work);
  EXPECT_EQ(r.result.code, FsError::kChecksum);
  EXPECT_EQ(r.bad_columns, std::vector<uint16_t>{1});
  EXPECT_TRUE(r.digests.empty());
  EXPECT_TRUE(r.pieces.empty());

  // Whole, but another content than the record says.
  work = Work(narrow, wide, payload);
  work.from.info.columns[0].digest ^= 1;
  r = Run(work);
  EXPECT_EQ(r.result.code, FsError::kChecksum);
  EXPECT_EQ(r.bad_columns, std::vector<uint16_t>{0});

  work = Work(narrow, wide, payload);
  ASSERT_TRUE(RunSim(ex_, nodes_.store(1)->Delete({work.from.info.columns[0].shard})).ok());
  r = Run(work);
  EXPECT_EQ(r.result.code, FsError::kNoSuchShard);
  EXPECT_EQ(r.bad_columns, std::vector<uint16_t>{0});
}

TEST_F(WidenTest, WhoIsOutOfReachIsNotBlamed) {
  const Layout narrow = MakeLayout(1, 2, 1, 256 * kKiB), wide = MakeLayout(1, 4, 1, 256 * kKiB);
  const std::string payload = BytesOf(ShardId(5), 2 * kMiB);
  const WidenWork work = Work(narrow, wide, payload);
  for (const size_t away : {size_t{1}, kFirstNew, kFirstNew + 4}) {
    connector_.down = {"node" + std::to_string(away)};
    const WidenResult r = Run(work);
    EXPECT_EQ(r.result.code, FsError::kUnavailable) << away;
    EXPECT_TRUE(r.bad_columns.empty());
  }
  connector_.down.clear();
  ExpectMade(work, Run(work), payload);
  WidenWork odd = work;
  odd.to.tokens[0] = "";
  EXPECT_NE(Run(odd).result.code, FsError::kOk);
  odd = work;
  odd.to = Grant(ShapeFor(wide, payload.size() + kMiB), kFirstNew, kTokenWrite);
  EXPECT_EQ(Run(odd).result.code, FsError::kBadRequest);
  EXPECT_EQ(Run(WidenWork()).result.code, FsError::kCorrupt);
}

}  // namespace
}  // namespace stria
