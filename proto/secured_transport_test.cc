// The bulk transport with TLS over loopback: who gets in, what it costs the others, and what somebody on the wire can do.
#include <gtest/gtest.h>

#include <errno.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/random.h"
#include "proto/secured_testing.h"
#include "proto/socket_address.h"

namespace stria {
namespace {

using namespace secured_testing;

std::string RandomText(Random& rng, size_t n) {
  std::string out(n, '\0');
  for (char& c : out) c = static_cast<char>(rng.Next());
  return out;
}

TEST_F(Secured, EveryModeCarriesEverything) {
  for (const WireMode mode : kAllWireModes) {
    RunTest([&](Executor* ex) -> Task<void> {
      Echo echo;
      TlsSettings settings = ServerSettings();
      settings.modes = ModesFrom(WireMode::kAuth);
      BulkServer server(ex, &echo, ServerOptions(Context(Side::kServer, settings)));
      const std::string address = server.Start(kAnyPort).value();
      TlsSettings wants = ClientSettings();
      wants.modes = {mode};
      BulkClient client(ex, ClientOptions(wants));
      auto transport = client.Make(address);
      Random rng(4);
      for (int round = 0; round < 3; ++round) {
        std::vector<std::string> sent;
        std::vector<Task<Result<WireMessage>>> calls;
        for (int i = 0; i < 12; ++i) {
          WireMessage m = Message(RandomText(rng, rng.Below(3000)), RandomText(rng, rng.OneIn(3) ? 0 : rng.Below(3 * kMiB)));
          if (rng.OneIn(2)) m.payload.Append(Buffer::FromString(RandomText(rng, rng.Below(40'000))));
          if (rng.OneIn(4)) m.header = Buffer();
          sent.push_back(Flat(m));
          calls.push_back(transport->Call("/echo", std::move(m), kPatienceNs));
        }
        const std::vector<Result<WireMessage>> got = co_await WhenAll(std::move(calls));
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(got[i].ok()) << got[i].error();
          if (got[i].ok()) EXPECT_TRUE(Flat(*got[i]) == sent[i]) << WireModeName(mode) << " " << i;
        }
      }
      EXPECT_EQ(echo.seen.size(), 36u);
      for (const std::string& who : echo.seen) EXPECT_EQ(who, "client wn7 at 127.0.0.1");
    });
  }
}

// By another server, which has no address; that one knows as well who it is.
TEST_F(Secured, WhoAsksForItIsAnsweredAside) {
  for (const WireMode mode : kAllWireModes) {
    RunTest([&](Executor* ex) -> Task<void> {
      Echo echo, echo_aside;
      BulkServerOptions aside_options;
      aside_options.judge = [](const Peer& peer) { return peer.name == "wn7" ? Ok() : Error(FsError::kAccess, "it is another one"); };
      aside_options.refused = refusals_.Hear();
      BulkServer aside(ex, &echo_aside, std::move(aside_options));
      aside.StartWithoutAddress();
      TlsSettings settings = ServerSettings();
      settings.modes = ModesFrom(WireMode::kAuth);
      BulkServerOptions options = ServerOptions(Context(Side::kServer, settings));
      BulkServer none(ex, &echo, options);
      const std::string address_of_none = none.Start(kAnyPort).value();
      options.aside = [&aside](std::shared_ptr<BulkHandedOn> arrival) { aside.Adopt(std::move(arrival)); };
      BulkServer server(ex, &echo, std::move(options));
      const std::string address = server.Start(kAnyPort).value();

      TlsSettings wants = ClientSettings();
      wants.modes = {mode};
      BulkClientOptions asks = ClientOptions(wants);
      asks.aside = true;
      BulkClient client(ex, asks), usual(ex, ClientOptions(wants));
      const std::string large(100'000, 'x');
      for (int i = 0; i < 3; ++i) {
        const Result<WireMessage> got = co_await client.Make(address)->Call("/echo", Message("a", large), kPatienceNs);
        EXPECT_TRUE(got.ok()) << got.error();
        if (got.ok()) EXPECT_TRUE(Flat(*got) == "a" + large);
      }
      EXPECT_EQ(echo_aside.seen, std::vector<std::string>(3, "client wn7 at 127.0.0.1"));
      EXPECT_TRUE(echo.seen.empty());
      EXPECT_TRUE((co_await usual.Make(address)->Call("/echo", Message("b", ""), kPatienceNs)).ok());
      EXPECT_EQ(echo.seen.size(), 1u);
      // A server that knows of none.
      const Result<WireMessage> refused = co_await client.Make(address_of_none)->Call("/echo", Message("c", ""), kPatienceNs);
      EXPECT_EQ(refused.code(), FsError::kUnavailable) << refused.error();
      // Its own judge.
      TlsSettings others = Settings(cluster_.Give(Role::kClient, "wn8"), {Role::kData});
      others.modes = {mode};
      BulkClientOptions other = ClientOptions(others);
      other.aside = true;
      BulkClient stranger(ex, other);
      EXPECT_EQ((co_await stranger.Make(address)->Call("/echo", Message("d", ""), kPatienceNs)).code(), FsError::kUnavailable);
      EXPECT_TRUE(co_await refusals_.Soon("it is another one"));
      EXPECT_EQ(echo_aside.seen.size(), 3u);
      // It stops before the server whose connections it takes.
      aside.Stop();
      EXPECT_EQ((co_await client.Make(address)->Call("/echo", Message("e", ""), kPatienceNs)).code(), FsError::kUnavailable);
    });
  }
}

TEST_F(Secured, WhoDoesNotBelongIsTold) {
  const TestCluster twin, other(kOtherCluster);
  const TestCluster older(kTestCluster, kTestNowS - 200 * kDayS);
  const auto revoked_client = cluster_.Give(Role::kClient, "gone");
  Revoked revoked;
  revoked.Add(revoked_client->certificate.serial());
  TlsSettings server_settings = Settings(cluster_.Give(Role::kData, "n6", kTestNowS, revoked), {Role::kClient});
  // A client that believes this server but is known by another authority only.
  const auto twin_client = [&] {
    PrivateKey key = PrivateKey::Make();
    Certificate c = twin.Sign(key, Role::kClient, "wn7");
    Bundle both = cluster_.bundle.With(twin.authority.certificate()).value();
    return std::make_shared<const Credentials>(Credentials::Of(std::move(key), std::move(c), std::move(both), {}).value());
  }();
  TlsSettings weak = ClientSettings();
  weak.modes = {WireMode::kAuth, WireMode::kIntegrity};
  TlsSettings late = ClientSettings();
  late.now_s = [] { return kTestNowS + 100 * kDayS; };
  struct Case {
    TlsSettings client;
    std::string client_says, server_says;
  };
  const Case cases[] = {
      {Settings(other.Give(Role::kClient, "wn7"), {Role::kData}), "no authority of this cluster has signed its certificate", "does not know the authority"},
      {Settings(twin.Give(Role::kClient, "wn7"), {Role::kData}), "no authority of this cluster has signed its certificate", "does not know the authority"},
      {Settings(twin_client, {Role::kData}), "does not know the authority that signed our certificate", "no authority of this cluster"},
      {Settings(cluster_.Give(Role::kMonitor, "m"), {Role::kData}), "it lets nobody in who has our role", "monitor m has another role"},
      {Settings(revoked_client, {Role::kData}), "our certificate is revoked", "the certificate of client gone is revoked"},
      {weak, "it takes none of the modes that we offer", "it offers no mode that is taken here"},
      {late, "its certificate has expired", "our certificate has expired"},
      {Settings(cluster_.Give(Role::kClient, "wn7"), {Role::kMeta}), "data n6 has another role", "lets nobody in who has our role"},
  };
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServer server(ex, &echo, ServerOptions(Context(Side::kServer, server_settings)));
    const std::string address = server.Start(kAnyPort).value();
    for (const Case& c : cases) {
      BulkClient client(ex, ClientOptions(c.client));
      const Result<WireMessage> got = co_await client.Make(address)->Call("/echo", Message("x", ""), kPatienceNs);
      EXPECT_EQ(got.code(), FsError::kUnavailable);
      EXPECT_NE(got.error().message.find(c.client_says), std::string::npos) << got.error();
      EXPECT_NE(got.error().message.find(address), std::string::npos) << got.error();
      EXPECT_TRUE(co_await refusals_.Soon(c.server_says)) << c.server_says;
    }
    // Who expects another name, and who speaks the protocol of before.
    BulkClientOptions named = ClientOptions(ClientSettings());
    named.expected = [](const std::string&) { return ExpectedPeer{{Role::kData}, "n7"}; };
    BulkClient picky(ex, named);
    const Result<WireMessage> wrong = co_await picky.Make(address)->Call("/echo", Message("x", ""), kPatienceNs);
    EXPECT_NE(wrong.error().message.find("data n6 is there instead of n7"), std::string::npos) << wrong.error();
    BulkClient plain(ex);
    const Result<WireMessage> bare = co_await plain.Make(address)->Call("/echo", Message("x", ""), kPatienceNs);
    EXPECT_EQ(bare.code(), FsError::kUnavailable);
    EXPECT_NE(bare.error().message.find("it speaks only TLS"), std::string::npos) << bare.error();
    EXPECT_NE(bare.error().message.find("'stria join' gets them"), std::string::npos) << bare.error();
    EXPECT_TRUE(co_await refusals_.Soon("does not speak TLS"));
    EXPECT_TRUE(echo.seen.empty()) << "nobody got as far as a request";
    // And a client with TLS says what is wrong with a server without.
    BulkServer open(ex, &echo);
    const std::string open_address = open.Start(kAnyPort).value();
    BulkClient good(ex, ClientOptions(ClientSettings()));
    const Result<WireMessage> naked = co_await good.Make(open_address)->Call("/echo", Message("x", ""), kPatienceNs);
    EXPECT_EQ(naked.code(), FsError::kUnavailable);
    EXPECT_NE(naked.error().message.find(open_address), std::string::npos) << naked.error();
    EXPECT_NE(naked.error().message.find("does not speak TLS 1.3: its cluster is an insecure one"), std::string::npos) << naked.error();
    // One that is not of Stria, and closes whatever it does not know.
    std::string closes_address;
    const int closes = ListenOn(kAnyPort, &closes_address).value();
    std::thread closer([closes] {
      pollfd p = {closes, POLLIN, 0};
      while (poll(&p, 1, -1) < 0 && errno == EINTR) {
      }
      const int fd = accept(closes, nullptr, nullptr);
      char c[64 * kKiB];
      (void)!recv(fd, c, sizeof c, 0);
      close(fd);
    });
    const Result<WireMessage> closed = co_await good.Make(closes_address)->Call("/echo", Message("x", ""), kPatienceNs);
    closer.join();
    close(closes);
    EXPECT_EQ(closed.code(), FsError::kUnavailable);
    EXPECT_NE(closed.error().message.find("it was closed without a word"), std::string::npos) << closed.error();
    EXPECT_EQ(echo.seen.size(), 0u) << "nothing was asked without TLS";
  });
}

TEST_F(Secured, RevokedAndChangedWhileItRuns) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    const auto current = Context(Side::kServer, ServerSettings());
    BulkServer server(ex, &echo, ServerOptions(current));
    const std::string address = server.Start(kAnyPort).value();
    const auto good = cluster_.Give(Role::kClient, "good"), bad = cluster_.Give(Role::kClient, "bad");
    BulkClient one(ex, ClientOptions(Settings(good, {Role::kData}))), two(ex, ClientOptions(Settings(bad, {Role::kData})));
    auto to_one = one.Make(address), to_two = two.Make(address);
    EXPECT_TRUE((co_await to_one->Call("/echo", Message("x", ""), kPatienceNs)).ok());
    EXPECT_TRUE((co_await to_two->Call("/echo", Message("x", ""), kPatienceNs)).ok());
    Revoked revoked;
    revoked.Add(bad->certificate.serial());
    const auto now = cluster_.Give(Role::kData, "n6", kTestNowS, revoked);
    current->Set(TlsContext::Make(Side::kServer, Settings(now, {Role::kClient})));
    server.CloseUnless([&](const Peer& peer) { return now->StillGood(peer, kTestNowS); });
    // The one goes on over the connection that it has; the other is out, and stays so.
    Result<WireMessage> out = co_await to_two->Call("/echo", Message("x", ""), kPatienceNs);
    for (int i = 0; i < 1000 && (out.ok() || out.error().message.find("revoked") == std::string::npos); ++i) {
      co_await Sleep(20 * kMillisecond);
      out = co_await to_two->Call("/echo", Message("x", ""), kPatienceNs);
    }
    EXPECT_NE(out.error().message.find("our certificate is revoked"), std::string::npos) << out.error();
    EXPECT_TRUE((co_await to_one->Call("/echo", Message("x", ""), kPatienceNs)).ok());
  });
}

// The other way round: a client leaves a server whose certificate is revoked, with what it was asked, and does not come back.
TEST_F(Secured, ARevokedServerIsLeft) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo_good, echo_bad;
    const auto good = cluster_.Give(Role::kData, "good"), bad = cluster_.Give(Role::kData, "bad");
    BulkServer one(ex, &echo_good, ServerOptions(Context(Side::kServer, Settings(good, {Role::kClient}))));
    BulkServer two(ex, &echo_bad, ServerOptions(Context(Side::kServer, Settings(bad, {Role::kClient}))));
    BulkClientOptions options;
    const auto current = Context(Side::kClient, ClientSettings());
    options.tls = current;
    BulkClient client(ex, options);
    const auto to_good = client.Make(one.Start(kAnyPort).value()), to_bad = client.Make(two.Start(kAnyPort).value());
    EXPECT_TRUE((co_await to_good->Call("/echo", Message("x", ""), kPatienceNs)).ok());
    EXPECT_TRUE((co_await to_bad->Call("/echo", Message("x", ""), kPatienceNs)).ok());
    Revoked revoked;
    revoked.Add(bad->certificate.serial());
    const auto now = cluster_.Give(Role::kClient, "wn7", kTestNowS, revoked);
    std::vector<Task<Result<WireMessage>>> both;
    both.push_back(to_bad->Call("/slow", Message("x", ""), kPatienceNs));
    both.push_back([](CurrentTls* tls, BulkClient* c, std::shared_ptr<const Credentials> judges) -> Task<Result<WireMessage>> {
      co_await Sleep(300 * kMillisecond);
      tls->Set(TlsContext::Make(Side::kClient, Settings(judges, {Role::kData})));
      c->CloseUnless([judges](const Peer& peer) { return judges->StillGood(peer, kTestNowS); });
      co_return WireMessage();
    }(current.get(), &client, now));
    const std::vector<Result<WireMessage>> got = co_await WhenAll(std::move(both));
    EXPECT_EQ(got[0].code(), FsError::kUnavailable);
    EXPECT_NE(got[0].error().message.find("its certificate is revoked"), std::string::npos) << got[0].error();
    const size_t asked = echo_bad.seen.size();
    for (int i = 0; i < 3; ++i) {
      const Result<WireMessage> out = co_await to_bad->Call("/echo", Message("x", ""), kPatienceNs);
      EXPECT_EQ(out.code(), FsError::kUnavailable);
      EXPECT_NE(out.error().message.find("revoked"), std::string::npos) << out.error();
      co_await Sleep(200 * kMillisecond);
    }
    EXPECT_EQ(echo_bad.seen.size(), asked) << "it is asked nothing any more";
    // The good one goes on over the connection that it has.
    EXPECT_TRUE((co_await to_good->Call("/echo", Message("x", ""), kPatienceNs)).ok());
  });
}

TEST_F(Secured, AServerIsJudgedAgainAfterTheHandshake) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServer server(ex, &echo, ServerOptions());
    BulkClientOptions options = ClientOptions(ClientSettings());
    options.judge = [](const Peer& peer) -> Result<void> { return Error(FsError::kAccess, peer.name + " was revoked just now"); };
    BulkClient client(ex, options);
    const Result<WireMessage> out = co_await client.Make(server.Start(kAnyPort).value())->Call("/echo", Message("x", ""), kPatienceNs);
    EXPECT_EQ(out.code(), FsError::kUnavailable);
    EXPECT_EQ(out.error().message, "n6 was revoked just now");
    EXPECT_TRUE(echo.seen.empty());
  });
}

// What has been revoked while it shook hands is found when that is over.
TEST_F(Secured, JudgedAgainAfterTheHandshake) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServerOptions options = ServerOptions();
    options.judge = [](const Peer& peer) -> Result<void> {
      if (peer.name == "late") return Error(FsError::kAccess, "the certificate of client late is revoked");
      return Ok();
    };
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    BulkClient good(ex, ClientOptions(ClientSettings())), late(ex, ClientOptions(Settings(cluster_.Give(Role::kClient, "late"), {Role::kData})));
    const Result<WireMessage> out = co_await late.Make(address)->Call("/echo", Message("x", ""), kPatienceNs);
    EXPECT_EQ(out.code(), FsError::kUnavailable);
    EXPECT_TRUE(co_await refusals_.Soon("the certificate of client late is revoked"));
    EXPECT_TRUE((co_await good.Make(address)->Call("/echo", Message("x", ""), kPatienceNs)).ok());
    EXPECT_EQ(echo.seen.size(), 1u);
  });
}

// ---- Those who say nothing, or half of something --------------------------------------------------

TEST_F(Secured, HalfAHandshakeEndsInTime) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServerOptions options = ServerOptions();
    options.door.patience_ns = 500 * kMillisecond;
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    std::string hello;
    TlsSession session(TlsContext::Make(Side::kClient, ClientSettings()), address);
    session.Handshake("", &hello);
    Socket silent(address, "127.0.0.2"), half(address, "127.0.0.2"), whole(address, "127.0.0.2");
    half.Send(hello.substr(0, hello.size() / 2));
    whole.Send(hello);  // and then nothing
    EXPECT_TRUE(co_await ClosedSoon(&silent));
    EXPECT_TRUE(co_await ClosedSoon(&half));
    EXPECT_TRUE(co_await ClosedSoon(&whole));
    EXPECT_TRUE(co_await refusals_.Soon("it took too long to say who it is"));
    // One that goes on and on: a record of 16 KiB that does not end.
    Socket endless(address, "127.0.0.2");
    endless.Send(std::string("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc", 9) + std::string(8000, 'x'));
    EXPECT_TRUE(co_await ClosedSoon(&endless));
    EXPECT_TRUE(refusals_.Has("was refused"));
    BulkClient client(ex, ClientOptions(ClientSettings()));
    EXPECT_TRUE((co_await client.Make(address)->Call("/echo", Message("x", ""), kPatienceNs)).ok());
  });
}

TEST_F(Secured, AFloodOfHandshakesKeepsNobodyOut) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServerOptions options = ServerOptions();
    options.door.unknown = 16;
    options.door.patience_ns = 600 * kSecond;  // nobody is helped by the end of it
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    std::string hello;
    TlsSession session(TlsContext::Make(Side::kClient, ClientSettings()), address);
    session.Handshake("", &hello);
    std::vector<std::unique_ptr<Socket>> flood;
    for (int i = 0; i < 300; ++i) {
      flood.push_back(std::make_unique<Socket>(address, ("127.0.0." + std::to_string(2 + i % 3)).c_str()));
      if (i % 2 == 0) flood.back()->Send(hello);
    }
    for (int i = 0; i < 3; ++i) {
      BulkClient client(ex, ClientOptions(ClientSettings()));
      const Result<WireMessage> got = co_await client.Make(address)->Call("/echo", Message("x", "y"), kPatienceNs);
      EXPECT_TRUE(got.ok()) << got.error();
    }
    EXPECT_TRUE(refusals_.Has("have not said yet who they are"));
    int open = 0;
    for (const auto& each : flood) open += each->Closed() ? 0 : 1;
    EXPECT_LE(open, 16);
  });
}

// Asks for new keys 100,000 times, by OpenSSL itself, and takes no answer. True if the server has ended it.
bool AskForKeysWithoutEnd(const Credentials& own, const std::string& address) {
  Socket socket(address, "127.0.0.2");
  const timeval patience = {60, 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  SSL_CTX* const ctx = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, nullptr);
  const std::string protocol = "\x0fstria-privacy/1";
  SSL_CTX_set_alpn_protos(ctx, reinterpret_cast<const unsigned char*>(protocol.data()), static_cast<unsigned>(protocol.size()));
  SSL_CTX_use_certificate(ctx, own.certificate.get());
  SSL_CTX_use_PrivateKey(ctx, own.key.get());
  SSL* const ssl = SSL_new(ctx);
  SSL_set_fd(ssl, socket.get());
  EXPECT_EQ(SSL_connect(ssl), 1);
  bool going = true, ended = false;
  for (int i = 0; i < 100'000 && going; ++i) {
    errno = 0;
    going = SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) == 1 && SSL_do_handshake(ssl) == 1;
    ended = !going && errno != EAGAIN;
  }
  // All of it may have gone into the socket before the server cut it off.
  char c[4096];
  ssize_t n = 1;
  while (going && n > 0) n = recv(socket.get(), c, sizeof c, 0);
  if (going) ended = n == 0 || errno != EAGAIN;
  SSL_free(ssl);
  SSL_CTX_free(ctx);
  return ended;
}

TEST_F(Secured, WhoAsksForKeysWithoutEndIsCutOff) {
  signal(SIGPIPE, SIG_IGN);  // of OpenSSL's writes
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    BulkServerOptions options = ServerOptions();
    options.loops = 1;  // the other client's connection is on the same one
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    BulkClient client(ex, ClientOptions(ClientSettings()));
    auto transport = client.Make(address);
    const auto own = cluster_.Give(Role::kClient, "flood");
    std::atomic<bool> ended{false}, over{false};
    std::thread flood([&] {
      ended = AskForKeysWithoutEnd(*own, address);
      over = true;
    });
    int calls = 0;
    while (!over || calls < 10) {
      const Result<WireMessage> got = co_await transport->Call("/echo", Message("x", "y"), kPatienceNs);
      EXPECT_TRUE(got.ok()) << got.error();
      ++calls;
      co_await Sleep(kMillisecond);
    }
    flood.join();
    EXPECT_TRUE(ended) << "the server goes on reading what brings no data";
  });
}

// ---- Somebody between the two ---------------------------------------------------------------------

// Passes bytes on both ways, and hurts one of the client's that holds `mark` once.
class Meddler {
 public:
  Meddler(std::string to, std::string mark) : to_(std::move(to)), mark_(std::move(mark)) {
    fd_ = ListenOn(kAnyPort, &address_).value();
    thread_ = std::thread([this] { Run(); });
  }
  ~Meddler() {
    stop_ = true;
    thread_.join();
    close(fd_);
  }
  const std::string& address() const { return address_; }
  int hurt() const { return hurt_; }
  bool saw() const { return saw_; }

 private:
  void Run() {
    std::vector<pollfd> fds = {{fd_, POLLIN, 0}};  // then pairs
    while (!stop_) {
      if (poll(fds.data(), fds.size(), 20) <= 0) continue;
      for (size_t i = 1; i < fds.size(); ++i) {
        if (fds[i].fd < 0 || fds[i].revents == 0) continue;
        const size_t other = i % 2 == 1 ? i + 1 : i - 1;
        std::string bytes(256 * 1024, '\0');
        const ssize_t n = recv(fds[i].fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) continue;
        if (n <= 0) {
          shutdown(fds[other].fd, SHUT_RDWR);
          fds[i].fd = ~fds[i].fd;
          continue;
        }
        bytes.resize(static_cast<size_t>(n));
        const size_t at = bytes.find(mark_);
        if (i % 2 == 1 && at != bytes.npos) {
          saw_ = true;
          if (hurt_ == 0) bytes[at] ^= 1, ++hurt_;
        }
        for (size_t sent = 0; sent < bytes.size() && !stop_;) {
          const ssize_t done = send(fds[other].fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
          if (done > 0) sent += static_cast<size_t>(done);
          else if (errno == EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          else break;
        }
      }
      if (fds[0].revents != 0) {
        const int fd = accept(fd_, nullptr, nullptr);
        const Result<int> up = ConnectTo(to_, 10'000);
        if (fd >= 0 && up.ok()) fds.push_back({fd, POLLIN, 0}), fds.push_back({*up, POLLIN, 0});
      }
    }
    for (size_t i = 1; i < fds.size(); ++i) close(fds[i].fd >= 0 ? fds[i].fd : ~fds[i].fd);
  }

  const std::string to_, mark_;
  std::string address_;
  int fd_ = -1;
  std::atomic<bool> stop_{false}, saw_{false};
  std::atomic<int> hurt_{0};
  std::thread thread_;
};

TEST_F(Secured, WhatIsChangedOnTheWireIsFound) {
  struct Case {
    WireMode mode;
    bool in_payload, found, seen;
  };
  // In the mode `auth` payloads have their CRC, which whoever changes them can change as well: that is what it says it does.
  const Case cases[] = {{WireMode::kPrivacy, true, false, false}, {WireMode::kPrivacy, false, false, false}, {WireMode::kIntegrity, true, true, true},
                        {WireMode::kIntegrity, false, true, true}, {WireMode::kAuth, true, false, true}, {WireMode::kAuth, false, true, true}};
  const std::string mark = "the bytes that somebody looks for";
  for (const Case& c : cases) {
    RunTest([&](Executor* ex) -> Task<void> {
      Echo echo;
      TlsSettings settings = ServerSettings();
      settings.modes = ModesFrom(WireMode::kAuth);
      BulkServer server(ex, &echo, ServerOptions(Context(Side::kServer, settings)));
      Meddler meddler(server.Start(kAnyPort).value(), mark);
      TlsSettings wants = ClientSettings();
      wants.modes = {c.mode};
      BulkClient client(ex, ClientOptions(wants));
      auto transport = client.Make(meddler.address());
      const std::string payload = std::string(70'000, 'a') + (c.in_payload ? mark : "") + std::string(10'000, 'b');
      const Result<WireMessage> got = co_await transport->Call("/echo", Message(c.in_payload ? "f" : mark, payload), kPatienceNs);
      const std::string what = std::string(WireModeName(c.mode)) + (c.in_payload ? " payload" : " fields");
      EXPECT_EQ(meddler.saw(), c.seen) << what;
      EXPECT_EQ(got.ok(), !c.found) << what << " " << got.error();
      EXPECT_EQ(echo.seen.size(), c.found ? 0u : 1u) << what << ": a request that was changed is not done";
      if (c.found) EXPECT_EQ(got.code(), FsError::kUnavailable);
      // Another connection is as good as ever.
      co_await Sleep(200 * kMillisecond);
      const Result<WireMessage> next = co_await transport->Call("/echo", Message("f", payload.substr(0, 1000)), kPatienceNs);
      EXPECT_TRUE(next.ok()) << what << " " << next.error();
    });
  }
}

TEST_F(Secured, OfPrivateBytesNothingIsSeen) {
  // The client's own name is in its certificate, which TLS 1.3 hides as well.
  for (const std::string& mark : {std::string("wn7"), std::string("a secret of the payload"), std::string("/echo")}) {
    RunTest([&](Executor* ex) -> Task<void> {
      Echo echo;
      BulkServer server(ex, &echo, ServerOptions());
      Meddler meddler(server.Start(kAnyPort).value(), mark.size() < 6 ? mark + "/of-a-method" : mark);
      BulkClient client(ex, ClientOptions(ClientSettings()));
      const Result<WireMessage> got = co_await client.Make(meddler.address())->Call("/echo/of-a-method", Message("a secret of the payload", "a secret of the payload"), kPatienceNs);
      EXPECT_TRUE(got.ok()) << got.error();
      EXPECT_FALSE(meddler.saw()) << mark;
    });
  }
}

TEST_F(Secured, EndsWithCallsUnderWay) {
  RunTest([&](Executor* ex) -> Task<void> {
    Echo echo;
    auto server = std::make_unique<BulkServer>(ex, &echo, ServerOptions());
    const std::string address = server->Start(kAnyPort).value();
    BulkClient client(ex, ClientOptions(ClientSettings()));
    auto transport = client.Make(address);
    EXPECT_TRUE((co_await transport->Call("/echo", Message("x", ""), kPatienceNs)).ok());
    Socket silent(address, "127.0.0.2");
    std::vector<Task<Result<WireMessage>>> both;
    both.push_back(transport->Call("/slow", Message("x", ""), kPatienceNs));
    both.push_back([](std::unique_ptr<BulkServer>* s) -> Task<Result<WireMessage>> {
      co_await Sleep(300 * kMillisecond);
      s->reset();
      co_return WireMessage();
    }(&server));
    const std::vector<Result<WireMessage>> got = co_await WhenAll(std::move(both));
    EXPECT_EQ(got[0].code(), FsError::kUnavailable);
    EXPECT_NE(got[0].error().message.find("it was closed"), std::string::npos) << got[0].error();
  });
}

}  // namespace
}  // namespace stria
