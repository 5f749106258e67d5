// Both real transports: the same tests for gRPC and for bulk, and the two on one port.
#include <gtest/gtest.h>

#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/loop_executor.h"
#include "common/random.h"
#include "proto/bulk_connection.h"
#include "proto/bulk_transport.h"
#include "proto/echo_services.h"
#include "proto/grpc_transport.h"
#include "proto/socket_address.h"
#include "proto/stubs.h"

namespace stria {
namespace {

constexpr char kAnyPort[] = "127.0.0.1:0";

// Runs `body` on an executor of this thread; all it owns is gone before the executor is.
void RunTest(std::function<Task<void>(Executor*)> body) {
  LoopExecutor ex;
  ex.MakeCurrent();
  TaskScope scope;
  scope.Spawn([](LoopExecutor* loop, std::function<Task<void>(Executor*)> fn) -> Task<void> {
    loop->EndHelp();  // `fn` ends clients and servers wherever it is
    co_await fn(loop);
    loop->Stop();
  }(&ex, std::move(body)));
  ex.Run();
}

WireMessage Text(std::string text) { return {Buffer::FromString(std::move(text)), BufferChain()}; }
std::string Flat(const WireMessage& m) { return std::string(m.Bytes().Flatten().view()); }

class EchoDispatcher final : public Dispatcher {
 public:
  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer>, std::string method, WireMessage request) override {
    ++begun;
    if (method == "/sleep") co_await Sleep(sleep_ns);
    ++finished;
    if (method == "/fail") co_return Error(FsError::kNoSpace, "disk n3:d2 is full");
    co_return request;
  }
  int64_t sleep_ns = 10 * kSecond;
  int begun = 0;
  int finished = 0;
};

struct Grpc {
  using Server = GrpcServer;
  using Client = GrpcClient;
  using ServerOptions = GrpcServerOptions;
};
struct Bulk {
  using Server = BulkServer;
  using Client = BulkClient;
  using ServerOptions = BulkServerOptions;
};
template <class T>
class RealTransport : public testing::Test {};
using Both = testing::Types<Grpc, Bulk>;
TYPED_TEST_SUITE(RealTransport, Both);

TYPED_TEST(RealTransport, LargePayloadsCrossUnharmed) {
  using Server = typename TypeParam::Server;
  using Client = typename TypeParam::Client;
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    Server server(ex, &echo);
    const Result<std::string> address = server.Start(kAnyPort);
    EXPECT_TRUE(address.ok()) << address.error();
    Client client(ex);
    auto transport = client.Make(address.value());
    Random rng(3);
    std::vector<std::string> sent;
    std::vector<Task<Result<WireMessage>>> calls;
    for (int i = 0; i < 6; ++i) {
      WireMessage m = Text(random_messages::RandomBytes(rng, rng.Below(2000)));
      for (uint64_t left = i == 0 ? 0 : kMiB; left > 0;) {
        const uint64_t n = rng.Between(1, std::min<uint64_t>(left, rng.OneIn(2) ? kMiB : 30));
        m.payload.Append(Buffer::FromString(random_messages::RandomBytes(rng, n)));
        left -= n;
      }
      sent.push_back(Flat(m));
      calls.push_back(transport->Call("/echo", std::move(m), 10 * kSecond));
    }
    const std::vector<Result<WireMessage>> got = co_await WhenAll(std::move(calls));
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i].ok()) << got[i].error();
      if (got[i].ok()) EXPECT_EQ(Flat(got[i].value()), sent[i]);
    }
  });
}

TYPED_TEST(RealTransport, TypedCalls) {
  using Server = typename TypeParam::Server;
  using Client = typename TypeParam::Client;
  RunTest([](Executor* ex) -> Task<void> {
    random_messages::EchoData data(1);
    random_messages::EchoMeta meta(1);
    DataDispatcher data_dispatcher(&data);
    MetaDispatcher meta_dispatcher(&meta);
    Router router;
    router.Add(kMetaServiceName, &meta_dispatcher);
    router.Add(kDataServiceName, &data_dispatcher);
    Server server(ex, &router);
    const std::string address = server.Start(kAnyPort).value();
    Client client(ex);
    TransportDataConnector data_connector(&client);
    TransportMetaConnector meta_connector(&client);

    ReadRequest read;
    read.items.push_back({ShardId(1), TargetId(2), "token", 64 * kKiB * 5, 900});
    const Result<ReadReply> got = co_await data_connector.Connect(address)->Read(read);
    EXPECT_TRUE(got.ok()) << got.error();
    if (got.ok()) EXPECT_EQ(got.value().payload.Flatten().view(), std::string(900, 5));

    const Result<StatusReply> status = co_await meta_connector.Connect(address)->Status(InodeRequest());
    EXPECT_TRUE(status.ok()) << status.error();

    auto raw = client.Make(address);
    const Result<WireMessage> bad =
        co_await raw->Call("/stria.v1.Data/Write", Text("\xff\xff nonsense"), kSecond);
    EXPECT_TRUE(bad.ok());
    if (bad.ok()) EXPECT_EQ(Decode<WriteReply>(bad.value()).code(), FsError::kBadRequest);
    const Result<WireMessage> unknown = co_await raw->Call("/a/b", Text(""), kSecond);
    EXPECT_TRUE(unknown.ok());
    if (unknown.ok()) EXPECT_EQ(Decode<Empty>(unknown.value()).code(), FsError::kVersion);
  });
}

TYPED_TEST(RealTransport, ErrorsAndDeadlines) {
  using Server = typename TypeParam::Server;
  using Client = typename TypeParam::Client;
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    Server server(ex, &echo);
    const std::string address = server.Start(kAnyPort).value();
    Client client(ex);
    auto transport = client.Make(address);
    const Result<WireMessage> failed = co_await transport->Call("/fail", Text("x"), kSecond);
    EXPECT_TRUE(failed.ok());
    if (failed.ok()) {
      EXPECT_EQ(Decode<Empty>(failed.value()).error().ToString(), "NoSpace: disk n3:d2 is full");
    }
    const int64_t start = ex->NowNs();
    EXPECT_EQ((co_await transport->Call("/sleep", Text("x"), 100 * kMillisecond)).code(), FsError::kDeadline);
    EXPECT_GE(ex->NowNs() - start, 90 * kMillisecond);
    EXPECT_LT(ex->NowNs() - start, 3 * kSecond);
    const Result<WireMessage> huge =
        co_await transport->Call("/echo", Text(std::string(kMaxMessageBytes + 2 * kMiB, 'x')), 5 * kSecond);
    EXPECT_EQ(huge.code(), FsError::kBadRequest) << huge.error();
    EXPECT_EQ(server.running(), 1u);  // the sleeper does not notice
  });
}

TYPED_TEST(RealTransport, RefusedAndRestarted) {
  using Server = typename TypeParam::Server;
  using Client = typename TypeParam::Client;
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    auto server = std::make_unique<Server>(ex, &echo);
    const std::string address = server->Start(kAnyPort).value();
    Server second(ex, &echo);
    EXPECT_EQ(second.Start(address).code(), FsError::kUnavailable);  // in use
    Client client(ex);
    auto transport = client.Make(address);
    EXPECT_TRUE((co_await transport->Call("/echo", Text("1"), kSecond)).ok());
    server = nullptr;
    const int64_t stopped = ex->NowNs();
    EXPECT_EQ((co_await transport->Call("/echo", Text("2"), 10 * kSecond)).code(), FsError::kUnavailable);
    EXPECT_LT(ex->NowNs() - stopped, 3 * kSecond);
    server = std::make_unique<Server>(ex, &echo);
    const Result<std::string> again = server->Start(address);
    EXPECT_TRUE(again.ok()) << again.error();
    bool back = false;
    for (int i = 0; i < 100 && !back; ++i) {
      back = (co_await transport->Call("/echo", Text("3"), kSecond)).ok();
      if (!back) co_await Sleep(50 * kMillisecond);
    }
    EXPECT_TRUE(back);
  });
}

TYPED_TEST(RealTransport, StopEndsCallsUnderWay) {
  using Server = typename TypeParam::Server;
  using Client = typename TypeParam::Client;
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    Server server(ex, &echo);
    const std::string address = server.Start(kAnyPort).value();
    Client client(ex);
    auto transport = client.Make(address);
    std::vector<Result<WireMessage>> results;
    TaskScope scope;
    for (int i = 0; i < 3; ++i) {
      scope.Spawn([](Transport* t, std::vector<Result<WireMessage>>* out) -> Task<void> {
        out->push_back(co_await t->Call("/sleep", Text("x"), 20 * kSecond));
      }(transport.get(), &results));
    }
    while (server.running() < 3) co_await Sleep(kMillisecond);
    const int64_t start = ex->NowNs();
    server.Stop();
    co_await scope.Join();
    EXPECT_LT(ex->NowNs() - start, 5 * kSecond);
    EXPECT_EQ(results.size(), 3u);
    for (const auto& r : results) EXPECT_EQ(r.code(), FsError::kUnavailable) << r.error();
    EXPECT_EQ(echo.finished, 0);
  });
}

TYPED_TEST(RealTransport, GracefulShutdownLetsCallsEnd) {
  using Server = typename TypeParam::Server;
  using Client = typename TypeParam::Client;
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    echo.sleep_ns = 200 * kMillisecond;
    Server server(ex, &echo);
    const std::string address = server.Start(kAnyPort).value();
    Client client(ex);
    auto transport = client.Make(address);
    std::optional<Result<WireMessage>> result;
    TaskScope scope;
    scope.Spawn([](Transport* t, std::optional<Result<WireMessage>>* out) -> Task<void> {
      out->emplace(co_await t->Call("/sleep", Text("x"), 20 * kSecond));
    }(transport.get(), &result));
    while (server.running() < 1) co_await Sleep(kMillisecond);
    co_await server.Shutdown(5 * kSecond);
    co_await scope.Join();
    EXPECT_TRUE(result->ok()) << result->error();
  });
}

TYPED_TEST(RealTransport, AbandonedCallsHarmNobody) {
  using Server = typename TypeParam::Server;
  using Client = typename TypeParam::Client;
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    Server server(ex, &echo);
    const std::string address = server.Start(kAnyPort).value();
    Client client(ex);
    auto transport = client.Make(address);
    for (int i = 0; i < 50; ++i) {
      (void)co_await WithTimeout(i * 50 * kMicrosecond, transport->Call("/sleep", Text("gone"), kSecond));
      const Result<WireMessage> r = co_await transport->Call("/echo", Text("here"), kSecond);
      EXPECT_TRUE(r.ok()) << r.error();
    }
    // A transport and a client that die with calls under way.
    TaskScope scope;
    std::vector<FsError> codes;
    auto other = std::make_unique<Client>(ex);
    for (int i = 0; i < 3; ++i) {
      scope.Spawn([](std::shared_ptr<Transport> t, std::vector<FsError>* out) -> Task<void> {
        out->push_back((co_await t->Call("/sleep", Text("x"), 20 * kSecond)).code());
        out->push_back((co_await t->Call("/sleep", Text("x"), 20 * kSecond)).code());
      }(other->Make(address), &codes));
    }
    co_await Sleep(50 * kMillisecond);
    other = nullptr;
    co_await scope.Join();
    EXPECT_EQ(codes, std::vector<FsError>(6, FsError::kUnavailable));
  });
}

TYPED_TEST(RealTransport, OverloadIsRetryLater) {
  using Server = typename TypeParam::Server;
  using Client = typename TypeParam::Client;
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    typename TypeParam::ServerOptions options;
    options.max_requests = 2;
    options.max_request_bytes = kMiB;
    Server server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    Client client(ex);
    auto transport = client.Make(address);
    const Result<WireMessage> large =
        co_await transport->Call("/echo", Text(std::string(2 * kMiB, 'x')), kSecond);
    EXPECT_EQ(Decode<Empty>(large.value()).code(), FsError::kRetryLater);
    TaskScope scope;
    for (int i = 0; i < 2; ++i) {
      scope.Spawn([](Transport* t) -> Task<void> {
        (void)co_await t->Call("/sleep", Text("x"), 20 * kSecond);
      }(transport.get()));
    }
    while (server.running() < 2) co_await Sleep(kMillisecond);
    const Result<WireMessage> third = co_await transport->Call("/echo", Text("x"), kSecond);
    EXPECT_EQ(Decode<Empty>(third.value()).code(), FsError::kRetryLater);
  });
}

TYPED_TEST(RealTransport, UnixSocket) {
  using Server = typename TypeParam::Server;
  using Client = typename TypeParam::Client;
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    Server server(ex, &echo);
    const std::string path = "unix:/tmp/stria_transport_test_" + std::to_string(getpid());  // <= 107
    const Result<std::string> address = server.Start(path);
    EXPECT_TRUE(address.ok()) << address.error();
    EXPECT_EQ(address.value(), path);
    Client client(ex);
    EXPECT_TRUE((co_await client.Make(path)->Call("/echo", Text("x"), kSecond)).ok());
  });
}

TYPED_TEST(RealTransport, NobodyThere) {
  using Server = typename TypeParam::Server;
  using Client = typename TypeParam::Client;
  RunTest([](Executor* ex) -> Task<void> {
    Client client(ex);
    const int64_t start = ex->NowNs();
    for (const char* address : {"127.0.0.1:1", "no address at all", ""}) {
      const Result<WireMessage> r = co_await client.Make(address)->Call("/x", Text(""), 10 * kSecond);
      EXPECT_EQ(r.code(), FsError::kUnavailable) << address << ": " << r.error();
    }
    EXPECT_LT(ex->NowNs() - start, 5 * kSecond);
    Server server(ex, nullptr);
    EXPECT_EQ(server.Start("256.1.1.1:99999").code(), FsError::kUnavailable);
  });
}

// A socket to a server's address; -1 if there is none.
int Dial(const std::string& address) {
  const Result<int> fd = ConnectTo(address, 5000);
  return fd.ok() ? *fd : -1;
}

TEST(BulkTransport, SharesItsPortWithGrpc) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    GrpcServer grpc(ex, &echo);
    EXPECT_TRUE(grpc.StartWithoutAddress().ok());
    BulkServerOptions options;
    options.other = [&grpc](int fd) { grpc.Adopt(fd); };
    BulkServer bulk(ex, &echo, options);
    const std::string address = bulk.Start(kAnyPort).value();
    GrpcClient grpc_client(ex);
    BulkClient bulk_client(ex);
    std::vector<std::shared_ptr<Transport>> transports = {grpc_client.Make(address), bulk_client.Make(address)};
    for (int i = 0; i < 6; ++i) {
      WireMessage m = Text("fields");
      m.payload.Append(Buffer::FromString(std::string(kMiB + 1, 'p')));
      const std::string sent = Flat(m);
      const Result<WireMessage> got = co_await transports[i % 2]->Call("/echo", std::move(m), 10 * kSecond);
      EXPECT_TRUE(got.ok()) << got.error();
      if (got.ok()) EXPECT_EQ(Flat(got.value()), sent);
    }
    bulk.Stop();
  });
}

TEST(BulkTransport, PayloadsArriveAlignedAndInOnePiece) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    BulkServer server(ex, &echo);
    BulkClient client(ex);
    auto transport = client.Make(server.Start(kAnyPort).value());
    for (const uint64_t bytes : {uint64_t{1}, 100 * kKiB, 3 * kMiB + 5}) {
      WireMessage m = Text("x");
      for (uint64_t left = bytes; left > 0;) {
        const uint64_t n = std::min<uint64_t>(left, 70'001);
        m.payload.Append(Buffer::FromString(std::string(n, 'p')));
        left -= n;
      }
      const Result<WireMessage> got = co_await transport->Call("/echo", std::move(m), 10 * kSecond);
      EXPECT_TRUE(got.ok()) << got.error();
      if (!got.ok()) continue;
      EXPECT_EQ(got->payload.parts().size(), 1u);
      EXPECT_EQ(got->payload.size(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(got->payload.parts()[0].data()) % 4096, 0u);
    }
  });
}

// A connection that has failed rests for a while; calls take the other meanwhile.
TEST(BulkTransport, CallsPassOverAConnectionThatRests) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    BulkServerOptions options;
    options.max_connections = 1;
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    bool passed_over = false;
    for (int i = 0; i < 50 && !passed_over; ++i) {  // on a busy machine the rest may be over
      BulkClientOptions one;
      one.connections_per_peer = 1;
      auto other = std::make_unique<BulkClient>(ex, one);
      const auto taken = other->Make(address);
      while (!(co_await taken->Call("/echo", Text("mine"), 10 * kSecond)).ok()) co_await Sleep(10 * kMillisecond);
      BulkClient client(ex);
      const auto transport = client.Make(address);
      EXPECT_FALSE((co_await transport->Call("/echo", Text("no room"), 10 * kSecond)).ok());
      const int64_t failed_ns = ex->NowNs();
      other.reset();
      co_await Sleep(20 * kMillisecond);  // the server sees it
      const bool ok = (co_await transport->Call("/echo", Text("here"), 10 * kSecond)).ok();
      passed_over = ok && ex->NowNs() - failed_ns < 90 * kMillisecond;
    }
    EXPECT_TRUE(passed_over);
  });
}

// Whatever strangers send, clients are served.
TEST(BulkTransport, GarbageHarmsNobody) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    BulkServer server(ex, &echo);
    const std::string address = server.Start(kAnyPort).value();
    BulkClient client(ex);
    auto transport = client.Make(address);
    Random rng(11);
    for (int i = 0; i < 60; ++i) {
      const int fd = Dial(address);
      EXPECT_GE(fd, 0);
      std::string bytes = random_messages::RandomBytes(rng, rng.Below(200));
      if (rng.OneIn(2)) bytes = kBulkPreface + bytes;
      if (rng.OneIn(2)) bytes = std::string(kBulkPreface) + "SBK1" + bytes;
      EXPECT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
      const Result<WireMessage> r = co_await transport->Call("/echo", Text("here"), 10 * kSecond);
      EXPECT_TRUE(r.ok()) << r.error();
      close(fd);
    }
    EXPECT_EQ(echo.begun, 60);
  });
}

TEST(BulkTransport, WhoAsksForItIsAnsweredAside) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo, echo_aside;
    BulkServer aside(ex, &echo_aside);
    aside.StartWithoutAddress();
    BulkServer none(ex, &echo);
    const std::string address_of_none = none.Start(kAnyPort).value();
    BulkServerOptions options;
    options.aside = [&aside](std::shared_ptr<BulkHandedOn> arrival) { aside.Adopt(std::move(arrival)); };
    BulkServer server(ex, &echo, std::move(options));
    const std::string address = server.Start(kAnyPort).value();
    BulkClientOptions asks;
    asks.aside = true;
    BulkClient client(ex, asks), usual(ex);
    const auto transport = client.Make(address);
    for (int i = 0; i < 3; ++i) {
      const Result<WireMessage> got = co_await transport->Call("/echo", Text("aside"), 60 * kSecond);
      EXPECT_TRUE(got.ok()) << got.error();
      if (got.ok()) EXPECT_EQ(Flat(*got), "aside");
    }
    EXPECT_EQ(echo_aside.finished, 3);
    EXPECT_EQ(echo.finished, 0);
    EXPECT_TRUE((co_await usual.Make(address)->Call("/echo", Text("as usual"), 60 * kSecond)).ok());
    EXPECT_EQ(echo_aside.finished, 3);
    EXPECT_EQ(echo.finished, 1);
    EXPECT_EQ((co_await client.Make(address_of_none)->Call("/echo", Text("nobody"), 60 * kSecond)).code(), FsError::kUnavailable);
    // In pieces, and not to the end.
    const int fd = Dial(address);
    EXPECT_EQ(write(fd, kBulkAsidePreface, 3), 3);
    co_await Sleep(5 * kMillisecond);
    EXPECT_EQ(write(fd, kBulkAsidePreface + 3, kBulkPrefaceBytes - 3), static_cast<ssize_t>(kBulkPrefaceBytes - 3));
    close(fd);
    const int torn = Dial(address);
    EXPECT_EQ(write(torn, kBulkAsidePreface, 3), 3);
    close(torn);
    EXPECT_TRUE((co_await transport->Call("/echo", Text("still here"), 60 * kSecond)).ok());
  });
}

// A peer that sends half of the greeting and goes takes up no connection.
TEST(BulkTransport, WhoGoesInTheMiddleOfTheGreetingIsGone) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    BulkServerOptions options;
    options.max_connections = 4;
    BulkServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    for (size_t n = 1; n < kBulkPrefaceBytes; ++n) {
      const int fd = Dial(address);
      EXPECT_GE(fd, 0);
      EXPECT_EQ(write(fd, kBulkPreface, n), static_cast<ssize_t>(n));
      if (n % 2 == 0) co_await Sleep(5 * kMillisecond);  // the server has seen them, or sees both at once
      close(fd);
    }
    bool served = false;
    for (int i = 0; i < 100 && !served; ++i) {
      BulkClient client(ex);
      served = (co_await client.Make(address)->Call("/echo", Text("here"), 10 * kSecond)).ok();
      co_await Sleep(10 * kMillisecond);
    }
    EXPECT_TRUE(served);
  });
}

}  // namespace
}  // namespace stria
