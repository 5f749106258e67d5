#include "client/vfs/read_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "client/io/io_test_env.h"
#include "client/session/read_tracker.h"

namespace stria {
namespace {

constexpr uint64_t kBlock = StripeBlocks::kBlock;
constexpr InodeId kIno{4};

// A file of one stripe, and what a metadata server would say of it.
class ReadPathTest : public ::testing::Test {
 public:
  ReadPathTest()
      : env(5), tally(std::make_shared<ReadTally>()),
        blocks(32 * kBlock, env.reader, [this] { return reads.Begin(); }, counters, scope),
        mappings(kMiB, 10 * kSecond, Needs()), file(std::make_shared<InodeMapping>(kIno, proof, tally, mappings.budget())),
        room(4 * kMiB, mappings, blocks, env.peers, scope) {
    const Layout layout = MakeLayout(1, 4, 1, 256 * kKiB, 16);
    payload = RandomPayload(env.rng, layout.stripe_bytes);
    const StripeWritten written = env.Write(layout, payload);
    EXPECT_TRUE(written.error.ok());
    stripe = written.info;
  }
  ~ReadPathTest() override { scope.CancelAll(); }

  MappingsNeeds Needs() {
    MappingsNeeds needs;
    needs.may_keep = [](const InodeMappingPtr&) { return true; };
    needs.ask = [this](GetExtentsRequest r) -> Task<Result<GetExtentsReply>> {
      co_await Sleep(kMillisecond);
      GetExtentsReply reply;
      reply.extents = {Extent{.file_offset = 0, .length = payload.size(), .stripe = stripe.id, .stripe_offset = 0}};
      reply.stripes = {*env.cluster.ReadGrant(stripe)};
      reply.covered_to = r.offset + r.length;
      reply.tokens_live_ns = 3600 * kSecond;
      co_return reply;
    };
    return needs;
  }

  void KnowMapping() { ASSERT_TRUE(RunSim(env.ex, mappings.Ensure(file, 0, payload.size(), false)).ok()); }
  bool Next(uint64_t offset, uint64_t length, bool caches = true) {
    return room.NextRead(&reader, file, tally, offset, length, payload.size(), caches);
  }
  std::vector<uint8_t> Bytes(uint64_t offset, uint64_t length) const { return BytesOf(payload.Slice(offset, length)); }
  static DirtyPiece Dirty(uint64_t offset, const std::string& bytes) { return {offset, Buffer::FromString(bytes)}; }

  IoEnv env;
  ReadTracker reads;
  IoCounters counters;
  std::string proof;
  std::shared_ptr<ReadTally> tally;
  TaskScope scope;
  StripeBlocks blocks;
  Mappings mappings;
  InodeMappingPtr file;
  ReadPath room;
  BufferChain payload;
  StripeInfo stripe;
  FileReader reader;
};

TEST_F(ReadPathTest, DirtyBytesWinOverTheMapping) {
  KnowMapping();
  ReadParts parts;
  const auto covered =
      room.Add({Dirty(1010, "dirty"), Dirty(1090, "too")}, file->known(), 1000, 1100, false, tally, &parts);
  ASSERT_TRUE(covered.ok() && *covered);
  const auto read = RunSim(env.ex, ReadPath::Fetch(std::move(parts)));
  ASSERT_TRUE(read.ok());
  std::vector<uint8_t> expected = Bytes(1000, 100);
  const std::string dirty = "dirty", too = "too";
  std::copy(dirty.begin(), dirty.end(), expected.begin() + 10);
  std::copy(too.begin(), too.end(), expected.begin() + 90);
  EXPECT_EQ(BytesOf(*read), expected);
}

TEST_F(ReadPathTest, HolesAndInlineBytes) {
  ExtentCache extents;
  extents.Know(0, 300'000, {Extent{.file_offset = 200'000, .length = 3, .inline_bytes = "abc"}});
  ReadParts parts;
  const auto covered = room.Add({}, extents, 0, 300'000, false, tally, &parts);
  ASSERT_TRUE(covered.ok() && *covered);
  const auto read = RunSim(env.ex, ReadPath::Fetch(std::move(parts)));
  ASSERT_TRUE(read.ok());
  std::vector<uint8_t> expected(300'000, 0);
  expected[200'000] = 'a', expected[200'001] = 'b', expected[200'002] = 'c';
  EXPECT_EQ(BytesOf(*read), expected);
}

// What is neither dirty nor mapped is nobody's.
TEST_F(ReadPathTest, AGapIsNotRead) {
  ExtentCache extents;
  extents.Know(0, 100, {});
  ReadParts parts;
  const auto covered = room.Add({Dirty(120, "x")}, extents, 0, 121, false, tally, &parts);
  ASSERT_TRUE(covered.ok());
  EXPECT_FALSE(*covered);
}

// A fresh mapping mends only that it was old: what else went wrong says more.
TEST_F(ReadPathTest, OtherErrorsAreToldBeforeAnOldMapping) {
  const auto failing = [](FsError e) -> Task<Result<BufferChain>> { co_return Error(e); };
  const auto fetch = [&](const std::vector<FsError>& errors) {
    ReadParts parts;
    for (const FsError e : errors) {
      parts.pieces.emplace_back();
      parts.read_into.push_back(parts.pieces.size() - 1);
      parts.parts.push_back(failing(e));
    }
    return RunSim(env.ex, ReadPath::Fetch(std::move(parts))).code();
  };
  EXPECT_EQ(fetch({FsError::kNoSuchShard, FsError::kIo, FsError::kTimedOut}), FsError::kIo);
  EXPECT_EQ(fetch({FsError::kTokenExpired, FsError::kNoSuchShard}), FsError::kNoSuchShard);
}

TEST_F(ReadPathTest, AheadOfASequentialReaderIsFetched) {
  uint64_t offset = 0;
  bool sequential = false;
  for (int i = 0; i < 16; ++i, offset += 128 * kKiB) sequential = Next(offset, 128 * kKiB);
  EXPECT_TRUE(sequential);
  RunSim(env.ex, scope.Join());
  EXPECT_GE(counters.fetched_bytes, kBlock);
  EXPECT_LE(counters.fetched_bytes, payload.size());
  const uint64_t fetched = counters.fetched_bytes;
  ReadParts parts;
  const auto covered = room.Add({}, file->known(), offset, offset + 128 * kKiB, sequential, tally, &parts);
  ASSERT_TRUE(covered.ok() && *covered);
  const auto read = RunSim(env.ex, ReadPath::Fetch(std::move(parts)));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(BytesOf(*read), Bytes(offset, 128 * kKiB));
  EXPECT_EQ(counters.fetched_bytes, fetched);
}

TEST_F(ReadPathTest, NothingIsFetchedAheadOfARandomReader) {
  for (const uint64_t offset : {9, 3, 12, 1, 7}) EXPECT_FALSE(Next(offset * kBlock, 4096));
  RunSim(env.ex, scope.Join());
  EXPECT_EQ(counters.fetched_bytes, 0u);
}

// Where the mapping may not be kept, others write.
TEST_F(ReadPathTest, NothingIsFetchedAheadOfWhatOthersWrite) {
  for (uint64_t i = 0; i < 16; ++i) EXPECT_FALSE(Next(i * 128 * kKiB, 128 * kKiB, /*caches=*/false));
  RunSim(env.ex, scope.Join());
  EXPECT_EQ(counters.fetched_bytes, 0u);
}

TEST_F(ReadPathTest, NothingIsFetchedBehindTheEnd) {
  const uint64_t size = 2 * kMiB;
  for (uint64_t at = 0; at < size; at += 128 * kKiB) {
    (void)room.NextRead(&reader, file, tally, at, 128 * kKiB, size, true);
  }
  RunSim(env.ex, scope.Join());
  EXPECT_LE(counters.fetched_bytes, size);
}

// Without a node of its own a client has no shard beside it.
TEST_F(ReadPathTest, NoShardIsLocalToAClientWithoutDisks) {
  KnowMapping();
  EXPECT_FALSE(room.LocalShard(file->known(), payload.size(), 1));
}

// A file that is one column on this node's disk.
TEST(LocalShardTest, AFileThatIsOneColumnHere) {
  const Layout layout = MakeLayout(1, 1, 0, 256 * kKiB, 4);
  for (const bool here : {true, false}) {
    IoEnv env(11, 2);
    const BufferChain payload = RandomPayload(env.rng, 100'000);
    const StripeWritten written = env.Write(layout, payload);
    ASSERT_TRUE(written.error.ok());
    const TargetId target = written.info.columns[0].target;
    DataPeersOptions options;
    const std::shared_ptr<const ClusterMap> map = env.cluster.Map();
    for (const NodeInfo& n : map->nodes) {
      if ((n.id == env.peers.NodeOf(target)) == here) options.local_node = n.name;
    }
    DataPeers peers(env.cluster, options);
    peers.SetMap(map);
    ReadTracker reads;
    IoCounters counters;
    TaskScope scope;
    StripeBlocks blocks(kMiB, env.reader, [&] { return reads.Begin(); }, counters, scope);
    Mappings mappings(kMiB, kSecond, MappingsNeeds());
    const ReadPath room(kMiB, mappings, blocks, peers, scope);
    ExtentCache extents;
    GetExtentsReply reply;
    reply.extents = {Extent{.file_offset = 0, .length = 100'000, .stripe = written.info.id, .stripe_offset = 0}};
    reply.stripes = {*env.cluster.ReadGrant(written.info)};
    reply.covered_to = 100'000;
    reply.tokens_live_ns = 3600 * kSecond;
    extents.Add(0, reply, env.ex.NowNs());
    const auto shard = room.LocalShard(extents, 100'000, 100'000);
    EXPECT_EQ(shard.has_value(), here);
    EXPECT_FALSE(room.LocalShard(extents, 99'999, 99'999));  // the shard is longer
    if (shard) EXPECT_EQ(shard->shard, written.info.columns[0].shard);
  }
}

}  // namespace
}  // namespace stria
