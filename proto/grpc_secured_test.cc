// gRPC on a port of its own with TLS: who gets in, as whom, and what he may ask there. The clients are gRPC's own: a program of
// somebody else's that has the cluster's messages and a certificate.
#include <gtest/gtest.h>

#include <time.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "common/exec/pool.h"
#include "proto/echo_services.h"
#include "proto/grpc_bytes.h"
#include "proto/grpc_transport.h"
#include "proto/secured_testing.h"
#include "proto/stubs.h"

namespace stria {
namespace {

using random_messages::EchoMeta;
using secured_testing::Echo;
using secured_testing::Flat;
using secured_testing::kAnyPort;
using secured_testing::kPatienceNs;
using secured_testing::Message;
using secured_testing::RunTest;

constexpr RoleSet kLetIn = {Role::kData, Role::kClient, Role::kAdmin, Role::kMonitor};

// Trusts these authorities, and shows this certificate; null: none. Names are not compared: a certificate of the cluster has no host's.
std::shared_ptr<grpc::ChannelCredentials> Trusting(const Bundle& authorities, const std::shared_ptr<const Credentials>& own) {
  std::vector<grpc::experimental::IdentityKeyCertPair> pairs;
  if (own) pairs.push_back({own->key.ToPem(), own->certificate.ToPem()});
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<grpc::experimental::StaticDataCertificateProvider>(authorities.ToPem(), pairs));
  options.watch_root_certs();
  if (own) options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  options.set_check_call_host(false);
  return grpc::experimental::TlsCredentials(options);
}

// A thread of the pool waits for each call.
class Stranger final : public Transport {
 public:
  Stranger(Pool* pool, const std::string& address, std::shared_ptr<grpc::ChannelCredentials> credentials) : pool_(pool) {
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    channel_ = grpc::CreateCustomChannel(address, std::move(credentials), args);
  }
  Task<Result<WireMessage>> Call(std::string method, WireMessage request, int64_t timeout_ns) override {
    using Outcome = std::pair<grpc::Status, grpc::ByteBuffer>;
    const Outcome got = co_await RunOn(*pool_, [channel = channel_, method, bytes = ToByteBuffer(request), timeout_ns] {
      grpc::GenericStub stub(channel);
      grpc::CompletionQueue queue;
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(timeout_ns));
      Outcome out;
      const auto reader = stub.PrepareUnaryCall(&context, method, bytes, &queue);
      reader->StartCall();
      reader->Finish(&out.second, &out.first, &out);
      void* tag;
      bool ok;
      (void)queue.Next(&tag, &ok);
      queue.Shutdown();
      while (queue.Next(&tag, &ok)) {
      }
      return out;
    });
    if (!got.first.ok()) co_return Error(FsError::kUnavailable, got.first.error_message());
    co_return FromByteBuffer(got.second);
  }

 private:
  Pool* const pool_;
  std::shared_ptr<grpc::Channel> channel_;
};

class GrpcSecured : public testing::Test {
 protected:
  std::shared_ptr<const Credentials> Give(Role role, const std::string& name, const Revoked& revoked = {}) const {
    return cluster_.Give(role, name, now_s_, revoked);
  }
  GrpcServerOptions Options(const std::shared_ptr<const Credentials>& own) {
    GrpcServerOptions o;
    o.credentials = own;
    o.judge = [own, now_s = now_s_](const Certificate& shown, const std::string& address) { return own->Judge(shown, address, kLetIn, now_s); };
    o.refused = [this](const std::string& address, const Error& why) { refused_.push_back(address + ": " + why.message); };
    return o;
  }
  static Task<Result<WireMessage>> Ask(Transport* from) { co_return co_await from->Call("/echo", Message("asked", ""), kPatienceNs); }

  const int64_t now_s_ = time(nullptr);  // gRPC looks at the machine's clock
  const TestCluster cluster_{kTestCluster, now_s_};
  const std::shared_ptr<const Credentials> server_ = Give(Role::kMeta, "m1");
  std::vector<std::string> refused_;
};

TEST_F(GrpcSecured, AClientIsWhomItsCertificateNames) {
  RunTest([this](Executor* ex) -> Task<void> {
    ThreadPool pool(1, "stranger");
    Echo echo;
    GrpcServer server(ex, &echo, Options(server_));
    const std::string address = server.Start(kAnyPort).value();
    Stranger wn7(&pool, address, Trusting(cluster_.bundle, Give(Role::kClient, "wn7")));
    for (int i = 0; i < 2; ++i) {
      const auto reply = co_await Ask(&wn7);
      EXPECT_TRUE(reply.ok()) << reply.error();
      if (reply.ok()) EXPECT_EQ(Flat(*reply), "asked");
    }
    Stranger n6(&pool, address, Trusting(cluster_.bundle, Give(Role::kData, "n6")));
    EXPECT_TRUE((co_await Ask(&n6)).ok());
    EXPECT_EQ(echo.seen, (std::vector<std::string>{"client wn7 at 127.0.0.1", "client wn7 at 127.0.0.1", "data n6 at 127.0.0.1"}));
    EXPECT_TRUE(refused_.empty());
  });
}

// As on the protocol of our own: the same rows, the same session to be in.
TEST_F(GrpcSecured, RolesCountHereToo) {
  RunTest([this](Executor* ex) -> Task<void> {
    ThreadPool pool(1, "stranger");
    EchoMeta service(7);
    DispatchOptions doors;
    doors.proved = true;
    std::vector<std::string> denied;
    doors.refused = [&denied](const Peer* peer, const std::string& method, const Error&) {
      denied.push_back((peer ? peer->name : "nobody") + " " + method.substr(method.rfind('/') + 1));
    };
    MetaDispatcher dispatcher(&service, doors);
    GrpcServer server(ex, &dispatcher, Options(server_));
    const std::string address = server.Start(kAnyPort).value();
    const auto stub = [&](Role role, const std::string& name) {
      return std::make_unique<MetaStub>(std::make_shared<Stranger>(&pool, address, Trusting(cluster_.bundle, Give(role, name))));
    };
    const auto monitor = stub(Role::kMonitor, "mon"), client = stub(Role::kClient, "wn7"), admin = stub(Role::kAdmin, "pc1");
    AdminRequest drain;
    drain.verb = AdminVerb::kDrain;
    EXPECT_TRUE((co_await monitor->GetMap({})).ok());
    EXPECT_EQ((co_await monitor->Admin(drain)).code(), FsError::kAccess);
    EXPECT_EQ((co_await client->Admin(drain)).code(), FsError::kAccess);
    EXPECT_TRUE((co_await admin->Admin(drain)).ok());
    InodeRequest get;
    get.ino = kRootInode;
    EXPECT_EQ((co_await client->GetAttr(get)).code(), FsError::kAccess) << "without a session";
    get.header.session = SessionId(7);
    EXPECT_TRUE((co_await client->GetAttr(get)).ok());
    EXPECT_EQ((co_await admin->GetAttr(get)).code(), FsError::kAccess) << "admins have none";
    EXPECT_EQ(service.calls, 3);
    EXPECT_EQ(denied, (std::vector<std::string>{"mon Admin", "wn7 Admin", "wn7 GetAttr", "pc1 GetAttr"}));
  });
}

TEST_F(GrpcSecured, WhoCannotShakeHandsIsNotHeard) {
  RunTest([this](Executor* ex) -> Task<void> {
    ThreadPool pool(1, "stranger");
    Echo echo;
    GrpcServer server(ex, &echo, Options(server_));
    const std::string address = server.Start(kAnyPort).value();
    // The same names and the same cluster, by another authority.
    const TestCluster false_cluster(kTestCluster, now_s_);
    const auto wn7 = Give(Role::kClient, "wn7"), false_wn7 = false_cluster.Give(Role::kClient, "wn7", now_s_);
    struct Case {
      const char* what;
      std::shared_ptr<grpc::ChannelCredentials> credentials;
    };
    const std::vector<Case> cases = {
        {"plaintext", grpc::InsecureChannelCredentials()},
        {"no certificate", Trusting(cluster_.bundle, nullptr)},
        {"another authority's certificate", Trusting(cluster_.bundle, false_wn7)},
        {"trusts another authority", Trusting(false_cluster.bundle, wn7)},
    };
    for (const Case& c : cases) {
      Stranger stranger(&pool, address, c.credentials);
      EXPECT_EQ((co_await Ask(&stranger)).code(), FsError::kUnavailable) << c.what;
    }
    // The one of ours that has no TLS.
    {
      GrpcClient plain(ex);
      EXPECT_FALSE((co_await plain.Make(address)->Call("/echo", Message("asked", ""), 5 * kSecond)).ok());
    }
    EXPECT_TRUE(echo.seen.empty());
    Stranger good(&pool, address, Trusting(cluster_.bundle, wn7));
    EXPECT_TRUE((co_await Ask(&good)).ok()) << "nobody was harmed";
  });
}

// They shake hands: the authority is right. What else there is to a certificate is judged here.
TEST_F(GrpcSecured, WhoIsNotLetInHearsWhy) {
  RunTest([this](Executor* ex) -> Task<void> {
    ThreadPool pool(1, "stranger");
    const auto wn7 = Give(Role::kClient, "wn7"), wn8 = Give(Role::kClient, "wn8");
    Revoked revoked;
    revoked.Add(wn7->certificate.serial());
    Echo echo;
    GrpcServer server(ex, &echo, Options(Give(Role::kMeta, "m1", revoked)));
    const std::string address = server.Start(kAnyPort).value();
    for (const auto& own : {wn7, Give(Role::kMeta, "m2")}) {
      MetaStub stub(std::make_shared<Stranger>(&pool, address, Trusting(cluster_.bundle, own)));
      const auto refused = co_await stub.GetMap({});
      EXPECT_EQ(refused.code(), FsError::kAccess) << own->identity.name;
      EXPECT_NE(refused.error().message.find("127.0.0.1:"), std::string::npos) << refused.error();
    }
    EXPECT_TRUE(echo.seen.empty());
    EXPECT_EQ(refused_.size(), 2u);
    for (const std::string& r : refused_) EXPECT_TRUE(r.starts_with("127.0.0.1:")) << r;
    Stranger good(&pool, address, Trusting(cluster_.bundle, wn8));
    EXPECT_TRUE((co_await Ask(&good)).ok());
  });
}

}  // namespace
}  // namespace stria
