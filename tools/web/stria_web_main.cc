// stria-web: a page that shows the state of the cluster. Only wiring: credentials, the thread that asks, the web server.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/address.h"
#include "common/daemon.h"
#include "common/exec/loop_executor.h"
#include "common/exec/pool.h"
#include "common/log.h"
#include "common/log_control.h"
#include "common/notify.h"
#include "common/program.h"
#include "common/sentence.h"
#include "proto/admin_stubs.h"
#include "proto/bulk_transport.h"
#include "proto/secured_ends.h"
#include "proto/stubs.h"
#include "proto/replica_stubs.h"
#include "proto/trust_stubs.h"
#include "tools/cli/cluster_client.h"
#include "tools/web/board.h"
#include "tools/web/http_server.h"
#include "tools/web/listen.h"
#include "tools/web/pages.h"
#include "tools/web/source.h"
#include "trust/place.h"

namespace stria {
namespace {

constexpr int64_t kFirstAliveNs = 10 * kSecond;

int64_t NowMs() { return WallclockNs() / kMillisecond; }

struct Flags {
  std::vector<std::string> meta;
  std::string trust, listen = "127.0.0.1", replay, log_level = "info";
  bool allow_anyone = false;
};

BulkClientOptions OneConnection() {
  BulkClientOptions options;
  options.connections_per_peer = 1;
  options.loops = 1;
  return options;
}

// Connections to the metadata servers, on the thread of the ClusterClient that it is for; keeps the certificate new.
class WebConnector final : public cli::ClusterConnector {
 public:
  // `ends`: null without credentials.
  WebConnector(std::unique_ptr<SecuredEnds> ends, std::vector<std::string> addresses)
      : ends_(std::move(ends)),
        pool_(1, "trust"),
        client_(&Executor::Current(), Secured(ends_.get())),
        meta_(&client_),
        admin_(&client_),
        trust_(&client_),
        members_(&client_) {
    if (!ends_) return;
    ends_->RenewBy([this, addresses = std::move(addresses)](std::string request) { return AskForRenewal(&trust_, addresses, std::move(request)); });
    scope_.Spawn(ends_->Keep(&pool_));
  }
  ~WebConnector() override { scope_.CancelAll(); }
  std::shared_ptr<MetaService> Connect(const std::string& address) override { return meta_.Connect(address); }
  std::shared_ptr<AdminService> ConnectAdmin(const std::string& address) override { return admin_.ConnectAdmin(address); }
  std::shared_ptr<TrustService> ConnectTrust(const std::string& address) override { return trust_.ConnectTrust(address); }
  std::shared_ptr<MemberService> ConnectMember(const std::string& address) override { return members_.ConnectMember(address); }

 private:
  static BulkClientOptions Secured(const SecuredEnds* ends) {
    BulkClientOptions options = OneConnection();
    if (ends != nullptr) ends->Secure(&options);
    return options;
  }
  const std::unique_ptr<SecuredEnds> ends_;
  ThreadPool pool_;  // files of credentials
  BulkClient client_;
  TransportMetaConnector meta_;
  TransportAdminConnector admin_;
  TransportTrustConnector trust_;
  TransportMemberConnector members_;
  TaskScope scope_;
};

// `insecure`: a warning if there are no credentials. On a Unix socket the kernel says who is there, and none are wanted.
Result<cli::Reach> ReachWith(const std::string& trust, const std::vector<std::string>& addresses, std::string* insecure) {
  std::shared_ptr<std::unique_ptr<SecuredEnds>> ends = std::make_shared<std::unique_ptr<SecuredEnds>>();
  cli::Reach reach;
  if (std::ranges::any_of(addresses, [](const std::string& a) { return !a.starts_with("unix:"); })) {
    ASSIGN_OR_RETURN(const TrustPlace place, FindTrust(trust, {Role::kMonitor, Role::kAdmin}));
    if (place.is == TrustIs::kThere) {
      SecuredEndsOptions options;
      options.own = {Role::kMonitor, Role::kAdmin};
      options.talks_to = options.elsewhere = {Role::kMeta};
      options.meta_addresses = addresses;
      ASSIGN_OR_RETURN(*ends, SecuredEnds::Open(place.directory, std::move(options)));
      ForbidCoreDumps();
    } else {
      *insecure = InsecureWarning(place);
      if (place.is == TrustIs::kAbsent) reach.note = "there are none in " + place.directory;
    }
  }
  reach.connector = [ends, addresses]() -> std::unique_ptr<cli::ClusterConnector> {
    return std::make_unique<WebConnector>(std::move(*ends), addresses);
  };
  return reach;
}

// Asks the source again and again, on a thread of its own, until it is destroyed.
class Asker {
 public:
  Asker(std::unique_ptr<web::Source> source, web::Board* board) : source_(std::move(source)), board_(board), thread_([this] { Run(); }) {}
  ~Asker() {
    {
      std::lock_guard lock(mu_);
      stopping_ = true;
    }
    cv_.notify_all();
    thread_.join();
  }

 private:
  void Run() {
    bool stopping = false, away = false;
    while (!stopping) {
      const int64_t asked_ns = BoottimeNs();
      Result<web::Json> status = source_->Status();
      const double answer_ms = static_cast<double>(BoottimeNs() - asked_ns) / static_cast<double>(kMillisecond);
      if (status.ok() == away) Tell(status.ok() ? Error() : status.error());
      away = !status.ok();
      board_->Take(std::move(status), NowMs(), answer_ms);
      if (!away) board_->TakeEvents(source_->Events());
      std::unique_lock lock(mu_);
      // In short steps: somebody may come to look.
      const int64_t from_ns = BoottimeNs();
      while (!stopping_ && BoottimeNs() - from_ns < board_->PeriodMs(NowMs()) * kMillisecond) cv_.wait_for(lock, std::chrono::milliseconds(500));
      stopping = stopping_;
    }
  }
  static void Tell(const Error& why) {
    if (why.ok()) LogInfo("the metadata server answers");
    else LogWarning("{}", SentenceOf(why));
    TellStatus(why.ok() ? "the metadata server answers" : SentenceOf(why));
  }

  const std::unique_ptr<web::Source> source_;
  web::Board* const board_;
  std::mutex mu_;
  std::condition_variable cv_;
  bool stopping_ = false;  // guarded by mu_
  std::thread thread_;
};

// Until SIGTERM or SIGINT. Says to systemd that it is alive as long as the cluster is being asked.
void WaitForEnd(const web::Board& board) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  const int64_t period_ns = AlivePeriodNs() > 0 ? AlivePeriodNs() : kFirstAliveNs;
  while (true) {
    const timespec wait = {period_ns / kSecond, period_ns % kSecond};
    const int signal = sigtimedwait(&set, nullptr, &wait);
    if (signal == SIGTERM || signal == SIGINT) return;
    if (signal == SIGHUP) ReopenLog();
    if (board.Health(NowMs()).ok()) TellAlive();
  }
}

Result<void> Serve(const Flags& flags) {
  ASSIGN_OR_RETURN(const web::ListenAt at, web::ParseListen(flags.listen, flags.allow_anyone));
  std::string insecure;
  std::vector<std::string> addresses;
  std::optional<web::Replay> replay;
  cli::Reach reach;
  if (!flags.replay.empty()) {
    ASSIGN_OR_RETURN(replay, web::LoadReplay(flags.replay));
  } else {
    const char* environment = std::getenv("STRIA_META");
    std::vector<std::string> meta = flags.meta;
    if (meta.empty() && environment != nullptr) meta = {environment};
    ASSIGN_OR_RETURN(addresses, WithPorts(meta, kDefaultMetaPort));
    if (addresses.empty()) return Error(FsError::kInval, "which cluster? Give --meta HOST[:PORT], or set STRIA_META");
    ASSIGN_OR_RETURN(reach, ReachWith(flags.trust.empty() ? kTrustDirectory : flags.trust, addresses, &insecure));
  }
  ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(flags.log_level));
  RETURN_IF_ERROR(InitLog("web", "", level));
  if (!insecure.empty()) LogWarning("{}", insecure);

  std::string cluster = replay ? flags.replay : "";
  for (const std::string& a : addresses) cluster += (cluster.empty() ? "" : ", ") + a;
  web::Board board(cluster, Version(), replay.has_value());
  if (replay) web::TakeReplay(*replay, NowMs(), &board);
  ASSIGN_OR_RETURN(std::unique_ptr<web::HttpServer> server,
                   web::HttpServer::Start(at, [&board](const std::string& path) { return web::PageAt(path, &board, NowMs()); }));
  std::unique_ptr<Asker> asker;
  if (!replay) asker = std::make_unique<Asker>(web::MakeClusterSource(addresses, std::move(reach)), &board);
  std::cout << "http://" << web::FormatListen(server->at()) << "/" << std::endl;
  if (!at.loopback) LogWarning("everybody who reaches {} sees the page, and it is not encrypted (--allow-anyone)", web::FormatListen(server->at()));
  TellReady("serves http://" + web::FormatListen(server->at()) + "/");
  WaitForEnd(board);
  TellStopping();
  server.reset();
  asker.reset();
  return Ok();
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Serves a page that shows the state of a cluster", "stria-web");
  app.add_option("--meta", flags.meta, "Metadata server, HOST[:PORT] or unix:PATH; more with commas between (default: $STRIA_META)");
  app.add_option("--trust", flags.trust, "Directory of its certificate, of a monitor or an admin, or off (default: /etc/stria/trust)");
  app.add_option("--listen", flags.listen, "IP[:PORT] to serve the page on (default: 127.0.0.1:" + std::to_string(kDefaultWebPort) + ")");
  app.add_flag("--allow-anyone", flags.allow_anyone, "With --listen: everybody who reaches that address may see the page, unencrypted");
  app.add_option("--replay", flags.replay, "Show the answers recorded in that file (JSON), and ask no cluster");
  app.add_option("--log-level", flags.log_level, "debug, info, warning, error or off (default: info)");
  AddSelfDescription(app);
  if (const std::optional<int> code = ParseArguments(app, argc, argv)) return *code;
  BlockStopSignals();
  const Result<void> served = Serve(flags);
  FlushLog();
  return served.ok() ? 0 : RefuseToStart("stria-web", served.error());
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) { return stria::Main(argc, argv); }
