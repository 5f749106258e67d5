// Stripes written and read over fake data servers.
#include <gtest/gtest.h>

#include <numeric>

#include "client/io/io_test_env.h"
#include "stripe/checksum.h"

namespace stria {
namespace {

// Every column of the stripe is sealed on its target with the recorded length and digest.
void ExpectFullyDurable(IoEnv& env, const StripeInfo& info) {
  ASSERT_TRUE(ValidateStripe(info).ok()) << ValidateStripe(info);
  for (const Column& c : info.columns) {
    if (!c.shard) continue;
    ASSERT_TRUE(env.cluster.IsSealed(c.shard));
    const std::vector<uint8_t>& bytes = env.cluster.Bytes(c.shard);
    EXPECT_EQ(bytes.size(), c.length);
    EXPECT_EQ(TableDigest(ChecksumTable(c.shard, bytes), bytes.size()), c.digest);
  }
}

std::vector<uint8_t> Part(const std::vector<uint8_t>& all, uint64_t offset, uint64_t length) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(offset);
  return std::vector<uint8_t>(first, first + static_cast<std::ptrdiff_t>(length));
}

// Up to m columns of each group, at random.
std::vector<uint16_t> RandomLosses(Random& rng, const StripeShape& shape) {
  std::vector<uint16_t> lost;
  for (uint32_t g = 0; g < shape.groups; ++g) {
    for (uint64_t n = rng.Between(0, shape.m); n > 0; --n) {
      lost.push_back(ColumnOf(shape, g, static_cast<uint32_t>(rng.Below(uint32_t{shape.k} + shape.m))).v);
    }
  }
  return lost;
}

class EveryLayout : public testing::TestWithParam<size_t> {};

TEST_P(EveryLayout, BytesComeBackUnderAnyMLosses) {
  const auto [name, layout] = TestLayouts()[GetParam()];
  SCOPED_TRACE(name);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    IoEnv env(seed * 100 + GetParam(), 10, 1);
    const uint64_t capacity = layout.stripe_bytes;
    const uint64_t sizes[] = {
        1, 4095, layout.unit_bytes, layout.unit_bytes + 1ull, capacity, env.rng.Between(1, capacity)};
    const BufferChain payload = RandomPayload(env.rng, std::min(capacity, sizes[seed - 1]));
    const std::vector<uint8_t> want = BytesOf(payload);
    const StripeWritten w = env.Write(layout, payload);
    ASSERT_TRUE(w.error.ok()) << w.error;
    EXPECT_EQ(w.info.shape, ShapeFor(layout, payload.size()));
    ExpectFullyDurable(env, w.info);
    EXPECT_EQ(env.Read(w.info, 0, want.size()), want);
    for (const uint16_t c : RandomLosses(env.rng, w.info.shape)) {
      const Column& column = w.info.columns[c];
      if (!column.shard) continue;
      switch (env.rng.Below(4)) {
        case 0:
          env.cluster.Erase(column.shard);
          break;
        case 1:
          if (env.cluster.Has(column.shard)) env.cluster.FlipBit(column.shard, env.rng.Below(column.length));
          break;
        case 2:
          env.cluster.node(env.cluster.NodeOf(column.target)).down = true;
          break;
        case 3:
          env.cluster.target(column.target).read = FsError::kDiskFailed;
          break;
      }
    }
    for (int i = 0; i < 6; ++i) {
      const uint64_t offset = env.rng.Below(want.size());
      const uint64_t length = env.rng.Between(1, want.size() - offset);
      Error error;
      EXPECT_EQ(env.Read(w.info, offset, length, &error), Part(want, offset, length)) << error;
    }
    EXPECT_EQ(env.Read(w.info, 0, want.size()), want);
    EXPECT_EQ(env.cluster.violations(), std::vector<std::string>());
    EXPECT_EQ(env.cluster.in_service(), 0u);
  }
}
INSTANTIATE_TEST_SUITE_P(All, EveryLayout, testing::Range<size_t>(0, TestLayouts().size()));

TEST(StripeWriter, DefaultGeometryIsPipelinedInLargeRequests) {
  IoEnv env(7);
  const Layout layout = MakeLayout(1, 4, 1, kDefaultUnitBytes, 8);  // 8 MiB
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeWritten w = env.Write(layout, payload);
  ASSERT_TRUE(w.error.ok()) << w.error;
  EXPECT_EQ(env.cluster.Total().writes, 10u);  // 2 batches of 1 MiB per column
  EXPECT_EQ(env.cluster.Total().seals, 5u);
  EXPECT_EQ(env.Read(w.info, 0, payload.size()), BytesOf(payload));
}

TEST(StripeWriter, ColumnsMayEndWhereTheCallerWants) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    IoEnv env(500 + seed);
    const Layout layout = MakeLayout(1, 4, 2, 64 * kKiB, 4, Arrangement::kGathered);
    StripeWriterOptions options;
    uint64_t total = 0;
    for (uint64_t c = 0; c < env.rng.Between(1, 4); ++c) {
      options.columns.push_back(env.rng.OneIn(3) ? env.rng.Between(1, 5000) : env.rng.Between(1, 3'000'000));
      total += options.columns.back();
    }
    const BufferChain payload = RandomPayload(env.rng, total);
    const StripeGrant grant = *env.cluster.Allocate(ShapeFor(layout, layout.stripe_bytes));
    const StripeWritten w = RunSim(env.ex, WriteWholeStripe(env.io, grant, layout, payload, options));
    ASSERT_TRUE(w.error.ok()) << w.error;
    for (size_t c = 0; c < 4; ++c) {
      EXPECT_EQ(w.info.columns[c].length, c < options.columns.size() ? options.columns[c] : 0);
    }
    const std::vector<uint8_t> bytes = BytesOf(payload);
    EXPECT_EQ(env.Read(w.info, 0, total), bytes);
    const std::vector<uint8_t>& first = env.cluster.Bytes(w.info.columns[0].shard);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), bytes.begin())) << "a column is a run of the payload";
    for (size_t c = 0; c < options.columns.size() && c < 2; ++c) env.cluster.Erase(w.info.columns[c].shard);
    EXPECT_EQ(env.Read(w.info, 0, total), bytes);
  }
}

TEST(StripeWriter, SmallStripeTakesOneRoundTrip) {
  IoEnv env(8);
  const Layout layout = MakeLayout(1, 4, 2, kDefaultUnitBytes, 8);
  const BufferChain payload = RandomPayload(env.rng, 10'000);
  const StripeWritten w = env.Write(layout, payload);
  ASSERT_TRUE(w.error.ok()) << w.error;
  EXPECT_EQ(env.cluster.Total().total(), 3u);  // one data column, two of parity, sealed at once
  EXPECT_EQ(w.info.columns[1], Column());
  ExpectFullyDurable(env, w.info);
}

TEST(StripeWriter, OneNodeGetsOneRequestForItsColumns) {
  IoEnv env(9, 1, 5);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 1);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeWritten w = env.Write(layout, payload);
  ASSERT_TRUE(w.error.ok()) << w.error;
  EXPECT_EQ(env.cluster.Total().total(), 1u);
  EXPECT_EQ(env.Read(w.info, 0, payload.size()), BytesOf(payload));
  EXPECT_EQ(env.cluster.Total().reads, 1u);
}

TEST(StripeWriter, NamesTheTargetsThatFailed) {
  IoEnv env(10);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 4);
  Result<StripeGrant> grant = env.cluster.Allocate(ShapeFor(layout, layout.stripe_bytes));
  const TargetId full = grant->info.columns[1].target, dead = grant->info.columns[3].target;
  env.cluster.target(full).write = FsError::kNoSpace;
  env.cluster.node(env.cluster.NodeOf(dead)).down = true;
  const StripeWritten w =
      RunSim(env.ex, WriteWholeStripe(env.io, *grant, layout, RandomPayload(env.rng, layout.stripe_bytes)));
  EXPECT_EQ(w.error.code, FsError::kNoSpace) << w.error;
  EXPECT_EQ(w.failed, (std::vector<TargetId>{full, dead}));
}

TEST(StripeWriter, ExpiredTokensAreNobodysFault) {
  IoEnv env(11);
  env.cluster.ExpireTokens(true);
  const StripeWritten w = env.Write(MakeLayout(1, 2, 1, 64 * kKiB, 1), RandomPayload(env.rng, 1000));
  EXPECT_EQ(w.error.code, FsError::kTokenExpired);
  EXPECT_TRUE(w.failed.empty());
}

TEST(StripeWriter, ComparesWhatWasSealed) {
  for (const uint64_t bytes : {uint64_t{1000}, 8 * kMiB}) {
    IoEnv env(12);
    const Layout layout = MakeLayout(1, 2, 1, kDefaultUnitBytes, 16);
    Result<StripeGrant> grant = env.cluster.Allocate(ShapeFor(layout, layout.stripe_bytes));
    const TargetId liar = grant->info.columns[2].target;
    env.cluster.target(liar).lies_at_seal = true;
    const StripeWritten w =
        RunSim(env.ex, WriteWholeStripe(env.io, *grant, layout, RandomPayload(env.rng, bytes)));
    EXPECT_EQ(w.error.code, FsError::kChecksum);
    EXPECT_EQ(w.failed, std::vector<TargetId>{liar});
  }
}

TEST(StripeWriter, LostAnswersAndDuplicatesDoNoHarm) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    IoEnv env(seed);
    for (uint32_t n = 1; n <= 10; ++n) {
      env.cluster.node(NodeId(n)).lost_reply_percent = 20;
      env.cluster.node(NodeId(n)).duplicate_percent = 20;
      env.cluster.node(NodeId(n)).lost_request_percent = 10;
      env.cluster.node(NodeId(n)).busy_percent = 10;
    }
    const Layout layout = MakeLayout(1, 3, 2, 64 * kKiB, 40);
    const BufferChain payload = RandomPayload(env.rng, env.rng.Between(1, layout.stripe_bytes));
    const StripeWritten w = env.Write(layout, payload);
    ASSERT_TRUE(w.error.ok()) << w.error;
    ExpectFullyDurable(env, w.info);
    for (uint32_t n = 1; n <= 10; ++n) env.cluster.node(NodeId(n)) = {};
    EXPECT_EQ(env.Read(w.info, 0, payload.size()), BytesOf(payload));
    EXPECT_EQ(env.cluster.violations(), std::vector<std::string>());
  }
}

TEST(StripeReader, CorruptionIsReportedAndNotSeen) {
  IoEnv env(20);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 4);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeWritten w = env.Write(layout, payload);
  ASSERT_TRUE(w.error.ok());
  env.cluster.FlipBit(w.info.columns[2].shard, 70'000);
  EXPECT_EQ(env.Read(w.info, 0, payload.size()), BytesOf(payload));
  ASSERT_EQ(env.bad.size(), 1u);
  EXPECT_EQ(env.bad[0].column, ColumnIndex(2));
  EXPECT_EQ(env.bad[0].reason, FsError::kChecksum);
  // Besides the requested bytes only the parity was fetched.
  EXPECT_EQ(env.reader.stats().tally.fetched_bytes(), layout.stripe_bytes + layout.stripe_bytes / 4);
}

TEST(StripeReader, FetchesOnlyTheBytesItNeeds) {
  IoEnv env(21);
  const Layout layout = MakeLayout(1, 4, 1, kDefaultUnitBytes, 4);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeWritten w = env.Write(layout, payload);
  EXPECT_EQ(env.Read(w.info, 300'000, 100).size(), 100u);
  EXPECT_EQ(env.reader.stats().tally.fetched_bytes(), 100u);
  EXPECT_EQ(env.cluster.Total().reads, 1u);
  // Decoding takes whole blocks of the other columns.
  env.cluster.FlipBit(w.info.columns[1].shard, 38'000);  // beside the bytes wanted, in their block
  EXPECT_EQ(env.Read(w.info, 300'000, 100), Part(BytesOf(payload), 300'000, 100));
  EXPECT_EQ(env.bad.size(), 1u);
  EXPECT_EQ(env.reader.stats().tally.fetched_bytes(), 200u + 4 * kChecksumBlockBytes);
}

// A part of two columns was asked for, one is bad: whole blocks are asked for instead, whatever has arrived before.
TEST(StripeReader, AsksForWholeBlocksWhenItHasToDecode) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    IoEnv env(900 + seed);
    const Layout layout = MakeLayout(1, 4, 2, kDefaultUnitBytes, 4);
    const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
    const std::vector<uint8_t> want = BytesOf(payload);
    const StripeWritten w = env.Write(layout, payload);
    for (int i = 0; i < 5; ++i) env.Read(w.info, 0, payload.size());
    const NodeId second = env.cluster.NodeOf(w.info.columns[1].target);
    if (env.rng.OneIn(2)) env.cluster.node(second).delay_ns = env.rng.Between(0, 200) * kMillisecond;
    if (env.rng.OneIn(2)) env.cluster.Erase(w.info.columns[0].shard);
    if (env.rng.OneIn(3)) env.cluster.FlipBit(w.info.columns[1].shard, 70'000);
    for (int i = 0; i < 8; ++i) {
      const uint64_t offset = kDefaultUnitBytes - env.rng.Between(1, 3000);  // the end of one unit, the beginning of the next
      EXPECT_EQ(env.Read(w.info, offset, 5000), Part(want, offset, 5000));
    }
    EXPECT_EQ(env.cluster.violations(), std::vector<std::string>());
  }
}

// A late answer, while others race it, is as good as any.
TEST(StripeReader, ALateAnswerToATrimmedReadCounts) {
  IoEnv env(31);
  const Layout layout = MakeLayout(1, 4, 1, kDefaultUnitBytes, 4);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeWritten w = env.Write(layout, payload);
  for (int i = 0; i < 5; ++i) env.Read(w.info, 0, payload.size());
  for (const Column& c : w.info.columns) {
    env.cluster.node(env.cluster.NodeOf(c.target)).delay_ns = c == w.info.columns[0] ? 300 * kMillisecond : 20 * kSecond;
  }
  const int64_t before = env.ex.NowNs();
  EXPECT_EQ(env.Read(w.info, 5000, 700), Part(BytesOf(payload), 5000, 700));
  EXPECT_LT(env.ex.NowNs() - before, 2 * kSecond);
  EXPECT_GE(env.reader.stats().hedged, 1u);
}

TEST(StripeReader, NothingIsAskedTwiceWhereNothingCanTakeItsPlace) {
  IoEnv env(33);
  const Layout layout = MakeLayout(1, 4, 0, kDefaultUnitBytes, 4);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeWritten w = env.Write(layout, payload);
  for (int i = 0; i < 5; ++i) env.Read(w.info, 0, payload.size());
  env.cluster.node(env.cluster.NodeOf(w.info.columns[1].target)).delay_ns = 300 * kMillisecond;
  const uint64_t before = env.cluster.Total().reads, fetched = env.reader.stats().tally.fetched_bytes();
  const uint64_t offset = kDefaultUnitBytes - 1000;
  EXPECT_EQ(env.Read(w.info, offset, 5000), Part(BytesOf(payload), offset, 5000));
  EXPECT_EQ(env.cluster.Total().reads - before, 2u);
  EXPECT_EQ(env.reader.stats().tally.fetched_bytes() - fetched, 5000u);
  EXPECT_TRUE(env.bad.empty());
}

// Bytes that need no decoding stay in the memory that they were received in; decoded ones are right nevertheless.
TEST(StripeReader, SharesWhatNeedsNoDecoding) {
  constexpr uint64_t kSeed = 29;
  SCOPED_TRACE(kSeed);
  IoEnv env(kSeed);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 4);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const std::vector<uint8_t> want = BytesOf(payload);
  const StripeWritten w = env.Write(layout, payload);
  for (const bool degraded : {false, true}) {
    if (degraded) env.cluster.Erase(w.info.columns[1].shard);
    for (int i = 0; i < 50; ++i) {
      const uint64_t offset = env.rng.Below(layout.stripe_bytes);
      const uint64_t length = env.rng.Between(1, layout.stripe_bytes - offset);
      const Result<BufferChain> got =
          RunSim(env.ex, env.reader.ReadShared(env.cluster.ReadGrant(w.info), offset, length));
      ASSERT_TRUE(got.ok()) << got.error();
      EXPECT_EQ(BytesOf(*got), Part(want, offset, length)) << offset << "+" << length;
    }
  }
}

TEST(StripeReader, TellsLocalBytesFromThoseOfTheNetwork) {
  IoEnv env(62, 10, 1, DataPeersOptions{.local_node = "n3"});
  const NodeId local = env.peers.local_node();
  ASSERT_TRUE(local);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 4);
  uint64_t mine = 0, others = 0;
  const auto reader = std::make_shared<ReadTally>();  // of all of them
  const auto read = [&](const StripeInfo& info) {
    auto tally = std::make_shared<ReadTally>();
    std::vector<uint8_t> out(info.shape.payload_bytes);
    EXPECT_TRUE(RunSim(env.ex, env.reader.Read(env.cluster.ReadGrant(info), 0, out, {tally, reader})).ok());
    return *tally;
  };
  StripeInfo last;
  for (int i = 0; i < 10; ++i) {
    const StripeWritten w = env.Write(layout, RandomPayload(env.rng, layout.stripe_bytes));
    ASSERT_TRUE(w.error.ok());
    uint64_t here = 0;
    for (uint32_t c = 0; c < 4; ++c) {
      if (env.peers.NodeOf(w.info.columns[c].target) == local) here += w.info.columns[c].length;
    }
    EXPECT_EQ(read(w.info), (ReadTally{here, layout.stripe_bytes - here, 0}));
    mine += here;
    others += layout.stripe_bytes - here;
    last = w.info;
  }
  EXPECT_GT(mine, 0u);
  EXPECT_EQ(env.reader.stats().tally, (ReadTally{mine, others, 0}));
  EXPECT_EQ(*reader, (ReadTally{mine, others, 0}));
  // A column is gone: as many bytes are fetched from others, and its own are decoded.
  env.cluster.FlipBit(last.columns[1].shard, 5);
  EXPECT_EQ(read(last).reconstructed_bytes, last.columns[1].length);
}

TEST(StripeReader, TooManyLossesSayWhatIsGone) {
  IoEnv env(22);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 4);
  const StripeWritten w = env.Write(layout, RandomPayload(env.rng, layout.stripe_bytes));
  for (uint16_t c : {0, 1}) env.cluster.FlipBit(w.info.columns[c].shard, 0);
  Error error;
  env.Read(w.info, 0, layout.stripe_bytes, &error);
  EXPECT_EQ(error.code, FsError::kIo);
  EXPECT_NE(error.message.find("stripe " + std::to_string(w.info.id.v)), std::string::npos) << error;
  // The rest can still be read.
  EXPECT_EQ(env.Read(w.info, 128 * kKiB, 64 * kKiB, &error).size(), 64 * kKiB) << error;
}

TEST(StripeReader, MissingShardsAndOldTokensAskForFreshExtents) {
  IoEnv env(23);
  const Layout layout = MakeLayout(1, 2, 1, 64 * kKiB, 4);
  const StripeWritten w = env.Write(layout, RandomPayload(env.rng, layout.stripe_bytes));
  Error error;
  env.cluster.ExpireTokens(true);
  env.Read(w.info, 0, 1000, &error);
  EXPECT_EQ(error.code, FsError::kTokenExpired) << error;
  EXPECT_TRUE(env.bad.empty());
  env.cluster.ExpireTokens(false);
  for (const Column& c : w.info.columns) env.cluster.Erase(c.shard);
  env.Read(w.info, 0, 1000, &error);
  EXPECT_EQ(error.code, FsError::kNoSuchShard) << error;
}

TEST(StripeReader, UnreachableNodesAreNotLoss) {
  IoEnv env(24);
  const Layout layout = MakeLayout(1, 2, 1, 64 * kKiB, 4);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeWritten w = env.Write(layout, payload);
  for (uint16_t c : {0, 1}) env.cluster.node(env.cluster.NodeOf(w.info.columns[c].target)).down = true;
  Error error;
  int64_t before = env.ex.NowNs();
  env.Read(w.info, 0, 1000, &error);
  EXPECT_EQ(error.code, FsError::kUnavailable) << error;
  EXPECT_GT(env.ex.NowNs() - before, 15 * kSecond);
  // Once the map says that one server is down, the other alone is not waited for.
  for (uint16_t c : {0, 1})
    env.cluster.SetState(env.cluster.NodeOf(w.info.columns[c].target), NodeState::kDown);
  env.peers.SetMap(env.cluster.Map());
  before = env.ex.NowNs();
  env.Read(w.info, 0, 1000, &error);
  EXPECT_EQ(error.code, FsError::kUnavailable) << error;
  EXPECT_LT(env.ex.NowNs() - before, 100 * kMillisecond);
  // Back again, and read although the client still avoids them.
  for (uint16_t c : {0, 1}) env.cluster.node(env.cluster.NodeOf(w.info.columns[c].target)).down = false;
  EXPECT_EQ(env.Read(w.info, 0, payload.size(), &error), BytesOf(payload)) << error;
}

TEST(StripeReader, WaitsForServersThatRestart) {
  IoEnv env(29);
  const Layout layout = MakeLayout(1, 4, 0, 64 * kKiB, 4);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeWritten w = env.Write(layout, payload);
  const NodeId node = env.cluster.NodeOf(w.info.columns[2].target);
  env.cluster.node(node).down = true;
  Timer back;
  env.ex.StartTimer(&back, env.ex.NowNs() + 7 * kSecond, [&] { env.cluster.node(node).down = false; });
  Error error;
  EXPECT_EQ(env.Read(w.info, 0, payload.size(), &error), BytesOf(payload)) << error;
  EXPECT_LT(env.ex.NowNs() - kSecond, 10 * kSecond);
}

TEST(StripeReader, GivesABusyServerTime) {
  IoEnv env(30);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 4);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeWritten w = env.Write(layout, payload);
  for (uint32_t n = 1; n <= 10; ++n) env.cluster.node(NodeId(n)).busy_percent = 40;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(env.Read(w.info, 0, payload.size()), BytesOf(payload));
  EXPECT_LT(env.bad.size(), 5u);
}

TEST(StripeReader, RacesASlowNode) {
  IoEnv env(25);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 4);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeWritten w = env.Write(layout, payload);
  for (int i = 0; i < 5; ++i) env.Read(w.info, 0, payload.size());
  env.cluster.node(env.cluster.NodeOf(w.info.columns[1].target)).delay_ns = 2 * kSecond;
  const int64_t before = env.ex.NowNs();
  EXPECT_EQ(env.Read(w.info, 0, payload.size()), BytesOf(payload));
  EXPECT_LT(env.ex.NowNs() - before, 100 * kMillisecond);
  EXPECT_EQ(env.reader.stats().hedged, 1u);
  EXPECT_TRUE(env.bad.empty());
}

TEST(StripeReader, ADeadNodeCostsLittle) {
  IoEnv env(26);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 4);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeWritten w = env.Write(layout, payload);
  for (int i = 0; i < 5; ++i) env.Read(w.info, 0, payload.size());
  const NodeId dead = env.cluster.NodeOf(w.info.columns[1].target);
  env.cluster.node(dead).hung = true;
  const uint64_t asked = env.cluster.counters(dead).reads;
  const int64_t before = env.ex.NowNs();
  for (int i = 0; i < 200; ++i) EXPECT_EQ(env.Read(w.info, 0, payload.size()), BytesOf(payload));
  EXPECT_LT(env.ex.NowNs() - before, kSecond);
  EXPECT_LE(env.cluster.counters(dead).reads - asked, 4u);
  // It is tried again when it is back.
  env.cluster.node(dead).hung = false;
  env.ex.RunFor(60 * kSecond);
  for (int i = 0; i < 3; ++i) env.Read(w.info, 0, payload.size());
  EXPECT_EQ(env.peers.ReadinessOf(w.info.columns[1].target), Readiness::kGood);
}

TEST(StripeReader, ReadsManyRangesWithFewRequests) {
  IoEnv env(27, 5);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 4);
  std::vector<StripeInfo> stripes;
  std::vector<std::vector<uint8_t>> want;
  for (int i = 0; i < 3; ++i) {
    const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
    stripes.push_back(env.Write(layout, payload).info);
    want.push_back(BytesOf(payload));
  }
  const uint64_t before = env.cluster.Total().reads;
  std::vector<std::vector<uint8_t>> out(12);
  std::vector<StripeRange> ranges;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].resize(5000);
    ranges.push_back({env.cluster.ReadGrant(stripes[i % 3]), i * 70'000, out[i]});
  }
  for (const Result<void>& r : RunSim(env.ex, env.reader.ReadMany(ranges))) EXPECT_TRUE(r.ok()) << r.error();
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], Part(want[i % 3], i * 70'000, 5000));
  EXPECT_LE(env.cluster.Total().reads - before, 5u);
}

// One failed range does not spoil the others.
TEST(StripeReader, ResultsAreOnePerRange) {
  IoEnv env(28, 5);
  const Layout layout = MakeLayout(1, 1, 0, 64 * kKiB, 4);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  const StripeInfo a = env.Write(layout, payload).info, b = env.Write(layout, payload).info;
  env.cluster.Erase(a.columns[0].shard);
  std::vector<uint8_t> out_a(100), out_b(100);
  std::vector<StripeRange> ranges{{env.cluster.ReadGrant(a), 0, out_a}, {env.cluster.ReadGrant(b), 0, out_b}};
  const std::vector<Result<void>> r = RunSim(env.ex, env.reader.ReadMany(ranges));
  EXPECT_EQ(r[0].code(), FsError::kNoSuchShard);
  EXPECT_TRUE(r[1].ok());
  EXPECT_EQ(out_b, Part(BytesOf(payload), 0, 100));
}

}  // namespace
}  // namespace stria
