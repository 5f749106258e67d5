#include "proto/grpc_transport.h"

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
#include "proto/echo_services.h"
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
    co_await fn(loop);
    loop->Stop();
  }(&ex, std::move(body)));
  ex.Run();
}

WireMessage Text(std::string text) { return {Buffer::FromString(std::move(text)), BufferChain()}; }
std::string Flat(const WireMessage& m) { return std::string(m.Bytes().Flatten().view()); }

class EchoDispatcher final : public Dispatcher {
 public:
  Task<Result<WireMessage>> Handle(std::string method, WireMessage request) override {
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

TEST(Grpc, LargePayloadsCrossUnharmed) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    GrpcServer server(ex, &echo);
    const Result<std::string> address = server.Start(kAnyPort);
    EXPECT_TRUE(address.ok()) << address.error();
    GrpcClient client(ex);
    auto transport = client.Make(address.value());
    constexpr uint64_t kSeed = 3;
    SCOPED_TRACE(kSeed);
    Random rng(kSeed);
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

TEST(Grpc, TypedCalls) {
  RunTest([](Executor* ex) -> Task<void> {
    random_messages::EchoData data(1);
    random_messages::EchoMeta meta(1);
    DataDispatcher data_dispatcher(&data);
    MetaDispatcher meta_dispatcher(&meta);
    Router router;
    router.Add(kMetaServiceName, &meta_dispatcher);
    router.Add(kDataServiceName, &data_dispatcher);
    GrpcServer server(ex, &router);
    const std::string address = server.Start(kAnyPort).value();
    GrpcClient client(ex);
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

TEST(Grpc, ErrorsAndDeadlines) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    GrpcServer server(ex, &echo);
    const std::string address = server.Start(kAnyPort).value();
    GrpcClient client(ex);
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

TEST(Grpc, RefusedAndRestarted) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    auto server = std::make_unique<GrpcServer>(ex, &echo);
    const std::string address = server->Start(kAnyPort).value();
    GrpcServer second(ex, &echo);
    EXPECT_EQ(second.Start(address).code(), FsError::kUnavailable);  // in use
    GrpcClient client(ex);
    auto transport = client.Make(address);
    EXPECT_TRUE((co_await transport->Call("/echo", Text("1"), kSecond)).ok());
    server = nullptr;
    const int64_t stopped = ex->NowNs();
    EXPECT_EQ((co_await transport->Call("/echo", Text("2"), 10 * kSecond)).code(), FsError::kUnavailable);
    EXPECT_LT(ex->NowNs() - stopped, 3 * kSecond);
    server = std::make_unique<GrpcServer>(ex, &echo);
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

TEST(Grpc, StopEndsCallsUnderWay) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    GrpcServer server(ex, &echo);
    const std::string address = server.Start(kAnyPort).value();
    GrpcClient client(ex);
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

TEST(Grpc, GracefulShutdownLetsCallsEnd) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    echo.sleep_ns = 200 * kMillisecond;
    GrpcServer server(ex, &echo);
    const std::string address = server.Start(kAnyPort).value();
    GrpcClient client(ex);
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

TEST(Grpc, AbandonedCallsHarmNobody) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    GrpcServer server(ex, &echo);
    const std::string address = server.Start(kAnyPort).value();
    GrpcClient client(ex);
    auto transport = client.Make(address);
    for (int i = 0; i < 50; ++i) {
      (void)co_await WithTimeout(i * 50 * kMicrosecond, transport->Call("/sleep", Text("gone"), kSecond));
      const Result<WireMessage> r = co_await transport->Call("/echo", Text("here"), kSecond);
      EXPECT_TRUE(r.ok()) << r.error();
    }
    // A transport and a client that die with calls under way.
    TaskScope scope;
    std::vector<FsError> codes;
    auto other = std::make_unique<GrpcClient>(ex);
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

TEST(Grpc, OverloadIsRetryLater) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    GrpcServerOptions options;
    options.max_requests = 2;
    options.max_request_bytes = kMiB;
    GrpcServer server(ex, &echo, options);
    const std::string address = server.Start(kAnyPort).value();
    GrpcClient client(ex);
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

TEST(Grpc, UnixSocket) {
  RunTest([](Executor* ex) -> Task<void> {
    EchoDispatcher echo;
    GrpcServer server(ex, &echo);
    const std::string path = "unix:/tmp/stria_grpc_test_" + std::to_string(getpid());  // <= 107
    const Result<std::string> address = server.Start(path);
    EXPECT_TRUE(address.ok()) << address.error();
    EXPECT_EQ(address.value(), path);
    GrpcClient client(ex);
    EXPECT_TRUE((co_await client.Make(path)->Call("/echo", Text("x"), kSecond)).ok());
  });
}

TEST(Grpc, NobodyThere) {
  RunTest([](Executor* ex) -> Task<void> {
    GrpcClient client(ex);
    const int64_t start = ex->NowNs();
    for (const char* address : {"127.0.0.1:1", "no address at all", ""}) {
      const Result<WireMessage> r = co_await client.Make(address)->Call("/x", Text(""), 10 * kSecond);
      EXPECT_EQ(r.code(), FsError::kUnavailable) << address << ": " << r.error();
    }
    EXPECT_LT(ex->NowNs() - start, 5 * kSecond);
    GrpcServer server(ex, nullptr);
    EXPECT_EQ(server.Start("256.1.1.1:99999").code(), FsError::kUnavailable);
  });
}

}  // namespace
}  // namespace stria
