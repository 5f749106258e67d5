// What one peer, or one who is none, can take from the others of a bulk server.
#include <gtest/gtest.h>

#include <dirent.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "proto/secured_testing.h"
#include "proto/wire.h"

namespace stria {
namespace {

using namespace secured_testing;

size_t OpenDescriptors() {
  size_t n = 0;
  DIR* const dir = opendir("/proc/self/fd");
  while (dir && readdir(dir)) ++n;
  if (dir) closedir(dir);
  return n;
}

// As bulk_connection.h has it.
std::string Head(const std::string& method, uint32_t fields, uint32_t payload, uint64_t id) {
  std::string out = "SBK1";
  const auto put = [&out](uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> (8 * i) & 0xff);
  };
  put(1, 1), put(0, 1), put(method.size(), 2), put(id, 8), put(fields, 4), put(payload, 4);
  return out + method;
}
const std::string kPreface = "StriaBk1";

FsError CodeOf(const Result<WireMessage>& reply) { return reply.ok() ? Decode<Empty>(*reply).code() : reply.code(); }

class PeerLimitsTest : public Secured {
 protected:
  BulkClientOptions As(const std::string& name) {
    BulkClientOptions o = ClientOptions(Settings(cluster_.Give(Role::kClient, name), {Role::kData}));
    o.connections_per_peer = 1;
    return o;
  }
};

TEST_F(PeerLimitsTest, RequestsUnderWay) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServerOptions options = ServerOptions();
    options.per_peer.requests = 2;
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    BulkClient a(ex, As("a")), b(ex, As("b"));
    auto to_a = a.Make(address), to_b = b.Make(address);
    TaskScope scope;
    for (int i = 0; i < 2; ++i) {
      scope.Spawn([](Transport* t) -> Task<void> { (void)co_await t->Call("/slow", Message("x", ""), kPatienceNs); }(to_a.get()));
    }
    while (server.running() < 2) co_await Sleep(kMillisecond);
    EXPECT_EQ(CodeOf(co_await to_a->Call("/echo", Message("", ""), kPatienceNs)), FsError::kRetryLater);
    EXPECT_EQ(CodeOf(co_await to_b->Call("/echo", Message("", ""), kPatienceNs)), FsError::kOk) << "another peer has its own share";
    scope.CancelAll();
  });
}

// A message that turns out to be too much is dropped in the middle, and the connection goes on: with tags, too.
TEST_F(PeerLimitsTest, TooLargeIsRefusedInAllModes) {
  for (const WireMode mode : kAllWireModes) {
    for (const bool in_fields : {false, true}) {
      RunTest([&](Executor* ex) -> Task<void> {
        Echo echo;
        TlsSettings settings = ServerSettings();
        settings.modes = ModesFrom(WireMode::kAuth);
        BulkServerOptions options = ServerOptions(Context(Side::kServer, settings));
        options.per_peer.bytes = kMiB;
        BulkServer server(ex, &echo, options);
        TlsSettings wants = ClientSettings();
        wants.modes = {mode};
        BulkClientOptions one = ClientOptions(wants);
        one.connections_per_peer = 1;
        BulkClient client(ex, one);
        auto transport = client.Make(server.Start(kAnyPort).value());
        const std::string large(3 * kMiB, 'l'), small(300'000, 's');
        for (int i = 0; i < 3; ++i) {
          const Result<WireMessage> refused = co_await transport->Call("/echo", in_fields ? Message(large, small) : Message("f", large), kPatienceNs);
          EXPECT_EQ(CodeOf(refused), FsError::kRetryLater) << WireModeName(mode) << " " << refused.error();
          const Result<WireMessage> good = co_await transport->Call("/echo", Message("fields", small), kPatienceNs);
          EXPECT_TRUE(good.ok()) << WireModeName(mode) << " " << good.error();
          if (good.ok()) EXPECT_TRUE(Flat(*good) == "fields" + small) << WireModeName(mode);
        }
        EXPECT_EQ(echo.seen.size(), 3u);
      });
    }
  }
}

TEST_F(PeerLimitsTest, TheOldestIdleConnectionMakesRoom) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServerOptions options = ServerOptions();
    options.per_peer.connections = 2;
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    std::vector<std::unique_ptr<BulkClient>> clients;
    std::vector<std::shared_ptr<Transport>> all;
    for (int i = 0; i < 6; ++i) {
      clients.push_back(std::make_unique<BulkClient>(ex, As("a")));
      all.push_back(clients.back()->Make(address));
      const Result<WireMessage> got = co_await all.back()->Call("/echo", Message("x", ""), kPatienceNs);
      EXPECT_TRUE(got.ok()) << got.error();
    }
    // Two busy ones: then a third does not come in.
    TaskScope scope;
    for (int i = 4; i < 6; ++i) {
      scope.Spawn([](Transport* t) -> Task<void> { (void)co_await t->Call("/slow", Message("x", ""), kPatienceNs); }(all[static_cast<size_t>(i)].get()));
    }
    while (server.running() < 2) co_await Sleep(kMillisecond);
    const std::string full = "client a has 2 connections already, and all are busy";
    for (int i = 0; i < 1000 && !refusals_.Has(full); ++i) {  // a link that was closed rests for a while
      EXPECT_EQ((co_await all[0]->Call("/echo", Message("x", ""), kPatienceNs)).code(), FsError::kUnavailable);
      co_await Sleep(20 * kMillisecond);
    }
    EXPECT_TRUE(refusals_.Has(full));
    BulkClient other(ex, As("b"));
    EXPECT_TRUE((co_await other.Make(address)->Call("/echo", Message("x", ""), kPatienceNs)).ok());
    EXPECT_EQ(server.running(), 2u) << "no busy one was closed";
    scope.CancelAll();
  });
}

// The server without TLS: a peer is an address.
TEST_F(PeerLimitsTest, RepliesThatNobodyReads) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServerOptions options;
    options.per_peer.bytes = 16 * kMiB;
    options.per_peer.unread_ns = 2 * kSecond;
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    BulkClient client(ex);
    auto transport = client.Make(address);
    EXPECT_TRUE((co_await transport->Call("/echo", Message("x", ""), kPatienceNs)).ok());
    auto greedy = std::make_unique<Socket>(address, "127.0.0.2");
    std::string asks = kPreface;
    for (uint64_t i = 0; i < 1000; ++i) asks += Head("/large", 0, 0, i);
    greedy->Send(asks);
    while (echo.seen.size() < 3) co_await Sleep(kMillisecond);
    const size_t open = OpenDescriptors();
    EXPECT_TRUE((co_await transport->Call("/echo", Message("x", ""), kPatienceNs)).ok());
    // Four of 4 MiB are more than it may have, and the socket may have taken some.
    bool closed = false;
    for (int i = 0; i < 3000 && !closed; ++i) {
      EXPECT_LT(echo.seen.size(), 30u) << "the server makes replies that nobody takes";
      if (echo.seen.size() >= 30) break;
      co_await Sleep(10 * kMillisecond);
      closed = OpenDescriptors() < open;
    }
    EXPECT_TRUE(closed) << "it took nothing for long enough";
    EXPECT_TRUE((co_await transport->Call("/echo", Message("x", ""), kPatienceNs)).ok());
  });
}

TEST_F(PeerLimitsTest, RefusalsThatNobodyReads) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServerOptions options;
    options.per_peer.requests = 1;
    options.per_peer.refusals = 50;
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    Socket greedy(address, "127.0.0.2");
    std::string asks = kPreface + Head("/slow", 0, 0, 1);
    for (uint64_t i = 2; i < 20'000; ++i) asks += Head("/echo", 0, 0, i);
    std::atomic<bool> sent{false};
    // Blocks if the server does not read; ends when the server closes.
    std::thread sender([&] {
      for (int i = 0; i < 100; ++i) greedy.Send(i == 0 ? asks : asks.substr(kPreface.size()));
      sent = true;
    });
    while (!sent) co_await Sleep(10 * kMillisecond);
    sender.join();
    EXPECT_TRUE(co_await ClosedSoon(&greedy)) << "two million refusals would be kept";
    EXPECT_EQ(echo.seen.size(), 1u);
    BulkClient client(ex);
    EXPECT_TRUE((co_await client.Make(address)->Call("/echo", Message("x", ""), kPatienceNs)).ok());
  });
}

TEST_F(PeerLimitsTest, AFrameThatDoesNotCome) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServerOptions options;
    options.per_peer.frame_ns = kSecond;
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    Socket idle(address, "127.0.0.2"), half(address, "127.0.0.2"), drops(address, "127.0.0.2"), torn(address, "127.0.0.2");
    idle.Send(kPreface);
    half.Send(kPreface + Head("/echo", 0, kMiB, 1) + "the beginning");
    drops.Send(kPreface + Head("/echo", 0, kMiB, 1));
    torn.Send(kPreface + "SB");
    bool gone = false;
    for (int i = 0; i < 1000 && !gone; ++i) {
      drops.Send("x");  // one byte now and then is no progress
      co_await Sleep(30 * kMillisecond);
      gone = drops.Closed();
    }
    EXPECT_TRUE(gone);
    EXPECT_TRUE(co_await ClosedSoon(&half));
    EXPECT_TRUE(co_await ClosedSoon(&torn));
    EXPECT_FALSE(idle.Closed()) << "between frames a connection may wait";
    idle.Send(Head("/echo", 0, 0, 1));
    while (echo.seen.empty()) co_await Sleep(kMillisecond);
  });
}

// A head says how much is to come; memory counts when it has come.
TEST_F(PeerLimitsTest, HeadsAloneOccupyLittle) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServerOptions options;
    options.max_request_bytes = 16 * kMiB;
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    BulkClient client(ex);
    auto transport = client.Make(address);
    std::vector<std::unique_ptr<Socket>> heads;
    for (int i = 0; i < 20; ++i) {
      heads.push_back(std::make_unique<Socket>(address, "127.0.0.2"));
      heads.back()->Send(kPreface + Head("/echo", 0, 8 * kMiB, 1));
    }
    co_await Sleep(200 * kMillisecond);  // most of them are seen by then; the more the better the test
    const Result<WireMessage> got = co_await transport->Call("/echo", Message("x", std::string(4 * kMiB, 'p')), kPatienceNs);
    EXPECT_EQ(got.ok() ? got->payload.size() : 0, 4 * kMiB) << CodeOf(got);
  });
}

TEST_F(PeerLimitsTest, TenThousandHalfHandshakes) {
  std::string hello;
  TlsSession session(TlsContext::Make(Side::kClient, ClientSettings()), "a server");
  session.Handshake("", &hello);
  RunTest([&](Executor* ex) -> Task<void> {
    constexpr size_t kKept = 100, kSlack = 40;
    Echo echo;
    BulkServerOptions options = ServerOptions();
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    BulkClient client(ex, ClientOptions(ClientSettings()));
    auto transport = client.Make(address);
    EXPECT_TRUE((co_await transport->Call("/echo", Message("x", ""), kPatienceNs)).ok());
    const size_t before = OpenDescriptors();
    std::atomic<bool> over{false};
    std::thread flood([&] {
      std::deque<std::unique_ptr<Socket>> kept;
      for (int i = 0; i < 10'000; ++i) {
        kept.push_back(std::make_unique<Socket>(address, ("127.0.0." + std::to_string(2 + i % 3)).c_str()));
        if (i % 2 == 0) kept.back()->Send(i % 4 == 0 ? hello : hello.substr(0, hello.size() / 2));
        if (kept.size() > kKept) kept.pop_front();
      }
      over = true;
    });
    int calls = 0;
    size_t most_waiting = 0, most_open = 0;
    while (!over) {
      const Result<WireMessage> got = co_await transport->Call("/echo", Message("x", "y"), kPatienceNs);
      EXPECT_TRUE(got.ok()) << got.error();
      most_waiting = std::max(most_waiting, server.waiting());
      most_open = std::max(most_open, OpenDescriptors());
      if (++calls % 20 == 0) {
        BulkClient newcomer(ex, As("new"));
        const Result<WireMessage> in = co_await newcomer.Make(address)->Call("/echo", Message("x", "y"), kPatienceNs);
        EXPECT_TRUE(in.ok()) << in.error();
      }
      co_await Sleep(kMillisecond);
    }
    flood.join();
    EXPECT_GT(calls, 0);
    EXPECT_LE(most_waiting, options.door.unknown);
    EXPECT_LE(most_open, before + kKept + options.door.unknown + kSlack);
    EXPECT_GT(most_waiting, 0u) << "the test does what it says";
  });
}

// ---- Unix sockets ---------------------------------------------------------------------------------

int LocalSocket(const std::string& path) {
  sockaddr_un a = {};
  a.sun_family = AF_UNIX;
  memcpy(a.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&a), sizeof a), 0);
  return fd;
}

TEST_F(PeerLimitsTest, LocalUsersAreWhomTheKernelSays) {
  RunTest([&](Executor* ex) -> Task<void> {
    const std::string path = "/tmp/stria_peer_limits_" + std::to_string(getpid());
    Echo echo;
    BulkServerOptions options = ServerOptions();
    {
      BulkServer none(ex, &echo, options);
      EXPECT_EQ(none.Start("unix:" + path).code(), FsError::kUnavailable) << "a Unix socket without TLS where TLS is wanted";
    }
    std::atomic<bool> welcome{true};
    options.local_peer = [&welcome](uint32_t uid, uint32_t, int32_t pid) -> std::optional<Peer> {
      EXPECT_EQ(uid, getuid());
      EXPECT_EQ(pid, getpid());
      if (!welcome) return std::nullopt;
      Peer peer;
      peer.role = Role::kAdmin;
      peer.name = "root";
      return peer;
    };
    options.judge = [](const Peer&) -> Result<void> { return Error(FsError::kAccess, "this is for those with certificates"); };
    BulkServer server(ex, &echo, options);
    EXPECT_TRUE(server.Start("unix:" + path).ok());
    struct stat file = {};
    EXPECT_EQ(stat(path.c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 07777, 0600u);
    {
      BulkClient client(ex);
      const Result<WireMessage> got = co_await client.Make("unix:" + path)->Call("/echo", Message("x", ""), kPatienceNs);
      EXPECT_TRUE(got.ok()) << got.error();
      EXPECT_EQ(echo.seen, std::vector<std::string>{"admin root at uid " + std::to_string(getuid()) + ", pid " + std::to_string(getpid())});
    }
    welcome = false;
    BulkClient client(ex);
    const Result<WireMessage> got = co_await client.Make("unix:" + path)->Call("/echo", Message("x", ""), kPatienceNs);
    EXPECT_EQ(got.code(), FsError::kUnavailable);
    EXPECT_TRUE(co_await refusals_.Soon("this user has no business here"));
    EXPECT_EQ(echo.seen.size(), 1u);
  });
}

TEST_F(PeerLimitsTest, ALocalUserThatSaysNothingGoes) {
  RunTest([&](Executor* ex) -> Task<void> {
    const std::string address = "unix:/tmp/stria_peer_limits_" + std::to_string(getpid());
    Echo echo;
    BulkServerOptions options;
    options.refused = refusals_.Hear();
    options.socket_mode = 0666;
    options.door.patience_ns = 300 * kMillisecond;
    options.local_peer = [](uint32_t, uint32_t, int32_t) { return Peer(); };
    BulkServer server(ex, &echo, options);
    EXPECT_TRUE(server.Start(address).ok());
    struct stat file = {};
    EXPECT_EQ(stat(address.substr(5).c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 07777, 0666u) << "whatever the umask";
    const int silent = LocalSocket(address.substr(5));
    EXPECT_TRUE(co_await refusals_.Soon("it took too long to say who it is"));
    close(silent);
    EXPECT_EQ(server.waiting(), 0u);
  });
}

}  // namespace
}  // namespace stria
