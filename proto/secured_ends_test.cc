// Two programs with credentials in files, over loopback: they talk, their files change, and what the map says of others counts.
#include "proto/secured_ends.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/loop_executor.h"
#include "common/exec/pool.h"
#include "common/temp_dir.h"
#include "trust/files.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

constexpr char kAnyPort[] = "127.0.0.1:0";
constexpr int64_t kPatienceNs = 60 * kSecond;  // of what is to succeed, on the slowest machine

class Echo final : public Dispatcher {
 public:
  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer> peer, std::string, WireMessage request) override {
    seen.push_back(peer ? std::string(RoleName(peer->role)) + " " + peer->name : "nobody");
    co_return request;
  }
  std::vector<std::string> seen;
};

Task<Result<void>> Ask(Transport* to) {
  const Result<WireMessage> got = co_await to->Call("/echo", {Buffer::FromString("x"), BufferChain()}, kPatienceNs);
  if (!got.ok()) co_return got.error();
  co_return Ok();
}

// A program's directory, and what it makes of it.
class Program {
 public:
  Program(const TestCluster& cluster, Role role, const std::string& name) : cluster_(cluster), role_(role), name_(name), key_(PrivateKey::Make()) {
    Write(cluster_.Sign(key_, role, name));
    EXPECT_TRUE(CredentialFiles::SaveBundle(path(), cluster_.bundle).ok());
  }
  const std::string& path() const { return dir_.path(); }
  const PrivateKey& key() const { return key_; }
  void Write(const Certificate& certificate) const { EXPECT_TRUE(CredentialFiles::SaveNode(path(), key_, certificate).ok()); }
  std::string serial() const { return Certificate::FromPem(ReadSecretFile(path() + "/node.pem").value()).value().serial(); }
  SecuredEndsOptions Options() const {
    SecuredEndsOptions o;
    o.own = {role_};
    o.lets_in = {Role::kClient};
    o.talks_to = {Role::kData};
    o.now_s = [now = now_s] { return now->load(); };
    return o;
  }
  std::unique_ptr<SecuredEnds> Open() const { return SecuredEnds::Open(path(), Options()).value(); }

  const std::shared_ptr<std::atomic<int64_t>> now_s = std::make_shared<std::atomic<int64_t>>(kTestNowS);

 private:
  const TempDir dir_;
  const TestCluster& cluster_;
  const Role role_;
  const std::string name_;
  const PrivateKey key_;
};

ClusterMap MapOf(const std::string& name, const std::string& address) {
  ClusterMap map;
  map.nodes.emplace_back();
  map.nodes.back().id = NodeId(1);
  map.nodes.back().name = name;
  map.nodes.back().address = address;
  map.nodes.back().state = NodeState::kUp;
  return map;
}

class Ends : public testing::Test {
 protected:
  void RunTest(std::function<Task<void>(Executor*)> body) {
    LoopExecutor ex;
    ex.MakeCurrent();
    TaskScope scope;
    scope.Spawn([](LoopExecutor* loop, std::function<Task<void>(Executor*)> fn) -> Task<void> {
      loop->EndHelp();
      co_await fn(loop);
      loop->Stop();
    }(&ex, std::move(body)));
    ex.Run();
  }
  const TestCluster cluster_;
  InlinePool pool_;
};

// A data server of node n6, and what it is asked by.
struct Server {
  Server(Executor* ex, SecuredEnds* ends) {
    BulkServerOptions options;
    ends->Secure(&options);
    server = std::make_unique<BulkServer>(ex, &echo, std::move(options));
    address = server->Start(kAnyPort).value();
    ends->OnChange([this, ends] { server->CloseUnless([ends](const Peer& p) { return ends->StillGood(p); }); });
  }
  Echo echo;
  std::unique_ptr<BulkServer> server;
  std::string address;
};

std::unique_ptr<BulkClient> ClientOf(Executor* ex, const SecuredEnds& ends) {
  BulkClientOptions options;
  ends.Secure(&options);
  return std::make_unique<BulkClient>(ex, options);
}

TEST_F(Ends, TalkAndKnowWhoIsWhere) {
  RunTest([&](Executor* ex) -> Task<void> {
    const Program data(cluster_, Role::kData, "n6"), mount(cluster_, Role::kClient, "wn7");
    const auto at_data = data.Open(), at_mount = mount.Open();
    Server s(ex, at_data.get());
    const auto client = ClientOf(ex, *at_mount);
    const auto factory = at_mount->Over(client.get());
    // Nobody has said yet who is there.
    const Result<void> early = co_await Ask(factory->Make(s.address).get());
    EXPECT_EQ(early.code(), FsError::kUnavailable);
    // The map says it, and is asked when a connection is made.
    auto map = std::make_shared<const ClusterMap>(MapOf("n6", s.address));
    int asked = 0;
    at_mount->Follow([&] { return ++asked, map; });
    const auto transport = factory->Make(s.address);
    const Result<void> good = co_await Ask(transport.get());
    EXPECT_TRUE(good.ok()) << good.error();
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(s.echo.seen, std::vector<std::string>{"client wn7"});
    EXPECT_EQ(at_mount->Expected(s.address).name, "n6");
    // Another node is said to have that address now.
    map = std::make_shared<const ClusterMap>(MapOf("n7", s.address));
    const Result<void> wrong = co_await Ask(factory->Make(s.address).get());
    EXPECT_NE(wrong.error().message.find("data n6 is there instead of n7"), std::string::npos) << wrong.error();
    EXPECT_EQ(s.echo.seen.size(), 1u);
  });
}

TEST_F(Ends, ExpectsMetadataServersWhereTheyAre) {
  const Program mount(cluster_, Role::kClient, "wn7");
  SecuredEndsOptions options = mount.Options();
  options.meta_addresses = {"pc1:7424"};
  const auto ends = SecuredEnds::Open(mount.path(), options).value();
  ClusterMap map = MapOf("n6", "pc6:7425");
  map.nodes.push_back(map.nodes[0]);  // whoever had that address before
  map.nodes.back().name = "gone";
  map.nodes.back().state = NodeState::kOut;
  ends->TakeMap(map);
  EXPECT_TRUE(ends->Expected("pc1:7424").roles.Has(Role::kMeta));
  EXPECT_FALSE(ends->Expected("pc1:7424").roles.Has(Role::kData));
  EXPECT_EQ(ends->Expected("pc6:7425").name, "n6");
  EXPECT_FALSE(ends->Expected("pc6:7425").roles.Has(Role::kMeta));
  for (const Role role : kAllRoles) EXPECT_FALSE(ends->Expected("pc9:7425").roles.Has(role));
  // Another metadata server, as one has said.
  ends->ExpectMetas({"pc2:7424"});
  EXPECT_TRUE(ends->Expected("pc2:7424").roles.Has(Role::kMeta));
  EXPECT_FALSE(ends->Expected("pc2:7424").roles.Has(Role::kData));
  EXPECT_TRUE(ends->Expected("pc1:7424").roles.Has(Role::kMeta));
  ends->ExpectMetas({"pc2:7424", "pc1:7424"});
  EXPECT_EQ(ends->metas(), (std::vector<std::string>{"pc1:7424", "pc2:7424"}));
  ends->ExpectMetas({});
  EXPECT_EQ(ends->metas(), std::vector<std::string>{"pc1:7424"});
  for (const Role role : kAllRoles) EXPECT_FALSE(ends->Expected("pc2:7424").roles.Has(role));
}

TEST_F(Ends, ReplacedFilesCountAndRevokedPeersAreClosed) {
  RunTest([&](Executor* ex) -> Task<void> {
    const Program data(cluster_, Role::kData, "n6"), good(cluster_, Role::kClient, "good"), bad(cluster_, Role::kClient, "bad");
    const auto at_data = data.Open(), at_good = good.Open(), at_bad = bad.Open();
    Server s(ex, at_data.get());
    const ClusterMap map = MapOf("n6", s.address);
    at_good->TakeMap(map);
    at_bad->TakeMap(map);
    const auto one = ClientOf(ex, *at_good), two = ClientOf(ex, *at_bad);
    const auto to_one = one->Make(s.address), to_two = two->Make(s.address);
    EXPECT_TRUE((co_await Ask(to_one.get())).ok());
    EXPECT_TRUE((co_await Ask(to_two.get())).ok());
    int changes = 0;
    at_data->OnChange([&] { ++changes; });
    co_await at_data->Refresh(&pool_);
    EXPECT_GT(changes, 0) << "certificates end without any file changing";
    const int before = changes;
    // A new certificate, and one of the clients is revoked, both by files.
    const std::string former = data.serial();
    data.Write(cluster_.Sign(data.key(), Role::kData, "n6"));
    Revoked revoked;
    revoked.Add(bad.serial());
    EXPECT_TRUE(CredentialFiles::SaveRevoked(data.path(), revoked).ok());
    co_await at_data->Refresh(&pool_);
    EXPECT_GT(changes, before);
    EXPECT_NE(at_data->credentials()->certificate.serial(), former);
    Result<void> out = co_await Ask(to_two.get());
    for (int i = 0; i < 3000 && (out.ok() || out.error().message.find("revoked") == std::string::npos); ++i) {
      co_await Sleep(20 * kMillisecond);
      out = co_await Ask(to_two.get());
    }
    EXPECT_NE(out.error().message.find("our certificate is revoked"), std::string::npos) << out.error();
    const Result<void> still = co_await Ask(to_one.get());
    EXPECT_TRUE(still.ok()) << still.error();
  });
}

// As a mount does: the map says whom not to believe, and what is open to that server is closed.
TEST_F(Ends, AClientLeavesAServerThatTheMapRevokes) {
  RunTest([&](Executor* ex) -> Task<void> {
    const Program data(cluster_, Role::kData, "n6"), mount(cluster_, Role::kClient, "wn7");
    const auto at_data = data.Open(), at_mount = mount.Open();
    Server s(ex, at_data.get());
    at_mount->TakeMap(MapOf("n6", s.address));
    const auto client = ClientOf(ex, *at_mount);
    at_mount->OnChange([&] { client->CloseUnless([&](const Peer& server) { return at_mount->StillGood(server); }); });
    const auto transport = client->Make(s.address);
    EXPECT_TRUE((co_await Ask(transport.get())).ok());
    ClusterMap map = MapOf("n6", s.address);
    map.bundle = cluster_.bundle.ToPem();
    at_mount->TakeMap(map);
    EXPECT_TRUE((co_await Ask(transport.get())).ok());
    map.revoked = {data.serial()};
    at_mount->TakeMap(map);
    for (int i = 0; i < 3; ++i) {
      const Result<void> out = co_await Ask(transport.get());
      EXPECT_EQ(out.code(), FsError::kUnavailable);
      EXPECT_NE(out.error().message.find("revoked"), std::string::npos) << out.error();
      co_await Sleep(200 * kMillisecond);
    }
    EXPECT_EQ(s.echo.seen.size(), 2u);
  });
}

TEST_F(Ends, WhatTheMapSaysOfOthersIsKept) {
  RunTest([&](Executor*) -> Task<void> {
    const TestCluster next(kTestCluster);  // the authority that is to come
    const Program data(cluster_, Role::kData, "n6");
    const Bundle both = cluster_.bundle.With(next.authority.certificate()).value();
    const std::string revoked_serial = cluster_.Give(Role::kClient, "bad")->certificate.serial();
    {
      const auto ends = data.Open();
      int changes = 0;
      ends->OnChange([&] { ++changes; });
      ends->TakeTrust("", {"ab"});
      EXPECT_EQ(changes, 0) << "an insecure cluster's map says nothing";
      ends->TakeTrust(both.ToPem(), {revoked_serial});
      EXPECT_EQ(changes, 1);
      EXPECT_TRUE(ends->credentials()->revoked.Has(revoked_serial)) << "at once";
      ends->TakeTrust(both.ToPem(), {revoked_serial});
      EXPECT_EQ(changes, 1) << "it is the same";
      co_await ends->Refresh(&pool_);
    }
    const auto after = data.Open();  // as after a restart
    EXPECT_TRUE(after->credentials()->revoked.Has(revoked_serial));
    EXPECT_TRUE(after->credentials()->bundle.Has(next.authority.certificate().hash()));
    // Nonsense, and what is of others, changes nothing.
    const TestCluster other(kOtherCluster);
    after->TakeTrust("-----BEGIN CERTIFICATE-----", {});
    after->TakeTrust(other.bundle.ToPem(), {});
    after->TakeTrust(both.ToPem(), {"not a serial number"});
    EXPECT_TRUE(after->credentials()->revoked.Has(revoked_serial));
    EXPECT_TRUE(after->credentials()->bundle.Has(cluster_.authority.certificate().hash()));
  });
}

TEST_F(Ends, ADroppedAuthorityWaitsForTheRenewal) {
  RunTest([&](Executor*) -> Task<void> {
    const TestCluster next(kTestCluster);
    const Program data(cluster_, Role::kData, "n6");
    const std::string bad = cluster_.Give(Role::kClient, "bad")->certificate.serial();
    const auto ends = data.Open();
    ends->TakeTrust(next.bundle.ToPem(), {bad});
    EXPECT_TRUE(ends->credentials()->bundle.Has(cluster_.authority.certificate().hash())) << "it has signed our own";
    EXPECT_TRUE(ends->credentials()->revoked.Has(bad));
    co_await ends->Refresh(&pool_);
    EXPECT_TRUE(CredentialFiles(data.path()).Load().ok()) << "the files are good at any time";
    // It is two thirds over, and whoever is asked signs with the next authority.
    int asked = 0;
    ends->RenewBy([&](std::string request) -> Task<Result<std::string>> {
      ++asked;
      const CertRequest csr = CertRequest::FromDer(request).value();
      EXPECT_EQ(csr.key_hash(), data.key().public_hash());
      co_return next.authority.Sign(csr, {kTestCluster, Role::kData, "n6"}, data.now_s->load()).value().ToPem();
    });
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(asked, 0) << "it is not due";
    data.now_s->store(kTestNowS + 65 * kDayS);
    co_await ends->Refresh(&pool_);
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(asked, 1);
    const std::shared_ptr<const Credentials> now = ends->credentials();
    EXPECT_FALSE(now->bundle.Has(cluster_.authority.certificate().hash()));
    EXPECT_TRUE(now->bundle.Has(next.authority.certificate().hash()));
    EXPECT_GT(now->certificate.not_after_s(), kTestNowS + 140 * kDayS);
    EXPECT_FALSE(CredentialFiles(data.path()).Load().value()->bundle.Has(cluster_.authority.certificate().hash()));
  });
}

TEST_F(Ends, AShortLivedCertificateIsRenewedAgainAndAgain) {
  RunTest([&](Executor*) -> Task<void> {
    constexpr int64_t kLifeS = 6;  // asked for at 4 s, and not twice within 1 s
    const Program data(cluster_, Role::kData, "n6");
    const auto sign = [&] { return cluster_.authority.Sign(CertRequest::Make(data.key()), {kTestCluster, Role::kData, "n6"}, data.now_s->load(), kLifeS).value(); };
    data.Write(sign());
    const auto ends = data.Open();
    int asked = 0;
    ends->RenewBy([&](std::string) -> Task<Result<std::string>> {
      ++asked;
      co_return sign().ToPem();
    });
    for (int round = 1; round <= 3; ++round) {
      data.now_s->store(data.now_s->load() + 5);
      co_await ends->Refresh(&pool_);
      co_await ends->Refresh(&pool_);
      EXPECT_EQ(asked, round);
      EXPECT_EQ(ends->credentials()->certificate.not_after_s(), data.now_s->load() + kLifeS);
      co_await Sleep(1100 * kMillisecond);
    }
  });
}

TEST_F(Ends, AShortLivedCertificateInPlaceOfALongOneIsRenewedInItsTime) {
  RunTest([&](Executor*) -> Task<void> {
    constexpr int64_t kLongS = 90 * 86'400, kShortS = 6;
    const Program data(cluster_, Role::kData, "n6");
    const auto sign = [&](int64_t life_s) {
      return cluster_.authority.Sign(CertRequest::Make(data.key()), {kTestCluster, Role::kData, "n6"}, data.now_s->load(), life_s).value();
    };
    data.Write(sign(kLongS));
    const auto ends = data.Open();
    int asked = 0;
    ends->RenewBy([&](std::string) -> Task<Result<std::string>> {
      ++asked;
      co_return sign(kShortS).ToPem();
    });
    data.now_s->store(data.now_s->load() + kLongS * 3 / 4);
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(asked, 1);
    data.now_s->store(data.now_s->load() + 5);
    co_await Sleep(1100 * kMillisecond);
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(asked, 2) << "however rarely the former one was to be renewed";
  });
}

TEST_F(Ends, ACertificateIsRenewedWhenAnotherAuthoritySigns) {
  RunTest([&](Executor*) -> Task<void> {
    const TestCluster next(kTestCluster);
    const Program data(cluster_, Role::kData, "n6");
    const auto ends = data.Open();
    int asked = 0;
    ends->RenewBy([&](std::string request) -> Task<Result<std::string>> {
      ++asked;
      co_return next.authority.Sign(CertRequest::FromDer(request).value(), {kTestCluster, Role::kData, "n6"}, data.now_s->load()).value().ToPem();
    });
    ends->TakeTrust(cluster_.bundle.ToPem(), {});
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(asked, 0);
    ends->TakeTrust(cluster_.bundle.With(next.authority.certificate()).value().ToPem(), {});
    co_await ends->Refresh(&pool_);
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(asked, 1);
    EXPECT_TRUE(SignedBy(ends->credentials()->certificate, next.authority.certificate()));
    // And then the former one goes.
    ends->TakeTrust(next.bundle.ToPem(), {});
    EXPECT_FALSE(ends->credentials()->bundle.Has(cluster_.authority.certificate().hash()));
  });
}

TEST_F(Ends, ACertificateThatWasJustRenewedIsRenewedByANewAuthorityAtOnce) {
  RunTest([&](Executor*) -> Task<void> {
    constexpr int64_t kLifeS = 90 * 86'400;
    const TestCluster next(kTestCluster);
    const Program data(cluster_, Role::kData, "n6");
    const TestCluster* signs = &cluster_;
    const auto sign = [&] {
      return signs->authority.Sign(CertRequest::Make(data.key()), {kTestCluster, Role::kData, "n6"}, data.now_s->load(), kLifeS).value();
    };
    data.Write(sign());
    const auto ends = data.Open();
    ends->RenewBy([&](std::string) -> Task<Result<std::string>> { co_return sign().ToPem(); });
    ends->TakeTrust(cluster_.bundle.ToPem(), {});
    data.now_s->store(data.now_s->load() + kLifeS * 3 / 4);
    co_await ends->Refresh(&pool_);
    EXPECT_TRUE(SignedBy(ends->credentials()->certificate, cluster_.authority.certificate()));
    EXPECT_GT(ends->credentials()->certificate.not_after_s(), data.now_s->load() + kLifeS / 2) << "it was renewed";
    signs = &next;
    ends->TakeTrust(cluster_.bundle.With(next.authority.certificate()).value().ToPem(), {});
    co_await ends->Refresh(&pool_);
    EXPECT_TRUE(SignedBy(ends->credentials()->certificate, next.authority.certificate()));
  });
}

// A metadata server that is to change last.
TEST_F(Ends, OneMayGoOnWithTheFormerAuthorityForAWhile) {
  RunTest([&](Executor*) -> Task<void> {
    const TestCluster next(kTestCluster);
    const Program data(cluster_, Role::kData, "n6");
    SecuredEndsOptions options = data.Options();
    options.overlap_s = 2 * kDayS;
    const auto ends = SecuredEnds::Open(data.path(), std::move(options)).value();
    int asked = 0;
    ends->RenewBy([&](std::string request) -> Task<Result<std::string>> {
      ++asked;
      co_return next.authority.Sign(CertRequest::FromDer(request).value(), {kTestCluster, Role::kData, "n6"}, data.now_s->load()).value().ToPem();
    });
    ends->TakeTrust(cluster_.bundle.With(next.authority.certificate()).value().ToPem(), {});
    data.now_s->store(kTestNowS + 2 * kDayS - 1);
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(asked, 0);
    EXPECT_TRUE(ends->credentials()->bundle.Has(next.authority.certificate().hash())) << "others are believed by it at once";
    data.now_s->store(kTestNowS + 2 * kDayS);
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(asked, 1);
    EXPECT_TRUE(SignedBy(ends->credentials()->certificate, next.authority.certificate()));
  });
}

// One of several metadata servers: until all of them believe the new one.
TEST_F(Ends, OneMayGoOnWithTheFormerAuthorityWhileItIsToldTo) {
  RunTest([&](Executor*) -> Task<void> {
    const TestCluster next(kTestCluster);
    const Program data(cluster_, Role::kData, "n6");
    const auto ends = data.Open();
    bool keep = true;
    int asked = 0;
    ends->KeepFormerWhile([&] { return keep; });
    ends->RenewBy([&](std::string request) -> Task<Result<std::string>> {
      ++asked;
      const Authority& by = keep ? cluster_.authority : next.authority;
      co_return by.Sign(CertRequest::FromDer(request).value(), {kTestCluster, Role::kData, "n6"}, data.now_s->load()).value().ToPem();
    });
    ends->TakeTrust(cluster_.bundle.With(next.authority.certificate()).value().ToPem(), {});
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(asked, 0);
    EXPECT_TRUE(ends->credentials()->bundle.Has(next.authority.certificate().hash()));
    keep = false;
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(asked, 1);
    EXPECT_TRUE(SignedBy(ends->credentials()->certificate, next.authority.certificate()));
  });
}

TEST_F(Ends, WhatARenewalMayNotBring) {
  RunTest([&](Executor*) -> Task<void> {
    const TestCluster twin(kTestCluster);
    const PrivateKey another = PrivateKey::Make();
    const Program data(cluster_, Role::kData, "n6");
    const int64_t late = kTestNowS + 70 * kDayS;
    data.now_s->store(late);
    const std::string answers[] = {"", "nonsense", cluster_.Sign(data.key(), Role::kData, "n7", late).ToPem(),
                                   cluster_.Sign(data.key(), Role::kAdmin, "n6", late).ToPem(),
                                   cluster_.Sign(another, Role::kData, "n6", late).ToPem(),
                                   twin.Sign(data.key(), Role::kData, "n6", late).ToPem()};
    const std::string former = data.serial();
    for (const std::string& answer : answers) {
      const auto ends = data.Open();
      int asked = 0;
      ends->RenewBy([&](std::string) -> Task<Result<std::string>> {
        ++asked;
        co_return answer;
      });
      co_await ends->Refresh(&pool_);
      co_await ends->Refresh(&pool_);
      EXPECT_EQ(asked, 1) << "and not again at once";
      EXPECT_EQ(ends->credentials()->certificate.serial(), former) << answer;
      EXPECT_EQ(data.serial(), former) << answer;
    }
  });
}

TEST_F(Ends, DamagedFilesAndOtherRolesAreNotUsed) {
  RunTest([&](Executor*) -> Task<void> {
    const Program data(cluster_, Role::kData, "n6");
    SecuredEndsOptions wants = data.Options();
    wants.own = {Role::kMeta};
    const auto refused = SecuredEnds::Open(data.path(), wants);
    EXPECT_EQ(refused.code(), FsError::kAccess);
    EXPECT_NE(refused.error().message.find("is of the role data"), std::string::npos) << refused.error();
    const auto ends = data.Open();
    const std::string former = data.serial();
    // Another name is another's.
    data.Write(cluster_.Sign(data.key(), Role::kData, "n7"));
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(ends->identity().name, "n6");
    // A file that is not good: what was good goes on, and the next start fails.
    EXPECT_TRUE(ReplaceFile(data.path() + "/node.pem", "", 0600).ok());
    co_await ends->Refresh(&pool_);
    co_await ends->Refresh(&pool_);
    EXPECT_EQ(ends->credentials()->certificate.serial(), former);
    EXPECT_FALSE(SecuredEnds::Open(data.path(), data.Options()).ok());
    EXPECT_EQ(unlink((data.path() + "/node.pem").c_str()), 0);
    EXPECT_FALSE(SecuredEnds::Open(data.path(), data.Options()).ok()) << "half is not nothing";
  });
}

TEST_F(Ends, TheModeIsTheLeastThatBothTake) {
  const struct {
    WireMode server, client;
  } cases[] = {{WireMode::kPrivacy, WireMode::kPrivacy},
               {WireMode::kPrivacy, WireMode::kAuth},  // it is offered privacy, too
               {WireMode::kAuth, WireMode::kAuth},
               {WireMode::kAuth, WireMode::kPrivacy}};  // a server that takes little takes more as well
  for (const auto& c : cases) {
    RunTest([&](Executor* ex) -> Task<void> {
      const Program data(cluster_, Role::kData, "n6"), mount(cluster_, Role::kClient, "wn7");
      SecuredEndsOptions server = data.Options(), client = mount.Options();
      server.least = c.server;
      client.least = c.client;
      const auto at_data = SecuredEnds::Open(data.path(), server).value(), at_mount = SecuredEnds::Open(mount.path(), client).value();
      Server s(ex, at_data.get());
      at_mount->TakeMap(MapOf("n6", s.address));
      const auto bulk = ClientOf(ex, *at_mount);
      const Result<void> got = co_await Ask(bulk->Make(s.address).get());
      EXPECT_TRUE(got.ok()) << got.error();
      EXPECT_EQ(at_mount->client_tls()->Get()->settings().modes.front(), c.client);
      EXPECT_EQ(at_mount->client_tls()->Get()->settings().modes.back(), WireMode::kPrivacy);
      EXPECT_EQ(at_data->server_tls()->Get()->settings().modes.back(), c.server);
    });
  }
}

}  // namespace
}  // namespace stria
