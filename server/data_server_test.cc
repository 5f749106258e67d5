#include "server/data_server.h"

#include <gtest/gtest.h>

#include "common/bound_token.h"
#include "server/node_testing.h"

namespace stria {
namespace {

constexpr uint64_t kBlock = kChecksumBlockBytes;

class DataServerTest : public ::testing::Test {
 protected:
  DataServerTest() : ex_(1), nodes_(ex_, 1, 1), second_(77) {
    second_.Start(ex_);
    server()->SetTarget(TargetId(2), second_.store.get());
  }
  DataServer* server() { return nodes_.nodes.at(1).server.get(); }
  template <class T>
  T Run(Task<T> task) {
    return RunSim(ex_, std::move(task));
  }
  ShardWrite WriteOf(uint64_t id, size_t target, uint64_t length, bool seal, BufferChain* payload) {
    const std::string bytes = BytesOf(ShardId(id), length);
    payload->Append(Buffer::FromString(bytes));
    ShardWrite w;
    w.shard = ShardId(id);
    w.target = TargetId(static_cast<uint32_t>(target));
    w.token = nodes_.Token(ShardId(id), target, kTokenWrite);
    w.length = length;
    w.crcs = TableOf(ShardId(id), bytes);
    w.seal = seal;
    return w;
  }
  WriteRequest OneWrite(uint64_t id, uint64_t length) {
    WriteRequest r;
    r.header = nodes_.Header();
    r.items.push_back(WriteOf(id, 1, length, true, &r.payload));
    return r;
  }
  ReadRequest OneRead(uint64_t id, uint64_t length) {
    ReadRequest r;
    r.header = nodes_.Header();
    r.items.push_back({ShardId(id), TargetId(1), nodes_.Token(ShardId(id), 1, kTokenRead), 0, length});
    return r;
  }
  FsError ReadCode(ReadRequest r) {
    const Result<ReadReply> reply = Run(server()->Read(std::move(r)));
    return reply.ok() ? reply->items[0].result.code : reply.code();
  }

  SimExecutor ex_;
  SimNodes nodes_;
  SimStore second_;
};

TEST_F(DataServerTest, VectorRequestsOverTwoDisks) {
  WriteRequest w;
  w.header = nodes_.Header();
  for (uint64_t id = 1; id <= 8; ++id)
    w.items.push_back(WriteOf(id, 1 + id % 2, 1000 * id, true, &w.payload));
  const Result<WriteReply> written = Run(server()->Write(w));
  ASSERT_TRUE(written.ok()) << written.error();
  for (uint64_t id = 1; id <= 8; ++id) {
    const SealResult& r = written->items[id - 1];
    EXPECT_EQ(r.result.code, FsError::kOk) << r.result.message;
    EXPECT_EQ(r.digest, DigestOf(ShardId(id), BytesOf(ShardId(id), 1000 * id)));
  }
  ReadRequest r;
  r.header = nodes_.Header();
  for (uint64_t id : {3, 99, 6}) {
    r.items.push_back({ShardId(id), TargetId(static_cast<uint32_t>(1 + id % 2)),
                       nodes_.Token(ShardId(id), 1 + id % 2, kTokenRead), 0, 1000 * id});
  }
  const Result<ReadReply> read = Run(server()->Read(r));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->items[1].result.code, FsError::kNoSuchShard);
  EXPECT_EQ(read->items[1].length, 0u);
  EXPECT_TRUE(Flat(read->payload) == BytesOf(ShardId(3), 3000) + BytesOf(ShardId(6), 6000));
  EXPECT_EQ(read->items[2].crcs, TableOf(ShardId(6), BytesOf(ShardId(6), 6000)));

  // Of whole blocks, but only a part is sent.
  r.items = {r.items[0], r.items[2]};
  r.items[0].omit_head = 1000;
  r.items[0].omit_tail = 1999;
  r.items[1].omit_tail = 4000;
  const Result<ReadReply> parts = Run(server()->Read(r));
  ASSERT_TRUE(parts.ok());
  EXPECT_TRUE(Flat(parts->payload) == BytesOf(ShardId(3), 3000).substr(1000, 1) + BytesOf(ShardId(6), 6000).substr(0, 2000));
  EXPECT_EQ(parts->items[0].crcs, TableOf(ShardId(3), BytesOf(ShardId(3), 3000)));
  ReadRequest too_much = r;
  too_much.items[0].omit_head = 1001;
  too_much.items[0].omit_tail = 1999;
  EXPECT_EQ(Run(server()->Read(too_much)).code(), FsError::kBadRequest);
  const Buffer sent = parts->payload.Flatten();
  EXPECT_EQ(FirstBadBlock(ShardId(3), 0, sent.span().first(1), parts->items[0].left_out, parts->items[0].crcs), std::nullopt);
  EXPECT_EQ(FirstBadBlock(ShardId(6), 0, sent.span().subspan(1), parts->items[1].left_out, parts->items[1].crcs),
            std::nullopt);

  DeleteRequest d;
  d.header = nodes_.Header();
  for (uint64_t id = 1; id <= 8; ++id) {
    d.items.push_back({ShardId(id), TargetId(static_cast<uint32_t>(1 + id % 2)),
                       nodes_.Token(ShardId(id), 1 + id % 2, kTokenDelete)});
  }
  d.items.push_back(d.items[0]);
  const Result<DeleteReply> deleted = Run(server()->Delete(d));
  for (const ItemResult& item : deleted.value().items) EXPECT_EQ(item.code, FsError::kOk);
  EXPECT_EQ(ReadCode(OneRead(2, 2000)), FsError::kNoSuchShard);
}

TEST_F(DataServerTest, SealsSeparatelyAndListsWhatItHas) {
  WriteRequest w;
  w.header = nodes_.Header();
  w.items.push_back(WriteOf(1, 1, 2 * kBlock, false, &w.payload));
  EXPECT_TRUE(Run(server()->Write(w)).ok());
  SealRequest s;
  s.header = nodes_.Header();
  s.items.push_back({ShardId(1), TargetId(1), nodes_.Token(ShardId(1), 1, kTokenWrite), 2 * kBlock});
  s.items.push_back({ShardId(9), TargetId(1), nodes_.Token(ShardId(9), 1, kTokenWrite), 5});
  const Result<SealReply> sealed = Run(server()->Seal(s));
  EXPECT_EQ(sealed->items[0].digest, DigestOf(ShardId(1), BytesOf(ShardId(1), 2 * kBlock)));
  EXPECT_EQ(sealed->items[1].result.code, FsError::kNoSuchShard);
  InventoryRequest i;
  i.header = nodes_.Header();
  i.target = TargetId(1);
  const Result<InventoryReply> inventory = Run(server()->Inventory(i));
  ASSERT_EQ(inventory->shards.size(), 1u);
  EXPECT_EQ(inventory->shards[0].length, 2 * kBlock);
  i.target = TargetId(3);
  EXPECT_EQ(Run(server()->Inventory(i)).code(), FsError::kNoEnt);
}

TEST_F(DataServerTest, RefusesWhatHasNoRight) {
  ASSERT_TRUE(Run(server()->Write(OneWrite(1, 100))).ok());
  auto with = [&](std::string token) {
    ReadRequest r = OneRead(1, 100);
    r.items[0].token = std::move(token);
    return ReadCode(std::move(r));
  };
  EXPECT_EQ(ReadCode(OneRead(1, 100)), FsError::kOk);
  EXPECT_EQ(with(""), FsError::kBadToken);
  EXPECT_EQ(with("nonsense"), FsError::kBadToken);
  EXPECT_EQ(with(nodes_.Token(ShardId(2), 1, kTokenRead)), FsError::kBadToken);   // another shard
  EXPECT_EQ(with(nodes_.Token(ShardId(1), 2, kTokenRead)), FsError::kBadToken);   // another target
  EXPECT_EQ(with(nodes_.Token(ShardId(1), 1, kTokenWrite)), FsError::kBadToken);  // another right
  std::string forged = nodes_.Token(ShardId(1), 1, kTokenRead);
  forged.back() = static_cast<char>(forged.back() ^ 1);
  EXPECT_EQ(with(forged), FsError::kBadToken);
  const std::string good = nodes_.Token(ShardId(1), 1, kTokenRead | kTokenDelete);
  EXPECT_EQ(with(good), FsError::kOk);
  DeleteRequest d;
  d.header = nodes_.Header();
  d.items.push_back({ShardId(1), TargetId(1), nodes_.Token(ShardId(1), 1, kTokenWrite)});
  EXPECT_EQ(Run(server()->Delete(d))->items[0].code, FsError::kBadToken);
  WriteRequest w = OneWrite(5, 100);
  w.items[0].token = nodes_.Token(ShardId(5), 1, kTokenRead);
  EXPECT_EQ(Run(server()->Write(w))->items[0].result.code, FsError::kBadToken);
  ex_.RunFor(2 * 3600 * kSecond);
  EXPECT_EQ(with(good), FsError::kTokenExpired);
  EXPECT_EQ(ReadCode(OneRead(1, 100)), FsError::kOk);
  EXPECT_GT(server()->stats().refused_tokens, 5u);
}

// Callers who prove who they are need tokens of their own, signed with the node's key.
class BoundTokensTest : public DataServerTest {
 protected:
  static constexpr Uuid kThisNode{1, 5};
  int64_t NowS() { return server()->TokenTimeS(); }
  void GiveKeys() {
    std::vector<NodeTokenKey> keys;
    for (const ClusterKey& k : NodeKeysAround(TestKey(), kThisNode, NowS())) keys.push_back({k.id, std::string(k.secret.begin(), k.secret.end())});
    nodes_.verifier.TakeKeys(keys, kTestIncarnation);
  }
  static std::shared_ptr<const Peer> PeerOf(uint8_t key) {
    auto p = std::make_shared<Peer>();
    p->name = "pc" + std::to_string(key);
    p->key_hash.fill(key);
    return p;
  }
  std::string Bound(uint64_t id, uint8_t rights, uint64_t most_bytes = 0, uint8_t holder = 7) {
    BoundToken t;
    t.shard = ShardId(id);
    t.target = TargetId(1);
    t.rights = rights;
    t.expiry_s = NowS() + 600;
    t.holder = PeerOf(holder)->Holder();
    t.most_bytes = most_bytes;
    t.incarnation = kTestIncarnation;
    return EncodeBoundToken(BoundTokenSigner(DeriveNodeKey(TestKey(), kThisNode, KeyGeneration(NowS()))).Sign(t));
  }
  FsError WriteCode(WriteRequest w) { return Run(server()->Write(std::move(w)))->items[0].result.code; }
};

TEST_F(BoundTokensTest, EveryCallAsksWhoseTokenItIs) {
  GiveKeys();
  const auto pc7 = PeerOf(7), pc8 = PeerOf(8);
  const auto write = [&](std::shared_ptr<const Peer> who, std::string token) {
    WriteRequest w = OneWrite(1, 100);
    w.header.peer = std::move(who);
    w.items[0].token = std::move(token);
    return WriteCode(std::move(w));
  };
  EXPECT_EQ(write(pc8, Bound(1, kTokenWrite, 100)), FsError::kBadToken) << "another's";
  EXPECT_EQ(write(nullptr, Bound(1, kTokenWrite, 100)), FsError::kBadToken) << "nobody's";
  EXPECT_EQ(write(pc7, nodes_.Token(ShardId(1), 1, kTokenWrite)), FsError::kBadToken) << "one that is for anybody";
  EXPECT_EQ(write(pc7, Bound(1, kTokenWrite, 100)), FsError::kOk);

  const auto read = [&](std::shared_ptr<const Peer> who) {
    ReadRequest r = OneRead(1, 100);
    r.header.peer = std::move(who);
    r.items[0].token = Bound(1, kTokenRead);
    return ReadCode(std::move(r));
  };
  EXPECT_EQ(read(pc8), FsError::kBadToken);
  EXPECT_EQ(read(nullptr), FsError::kBadToken);
  EXPECT_EQ(read(pc7), FsError::kOk);

  const auto seal = [&](std::shared_ptr<const Peer> who) {
    SealRequest s;
    s.header = nodes_.Header();
    s.header.peer = std::move(who);
    s.items.push_back({ShardId(1), TargetId(1), Bound(1, kTokenWrite, 100), 100});
    return Run(server()->Seal(s))->items[0].result.code;
  };
  EXPECT_EQ(seal(pc8), FsError::kBadToken);
  EXPECT_EQ(seal(pc7), FsError::kOk);

  const auto remove = [&](std::shared_ptr<const Peer> who) {
    DeleteRequest d;
    d.header = nodes_.Header();
    d.header.peer = std::move(who);
    d.items.push_back({ShardId(1), TargetId(1), Bound(1, kTokenDelete)});
    return Run(server()->Delete(d))->items[0].code;
  };
  EXPECT_EQ(remove(pc8), FsError::kBadToken);
  EXPECT_EQ(read(pc7), FsError::kOk) << "it is still there";
  EXPECT_EQ(remove(pc7), FsError::kOk);
  EXPECT_EQ(read(pc7), FsError::kNoSuchShard);
}

TEST_F(BoundTokensTest, AWriterWritesAndSealsNoMoreThanItsTokenSays) {
  GiveKeys();
  const auto pc7 = PeerOf(7);
  WriteRequest w = OneWrite(1, kBlock);
  w.header.peer = pc7;
  w.items[0].seal = false;
  w.items[0].token = Bound(1, kTokenWrite, kBlock - 1);
  EXPECT_EQ(WriteCode(w), FsError::kBadToken);
  w.items[0].token = Bound(1, kTokenWrite, kBlock);
  EXPECT_EQ(WriteCode(w), FsError::kOk);
  WriteRequest more = w;
  more.items[0].offset = kBlock;
  EXPECT_EQ(WriteCode(more), FsError::kBadToken) << "the end counts, not the length";
  more.items[0].offset = UINT64_MAX - kBlock + 1;
  EXPECT_EQ(WriteCode(more), FsError::kBadToken) << "nor an end that is too large for its number";
  SealRequest s;
  s.header = nodes_.Header();
  s.header.peer = pc7;
  s.items.push_back({ShardId(1), TargetId(1), Bound(1, kTokenWrite, kBlock - 1), kBlock});
  EXPECT_EQ(Run(server()->Seal(s))->items[0].result.code, FsError::kBadToken);
}

TEST_F(BoundTokensTest, ANodeWithoutKeysSaysThatItIsNotReady) {
  WriteRequest w = OneWrite(1, 100);
  w.header.peer = PeerOf(7);
  w.items[0].token = Bound(1, kTokenWrite, 100);
  EXPECT_EQ(WriteCode(w), FsError::kNotReady);
  GiveKeys();
  EXPECT_EQ(WriteCode(w), FsError::kOk);
}

// Whoever says that he is not in a hurry waits with others of that kind: those are the cluster's own.
TEST_F(BoundTokensTest, BogusBackgroundReadsOfAClientTakeNoPlaceOfRepairs) {
  GiveKeys();
  WriteRequest w = OneWrite(1, 100);
  w.header.peer = PeerOf(7);
  w.items[0].token = Bound(1, kTokenWrite, 100);
  ASSERT_EQ(WriteCode(w), FsError::kOk);
  auto node = std::make_shared<Peer>(*PeerOf(7));
  node->role = Role::kData;
  const GateUse others = server()->gate().Foreground(0);  // the node is in use
  for (const Role role : {Role::kClient, Role::kData}) {
    auto hostile = std::make_shared<Peer>(*PeerOf(8));
    hostile->role = role;
    TaskScope scope;
    for (int i = 0; i < 1024; ++i) {
      ReadRequest r = OneRead(1, kMaxPayloadBytes);
      r.header.peer = hostile;
      r.header.background = true;
      r.header.timeout_ns = 30 * kSecond;
      r.items[0].token = Bound(1, kTokenRead);  // another's
      scope.Spawn([](DataServer* s, ReadRequest read) -> Task<void> { (void)co_await s->Read(std::move(read)); }(server(), std::move(r)));
    }
    ex_.RunFor(kMillisecond);
    EXPECT_EQ(server()->background(), 0);
    ReadRequest r = OneRead(1, 100);
    r.header.peer = node;
    r.header.background = true;
    r.header.timeout_ns = 30 * kSecond;
    r.items[0].token = Bound(1, kTokenRead);
    EXPECT_EQ(ReadCode(r), FsError::kOk) << RoleName(role);
  }
}

TEST_F(BoundTokensTest, OnePeerDoesNotTakeAllMemory) {
  GiveKeys();
  WriteRequest w = OneWrite(1, kMaxPayloadBytes);
  w.header.peer = PeerOf(7);
  w.items[0].token = Bound(1, kTokenWrite, kMaxPayloadBytes);
  ASSERT_EQ(WriteCode(w), FsError::kOk);
  DataServerOptions options;
  options.max_read_bytes = 64 * kMaxPayloadBytes;
  options.max_requests = 64;
  nodes_.nodes.at(1).sim->disk_media->faults.hung = true;
  for (const uint64_t length : {uint64_t{kMaxPayloadBytes}, kBlock}) {
    DataServer small(&nodes_.verifier, options);
    small.SetCluster(kTestCluster, kTestIncarnation);
    small.SetTarget(TargetId(1), nodes_.store(1));
    std::map<FsError, size_t> refused;
    const auto ask = [&](uint8_t who) {
      ReadRequest r = OneRead(1, length);
      r.header.peer = PeerOf(who);
      r.header.timeout_ns = 5 * kSecond;
      r.items[0].token = Bound(1, kTokenRead, 0, who);
      return [](DataServer* s, ReadRequest read, std::map<FsError, size_t>* out) -> Task<void> {
        const Result<ReadReply> reply = co_await s->Read(std::move(read));
        ++(*out)[reply.ok() ? reply->items[0].result.code : reply.code()];
      }(&small, std::move(r), &refused);
    };
    TaskScope scope;
    for (int i = 0; i < 64; ++i) scope.Spawn(ask(7));
    ex_.RunFor(kMillisecond);
    EXPECT_GE(refused[FsError::kRetryLater], 32u);
    refused.clear();
    scope.Spawn(ask(8));
    scope.Spawn(ask(9));
    ex_.RunFor(kMillisecond);
    EXPECT_EQ(refused[FsError::kRetryLater], 0u) << "others have room";
    ex_.RunFor(10 * kSecond);
    refused.clear();
    scope.Spawn(ask(7));
    ex_.RunFor(10 * kSecond);
    EXPECT_EQ(refused[FsError::kRetryLater], 0u) << "what is done counts no more";
  }
}

TEST_F(DataServerTest, RefusesStrangersAndMalformedRequests) {
  ASSERT_TRUE(Run(server()->Write(OneWrite(1, 100))).ok());
  ReadRequest r = OneRead(1, 100);
  r.header.protocol = r.header.oldest_protocol = kProtocolVersion + 1;
  EXPECT_EQ(ReadCode(r), FsError::kVersion);
  r = OneRead(1, 100);
  r.header.cluster = Uuid{5, 5};
  EXPECT_EQ(ReadCode(r), FsError::kWrongCluster);
  r = OneRead(1, 100);
  r.header.incarnation = kTestIncarnation - 1;
  EXPECT_EQ(ReadCode(r), FsError::kWrongCluster);
  r.header.incarnation = kTestIncarnation + 1;
  EXPECT_EQ(ReadCode(r), FsError::kRetryLater);
  r = OneRead(1, kMaxPayloadBytes + 1);
  EXPECT_EQ(ReadCode(r), FsError::kBadRequest);
  r = OneRead(1, UINT64_MAX);
  r.items.push_back(r.items[0]);
  EXPECT_EQ(ReadCode(r), FsError::kBadRequest);
  r = OneRead(1, 100);
  r.items.resize(kMaxDataItems + 1);
  EXPECT_EQ(ReadCode(r), FsError::kBadRequest);
  WriteRequest w = OneWrite(2, 100);
  w.items[0].length = 101;
  EXPECT_EQ(Run(server()->Write(w)).code(), FsError::kBadRequest);
  w = OneWrite(2, 100);
  w.items[0].crcs[0] ^= 1;
  EXPECT_EQ(Run(server()->Write(w))->items[0].result.code, FsError::kChecksum);
  DataServer fresh(&nodes_.verifier);
  EXPECT_EQ(Run(fresh.Read(OneRead(1, 100))).code(), FsError::kNotReady);
}

TEST_F(DataServerTest, ShedsLoadBeyondItsMemory) {
  DataServerOptions options;
  options.max_write_bytes = 3 * kMiB;
  DataServer small(&nodes_.verifier, options);
  small.SetCluster(kTestCluster, kTestIncarnation);
  small.SetTarget(TargetId(1), nodes_.store(1));
  std::vector<Task<Result<WriteReply>>> tasks;
  for (uint64_t id = 1; id <= 6; ++id) tasks.push_back(small.Write(OneWrite(id, kMiB)));
  int done = 0, refused = 0;
  for (const Result<WriteReply>& r : Run(WhenAll(std::move(tasks)))) {
    if (r.ok()) ++done;
    if (r.code() == FsError::kRetryLater) ++refused;
  }
  EXPECT_EQ(done, 3);
  EXPECT_EQ(refused, 3);
  EXPECT_TRUE(Run(small.Write(OneWrite(7, kMiB))).ok());
}

TEST_F(DataServerTest, OneHungDiskDoesNotHoldUpTheOther) {
  WriteRequest w;
  w.header = nodes_.Header();
  w.items.push_back(WriteOf(1, 1, 1000, true, &w.payload));
  w.items.push_back(WriteOf(2, 2, 1000, true, &w.payload));
  ASSERT_TRUE(Run(server()->Write(w)).ok());
  second_.disk_media->faults.hung = true;
  ReadRequest r = OneRead(1, 1000);
  r.header.timeout_ns = 2 * kSecond;
  r.items.push_back({ShardId(2), TargetId(2), nodes_.Token(ShardId(2), 2, kTokenRead), 0, 1000});
  const Result<ReadReply> reply = Run(server()->Read(r));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->items[0].result.code, FsError::kOk);
  EXPECT_EQ(reply->items[1].result.code, FsError::kDeadline);
  EXPECT_TRUE(Flat(reply->payload) == BytesOf(ShardId(1), 1000));
}

TEST_F(DataServerTest, AWriteEndsAlthoughTheCallerGoesAway) {
  {
    TaskScope scope;
    scope.Spawn([](DataServer* s, WriteRequest w) -> Task<void> { (void)co_await s->Write(std::move(w)); }(
                                                      server(), OneWrite(1, kMiB)));
    ex_.RunFor(100 * kMicrosecond);
  }
  ex_.RunFor(kSecond);
  EXPECT_EQ(ReadCode(OneRead(1, kMiB)), FsError::kOk);
  EXPECT_EQ(Run(server()->Write(OneWrite(1, kMiB)))->items[0].result.code, FsError::kOk);  // the retry
}

}  // namespace
}  // namespace stria
