#include "proto/method_stats.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/metrics.h"
#include "proto/echo_services.h"
#include "proto/rpc_metrics.h"
#include "proto/stubs.h"

namespace stria {
namespace {

// Takes so long for everything.
class SlowData final : public DataService {
 public:
#define X(Name, Request, Reply)                       \
  Task<Result<Reply>> Name(Request request) override { \
    co_await Sleep(takes_ns);                         \
    if (!error.ok()) co_return error;                 \
    co_return Filled(request, Reply());               \
  }
  STRIA_DATA_METHODS(X)
#undef X
  int64_t takes_ns = 0;
  Error error;

 private:
  template <class Request, class Reply>
  static Reply Filled(const Request& request, Reply reply) {
    random_messages::Fit(request, reply);
    if constexpr (requires { reply.disk; }) reply.disk.ns = 4 * kSecond;
    return reply;
  }
};

class SlowMeta final : public MetaService {
 public:
#define X(Name, Request, Reply)                \
  Task<Result<Reply>> Name(Request) override { \
    co_await Sleep(takes_ns);                  \
    co_return Reply();                         \
  }
  STRIA_META_METHODS(X)
#undef X
  int64_t takes_ns = 0;
};

class MethodStatsTest : public testing::Test {
 protected:
  DispatchOptions Options() {
    DispatchOptions options;
    options.slow_ns = 5 * kSecond;
    options.slow = [this](const std::string& line) { lines_.push_back(line); };
    return options;
  }
  template <class Request>
  void Call(Dispatcher* dispatcher, const std::string& method, Request request, int64_t queued_ns = 0) {
    request.header.trace_id = 77;
    WireMessage bytes = Encode(request);
    bytes.arrived_ns = ex_.NowNs();
    RunSim(ex_, [](Dispatcher* d, std::string m, WireMessage b, int64_t wait_ns) -> Task<void> {
      co_await Sleep(wait_ns);
      (void)co_await d->Handle(nullptr, std::move(m), std::move(b));
    }(dispatcher, method, std::move(bytes), queued_ns));
  }
  static std::map<std::string, MethodStats> StatsOf(const MethodStatsSource& source) {
    std::map<std::string, MethodStats> out;
    source.EachMethod([&out](const std::string& method, const MethodStats& stats) { out[method] = stats; });
    return out;
  }

  SimExecutor ex_{1};
  std::vector<std::string> lines_;
};

TEST_F(MethodStatsTest, CountedAndSlowOnesTold) {
  SlowData service;
  DataDispatcher dispatcher(&service, Options());
  service.takes_ns = 1 * kSecond;
  Call(&dispatcher, "/stria.v1.Data/Seal", SealRequest());
  EXPECT_TRUE(lines_.empty());
  service.takes_ns = 4500 * kMillisecond;
  Call(&dispatcher, "/stria.v1.Data/Seal", SealRequest(), 1500 * kMillisecond);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0], "slow request: Seal of a caller who has proved nothing, call 77, took 6.000 s: 1.500 s queued, 4.500 s run "
                       "(4.000 s with disks), 0.000 s reply");
  service.error = Error(FsError::kDiskFailed, "disk /srv/d1 has failed");
  service.takes_ns = 6 * kSecond;
  Call(&dispatcher, "/stria.v1.Data/Seal", SealRequest());
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_TRUE(lines_[1].ends_with("it failed: disk /srv/d1 has failed")) << lines_[1];

  auto all = StatsOf(dispatcher);
  ASSERT_EQ(all.size(), 5u);
  const MethodStats seal = all["/stria.v1.Data/Seal"];
  EXPECT_EQ(seal.took.count(), 3u);
  EXPECT_EQ(seal.took.sum_ns(), static_cast<uint64_t>(13 * kSecond));
  EXPECT_EQ(seal.failed, 1u);
  EXPECT_EQ(seal.slow, 2u);
  EXPECT_EQ(all["/stria.v1.Data/Read"].took.count(), 0u);

  dispatcher.SetSlow(0);
  Call(&dispatcher, "/stria.v1.Data/Seal", SealRequest());
  EXPECT_EQ(lines_.size(), 2u);
}

TEST_F(MethodStatsTest, WhatIsToWaitIsNotSlow) {
  SlowData data;
  DataDispatcher data_dispatcher(&data, Options());
  data.takes_ns = 20 * kSecond;
  SealRequest behind;
  behind.header.background = true;
  Call(&data_dispatcher, "/stria.v1.Data/Seal", behind);
  SlowMeta meta;
  MetaDispatcher meta_dispatcher(&meta, Options());
  meta.takes_ns = 20 * kSecond;
  Call(&meta_dispatcher, "/stria.v1.Meta/Poll", PollRequest());
  EXPECT_TRUE(lines_.empty());
  InodeRequest request;
  request.header.session = SessionId(12);
  Call(&meta_dispatcher, "/stria.v1.Meta/Sync", request);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(lines_[0].find("slow request: Sync of a caller who has proved nothing, session 12, call 77, took 20.000 s"), std::string::npos)
      << lines_[0];
}

TEST_F(MethodStatsTest, UnknownMethodsAddNothing) {
  SlowData service;
  DataDispatcher dispatcher(&service, Options());
  Call(&dispatcher, "/stria.v1.Data/Nonsense", SealRequest());
  EXPECT_EQ(StatsOf(dispatcher).size(), 5u);
}

TEST_F(MethodStatsTest, Metrics) {
  SlowData service;
  DataDispatcher dispatcher(&service, Options());
  Call(&dispatcher, "/stria.v1.Data/Seal", SealRequest());
  MetricFamilies out;
  AddRpcMetrics({&dispatcher}, &out);
  const std::string text = MetricsText(out.Take());
  EXPECT_NE(text.find("stria_rpc_duration_seconds_count{service=\"Data\",method=\"Seal\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("stria_rpc_slow_total{service=\"Data\",method=\"Seal\"} 0\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("method=\"Read\""), std::string::npos) << text;
}

TEST(SlowCallLine, NamesThePeer) {
  Peer peer;
  peer.role = Role::kClient;
  peer.name = "wn7";
  peer.address = "10.0.0.7:40112";
  CallTimes times;
  times.arrived_ns = times.began_ns = 1 * kSecond;
  times.ran_ns = times.ended_ns = 3 * kSecond;
  EXPECT_EQ(SlowCallLine("/stria.v1.Meta/Open", &peer, times, Error()),
            "slow request: Open of client wn7 at 10.0.0.7:40112, took 2.000 s: 0.000 s queued, 2.000 s run, 0.000 s reply");
}

}  // namespace
}  // namespace stria
