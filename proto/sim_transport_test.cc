#include "proto/sim_transport.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "proto/echo_services.h"
#include "proto/stubs.h"
#include "proto/trust_stubs.h"

namespace stria {
namespace {

using random_messages::EchoData;
using random_messages::EchoMeta;
using random_messages::EchoReply;
using random_messages::RandomMessage;
using random_messages::Same;

constexpr char kAddress[] = "n1:7000";

// Answers "slept" after a while; counts its begun and finished calls.
class SleepyDispatcher final : public Dispatcher {
 public:
  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer>, std::string method, WireMessage request) override {
    ++begun;
    co_await Sleep(sleep_ns);
    ++finished;
    if (method == "/fail") co_return Error(FsError::kNoSpace, "full");
    co_return request;
  }
  int64_t sleep_ns = 10 * kMillisecond;
  int begun = 0;
  int finished = 0;
};

WireMessage Text(std::string text) { return {Buffer::FromString(std::move(text)), BufferChain()}; }

class SimNetworkTest : public testing::Test {
 protected:
  template <class T>
  T Run(Task<T> task) {
    std::optional<T> out;
    TaskScope scope;
    scope.Spawn([](Task<T> t, std::optional<T>* o) -> Task<void> { o->emplace(co_await std::move(t)); }(
        std::move(task), &out));
    CHECK(ex_.RunUntil([&] { return out.has_value(); }, ex_.NowNs() + 1000 * kSecond), "test hangs");
    return std::move(*out);
  }
  Result<WireMessage> Call(const char* method, int64_t timeout_ns = kSecond) {
    return Run(client_->Call(method, Text("hello"), timeout_ns));
  }

  SimExecutor ex_{1};
  SleepyDispatcher sleepy_;
  SimNetwork net_{&ex_, 42};
  std::shared_ptr<Transport> client_ = net_.MakeTransport("n2", kAddress);
};

TEST_F(SimNetworkTest, EveryMethodCrossesBothWays) {
  constexpr uint64_t kSeed = 77;
  SCOPED_TRACE(kSeed);
  EchoMeta meta(kSeed);
  EchoData data(kSeed);
  MetaDispatcher meta_dispatcher(&meta);
  DataDispatcher data_dispatcher(&data);
  Router router;
  router.Add(kMetaServiceName, &meta_dispatcher);
  router.Add(kDataServiceName, &data_dispatcher);
  net_.Serve(kAddress, &router);
  const auto factory = net_.MakeFactory("n2");
  TransportMetaConnector meta_connector(factory.get());
  TransportDataConnector data_connector(factory.get());
  auto meta_stub = meta_connector.Connect(kAddress);
  auto data_stub = data_connector.Connect(kAddress);
  EXPECT_EQ(meta_stub, meta_connector.Connect(kAddress));
  Random rng(kSeed);
#define X(stub, Name, Request, Reply)                                                      \
  {                                                                                        \
    SCOPED_TRACE(#Name);                                                                   \
    Request request = RandomMessage<Request>(rng);                                         \
    request.header.protocol = request.header.oldest_protocol = kProtocolVersion;           \
    const Result<Reply> reply = Run(stub->Name(request));                                  \
    ASSERT_TRUE(reply.ok()) << reply.error();                                              \
    EXPECT_TRUE(Same(reply.value(), EchoReply<Reply>(kSeed, #Name, request)));             \
    request.header.protocol = request.header.oldest_protocol = kProtocolVersion + 1;       \
    EXPECT_EQ(Run(stub->Name(request)).code(), FsError::kVersion);                         \
  }
#define XM(Name, Request, Reply) X(meta_stub, Name, Request, Reply)
#define XD(Name, Request, Reply) X(data_stub, Name, Request, Reply)
  STRIA_META_METHODS(XM)
  STRIA_DATA_METHODS(XD)
#undef XD
#undef XM
#undef X
#define ONE(Name, Request, Reply) +1
  EXPECT_EQ(meta.calls, STRIA_META_METHODS(ONE));
  EXPECT_EQ(data.calls, STRIA_DATA_METHODS(ONE));
#undef ONE
  for (const char* unknown : {"/stria.v1.Meta/Nonsense", "/stria.v1.Nonsense/Write", "Write", "/", ""}) {
    const Result<WireMessage> reply = Run(client_->Call(unknown, Text(""), kSecond));
    ASSERT_TRUE(reply.ok());
    EXPECT_EQ(Decode<Empty>(reply.value()).code(), FsError::kVersion) << unknown;
  }
  net_.Stop(kAddress);
}

TEST_F(SimNetworkTest, RefusedWhenNothingServes) {
  const int64_t start = ex_.NowNs();
  EXPECT_EQ(Call("/x").code(), FsError::kUnavailable);
  EXPECT_LT(ex_.NowNs() - start, 2 * kMillisecond);
}

TEST_F(SimNetworkTest, ErrorsAreReplies) {
  net_.Serve(kAddress, &sleepy_);
  const Result<WireMessage> reply = Call("/fail");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(Decode<Empty>(reply.value()).error().ToString(), "NoSpace: full");
}

TEST_F(SimNetworkTest, CrashDestroysHandlersAndTellsCallers) {
  net_.Serve(kAddress, &sleepy_);
  Result<WireMessage> reply = FsError::kIo;
  TaskScope scope;
  scope.Spawn([](Transport* t, Result<WireMessage>* out) -> Task<void> {
    *out = co_await t->Call("/x", Text("hi"), kSecond);
  }(client_.get(), &reply));
  ex_.RunFor(5 * kMillisecond);
  EXPECT_EQ(net_.Running(kAddress), 1u);
  net_.Stop(kAddress);
  ex_.RunFor(5 * kMillisecond);
  EXPECT_EQ(scope.running(), 0u);
  EXPECT_EQ(reply.code(), FsError::kUnavailable);
  EXPECT_EQ(sleepy_.begun, 1);
  EXPECT_EQ(sleepy_.finished, 0);
  net_.Serve(kAddress, &sleepy_);  // restarted
  EXPECT_TRUE(Call("/x").ok());
}

TEST_F(SimNetworkTest, HandlersOutliveTheirCallers) {
  net_.Serve(kAddress, &sleepy_);
  {
    TaskScope scope;
    scope.Spawn([](Transport* t) -> Task<void> {
      (void)co_await t->Call("/x", Text("hi"), kSecond);
    }(client_.get()));
    ex_.RunFor(5 * kMillisecond);
  }
  ex_.RunFor(kSecond);
  EXPECT_EQ(sleepy_.finished, 1);
}

TEST_F(SimNetworkTest, LostMessagesEndAtTheDeadline) {
  net_.Serve(kAddress, &sleepy_);
  SimFaults faults;
  faults.drop_request_ppm = 1'000'000;
  net_.SetFaults(faults);
  const int64_t start = ex_.NowNs();
  EXPECT_EQ(Call("/x").code(), FsError::kDeadline);
  EXPECT_EQ(ex_.NowNs() - start, kSecond);
  EXPECT_EQ(sleepy_.begun, 0);
  faults.drop_request_ppm = 0;
  faults.drop_reply_ppm = 1'000'000;
  net_.SetFaults(faults);
  EXPECT_EQ(Call("/x").code(), FsError::kDeadline);
  EXPECT_EQ(sleepy_.finished, 1);  // executed nevertheless
}

TEST_F(SimNetworkTest, DuplicatesAreExecutedTwiceAndAnsweredOnce) {
  net_.Serve(kAddress, &sleepy_);
  SimFaults faults;
  faults.duplicate_request_ppm = 1'000'000;
  net_.SetFaults(faults);
  EXPECT_TRUE(Call("/x").ok());
  ex_.RunFor(kSecond);
  EXPECT_EQ(sleepy_.finished, 2);
}

TEST_F(SimNetworkTest, OneFaultDoesNotEndAnother) {
  net_.Block({"n2"}, {"n1", "n3"});
  net_.Partition({"n1"}, {"n2"});
  net_.Unblock({"n1"}, {"n2"});
  net_.Unblock({"n2"}, {"n1"});
  EXPECT_FALSE(net_.Blocked("n1", "n2"));
  EXPECT_TRUE(net_.Blocked("n2", "n1"));
  net_.Unblock({"n1"}, {"n2"});  // is not there: takes nothing away
  net_.Block({"n1"}, {"n2"});
  EXPECT_TRUE(net_.Blocked("n1", "n2"));
  net_.Unblock({"n2"}, {"n1", "n3"});
  EXPECT_FALSE(net_.Blocked("n2", "n1"));
  EXPECT_FALSE(net_.Blocked("n2", "n3"));
  net_.Heal();
  EXPECT_FALSE(net_.AnyBlocked());
}

TEST_F(SimNetworkTest, PartitionsAreByDirection) {
  net_.Serve(kAddress, &sleepy_);
  net_.Block({"n2"}, {"n1"});
  EXPECT_EQ(Call("/x").code(), FsError::kDeadline);
  EXPECT_EQ(sleepy_.begun, 0);
  net_.Heal();
  net_.Block({"n1"}, {"n2"});
  EXPECT_EQ(Call("/x").code(), FsError::kDeadline);
  EXPECT_EQ(sleepy_.begun, 1);
  EXPECT_TRUE(Run(net_.MakeTransport("n3", kAddress)->Call("/x", Text(""), kSecond)).ok());
  net_.Unblock({"n1"}, {"n2"});
  EXPECT_TRUE(Call("/x").ok());
  net_.Partition({"n1"}, {"n2", "n3"});
  EXPECT_EQ(Call("/x").code(), FsError::kDeadline);
}

// Many clients, all faults on, a server that crashes and returns.
struct Outcome {
  uint64_t hash;
  int ok, unavailable, deadline;
  bool operator==(const Outcome&) const = default;
};
Outcome Storm(uint64_t seed) {
  SimExecutor ex(seed, 4);
  SleepyDispatcher server;
  server.sleep_ns = kMillisecond;
  SimNetwork net(&ex, seed);
  SimFaults faults;
  faults.drop_request_ppm = faults.drop_reply_ppm = faults.duplicate_request_ppm = 50'000;
  faults.straggle_ppm = 10'000;
  net.SetFaults(faults);
  net.Serve(kAddress, &server);
  Outcome out{};
  TaskScope scope;
  for (int c = 0; c < 20; ++c) {
    scope.Spawn([](std::shared_ptr<Transport> t, Outcome* o) -> Task<void> {
      for (int i = 0; i < 50; ++i) {
        const Result<WireMessage> r = co_await t->Call("/x", Text("payload"), 50 * kMillisecond);
        if (r.ok()) EXPECT_EQ(r.value().Bytes().Flatten().view(), "payload");
        ++(r.ok() ? o->ok : r.code() == FsError::kDeadline ? o->deadline : o->unavailable);
        co_await Sleep(kMillisecond);
      }
    }(net.MakeTransport("c" + std::to_string(c), kAddress), &out));
  }
  for (int i = 0; i < 5; ++i) {
    ex.RunFor(20 * kMillisecond);
    net.Stop(kAddress);
    ex.RunFor(3 * kMillisecond);
    net.Serve(kAddress, &server);
  }
  ex.RunFor(100 * kSecond);
  EXPECT_EQ(scope.running(), 0u);
  out.hash = net.trace_hash();
  return out;
}

TEST(SimNetwork, OneSeedOneHistory) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const Outcome first = Storm(seed);
    EXPECT_EQ(first, Storm(seed));
    EXPECT_EQ(first.ok + first.unavailable + first.deadline, 1000);
    EXPECT_GT(first.ok, 500);
    EXPECT_GT(first.unavailable, 0);
    EXPECT_GT(first.deadline, 0);
    EXPECT_NE(first.hash, Storm(seed + 100).hash);
  }
}

TEST(SimNetwork, MayDieBeforeItsCallers) {
  SimExecutor ex(1);
  SleepyDispatcher server;
  auto net = std::make_unique<SimNetwork>(&ex, 1);
  net->Serve(kAddress, &server);
  auto transport = net->MakeTransport("n2", kAddress);
  int failed = 0;
  TaskScope scope;
  for (int i = 0; i < 2; ++i) {
    scope.Spawn([](Transport* t, int* f) -> Task<void> {
      *f += !(co_await t->Call("/x", Text(""), kSecond)).ok();
      *f += !(co_await t->Call("/x", Text(""), kSecond)).ok();
    }(transport.get(), &failed));
  }
  ex.RunFor(kMillisecond);
  net.reset();
  ex.RunFor(5 * kSecond);
  EXPECT_EQ(failed, 4);
}

// Answers as the address says.
class Renewers final : public TrustConnector {
 public:
  class One final : public TrustService {
   public:
    explicit One(FsError code) : code_(code) {}
#define X(Name, Request, Reply) \
  Task<Result<Reply>> Name(Request) override { co_return Answer<Reply>(); }
    STRIA_TRUST_METHODS(X)
#undef X

   private:
    template <class Reply>
    Result<Reply> Answer() const {
      if (code_ != FsError::kOk) return Error(code_, "no");
      Reply reply;
      if constexpr (std::is_same_v<Reply, RenewCertificateReply>) reply.certificate = "certificate";
      return reply;
    }
    const FsError code_;
  };
  std::shared_ptr<TrustService> ConnectTrust(const std::string& address) override {
    asked.push_back(address);
    return std::make_shared<One>(answers.at(address));
  }
  std::map<std::string, FsError> answers;
  std::vector<std::string> asked;
};

TEST_F(SimNetworkTest, ARenewalIsAskedOfOneServerAfterTheOther) {
  Renewers all;
  all.answers = {{"dead", FsError::kUnavailable}, {"refuses", FsError::kAccess}, {"gives", FsError::kOk}};
  EXPECT_EQ(Run(AskForRenewal(&all, {"dead", "gives", "refuses"}, "request")).value(), "certificate");
  EXPECT_EQ(all.asked, (std::vector<std::string>{"dead", "gives"}));
  EXPECT_EQ(Run(AskForRenewal(&all, {"refuses", "gives"}, "request")).code(), FsError::kAccess) << "another says the same";
  EXPECT_EQ(Run(AskForRenewal(&all, {"dead"}, "request")).code(), FsError::kUnavailable);
  EXPECT_EQ(Run(AskForRenewal(&all, {}, "request")).code(), FsError::kUnavailable);
}

}  // namespace
}  // namespace stria
