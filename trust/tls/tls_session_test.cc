#include "trust/tls/tls_session.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <deque>

#include "common/random.h"
#include "trust/ssl_ptr.h"
#include "trust/tls/tls_callbacks.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

using Side = TlsContext::Side;
using Step = TlsSession::Step;
constexpr char kServerAt[] = "pc1:7424", kClientAt[] = "10.0.0.7:40112";

TlsSettings Settings(std::shared_ptr<const Credentials> credentials, RoleSet peers, int64_t now_s = kTestNowS) {
  TlsSettings s;
  s.credentials = std::move(credentials);
  s.now_s = [now_s] { return now_s; };
  s.peers = peers;
  return s;
}

struct Pair {
  Pair(std::shared_ptr<const TlsContext> c, std::shared_ptr<const TlsContext> s, std::optional<ExpectedPeer> expected = std::nullopt)
      : client(std::move(c), kServerAt, std::move(expected)), server(std::move(s), kClientAt) {}

  // Until both are done or one has failed and all that was sent has come. `piece`: so many bytes at once.
  void Shake(size_t piece = SIZE_MAX) {
    std::string to_server, to_client;
    c = client.Handshake("", &to_server);
    s = Step::kMore;
    for (int i = 0; i < 10'000 && (!to_server.empty() || !to_client.empty()); ++i) {
      if (!to_server.empty()) {
        const std::string in = to_server.substr(0, piece);
        to_server.erase(0, in.size());
        server_took += in.size();
        if (s == Step::kMore) s = server.Handshake(in, &to_client);
      }
      if (!to_client.empty()) {
        const std::string in = to_client.substr(0, piece);
        to_client.erase(0, in.size());
        if (c == Step::kMore) c = client.Handshake(in, &to_server);
      }
    }
  }
  bool done() const { return c == Step::kDone && s == Step::kDone; }

  TlsSession client, server;
  Step c = Step::kMore, s = Step::kMore;
  size_t server_took = 0;
};

class TlsTest : public testing::Test {
 protected:
  std::shared_ptr<const TlsContext> Server(TlsSettings settings) { return TlsContext::Make(Side::kServer, std::move(settings)); }
  std::shared_ptr<const TlsContext> Client(TlsSettings settings) { return TlsContext::Make(Side::kClient, std::move(settings)); }
  TlsSettings ServerSettings() { return Settings(cluster_.Give(Role::kData, "n6"), {Role::kClient, Role::kData}); }
  TlsSettings ClientSettings() { return Settings(cluster_.Give(Role::kClient, "wn7"), {Role::kData}); }
  // What each end says of a handshake that does not come about.
  void ExpectRefused(Pair& pair, const std::string& server_says, const std::string& client_says) {
    EXPECT_FALSE(pair.done());
    EXPECT_NE(pair.c, Step::kDone) << "a client must hear that it is not let in";
    EXPECT_EQ(pair.server.error().message, server_says);
    EXPECT_EQ(pair.client.error().message, client_says);
  }
  const TestCluster cluster_;
};

TEST_F(TlsTest, BothSidesKnowEachOther) {
  const auto own = cluster_.Give(Role::kClient, "wn7");
  for (const size_t piece : {SIZE_MAX, size_t{100}, size_t{1}}) {
    Pair p(Client(Settings(own, {Role::kData})), Server(ServerSettings()), ExpectedPeer{{Role::kData}, "n6"});
    p.Shake(piece);
    ASSERT_TRUE(p.done()) << p.client.error() << p.server.error();
    EXPECT_EQ(p.server.peer().ToString(), "client wn7 at 10.0.0.7:40112");
    EXPECT_EQ(p.server.peer().key_hash, own->key.public_hash());
    EXPECT_EQ(p.server.peer().serial, own->certificate.serial());
    EXPECT_EQ(p.server.peer().not_after_s, own->certificate.not_after_s());
    EXPECT_EQ(p.server.peer().issuer, cluster_.authority.certificate().hash());
    EXPECT_EQ(p.client.peer().ToString(), "data n6 at pc1:7424");
    EXPECT_EQ(p.client.mode(), WireMode::kPrivacy);
    EXPECT_FALSE(p.server.joining());
    EXPECT_EQ(p.client.ChannelBinding(), p.server.ChannelBinding());
    EXPECT_LT(p.server_took, 2048u) << "what a doorman allows is well above it";
  }
}

TEST_F(TlsTest, ConnectionsHaveDifferentSecrets) {
  const auto c = Client(ClientSettings()), s = Server(ServerSettings());
  Pair a(c, s), b(c, s);
  a.Shake(), b.Shake();
  ASSERT_TRUE(a.done() && b.done());
  EXPECT_NE(a.client.ChannelBinding(), b.client.ChannelBinding());
}

TEST_F(TlsTest, AForeignClusterWithTheSameNames) {
  const TestCluster twin, other(kOtherCluster);
  for (const TestCluster* foreign : {&twin, &other}) {
    const std::string uri = FormatIdentity({foreign->authority.cluster(), Role::kClient, "wn7"});
    // The client believes ours (as if it had only the bundle), but is another's.
    Pair p(Client(Settings(foreign->Give(Role::kClient, "wn7"), {Role::kData})), Server(ServerSettings()));
    p.Shake();
    EXPECT_FALSE(p.done());
    EXPECT_EQ(p.client.error().message, "the server at pc1:7424 was refused: no authority of this cluster has signed its certificate (it says that it is " +
                                            FormatIdentity({kTestCluster, Role::kData, "n6"}) + ")");
    EXPECT_NE(p.server.error().message.find("the peer at 10.0.0.7:40112 refuses us: it does not know the authority"), std::string::npos) << p.server.error();
  }
}

// A client that takes any server, by OpenSSL itself: only the server stands between it and the cluster.
class Stranger {
 public:
  explicit Stranger(int max_version = TLS1_3_VERSION, std::string protocol = "stria-privacy/1") : ctx_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_max_proto_version(ctx_, max_version);
    SSL_CTX_set_verify(ctx_, SSL_VERIFY_NONE, nullptr);
    if (!protocol.empty()) {
      protocol.insert(protocol.begin(), static_cast<char>(protocol.size()));
      SSL_CTX_set_alpn_protos(ctx_, reinterpret_cast<const unsigned char*>(protocol.data()), static_cast<unsigned>(protocol.size()));
    }
  }
  ~Stranger() {
    SSL_free(ssl_);
    SSL_CTX_free(ctx_);
  }
  void Show(const Certificate& c, const PrivateKey& k) {
    CHECK(SSL_CTX_use_certificate(ctx_, c.get()) == 1 && SSL_CTX_use_PrivateKey(ctx_, k.get()) == 1);
  }
  // What the server says of it, and false; or true.
  bool LetIn(TlsSession* server) {
    ssl_ = SSL_new(ctx_);
    BIO* in = BIO_new(BIO_s_mem());
    BIO* out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_, in, out);
    SSL_set_connect_state(ssl_);
    Step step = Step::kMore;
    for (int i = 0; i < 10 && step == Step::kMore; ++i) {
      (void)SSL_do_handshake(ssl_);
      std::string reply;
      const std::string sent = TakeBytes(out);
      (void)BIO_reset(out);
      step = server->Handshake(sent, &reply);
      BIO_write(in, reply.data(), static_cast<int>(reply.size()));
    }
    ERR_clear_error();
    return step == Step::kDone;
  }

 private:
  SSL_CTX* ctx_;
  SSL* ssl_ = nullptr;
};

TEST_F(TlsTest, StrangersAreRefusedWithAReason) {
  const auto context = Server(ServerSettings());
  const auto says = [&](Stranger& stranger) {
    TlsSession server(context, kClientAt);
    EXPECT_FALSE(stranger.LetIn(&server));
    return server.error().message;
  };
  const std::string refused = "the peer at 10.0.0.7:40112 was refused: ";
  {
    Stranger none;
    EXPECT_EQ(says(none), refused + "it shows no certificate (stria join gets one)");
  }
  {
    Stranger old_one(TLS1_2_VERSION);
    EXPECT_EQ(says(old_one), refused + "it does not speak TLS 1.3");
  }
  {
    Stranger web(TLS1_3_VERSION, "");
    EXPECT_EQ(says(web), refused + "it does not speak Stria's protocol");
  }
  {
    Stranger web(TLS1_3_VERSION, "h2");
    EXPECT_EQ(says(web), refused + "it offers no mode that is taken here");
  }
  {
    Stranger joins(TLS1_3_VERSION, "stria-join/1");
    EXPECT_EQ(says(joins), refused + "it offers no mode that is taken here") << "this server gives no certificates";
  }
  const PrivateKey key = PrivateKey::Make();
  {
    Stranger twin;
    twin.Show(TestCluster().Sign(key, Role::kClient, "wn7"), key);
    EXPECT_EQ(says(twin), refused + "no authority of this cluster has signed its certificate (it says that it is " +
                              FormatIdentity({kTestCluster, Role::kClient, "wn7"}) + ")");
  }
  {
    // What a CA of another cluster signs, in the names of this one, with this one's name for itself.
    const TestCluster other(kOtherCluster);
    Stranger foreign;
    foreign.Show(other.Sign(key, Role::kClient, "wn7"), key);
    EXPECT_NE(says(foreign).find("no authority of this cluster"), std::string::npos);
  }
  {
    Stranger self;
    const Authority own = Authority::Make(kTestCluster, kTestNowS);
    self.Show(own.certificate(), PrivateKey::FromPem(own.ToPem()).value());
    EXPECT_NE(says(self).find("no authority of this cluster"), std::string::npos);
  }
  {
    Stranger authority;  // the cluster's own, which has no business here
    authority.Show(cluster_.authority.certificate(), PrivateKey::FromPem(cluster_.authority.ToPem()).value());
    EXPECT_FALSE(says(authority).empty());
  }
}

TEST_F(TlsTest, BytesThatAreNoTls) {
  const auto context = Server(ServerSettings());
  for (const std::string text : {"GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "StriaBk1 and more of the old protocol"}) {
    TlsSession server(context, kClientAt);
    std::string out;
    EXPECT_EQ(server.Handshake(text, &out), Step::kFailed);
    EXPECT_EQ(server.error().message, "the peer at 10.0.0.7:40112 does not speak TLS: it is not of Stria, or was started with --insecure");
    EXPECT_EQ(server.error().code, FsError::kUnavailable);
    EXPECT_EQ(server.Handshake(text, &out), Step::kFailed) << "and so it stays";
  }
}

TEST_F(TlsTest, Roles) {
  Pair admin(Client(Settings(cluster_.Give(Role::kMonitor, "wn7"), {Role::kData})), Server(ServerSettings()));
  admin.Shake();
  ExpectRefused(admin, "the peer at 10.0.0.7:40112 was refused: monitor wn7 has another role than those that belong here (data, client)",
                "the server at pc1:7424 refuses us: it lets nobody in who has our role");
  Pair meta(Client(Settings(cluster_.Give(Role::kClient, "wn7"), {Role::kMeta})), Server(ServerSettings()));
  meta.Shake();
  ExpectRefused(meta, "the peer at 10.0.0.7:40112 refuses us: it lets nobody in who has our role",
                "the server at pc1:7424 was refused: data n6 has another role than those that belong here (meta)");
}

TEST_F(TlsTest, AClientIsNoServer) {
  // A client's certificate cannot be shown by what listens, whoever asks.
  Pair p(Client(Settings(cluster_.Give(Role::kClient, "wn7"), {Role::kClient, Role::kData})), Server(Settings(cluster_.Give(Role::kClient, "evil"), {Role::kClient})));
  p.Shake();
  EXPECT_FALSE(p.done());
  EXPECT_NE(p.client.error().message.find("not for this side of a connection"), std::string::npos) << p.client.error();
}

TEST_F(TlsTest, TheServerIsTheOneOfTheMap) {
  Pair p(Client(ClientSettings()), Server(ServerSettings()), ExpectedPeer{{Role::kData}, "n7"});
  p.Shake();
  EXPECT_FALSE(p.done());
  EXPECT_EQ(p.client.error().message, "the server at pc1:7424 was refused: data n6 is there instead of n7");
}

TEST_F(TlsTest, ExpiredAndNotYet) {
  const auto old_client = cluster_.Give(Role::kClient, "wn7", kTestNowS - 91 * kDayS);
  // The authority was made now: one that is over must be of an authority that is older.
  const TestCluster older(kTestCluster, kTestNowS - 200 * kDayS);
  const auto server = Server(Settings(older.Give(Role::kData, "n6"), {Role::kClient}));
  Pair over(Client(Settings(older.Give(Role::kClient, "wn7", kTestNowS - 91 * kDayS), {Role::kData})), server);
  over.Shake();
  ExpectRefused(over, "the peer at 10.0.0.7:40112 was refused: its certificate has expired, or this machine's clock is wrong (it says that it is " +
                          FormatIdentity({kTestCluster, Role::kClient, "wn7"}) + ")",
                "the server at pc1:7424 refuses us: it says that our certificate has expired");
  Pair early(Client(Settings(older.Give(Role::kClient, "wn7", kTestNowS + 31 * kDayS), {Role::kData})), server);
  early.Shake();
  EXPECT_FALSE(early.done());
  EXPECT_NE(early.server.error().message.find("not good yet"), std::string::npos) << early.server.error();
  Pair last_day(Client(Settings(older.Give(Role::kClient, "wn7", kTestNowS - 90 * kDayS + 1), {Role::kData})), server);
  last_day.Shake();
  EXPECT_TRUE(last_day.done()) << last_day.server.error();
}

TEST_F(TlsTest, RevokedWhileItRuns) {
  const auto client = cluster_.Give(Role::kClient, "wn7");
  CurrentTls current(Server(ServerSettings()));
  Pair before(Client(Settings(client, {Role::kData})), current.Get());
  before.Shake();
  ASSERT_TRUE(before.done());
  Revoked revoked;
  revoked.Add(client->certificate.serial());
  const auto now = cluster_.Give(Role::kData, "n6", kTestNowS, revoked);
  current.Set(Server(Settings(now, {Role::kClient})));
  Pair after(Client(Settings(client, {Role::kData})), current.Get());
  after.Shake();
  ExpectRefused(after, "the peer at 10.0.0.7:40112 was refused: the certificate of client wn7 is revoked",
                "the server at pc1:7424 refuses us: it says that our certificate is revoked");
  // Who is connected is found, too.
  EXPECT_FALSE(now->StillGood(before.server.peer(), kTestNowS).ok());
  Pair other(Client(ClientSettings()), current.Get());
  other.Shake();
  EXPECT_TRUE(other.done());
}

TEST_F(TlsTest, TheAuthorityIsChangedWhileItRuns) {
  const TestCluster next;
  const Bundle both = cluster_.bundle.With(next.authority.certificate()).value();
  const auto with = [&](const TestCluster& signer, Role role, const std::string& name, const Bundle& bundle) {
    PrivateKey key = PrivateKey::Make();
    Certificate c = signer.Sign(key, role, name);
    return std::make_shared<const Credentials>(Credentials::Of(std::move(key), std::move(c), bundle, {}).value());
  };
  // Old or new certificates on either side, all with both in their bundles.
  for (const TestCluster* c : {&cluster_, &next}) {
    for (const TestCluster* s : {&cluster_, &next}) {
      Pair p(Client(Settings(with(*c, Role::kClient, "wn7", both), {Role::kData})), Server(Settings(with(*s, Role::kData, "n6", both), {Role::kClient})));
      p.Shake();
      ASSERT_TRUE(p.done()) << p.client.error() << p.server.error();
      EXPECT_EQ(p.server.peer().issuer, c->authority.certificate().hash());
      EXPECT_EQ(next.Give(Role::kMeta, "m")->StillGood(p.server.peer(), kTestNowS).ok(), c == &next);
    }
  }
  Pair late(Client(Settings(with(cluster_, Role::kClient, "wn7", both), {Role::kData})), Server(Settings(with(next, Role::kData, "n6", next.bundle), {Role::kClient})));
  late.Shake();
  EXPECT_FALSE(late.done());
}

TEST_F(TlsTest, ModesAreAgreedOn) {
  using M = WireMode;
  struct Case {
    std::vector<M> client;
    M least;
    std::optional<M> got;
  };
  const Case cases[] = {
      {{M::kPrivacy}, M::kAuth, M::kPrivacy},
      {{M::kAuth}, M::kAuth, M::kAuth},
      {{M::kAuth}, M::kIntegrity, std::nullopt},
      {{M::kAuth}, M::kPrivacy, std::nullopt},
      {{M::kAuth, M::kIntegrity, M::kPrivacy}, M::kPrivacy, M::kPrivacy},
      {{M::kAuth, M::kIntegrity, M::kPrivacy}, M::kIntegrity, M::kIntegrity},
      {{M::kIntegrity, M::kPrivacy}, M::kAuth, M::kIntegrity},
  };
  for (const Case& c : cases) {
    TlsSettings client = ClientSettings(), server = ServerSettings();
    client.modes = c.client;
    server.modes = ModesFrom(c.least);
    Pair p(Client(client), Server(server));
    p.Shake();
    EXPECT_EQ(p.done(), c.got.has_value());
    if (!c.got) {
      ExpectRefused(p, "the peer at 10.0.0.7:40112 was refused: it offers no mode that is taken here",
                    "the server at pc1:7424 refuses us: it takes none of the modes that we offer (privacy, integrity, auth)");
      continue;
    }
    EXPECT_EQ(p.client.mode(), *c.got);
    EXPECT_EQ(p.server.mode(), *c.got);
    if (*c.got == M::kPrivacy) continue;
    EXPECT_EQ(p.client.SendKey().key, p.server.ReceiveKey().key);
    EXPECT_EQ(p.client.ReceiveKey().salt, p.server.SendKey().salt);
    EXPECT_NE(p.client.SendKey().key, p.client.ReceiveKey().key);
    EXPECT_NE(p.client.SendKey().salt, p.client.ReceiveKey().salt);
  }
}

// Somebody between the two changes what the client offers, or what the server chose: the handshake does not come about.
TEST_F(TlsTest, ModesCannotBeTalkedDown) {
  TlsSettings client = ClientSettings(), server = ServerSettings();
  client.modes = {WireMode::kPrivacy, WireMode::kAuth};
  server.modes = ModesFrom(WireMode::kAuth);
  Pair p(Client(client), Server(server));
  std::string hello, out;
  p.client.Handshake("", &hello);
  const size_t at = hello.find("stria-privacy/1");
  ASSERT_NE(at, std::string::npos);
  hello.replace(at, 5, "strib");  // unknown; so the server takes the next
  ASSERT_EQ(p.server.Handshake(hello, &out), Step::kMore);
  std::string answer;
  EXPECT_EQ(p.client.Handshake(out, &answer), Step::kFailed);
  EXPECT_FALSE(p.client.error().message.empty());
}

TEST_F(TlsTest, AnyFlippedBitOfAHandshakeEndsIt) {
  Random rng(5);
  const auto c = Client(ClientSettings()), s = Server(ServerSettings());
  int done = 0;
  for (int i = 0; i < 150; ++i) {
    Pair p(c, s);
    std::string to_server, to_client;
    p.c = p.client.Handshake("", &to_server);
    const uint64_t flight = rng.Below(4);
    const auto hurt = [&](std::string* bytes, uint64_t number) {
      if (number == flight && !bytes->empty()) (*bytes)[rng.Below(bytes->size())] ^= static_cast<char>(1 << rng.Below(8));
    };
    hurt(&to_server, 0);
    p.s = p.server.Handshake(to_server, &to_client);
    hurt(&to_client, 1);
    to_server.clear();
    if (p.c == Step::kMore) p.c = p.client.Handshake(to_client, &to_server);
    hurt(&to_server, 2);
    to_client.clear();
    if (p.s == Step::kMore) p.s = p.server.Handshake(to_server, &to_client);
    hurt(&to_client, 3);
    to_server.clear();
    if (p.c == Step::kMore) p.c = p.client.Handshake(to_client, &to_server);
    // The server is done before the greeting is hurt; bits that TLS itself does not look at (the version of the first record) may be.
    if (p.c == Step::kDone) ++done;
    if (flight == 2) EXPECT_NE(p.s, Step::kDone);
  }
  EXPECT_LT(done, 8);
}

TEST_F(TlsTest, HalfAHandshakeIsNeitherDoneNorFailed) {
  const auto c = Client(ClientSettings()), s = Server(ServerSettings());
  std::string hello;
  TlsSession client(c, kServerAt);
  ASSERT_EQ(client.Handshake("", &hello), Step::kMore);
  for (size_t n = 0; n < hello.size(); n += 7) {
    TlsSession server(s, kClientAt);
    std::string out;
    EXPECT_EQ(server.Handshake(hello.substr(0, n), &out), Step::kMore);
    EXPECT_TRUE(out.empty());
  }
  TlsSession server(s, kClientAt);
  std::string out;
  EXPECT_EQ(server.Handshake(hello, &out), Step::kMore);
  EXPECT_FALSE(out.empty());
}

// ---- After the handshake --------------------------------------------------------------------------

class Pipe final : public TlsWire {
 public:
  Pipe(std::string* in, std::string* out, size_t room) : in_(in), out_(out), room_(room) {}
  ssize_t Take(uint8_t* to, size_t n) override {
    if (in_->empty() && ended) return -1;
    n = std::min({n, in_->size(), most});
    memcpy(to, in_->data(), n);
    in_->erase(0, n);
    return static_cast<ssize_t>(n);
  }
  ssize_t Give(const uint8_t* from, size_t n) override {
    n = std::min(n, room_ - std::min(room_, out_->size()));
    out_->append(reinterpret_cast<const char*>(from), n);
    return static_cast<ssize_t>(n);
  }
  bool ended = false;
  size_t most = SIZE_MAX;

 private:
  std::string* in_;
  std::string* out_;
  const size_t room_;
};

std::string RandomBytes(Random& rng, size_t n) {
  std::string out(n, '\0');
  for (char& c : out) c = static_cast<char>(rng.Next());
  return out;
}

TEST_F(TlsTest, BytesGoBothWaysOverANarrowWire) {
  Random rng(3);
  TlsSettings client = ClientSettings(), server = ServerSettings();
  client.rekey_records = server.rekey_records = 3;  // over and over
  Pair p(Client(client), Server(server));
  p.Shake();
  ASSERT_TRUE(p.done());
  std::string there, back;
  Pipe client_wire(&back, &there, 30'000), server_wire(&there, &back, 7'000);
  p.client.SetWire(&client_wire);
  p.server.SetWire(&server_wire);
  const std::string up = RandomBytes(rng, 700'000), down = RandomBytes(rng, 400'000);
  std::string got_up, got_down;
  size_t sent_up = 0, sent_down = 0;
  std::vector<uint8_t> buffer(40'000);
  for (int i = 0; i < 100'000 && (got_up.size() < up.size() || got_down.size() < down.size()); ++i) {
    client_wire.most = rng.Between(1, 20'000);
    const auto write = [&](TlsSession& s, const std::string& all, size_t* sent) {
      // The same bytes from another place.
      const std::string piece = all.substr(*sent, 50'000);
      if (!piece.empty()) *sent += s.Write(reinterpret_cast<const uint8_t*>(piece.data()), piece.size()).value();
    };
    const auto read = [&](TlsSession& s, std::string* got) {
      const size_t n = s.Read(buffer.data(), rng.Between(1, buffer.size())).value();
      got->append(reinterpret_cast<const char*>(buffer.data()), n);
    };
    if (rng.OneIn(2)) write(p.client, up, &sent_up);
    if (rng.OneIn(2)) read(p.server, &got_up);
    if (rng.OneIn(2)) write(p.server, down, &sent_down);
    if (rng.OneIn(2)) read(p.client, &got_down);
  }
  EXPECT_TRUE(got_up == up);
  EXPECT_TRUE(got_down == down);
}

TEST_F(TlsTest, AHurtRecordEndsTheConnection) {
  Pair p(Client(ClientSettings()), Server(ServerSettings()));
  p.Shake();
  ASSERT_TRUE(p.done());
  std::string there, back;
  Pipe client_wire(&back, &there, SIZE_MAX), server_wire(&there, &back, SIZE_MAX);
  p.client.SetWire(&client_wire);
  p.server.SetWire(&server_wire);
  uint8_t buffer[100] = {};
  EXPECT_EQ(p.server.Read(buffer, sizeof buffer).value(), 0u);
  ASSERT_EQ(p.client.Write(buffer, 50).value(), 50u);
  EXPECT_EQ(there.find(std::string(20, '\0')), std::string::npos);
  there[20] ^= 1;
  const Result<size_t> got = p.server.Read(buffer, sizeof buffer);
  EXPECT_EQ(got.code(), FsError::kUnavailable);
  EXPECT_EQ(got.error().message.find("the connection to 10.0.0.7:40112 broke: "), 0u) << got.error();
  // The other side hears of it.
  EXPECT_EQ(p.client.Read(buffer, sizeof buffer).code(), FsError::kUnavailable);
}

TEST_F(TlsTest, TheEndOfTheWireIsSaid) {
  Pair p(Client(ClientSettings()), Server(ServerSettings()));
  p.Shake();
  std::string there, back;
  Pipe wire(&there, &back, SIZE_MAX);
  p.server.SetWire(&wire);
  wire.ended = true;
  uint8_t buffer[10];
  EXPECT_EQ(p.server.Read(buffer, sizeof buffer).error().message, "the connection to 10.0.0.7:40112 broke: it was closed");
}

// ---- Enrolment ------------------------------------------------------------------------------------

TEST_F(TlsTest, WhoJoinsPinsTheAuthority) {
  TlsSettings meta = Settings(cluster_.Give(Role::kMeta, "m"), {Role::kClient});
  meta.joins = true;
  const auto now = [] { return kTestNowS; };
  Pair p(TlsContext::MakeJoining(cluster_.authority.certificate().hash(), now), Server(meta));
  p.Shake();
  ASSERT_TRUE(p.done()) << p.client.error() << p.server.error();
  EXPECT_TRUE(p.server.joining());
  EXPECT_TRUE(p.client.joining());
  EXPECT_EQ(p.client.peer().name, "m");
  EXPECT_EQ(p.server.peer(), Peer());
  EXPECT_EQ(p.client.ChannelBinding(), p.server.ChannelBinding());
  // With a certificate one is a peer like any other.
  Pair known(Client(Settings(cluster_.Give(Role::kClient, "wn7"), {Role::kMeta})), Server(meta));
  known.Shake();
  EXPECT_TRUE(known.done());
  EXPECT_FALSE(known.server.joining());

  Pair wrong(TlsContext::MakeJoining(TestCluster().authority.certificate().hash(), now), Server(meta));
  wrong.Shake();
  EXPECT_FALSE(wrong.done());
  EXPECT_NE(wrong.client.error().message.find("it does not have the authority that the join command names"), std::string::npos) << wrong.client.error();
  // A data server of the same cluster is not who gives certificates.
  TlsSettings data = Settings(cluster_.Give(Role::kData, "n6"), {Role::kClient});
  data.joins = true;
  Pair other(TlsContext::MakeJoining(cluster_.authority.certificate().hash(), now), Server(data));
  other.Shake();
  EXPECT_FALSE(other.done());
}

}  // namespace
}  // namespace stria
