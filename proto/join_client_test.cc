// Joining over loopback: one request and one answer, and those who do it in another way.
#include "proto/join_client.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/pool.h"
#include "common/io/unique_fd.h"
#include "proto/bulk_channel.h"
#include "proto/secured_testing.h"
#include "proto/socket_address.h"
#include "trust/enrolment.h"

namespace stria {
namespace {

using namespace secured_testing;

int64_t RealNowS() { return static_cast<int64_t>(time(nullptr)); }
constexpr int64_t kAskNs = 60 * kSecond;

class Joining : public testing::Test {
 protected:
  // AskToJoin goes by the machine's clock.
  Joining() : cluster_(kTestCluster, RealNowS()) {}
  BulkServerOptions ServerOptions() {
    TlsSettings s;
    s.credentials = cluster_.Give(Role::kMeta, "m", RealNowS());
    s.now_s = &RealNowS;
    s.peers = {Role::kClient};
    s.joins = true;
    BulkServerOptions o;
    o.tls = Context(Side::kServer, s);
    o.refused = refusals_.Hear();
    o.join = [this](std::string request, std::string binding, std::string address) -> Task<Result<std::string>> {
      asked_.push_back(request);
      if (request == "who?") co_return Error(FsError::kAccess, "no token of this cluster has that secret");
      if (request == "slow") co_await Sleep(50 * kMillisecond);
      if (request == "large") co_return std::string(kMaxJoinAnswerBytes, 'l');
      if (request == "larger") co_return std::string(kMaxJoinAnswerBytes + 1, 'l');
      co_return "welcome " + request + " of " + address.substr(0, address.rfind(':')) + " " + binding;
    };
    return o;
  }
  Sha256Hash pinned() const { return cluster_.authority.certificate().hash(); }

  Task<Result<std::string>> Ask(std::string address, std::string request, std::string* binding = nullptr) {
    return RunOn(*pool_, [address, request, binding, hash = pinned()] {
      return AskToJoin(address, hash, [&](std::string_view b) {
        if (binding) *binding = std::string(b);
        return request;
      }, kAskNs);
    });
  }
  // Sends these bytes after the handshake of one who joins, and gives what comes until the end. none: there was no end.
  Task<std::optional<std::string>> Say(std::string address, std::string bytes, bool close_after = false) {
    return RunOn(*pool_, [address, bytes, close_after, hash = pinned()]() -> std::optional<std::string> {
      const UniqueFd fd(ConnectTo(address, 10'000).value());
      auto session = ShakeHands(fd.get(), TlsContext::MakeJoining(hash, &RealNowS), address, std::nullopt, 10'000).value();
      const BulkProtection protection = Protect(fd.get(), std::move(session));
      for (size_t sent = 0; sent < bytes.size();) {
        iovec from = {const_cast<char*>(bytes.data()) + sent, bytes.size() - sent};
        const ssize_t n = protection.channel->Send(&from, 1);
        if (n < 0 && errno != EAGAIN) break;  // the server has heard enough
        if (n > 0) sent += static_cast<size_t>(n);
      }
      (void)protection.channel->Flush();
      if (close_after) return "";
      std::string got;
      while (true) {
        char piece[1000];
        const iovec to = {piece, sizeof piece};
        const ssize_t n = protection.channel->Receive(&to, 1);
        if (n > 0) {
          got.append(piece, static_cast<size_t>(n));
        } else if (n == 0 || errno != EAGAIN) {
          return got;
        } else {
          pollfd p = {fd.get(), POLLIN, 0};
          if (poll(&p, 1, 30'000) <= 0) return std::nullopt;
        }
      }
    });
  }
  static std::string Framed(const std::string& request, size_t size) {
    std::string out;
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift & 0xff);
    return out + request;
  }

  // While `body` runs a server listens, with a pool for those who ask it: both end before the executor does.
  void Serve(BulkServerOptions options, std::function<Task<void>(BulkServer* server, std::string address)> body) {
    RunTest([&](Executor* ex) -> Task<void> {
      ThreadPool pool(4, "joins");
      pool_ = &pool;
      BulkServer server(ex, &echo_, options);
      co_await body(&server, server.Start(kAnyPort).value());
    });
  }
  void Serve(std::function<Task<void>(BulkServer* server, std::string address)> body) { Serve(ServerOptions(), std::move(body)); }

  const TestCluster cluster_;
  Refusals refusals_;
  std::vector<std::string> asked_;
  Echo echo_;
  ThreadPool* pool_ = nullptr;  // of Serve
};

TEST_F(Joining, OneRequestOneAnswer) {
  Serve([&](BulkServer*, std::string address) -> Task<void> {
    std::string binding;
    const Result<std::string> got = co_await Ask(address, "n6", &binding);
    EXPECT_TRUE(got.ok()) << got.error();
    EXPECT_EQ(binding.size(), 32u);
    if (got.ok()) EXPECT_TRUE(*got == "welcome n6 of 127.0.0.1 " + binding) << "both ends have the same binding";
    const Result<std::string> large = co_await Ask(address, "large");
    EXPECT_EQ(large.ok() ? large->size() : 0, kMaxJoinAnswerBytes) << large.error();
    const std::string longest(kMaxJoinRequestBytes, 'n');
    EXPECT_TRUE((co_await Ask(address, longest)).ok());
    EXPECT_EQ((co_await Ask(address, longest + "n")).code(), FsError::kBadRequest);
    EXPECT_EQ((co_await Ask(address, "larger")).code(), FsError::kAccess);
    EXPECT_EQ(asked_.size(), 4u);
    EXPECT_TRUE(echo_.seen.empty());
  });
}

TEST_F(Joining, RefusedWithTheSentence) {
  Serve([&](BulkServer*, std::string address) -> Task<void> {
    const Result<std::string> got = co_await Ask(address, "who?");
    EXPECT_EQ(got.code(), FsError::kAccess);
    EXPECT_EQ(got.error().message, address + " does not let this machine join: no token of this cluster has that secret");
    // One that is pinned to another authority sends nothing.
    const Result<std::string> other = co_await RunOn(*pool_, [address] {
      return AskToJoin(address, Sha256Hash{}, [](std::string_view) { return std::string("n6"); }, kAskNs);
    });
    EXPECT_EQ(other.code(), FsError::kAccess);
    EXPECT_NE(other.error().message.find("does not have the authority"), std::string::npos) << other.error();
    EXPECT_EQ(asked_.size(), 1u);
  });
}

TEST_F(Joining, WhereNobodyJoins) {
  BulkServerOptions options = ServerOptions();
  options.join = nullptr;
  Serve(options, [&](BulkServer*, std::string address) -> Task<void> {
    EXPECT_FALSE((co_await Ask(address, "n6")).ok());
    EXPECT_TRUE(co_await refusals_.Soon("nobody joins here"));
  });
}

TEST_F(Joining, ManyAtOnce) {
  Serve([&](BulkServer* server, std::string address) -> Task<void> {
    std::vector<Task<Result<std::string>>> all;
    for (int i = 0; i < 20; ++i) all.push_back(Ask(address, "slow"));
    for (const Result<std::string>& each : co_await WhenAll(std::move(all))) EXPECT_TRUE(each.ok()) << each.error();
    for (int i = 0; i < 3000 && server->waiting() > 0; ++i) co_await Sleep(10 * kMillisecond);
    EXPECT_EQ(server->waiting(), 0u) << "who has its answer has gone";
  });
}

TEST_F(Joining, ThoseWhoDoItInAnotherWay) {
  struct Case {
    std::string what, sends, says;
  };
  const std::string frame("SBK1\x01\x00\x01\x00" "12345678" "\x00\x00\x00\x00\x00\x00\x00\x00" "/", 25);
  const Case cases[] = {
      {"too much", Framed(std::string(200'000, 'x'), 200'000), "what it sent is no request to join"},
      {"nothing", Framed("", 0), "what it sent is no request to join"},
      {"two requests", Framed("n6", 2) + Framed("n6", 2), "it sent more than one request to join"},
      {"bulk frames", frame, "what it sent is no request to join"},
      {"the preface of bulk frames", "StriaBk1" + frame, "what it sent is no request to join"},
  };
  Serve([&](BulkServer*, std::string address) -> Task<void> {
    for (const Case& c : cases) {
      const std::optional<std::string> got = co_await Say(address, c.sends);
      EXPECT_TRUE(got.has_value()) << c.what << ": the connection stays";
      EXPECT_TRUE(got == std::string(1, '\0') + Framed(c.says, c.says.size())) << c.what << ": " << got.value_or("");
      EXPECT_TRUE(co_await refusals_.Soon(c.says)) << c.what;
    }
    EXPECT_TRUE(asked_.empty() && echo_.seen.empty());
    EXPECT_TRUE((co_await Ask(address, "n6")).ok());
  });
}

TEST_F(Joining, HalfARequestEndsInTime) {
  BulkServerOptions options = ServerOptions();
  options.door.patience_ns = 3 * kSecond;
  Serve(options, [&](BulkServer* server, std::string address) -> Task<void> {
    EXPECT_EQ(co_await Say(address, Framed("the beginning", 100)), "") << "it is closed without an answer";
    EXPECT_TRUE(co_await refusals_.Soon("it took too long to say who it is"));
    (void)co_await Say(address, Framed("the beginning", 100), true);
    EXPECT_TRUE(co_await refusals_.Soon("went away before it had asked to join"));
    for (int i = 0; i < 3000 && server->waiting() > 0; ++i) co_await Sleep(10 * kMillisecond);
    EXPECT_EQ(server->waiting(), 0u);
    EXPECT_TRUE(asked_.empty());
  });
}

}  // namespace
}  // namespace stria
