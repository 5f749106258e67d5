#include <gtest/gtest.h>

#include <fcntl.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/exec/loop_executor.h"
#include "common/random.h"
#include "common/temp_dir.h"
#include "proto/local_client.h"
#include "proto/local_server.h"
#include "proto/local_wire.h"

namespace stria {
namespace {

constexpr char kAddress[] = "10.9.8.7:7402";

void RunTest(std::function<Task<void>(Executor*)> body) {
  LoopExecutor ex;
  ex.MakeCurrent();
  TaskScope scope;
  scope.Spawn([](LoopExecutor* loop, std::function<Task<void>(Executor*)> fn) -> Task<void> {
    co_await fn(loop);
    loop->Stop();
  }(&ex, std::move(body)));
  ex.Run();
}

std::string Address(const char* test) { return std::string(kAddress) + "/" + test + std::to_string(getpid()); }

// Files of random bytes; the "checksum" of a block is its number and the shard's, which is all that matters
// here.
class FakeShards final : public LocalShards {
 public:
  void Add(ShardId shard, uint64_t length, uint64_t seed) {
    Random rng(seed);
    std::string bytes(length, '\0');
    for (char& c : bytes) c = static_cast<char>(rng.Next());
    const std::string path = dir_.path() + "/" + std::to_string(shard.v);
    const UniqueFd fd(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
    EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    content[shard] = std::move(bytes);
  }
  static std::vector<uint32_t> Crcs(ShardId shard, uint64_t offset, uint64_t length) {
    std::vector<uint32_t> out;
    for (uint64_t b = offset / kChecksumBlockBytes; b < DivCeil(offset + length, kChecksumBlockBytes); ++b) {
      out.push_back(static_cast<uint32_t>(1000 * shard.v + b));
    }
    return out;
  }
  Task<Result<LocalShard>> OpenLocal(ShardId shard, TargetId, std::string token) override {
    ++opened;
    if (token != "good") co_return Error(FsError::kBadToken);
    if (packed.contains(shard)) co_return Error(FsError::kNotSupported);
    const auto it = content.find(shard);
    if (it == content.end()) co_return Error(FsError::kNoSuchShard);
    const std::string path = dir_.path() + "/" + std::to_string(shard.v);
    const uint64_t length = it->second.size();
    co_return LocalShard{std::make_shared<const UniqueFd>(open(path.c_str(), O_RDONLY | O_CLOEXEC)), length,
                         Crcs(shard, 0, length)};
  }
  void Delete(ShardId shard) {
    content.erase(shard);
    EXPECT_EQ(unlink((dir_.path() + "/" + std::to_string(shard.v)).c_str()), 0);
  }
  // Descriptors of this process, of shards there or deleted.
  int Held() const {
    int held = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      held += std::filesystem::read_symlink(entry.path(), gone).string().starts_with(dir_.path() + "/");
    }
    return held;
  }
  std::map<ShardId, std::string> content;
  std::set<ShardId> packed;
  int opened = 0;

 private:
  TempDir dir_;
};

// The same shards over the "network".
class FakeNetwork final : public DataService, public DataConnector {
 public:
  explicit FakeNetwork(FakeShards* shards) : shards_(shards) {}
  std::shared_ptr<DataService> Connect(const std::string&) override { return {std::shared_ptr<void>(), this}; }
  Task<Result<ReadReply>> Read(ReadRequest request) override {
    ReadReply reply;
    for (const ShardRead& item : request.items) {
      ++items;
      ReadItem& out = reply.items.emplace_back();
      const auto it = shards_->content.find(item.shard);
      if (item.token != "good" || it == shards_->content.end()) {
        out.result.code = item.token != "good" ? FsError::kBadToken : FsError::kNoSuchShard;
        continue;
      }
      BufferChain bytes(Buffer::FromString(it->second.substr(item.offset, item.length)));
      out.left_out = CutEnds(&bytes, item.omit_head, item.omit_tail);
      out.length = bytes.size();
      out.crcs = FakeShards::Crcs(item.shard, item.offset, item.length);
      reply.payload.Append(bytes);
    }
    co_return reply;
  }
  Task<Result<WriteReply>> Write(WriteRequest) override { co_return WriteReply(); }
  Task<Result<SealReply>> Seal(SealRequest) override { co_return SealReply(); }
  Task<Result<DeleteReply>> Delete(DeleteRequest) override { co_return DeleteReply(); }
  Task<Result<InventoryReply>> Inventory(InventoryRequest) override { co_return InventoryReply(); }
  int items = 0;

 private:
  FakeShards* shards_;
};

ShardRead Item(uint64_t shard, uint64_t offset, uint64_t length, std::string token = "good") {
  return {ShardId(shard), TargetId(1), std::move(token), offset, length, 0, 0};
}

void ExpectRight(const FakeShards& shards, const ReadRequest& request, const Result<ReadReply>& reply) {
  ASSERT_TRUE(reply.ok()) << reply.error();
  ASSERT_EQ(reply->items.size(), request.items.size());
  std::string want;
  for (size_t i = 0; i < request.items.size(); ++i) {
    const ShardRead& item = request.items[i];
    if (reply->items[i].result.code != FsError::kOk) continue;
    EXPECT_EQ(reply->items[i].length, item.wanted_bytes());
    EXPECT_EQ(reply->items[i].crcs, FakeShards::Crcs(item.shard, item.offset, item.length));
    BufferChain all(Buffer::FromString(shards.content.at(item.shard).substr(item.offset, item.length)));
    EXPECT_EQ(reply->items[i].left_out, CutEnds(&all, item.omit_head, item.omit_tail));
    want += all.Flatten().view();
  }
  EXPECT_EQ(reply->payload.Flatten().view(), want);
}

TEST(LocalShards, ReadsWhatItCanFromTheDisk) {
  RunTest([](Executor* ex) -> Task<void> {
    FakeShards shards;
    FakeNetwork network(&shards);
    for (uint64_t i = 1; i <= 6; ++i) shards.Add(ShardId(i), 100'000 * i, i);
    shards.packed = {ShardId(2)};
    LocalServer server(ex, &shards);
    const std::string address = Address("reads");
    EXPECT_TRUE(server.Start(address));
    ThreadPool pool(2, "local");
    LocalDataConnector connector(ex, &network, &pool, [&](const std::string& a) { return a == address; });
    const std::shared_ptr<DataService> local = connector.Connect(address);
    Random rng(4);
    for (int round = 0; round < 30; ++round) {
      ReadRequest request;
      for (uint64_t n = rng.Between(1, 8); n > 0; --n) {
        const uint64_t shard = rng.Between(1, 6);
        const uint64_t size = 100'000 * shard;
        const uint64_t offset = kChecksumBlockBytes * rng.Below(DivCeil(size, kChecksumBlockBytes));
        ShardRead& item = request.items.emplace_back(
            Item(shard, offset, std::min(size - offset, kChecksumBlockBytes * rng.Between(1, 3))));
        if (rng.OneIn(2)) item.omit_head = rng.Below(std::min(item.length, kChecksumBlockBytes));
        if (rng.OneIn(2)) item.omit_tail = rng.Below(std::min(item.length - item.omit_head, kChecksumBlockBytes));
      }
      ExpectRight(shards, request, co_await local->Read(request));
    }
    EXPECT_GT(connector.stats().local_bytes, 0u);
    EXPECT_EQ(connector.stats().opened, 5u);  // each once
    const int far = network.items;
    ReadRequest packed;
    packed.items = {Item(2, 0, 65536)};
    ExpectRight(shards, packed, co_await local->Read(packed));
    EXPECT_EQ(network.items, far + 1);
    // Another node's, though it is on this machine.
    ExpectRight(shards, packed, co_await connector.Connect(address + "0")->Read(packed));
    EXPECT_EQ(connector.Connect("elsewhere").get(), &network);
  });
}

// The network read reports the fault; so it does for ranges that are not in the shard.
TEST(LocalShards, RefusalsComeFromTheNetwork) {
  RunTest([](Executor* ex) -> Task<void> {
    FakeShards shards;
    FakeNetwork network(&shards);
    shards.Add(ShardId(1), 200'000, 1);
    LocalServer server(ex, &shards);
    const std::string address = Address("refusals");
    EXPECT_TRUE(server.Start(address));
    ThreadPool pool(1, "local");
    LocalDataConnector connector(ex, &network, &pool, [&](const std::string& a) { return a == address; });
    const std::shared_ptr<DataService> local = connector.Connect(address);
    ReadRequest request;
    request.items = {Item(1, 0, 65536, "forged"), Item(1, 0, 65536), Item(9, 0, 65536), Item(1, 131072, 68928)};
    const Result<ReadReply> reply = co_await local->Read(request);
    ExpectRight(shards, request, reply);
    if (reply.ok()) {
      EXPECT_EQ(reply->items[2].result.code, FsError::kNoSuchShard);
      EXPECT_EQ(reply->items[3].result.code, FsError::kOk);
    }
    const int far = network.items;
    ReadRequest odd;
    odd.items = {Item(1, 131072, 1000)};  // neither whole blocks nor to the end
    (void)co_await local->Read(odd);
    EXPECT_EQ(network.items, far + 1);
  });
}

TEST(LocalShards, WithoutTheServerThereIsTheNetwork) {
  RunTest([](Executor* ex) -> Task<void> {
    FakeShards shards;
    FakeNetwork network(&shards);
    shards.Add(ShardId(1), 200'000, 1);
    const std::string address = Address("without");
    ThreadPool pool(1, "local");
    LocalDataConnector connector(ex, &network, &pool, [&](const std::string& a) { return a == address; });
    const std::shared_ptr<DataService> local = connector.Connect(address);
    ReadRequest request;
    request.items = {Item(1, 0, 65536)};
    ExpectRight(shards, request, co_await local->Read(request));
    EXPECT_EQ(network.items, 1);
    auto server = std::make_unique<LocalServer>(ex, &shards);
    EXPECT_TRUE(server->Start(address));
    LocalServer second(ex, &shards);
    EXPECT_FALSE(second.Start(address));  // the name is taken
    for (int i = 0; i < 500 && connector.stats().local_bytes == 0; ++i) {
      ExpectRight(shards, request, co_await local->Read(request));
      co_await Sleep(10 * kMillisecond);
    }
    EXPECT_EQ(connector.stats().local_bytes, 65536u);
    // Open descriptors are forgotten with the server.
    server = nullptr;
    const int far = network.items;
    for (int i = 0; i < 500 && network.items == far; ++i) {
      ExpectRight(shards, request, co_await local->Read(request));
      co_await Sleep(10 * kMillisecond);
    }
    EXPECT_GT(network.items, far);
  });
}

// A deleted shard's space is free only when no reader has it open.
TEST(LocalShards, DeletedShardsAreClosedSoon) {
  RunTest([](Executor* ex) -> Task<void> {
    FakeShards shards;
    FakeNetwork network(&shards);
    for (uint64_t i = 1; i <= 4; ++i) shards.Add(ShardId(i), 100'000, i);
    LocalServer server(ex, &shards);
    const std::string address = Address("deleted");
    EXPECT_TRUE(server.Start(address));
    ThreadPool pool(1, "local");
    LocalDataConnector connector(ex, &network, &pool, [&](const std::string& a) { return a == address; });
    const std::shared_ptr<DataService> local = connector.Connect(address);
    ReadRequest request;
    // Small, as large ones hold the file once more (O_DIRECT).
    for (uint64_t i = 1; i <= 4; ++i) request.items.push_back(Item(i, 65536, 34464));
    ExpectRight(shards, request, co_await local->Read(request));
    EXPECT_EQ(connector.stats().opened, 4u);
    shards.Delete(ShardId(2));
    shards.Delete(ShardId(3));
    const int64_t before_age_ns = ex->NowNs() + kKeepLocalNs / 2;
    while (shards.Held() > 2 && ex->NowNs() < before_age_ns) co_await Sleep(50 * kMillisecond);
    EXPECT_EQ(shards.Held(), 2);
    // Those that are there are open still.
    request.items = {Item(1, 65536, 34464), Item(4, 65536, 34464)};
    ExpectRight(shards, request, co_await local->Read(request));
    EXPECT_EQ(connector.stats().opened, 4u);
  });
}

TEST(LocalShards, GivesTheWholeFileOrNothing) {
  RunTest([](Executor* ex) -> Task<void> {
    FakeShards shards;
    shards.Add(ShardId(1), 300'000, 1);
    shards.Add(ShardId(2), 5000, 2);
    shards.packed.insert(ShardId(2));
    FakeNetwork network(&shards);
    ThreadPool pool(1, "reads");
    const std::string address = Address("whole");
    LocalServer server(ex, &shards);
    EXPECT_TRUE(server.Start(address));
    LocalDataConnector connector(ex, &network, &pool, [&](const std::string& a) { return a == address; });
    const auto whole = co_await connector.OpenWhole(address, Item(1, 0, 300'000));
    EXPECT_TRUE(whole);
    if (whole) {
      std::string bytes(300'000, 0);
      EXPECT_EQ(pread(whole->get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
      EXPECT_TRUE(bytes == shards.content[ShardId(1)]);
    }
    EXPECT_FALSE(co_await connector.OpenWhole(address, Item(1, 0, 299'999)));  // a part of it
    EXPECT_FALSE(co_await connector.OpenWhole(address, Item(1, 0, 300'001)));
    EXPECT_FALSE(co_await connector.OpenWhole(address, Item(2, 0, 5000)));     // packed with others
    EXPECT_FALSE(co_await connector.OpenWhole(address, Item(3, 0, 5000)));     // not there
    EXPECT_FALSE(co_await connector.OpenWhole("elsewhere:1", Item(1, 0, 300'000)));
    EXPECT_EQ(network.items, 0);
    shards.Delete(ShardId(1));
    EXPECT_FALSE(co_await connector.OpenWhole(address, Item(1, 0, 300'000)));
  });
}

TEST(LocalShards, GarbageHarmsNobody) {
  RunTest([](Executor* ex) -> Task<void> {
    FakeShards shards;
    FakeNetwork network(&shards);
    shards.Add(ShardId(1), 200'000, 1);
    LocalServer server(ex, &shards);
    const std::string address = Address("garbage");
    EXPECT_TRUE(server.Start(address));
    Random rng(12);
    for (int i = 0; i < 100; ++i) {
      const UniqueFd fd(stria::ConnectLocal(address));
      if (!fd.ok()) {  // many wait to be accepted
        co_await Sleep(kMillisecond);
        continue;
      }
      std::string packet = EncodeLocal(LocalAsk{rng.Next(), ShardId(rng.Next()), TargetId(1), "good"});
      if (rng.OneIn(2)) packet.resize(rng.Below(packet.size()) + 1);
      if (rng.OneIn(2)) packet[rng.Below(packet.size())] = static_cast<char>(rng.Next());
      (void)SendPacket(fd.get(), packet, -1);
    }
    ThreadPool pool(1, "local");
    LocalDataConnector connector(ex, &network, &pool, [&](const std::string& a) { return a == address; });
    const std::shared_ptr<DataService> local = connector.Connect(address);
    ReadRequest request;
    request.items = {Item(1, 65536, 65536)};
    for (int i = 0; i < 500 && connector.stats().local_bytes == 0; ++i) {
      ExpectRight(shards, request, co_await local->Read(request));
      co_await Sleep(10 * kMillisecond);
    }
    EXPECT_GT(connector.stats().local_bytes, 0u);
  });
}

TEST(LocalShards, OnlyForRootAndOurselves) {
  if (geteuid() != 0) GTEST_SKIP() << "another user is needed";
  const std::string address = Address("users");
  const UniqueFd listener(ListenLocal(address));
  ASSERT_TRUE(listener.ok());
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    const int fd = stria::ConnectLocal(address);  // root's server is trusted
    _exit(fd >= 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const UniqueFd accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(accepted.ok());
  EXPECT_FALSE(IsTrustedPeer(accepted.get()));
}

// Root's connection to a server that `user` runs.
int ConnectToServerOf(uid_t user, const std::string& address) {
  int ready[2], end[2];
  EXPECT_EQ(pipe(ready), 0);
  EXPECT_EQ(pipe(end), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(end[1]);
    if (setgid(user) != 0 || setuid(user) != 0) _exit(2);
    const int fd = ListenLocal(address);
    char byte = fd >= 0 ? 1 : 0;
    if (write(ready[1], &byte, 1) != 1) _exit(2);
    (void)!read(end[0], &byte, 1);
    _exit(0);
  }
  char listens = 0;
  EXPECT_EQ(read(ready[0], &listens, 1), 1);
  EXPECT_EQ(listens, 1);
  const int fd = stria::ConnectLocal(address);
  for (const int side : {ready[0], ready[1], end[0], end[1]}) close(side);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return fd;
}

TEST(LocalShards, AMountOfRootTrustsTheServersUserAndNobodyElse) {
  if (geteuid() != 0) GTEST_SKIP() << "other users are needed";
  const UniqueFd stranger(ConnectToServerOf(65534, Address("stranger")));
  EXPECT_FALSE(stranger.ok());
  const passwd* server = getpwnam(kServerUser);
  if (server == nullptr) GTEST_SKIP() << "there is no user " << kServerUser << " here";
  const UniqueFd ours(ConnectToServerOf(server->pw_uid, Address("server")));
  EXPECT_TRUE(ours.ok());
}

TEST(LocalWire, RoundTripsAndRefusesWhatIsCut) {
  const LocalAsk ask{7, ShardId(8), TargetId(9), "token"};
  const LocalAnswer answer{7, FsError::kNoSuchShard, 123, {1, 2, 3}};
  const std::string a = EncodeLocal(ask), b = EncodeLocal(answer);
  EXPECT_EQ(EncodeLocal(*DecodeLocalAsk(a)), a);
  EXPECT_EQ(EncodeLocal(*DecodeLocalAnswer(b)), b);
  for (size_t n = 0; n < a.size(); ++n) EXPECT_FALSE(DecodeLocalAsk(a.substr(0, n))) << n;
  for (size_t n = 0; n < b.size(); ++n) EXPECT_FALSE(DecodeLocalAnswer(b.substr(0, n))) << n;
  EXPECT_FALSE(DecodeLocalAsk(a + "x"));
  EXPECT_FALSE(DecodeLocalAnswer(b + "x"));
}

}  // namespace
}  // namespace stria
