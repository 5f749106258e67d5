// Against real etcd: members on loopback, in temporary directories.
#include "proto/etcd_coordinator.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>

#include "common/exec/loop_executor.h"
#include "common/exec/task.h"
#include "common/temp_dir.h"

namespace stria {
namespace {

constexpr char kEtcd[] = "/usr/bin/etcd";
constexpr char kMissing[] = "etcd is not installed; Debian's package is etcd-server";

bool HasEtcd() { return access(kEtcd, X_OK) == 0; }

uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size), 0);
  close(fd);
  return ntohs(a.sin_port);
}

// Runs `body` on an executor of this thread until it ends.
void OnLoop(const std::function<Task<void>(Executor*)>& body) {
  LoopExecutor ex;
  ex.MakeCurrent();
  TaskScope scope;
  scope.Spawn([](LoopExecutor* loop, const std::function<Task<void>(Executor*)>* fn) -> Task<void> {
    loop->EndHelp();
    co_await (*fn)(loop);
    loop->Stop();
  }(&ex, &body));
  ex.Run();
}

class Etcd {
 public:
  // With `tls`, a path: TLS.crt is a certificate that signs itself, TLS.key its key; clients have to show one that it has signed, too.
  explicit Etcd(size_t members, const std::string& tls = "") : tls_(tls), pids_(members, -1) {
    for (size_t i = 0; i < members; ++i) {
      client_.push_back("127.0.0.1:" + std::to_string(FreePort()));
      peer_.push_back("127.0.0.1:" + std::to_string(FreePort()));
    }
    for (size_t i = 0; i < members; ++i) Start(i);
  }
  Etcd(const Etcd&) = delete;
  Etcd& operator=(const Etcd&) = delete;
  ~Etcd() {
    for (size_t i = 0; i < pids_.size(); ++i) Kill(i);
  }

  void Start(size_t i) {
    const std::string scheme = tls_.empty() ? "http://" : "https://";
    std::string all;
    for (size_t k = 0; k < peer_.size(); ++k) all += (k > 0 ? "," : "") + Name(k) + "=http://" + peer_[k];
    std::vector<std::string> args = {kEtcd, "--name", Name(i), "--data-dir", dir_.path() + "/" + Name(i),
                                     "--listen-client-urls", scheme + client_[i], "--advertise-client-urls", scheme + client_[i],
                                     "--listen-peer-urls", "http://" + peer_[i], "--initial-advertise-peer-urls", "http://" + peer_[i],
                                     "--initial-cluster", all, "--initial-cluster-token", dir_.path(),
                                     "--heartbeat-interval", "50", "--election-timeout", "500", "--logger", "zap"};
    if (!tls_.empty()) {
      args.insert(args.end(), {"--cert-file", tls_ + ".crt", "--key-file", tls_ + ".key", "--trusted-ca-file", tls_ + ".crt", "--client-cert-auth"});
    }
    std::vector<char*> argv;
    for (std::string& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    const std::string log = dir_.path() + "/" + Name(i) + ".log";
    const pid_t parent = getpid();
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
      const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      if (out >= 0) dup2(out, 1), dup2(out, 2);
      execv(kEtcd, argv.data());
      _exit(127);
    }
    pids_[i] = pid;
  }
  void Kill(size_t i) {
    if (pids_[i] <= 0) return;
    kill(pids_[i], SIGKILL);
    waitpid(pids_[i], nullptr, 0);
    pids_[i] = -1;
  }
  EtcdOptions Options() const {
    EtcdOptions o;
    o.endpoints = client_;
    o.key = "/stria/test/meta";
    return o;
  }

 private:
  static std::string Name(size_t i) { return "etcd" + std::to_string(i + 1); }
  TempDir dir_;
  const std::string tls_;
  std::vector<std::string> client_, peer_;
  std::vector<pid_t> pids_;
};

// What is there, once etcd answers. An error after a long time.
Task<Result<CoordinatorValue>> ReadSoon(Coordinator* etcd) {
  Result<CoordinatorValue> r = co_await etcd->Read();
  for (int tries = 0; tries < 300 && !r.ok(); ++tries) {
    co_await Sleep(200 * kMillisecond);
    r = co_await etcd->Read();
  }
  co_return r;
}

// As an undecided swap is to be treated: the same again, until it is decided. True: it was carried out, as far as that shows.
Task<bool> SwapUntilDecided(Coordinator* etcd, std::string old, std::string value, std::string* there) {
  for (;;) {
    const Result<CoordinatorValue> r = co_await etcd->Swap(old, value);
    if (r.ok()) {
      *there = r->value();
      if (*there != old) co_return *there == value;
    }
    co_await Sleep(50 * kMillisecond);
  }
}

// "N:WHO:NONCE"
uint64_t CountOf(const std::string& value) { return std::strtoull(value.c_str(), nullptr, 10); }

TEST(EtcdCoordinator, SwapsByValue) {
  if (!HasEtcd()) GTEST_SKIP() << kMissing;
  Etcd etcd(1);
  OnLoop([&](Executor* ex) -> Task<void> {
    EtcdCoordinator a(ex, etcd.Options()), b(ex, etcd.Options());
    const Result<CoordinatorValue> none = co_await ReadSoon(&a);
    EXPECT_TRUE(none.ok()) << none.error();
    if (!none.ok()) co_return;
    EXPECT_EQ(*none, std::nullopt);
    EXPECT_EQ(*co_await a.Swap("what", "never"), std::nullopt);  // there is nothing yet
    EXPECT_EQ(*co_await a.Swap(std::nullopt, "one"), "one");
    EXPECT_EQ(*co_await b.Swap(std::nullopt, "other"), "one");
    EXPECT_EQ(*co_await b.Swap("on", "two"), "one");
    EXPECT_EQ(*co_await b.Swap("one", "two"), "two");
    EXPECT_EQ(*co_await a.Swap("one", "three"), "two");
    EXPECT_EQ(*co_await a.Read(), "two");
    const std::string binary("\0\xff\n\"", 4);
    EXPECT_EQ(*co_await a.Swap("two", binary), binary);
    EXPECT_EQ(*co_await b.Read(), binary);
    const std::string large(kMaxCoordinatorValueBytes, 'x');
    EXPECT_EQ(*co_await a.Swap(binary, large), large);
    EXPECT_EQ(*co_await b.Read(), large);
    EXPECT_EQ((co_await a.Swap(large, large + "x")).code(), FsError::kBadRequest);
  });
}

TEST(EtcdCoordinator, TellsThatNobodyIsThere) {
  EtcdOptions o;
  o.endpoints = {"127.0.0.1:" + std::to_string(FreePort()), "127.0.0.1:" + std::to_string(FreePort())};
  o.key = "k";
  OnLoop([&](Executor* ex) -> Task<void> {
    EtcdCoordinator etcd(ex, o);
    const Result<CoordinatorValue> r = co_await etcd.Read();
    EXPECT_TRUE(r.code() == FsError::kUnavailable || r.code() == FsError::kDeadline) << r.error();
    EXPECT_FALSE((co_await etcd.Swap(std::nullopt, "x")).ok());
  });
}

TEST(EtcdCoordinator, WaitsForASilentOneOnlySoLong) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);  // takes connections, and says nothing
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
  ASSERT_EQ(listen(fd, 16), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size), 0);
  EtcdOptions o;
  o.endpoints = {"127.0.0.1:" + std::to_string(ntohs(a.sin_port))};
  o.key = "k";
  o.call_ns = 500 * kMillisecond;
  OnLoop([&](Executor* ex) -> Task<void> {
    EtcdCoordinator etcd(ex, o);
    // A call that nobody waits for any more ends.
    EXPECT_FALSE((co_await WithTimeout(kMillisecond, etcd.Read())).has_value());
    const Result<CoordinatorValue> r = co_await etcd.Read();
    EXPECT_TRUE(r.code() == FsError::kUnavailable || r.code() == FsError::kDeadline) << r.error();
  });
  close(fd);
}

// Several who count up, each only by a swap of what it has read: nothing is counted twice, and nothing is lost, also while a member dies.
TEST(EtcdCoordinator, OneOfManyWins) {
  if (!HasEtcd()) GTEST_SKIP() << kMissing;
  constexpr int kThreads = 4;
  constexpr int kEach = 40;
  Etcd etcd(3);
  OnLoop([&](Executor* ex) -> Task<void> {
    EtcdCoordinator c(ex, etcd.Options());
    const Result<CoordinatorValue> none = co_await ReadSoon(&c);
    EXPECT_TRUE(none.ok()) << none.error();
    for (int tries = 0; tries < 100; ++tries) {
      const Result<CoordinatorValue> r = co_await c.Swap(std::nullopt, "0");
      if (r.ok() && *r == "0") break;
      co_await Sleep(100 * kMillisecond);
    }
  });
  std::atomic<int> done = 0, counted = 0;
  std::vector<std::thread> threads;
  for (int who = 0; who < kThreads; ++who) {
    threads.emplace_back([&, who] {
      OnLoop([&, who](Executor* ex) -> Task<void> {
        EtcdCoordinator c(ex, etcd.Options());
        const Result<CoordinatorValue> first = co_await ReadSoon(&c);
        EXPECT_TRUE(first.ok()) << first.error();
        if (!first.ok()) co_return;
        std::string there = first->value_or("");
        for (int mine = 0, attempt = 0; mine < kEach; ++attempt) {
          const std::string value = std::to_string(CountOf(there) + 1) + ":" + std::to_string(who) + ":" + std::to_string(attempt);
          const std::string old = there;
          if (co_await SwapUntilDecided(&c, old, value, &there)) {
            ++mine;
            ++counted;
          }
          if (++done == kThreads * kEach / 4) etcd.Kill(0);
        }
      });
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counted, kThreads * kEach);
  OnLoop([&](Executor* ex) -> Task<void> {
    EtcdCoordinator c(ex, etcd.Options());
    const Result<CoordinatorValue> last = co_await ReadSoon(&c);
    EXPECT_TRUE(last.ok()) << last.error();
    // A swap may have been carried out although it showed as another's: its answer was lost, and somebody went on from it.
    if (last.ok()) EXPECT_GE(CountOf(last->value_or("")), static_cast<uint64_t>(counted));

    // Without a majority nothing is answered, and nothing is changed by what was asked then, unless it says so later.
    const std::string before = last.ok() ? last->value_or("") : "";
    etcd.Kill(1);
    EXPECT_FALSE((co_await c.Read()).ok());
    EXPECT_FALSE((co_await c.Swap(before, "late")).ok());
    etcd.Start(0);
    etcd.Start(1);
    std::string there;
    EXPECT_TRUE(co_await SwapUntilDecided(&c, before, "late", &there)) << there;
    EXPECT_EQ(*co_await ReadSoon(&c), "late");
  });
}

TEST(EtcdCoordinator, ProvesItselfByTls) {
  if (!HasEtcd()) GTEST_SKIP() << kMissing;
  if (access("/usr/bin/openssl", X_OK) != 0) GTEST_SKIP() << "openssl is not installed";
  TempDir dir;
  const auto make = [&](const std::string& name) {
    const std::string command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" + name +
                                " -addext subjectAltName=IP:127.0.0.1 -keyout " + dir.path() + "/" + name + ".key -out " + dir.path() + "/" + name +
                                ".crt 2>/dev/null && cat " + dir.path() + "/" + name + ".crt " + dir.path() + "/" + name + ".key > " + dir.path() + "/" +
                                name + ".pem";
    EXPECT_EQ(system(command.c_str()), 0);
    std::stringstream text;
    text << std::ifstream(dir.path() + "/" + name + ".pem").rdbuf();
    return text.str();
  };
  const std::string ours = make("ours"), others = make("others");
  Etcd etcd(1, dir.path() + "/ours");
  OnLoop([&](Executor* ex) -> Task<void> {
    EtcdOptions o = etcd.Options();
    o.tls = EtcdOptions::Tls{ours, ours, ours};
    EtcdCoordinator good(ex, o);
    const Result<CoordinatorValue> none = co_await ReadSoon(&good);
    EXPECT_TRUE(none.ok()) << none.error();
    EXPECT_EQ(*co_await good.Swap(std::nullopt, "one"), "one");
    o.tls = EtcdOptions::Tls{ours, "", ""};
    EtcdCoordinator nobody(ex, o);
    EXPECT_FALSE((co_await nobody.Read()).ok());
    o.tls = EtcdOptions::Tls{ours, others, others};
    EtcdCoordinator stranger(ex, o);
    EXPECT_FALSE((co_await stranger.Read()).ok());
    o.tls = EtcdOptions::Tls{others, ours, ours};
    EtcdCoordinator misled(ex, o);
    EXPECT_FALSE((co_await misled.Read()).ok());
    o.tls.reset();
    EtcdCoordinator plain(ex, o);
    EXPECT_FALSE((co_await plain.Read()).ok());
    EXPECT_EQ(*co_await good.Read(), "one");
  });
}

}  // namespace
}  // namespace stria
