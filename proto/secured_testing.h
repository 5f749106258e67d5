// For tests of the bulk transport with TLS over loopback: a cluster, a server that echoes, sockets of strangers.
#pragma once

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/loop_executor.h"
#include "common/units.h"
#include "proto/bulk_transport.h"
#include "trust/tls/tls_session.h"
#include "trust/trust_testing.h"

namespace stria::secured_testing {

using Side = TlsContext::Side;
inline constexpr char kAnyPort[] = "127.0.0.1:0";
inline constexpr int64_t kPatienceNs = 60 * kSecond;  // of calls that are to succeed, on the slowest machine

// Runs `body` on an executor of this thread; all it owns is gone before the executor is.
inline void RunTest(std::function<Task<void>(Executor*)> body) {
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

class Echo final : public Dispatcher {
 public:
  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer> peer, std::string method, WireMessage request) override {
    seen.push_back(peer ? peer->ToString().substr(0, peer->ToString().rfind(':')) : "nobody");
    if (method == "/slow") co_await Sleep(3600 * kSecond);
    if (method == "/large") co_return WireMessage{Buffer(), BufferChain(Buffer::FromString(std::string(4 * kMiB, 'l')))};
    co_return request;
  }
  std::vector<std::string> seen;
};

class Refusals {
 public:
  std::function<void(const Error&)> Hear() {
    return [this](const Error& e) {
      std::lock_guard<std::mutex> lock(mu_);
      all_.push_back(e.message);
    };
  }
  bool Has(const std::string& what) {
    std::lock_guard<std::mutex> lock(mu_);
    return std::any_of(all_.begin(), all_.end(), [&](const std::string& m) { return m.find(what) != m.npos; });
  }
  // Refusals are told by other threads.
  Task<bool> Soon(std::string what) {
    for (int i = 0; i < 3000 && !Has(what); ++i) co_await Sleep(10 * kMillisecond);
    co_return Has(what);
  }

 private:
  std::mutex mu_;
  std::vector<std::string> all_;  // guarded by mu_
};

inline TlsSettings Settings(std::shared_ptr<const Credentials> credentials, RoleSet peers) {
  TlsSettings s;
  s.credentials = std::move(credentials);
  s.now_s = [] { return kTestNowS; };
  s.peers = peers;
  return s;
}
inline std::shared_ptr<CurrentTls> Context(Side side, TlsSettings s) { return std::make_shared<CurrentTls>(TlsContext::Make(side, std::move(s))); }

class Secured : public testing::Test {
 protected:
  TlsSettings ServerSettings() { return Settings(cluster_.Give(Role::kData, "n6"), {Role::kClient}); }
  TlsSettings ClientSettings() { return Settings(cluster_.Give(Role::kClient, "wn7"), {Role::kData}); }
  BulkServerOptions ServerOptions(std::shared_ptr<CurrentTls> tls = nullptr) {
    BulkServerOptions o;
    o.tls = tls ? tls : Context(Side::kServer, ServerSettings());
    o.refused = refusals_.Hear();
    return o;
  }
  BulkClientOptions ClientOptions(TlsSettings s) {
    BulkClientOptions o;
    o.tls = Context(Side::kClient, std::move(s));
    return o;
  }
  const TestCluster cluster_;
  Refusals refusals_;
};

inline WireMessage Message(const std::string& fields, const std::string& payload) {
  return {Buffer::FromString(fields), BufferChain(Buffer::FromString(payload))};
}
inline std::string Flat(const WireMessage& m) { return std::string(m.Bytes().Flatten().view()); }

// One who is no client of ours, at the address `from`.
class Socket {
 public:
  Socket(const std::string& address, const char* from) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in a = {};
    a.sin_family = AF_INET;
    inet_pton(AF_INET, from, &a.sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
    inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
    a.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(fd_); }
  int get() const { return fd_; }
  void Send(const std::string& bytes) { (void)!send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  bool Closed() {
    char c[16 * kKiB];
    ssize_t n;
    while ((n = recv(fd_, c, sizeof c, MSG_DONTWAIT)) > 0) {
    }
    return n == 0 || (n < 0 && errno != EAGAIN);
  }

 private:
  const int fd_;
};

inline Task<bool> ClosedSoon(Socket* s) {
  for (int i = 0; i < 3000; ++i) {
    if (s->Closed()) co_return true;
    co_await Sleep(10 * kMillisecond);
  }
  co_return false;
}

}  // namespace stria::secured_testing
