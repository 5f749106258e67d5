// stria-data: serves the disks of one PC. Only wiring: settings, threads, disks, transport.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <map>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/allocator.h"
#include "common/daemon.h"
#include "common/exec/loop_executor.h"
#include "common/file_limit.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/metrics_server.h"
#include "common/os_random.h"
#include "common/program.h"
#include "common/quick_wake.h"
#include "common/sentence.h"
#include "proto/admin_stubs.h"
#include "proto/backup_stubs.h"
#include "proto/bulk_transport.h"
#include "proto/grpc_transport.h"
#include "proto/local_server.h"
#include "proto/replica_stubs.h"
#include "proto/rpc_metrics.h"
#include "proto/secured_ends.h"
#include "proto/stubs.h"
#include "proto/trust_stubs.h"
#include "server/data_config.h"
#include "server/data_gatherer.h"
#include "server/data_metrics.h"
#include "server/data_node.h"
#include "server/disk_open.h"
#include "server/disk_watch.h"
#include "server/local_opener.h"
#include "server/smart.h"
#include "trust/audit/denial_log.h"
#include "trust/place.h"

STRIA_ALLOCATOR_OPTIONS("")

namespace stria {
namespace {

constexpr int64_t kShutdownGraceNs = 5 * kSecond;

class Daemon final : public DaemonFrame {
 public:
  // `ends`: null if it is insecure, and then `insecure` says so.
  Daemon(DataConfig config, std::vector<ClusterKey> keys, std::unique_ptr<SecuredEnds> ends, std::string insecure)
      : config_(std::move(config)),
        keys_(std::move(keys)),
        ends_(std::move(ends)),
        insecure_(std::move(insecure)),
        sync_pool_(2, "index-sync"),
        trust_pool_(1, "trust"),
        cpu_pool_(static_cast<int>(std::max(2u, std::thread::hardware_concurrency())), "cpu"),
        memory_(RocksMemory::Make(config_.index_memory_bytes)) {
  }
  ~Daemon() override {
    scope_.CancelAll();
    if (watch_) watch_->Stop();
    metrics_server_.reset();
    local_server_.reset();
    bulk_server_.reset();  // first: it hands connections to the other
    grpc_server_.reset();
    node_.reset();
    watch_.reset();  // it keeps parts that the node's last calls may use
    disks_.clear();
  }

  // Gives the settings that a start would have now.
  void Rereads(std::function<Result<DataConfig>()> settings) { settings_ = std::move(settings); }
  int Run() { return DaemonFrame::Run(config_.reindex ? SetIndexesAside() : Serve()); }

 private:
  Task<void> Shutdown() override {
    LogInfo("stopping");
    metrics_server_.reset();
    local_server_.reset();
    if (bulk_server_) co_await bulk_server_->Shutdown(kShutdownGraceNs);
    if (grpc_server_) co_await grpc_server_->Shutdown(kShutdownGraceNs);
    LogInfo("stopped");
    executor_.Stop();
  }

  std::string Status() override {
    size_t used = 0, wanted = 0;
    for (size_t i = 0; i < disks_.size(); ++i) {
      wanted += !disks_[i].spec.path.empty();
      used += node_->stores()[i] != nullptr && node_->problem(i).ok();
    }
    return "node " + config_.node_name + (node_->agent().registered() ? " serves " : " waits for the metadata server; it serves ") +
           std::to_string(used) + " of " + std::to_string(wanted) + " disks" + (insecure_.empty() ? "" : "; " + insecure_);
  }

  DiskEnv disk_env() { return {&sync_pool_, memory_, files_.per_store}; }

  Task<Result<void>> OpenDisks() {
    CO_ASSIGN_OR_RETURN(files_, DivideFiles(RaiseFileLimit(), config_.disks.size(), "stria-data"));
    bool any = false;
    for (const DiskSpec& spec : config_.disks) {
      CO_ASSIGN_OR_RETURN(OpenDisk d, co_await OpenDataDisk(spec, disk_env(), false));
      if (d.is_new) LogInfo("{}: it becomes a disk when the cluster knows no other in its place", d.problem.message);
      else if (!d.problem.ok()) LogError("{}", d.problem.message);
      any = any || d.problem.ok() || d.reindex || d.is_new;
      disks_.push_back(std::move(d));
    }
    if (!any) co_return Error(FsError::kDiskFailed, "no disk can be used: " + disks_.front().problem.message);
    co_return Ok();
  }

  void Reload() override {
    const Result<DataConfig> now = settings_();
    const Result<LogLevel> level = now.ok() ? ParseLogLevel(now->log_level) : now.error();
    if (!level.ok()) return LogError("the settings stay as they are: {}", SentenceOf(level.error()));
    SetLogLevel(*level);
    if (dispatcher_) dispatcher_->SetSlow(now->slow_request_ns);
    if (backup_dispatcher_) backup_dispatcher_->SetSlow(now->slow_request_ns);
    if (node_ != nullptr) {
      node_->server().gate().SetPercent(now->background_percent);
      node_->agent().SetPace(static_cast<size_t>(now->rebuilds), now->scrub_bytes_per_s);
    }
    if (watch_ != nullptr) {
      for (const DiskSpec& spec : watch_->TakeSettings(now->disks).added) smart_->Add(spec.path);
    }
    LogInfo("log_level is {}, rebuilds {}, scrub_rate {}, background_percent {}; slow_request and disks are as the settings say; others count after a restart", now->log_level,
            now->rebuilds, now->scrub_bytes_per_s, now->background_percent);
  }

  Task<void> Serve() {
    Result<void> started = co_await Start();
    if (!started.ok()) co_return Fail(started.error());
  }

  Task<Result<void>> Start() {
    CO_RETURN_IF_ERROR(co_await OpenDisks());
    std::vector<DataNodeDisk> disks;
    for (const OpenDisk& d : disks_) disks.push_back(d.ForNode());
    // It looks a name up at each connect, and tries all its addresses.
    BulkClientOptions client;
    if (ends_) ends_->Secure(&client);
    bulk_client_ = std::make_unique<BulkClient>(&executor_, client);
    TransportFactory* peers = bulk_client_.get();
    if (ends_) peers = (knowing_ = ends_->Over(bulk_client_.get())).get();
    meta_connector_ = std::make_unique<TransportMetaConnector>(bulk_client_.get());
    data_connector_ = std::make_unique<TransportDataConnector>(peers);
    DataNodeOptions options;
    options.name = config_.node_name;
    options.address = config_.address;
    options.meta_addresses = config_.meta;
    options.keys = keys_;
    options.new_node = NewUuid();
    options.server.max_write_bytes = config_.write_memory_bytes;
    options.server.background.percent = config_.background_percent;
    options.server.denied = [this](const Peer& peer, const Error& why) { NoteDenial(&denials_, &peer, "use a shard", why); };
    options.agent.max_rebuilds = static_cast<size_t>(config_.rebuilds);
    options.agent.scrub_options.bytes_per_s = config_.scrub_bytes_per_s;
    if (ends_) options.agent.self = [this] { return Self(); };
    options.agent.version = Version();
    std::vector<std::string> paths;
    for (const DiskSpec& spec : config_.disks) paths.push_back(spec.path);
    SmartOptions smart;
    smart.directory = config_.smart_directory;
    smart_ = std::make_unique<SmartWatch>(std::move(paths), smart);
    options.agent.smart = [this](size_t i) { return smart_->Of(i); };
    admin_connector_ = std::make_unique<TransportAdminConnector>(bulk_client_.get());
    member_connector_ = std::make_unique<TransportMemberConnector>(bulk_client_.get());
    const DataNodeEnv env{meta_connector_.get(), data_connector_.get(), &cpu_pool_, admin_connector_.get(), member_connector_.get()};
    CO_ASSIGN_OR_RETURN(node_, co_await DataNode::Open(std::move(disks), env, std::move(options)));
    if (ends_) node_->metas()->OnAddresses([this](const std::vector<std::string>& metas) { ends_->ExpectMetas(metas); });
    if (ends_) ends_->Follow([this] { return node_ ? node_->agent().map() : nullptr; });
    trust_connector_ = std::make_unique<TransportTrustConnector>(bulk_client_.get());
    if (ends_) ends_->RenewBy([this](std::string request) { return AskForRenewal(trust_connector_.get(), ends_->metas(), std::move(request)); });
    dispatcher_ = std::make_unique<DataDispatcher>(&node_->server(), Admission());
    router_.Add(kDataServiceName, dispatcher_.get());
    backup_dispatcher_ = std::make_unique<BackupDispatcher>(&node_->backups(), Admission());
    router_.Add(kBackupServiceName, backup_dispatcher_.get());
    if (!ends_) {
      grpc_server_ = std::make_unique<GrpcServer>(&executor_, &router_);
      CO_RETURN_IF_ERROR(grpc_server_->StartWithoutAddress());
    }
    BulkServerOptions bulk;
    CO_ASSIGN_OR_RETURN(const WakeLatency latency, ParseWakeLatency(config_.wake_latency, IdleDriver()));
    bulk.wake = &wake_.emplace(latency);
    bulk.max_connections = std::min<size_t>(kMaxBulkConnections, files_.connections);
    if (ends_) ends_->Secure(&bulk);
    else bulk.other = [grpc = grpc_server_.get()](int fd) { grpc->Adopt(fd); };
    bulk_server_ = std::make_unique<BulkServer>(&executor_, &router_, std::move(bulk));
    CO_ASSIGN_OR_RETURN(const std::string bound, bulk_server_->Start(config_.listen));
    if (ends_) {
      ends_->OnChange([this] {
        const auto judge = [this](const Peer& peer) { return ends_->StillGood(peer); };
        bulk_server_->CloseUnless(judge);
        bulk_client_->CloseUnless(judge);
      });
      scope_.Spawn(ends_->Keep(&trust_pool_));
    }
    if (!config_.metrics.empty()) {
      CO_ASSIGN_OR_RETURN(metrics_server_, MetricsServer::Start(config_.metrics, &executor_, {"stria-data", {}, [this](MetricFamilies* out) { Gather(out); }}));
      LogInfo("metrics are served on {}, to whoever can connect", config_.metrics);
    }
    std::map<const ShardStore*, Disk*> files;
    for (size_t i = 0; i < disks_.size(); ++i) {
      if (node_->stores()[i]) files[node_->stores()[i].get()] = disks_[i].disk.get();
    }
    local_opener_ = std::make_unique<LocalOpener>(&node_->tokens(), &node_->server(), std::move(files));
    local_server_ = std::make_unique<LocalServer>(&executor_, local_opener_.get());
    if (!local_server_->Start(config_.address)) {
      LogWarning("readers on this machine use the network: the local socket of {} cannot be had", config_.address);
    }
    node_->Start();
    watch_ = std::make_unique<DiskWatch>(node_.get(), local_opener_.get(), &disks_, disk_env());
    watch_->Start();
    LogInfo("node {} listens on {}, others reach it at {}", config_.node_name, bound, config_.address);
    SayReady();
    co_return Ok();
  }

  // As others see it: what its shards' tokens are bound to.
  std::shared_ptr<const Peer> Self() const {
    const std::shared_ptr<const Credentials> own = ends_->credentials();
    auto self = std::make_shared<Peer>();
    self->role = own->identity.role;
    self->name = own->identity.name;
    self->key_hash = own->certificate.key_hash();
    return self;
  }

  DispatchOptions Admission() {
    DispatchOptions options;
    options.proved = ends_ != nullptr;
    options.refused = [this](const Peer* peer, const std::string& method, const Error& why) { NoteDenial(&denials_, peer, method, why); };
    options.slow_ns = config_.slow_request_ns;
    options.slow = [](const std::string& line) { LogWarning("{}", line); };
    return options;
  }

  void Gather(MetricFamilies* out) {
    DataFigures figures = GatherDataFigures(*node_, disks_);
    figures.running_calls = bulk_server_->running();
    if (ends_) figures.certificate_end_s = ends_->credentials()->certificate.not_after_s();
    AddDataMetrics(figures, out);
    AddRpcMetrics({dispatcher_.get(), backup_dispatcher_.get()}, out);
  }

  // Sets the index of every disk given aside, and ends: the next start makes them again.
  Task<void> SetIndexesAside() {
    for (const DiskSpec& spec : config_.disks) {
      Result<OpenDisk> d = co_await OpenDataDisk(spec, disk_env(), false);
      if (!d.ok()) co_return Fail(d.error());
      if (!d->problem.ok() && !d->reindex) co_return Fail(d->problem);
      d->index_pool.reset();
      d->index.reset();
      const Result<void> done = SetIndexAside(*d);
      if (!done.ok()) co_return Fail(done.error());
      LogInfo("{}: the former index is {}/index.old; stria-data makes another when it starts, and serves the other "
              "disks meanwhile", d->where, spec.path);
    }
    executor_.Stop();
  }

  const DataConfig config_;
  const std::vector<ClusterKey> keys_;
  const std::unique_ptr<SecuredEnds> ends_;  // null: insecure
  const std::string insecure_;
  DenialLog denials_{[](std::string_view line) { LogWarning("audit: {}", line); }};
  std::function<Result<DataConfig>()> settings_;
  FileBudget files_;
  std::optional<QuickWake> wake_;
  ThreadPool sync_pool_;
  ThreadPool trust_pool_;  // files of credentials
  ThreadPool cpu_pool_;
  const std::shared_ptr<RocksMemory> memory_;
  std::deque<OpenDisk> disks_;  // of the settings; those that were taken out of them have no path any more
  std::unique_ptr<BulkClient> bulk_client_;
  std::unique_ptr<TransportFactory> knowing_;  // of bulk_client_: expects the node of each address
  std::unique_ptr<TransportMetaConnector> meta_connector_;
  std::unique_ptr<TransportDataConnector> data_connector_;
  std::unique_ptr<TransportAdminConnector> admin_connector_;
  std::unique_ptr<TransportMemberConnector> member_connector_;
  std::unique_ptr<TransportTrustConnector> trust_connector_;
  std::unique_ptr<SmartWatch> smart_;
  std::unique_ptr<DataNode> node_;
  std::unique_ptr<DataDispatcher> dispatcher_;
  std::unique_ptr<BackupDispatcher> backup_dispatcher_;
  Router router_;
  std::unique_ptr<GrpcServer> grpc_server_;
  std::unique_ptr<BulkServer> bulk_server_;
  std::unique_ptr<LocalOpener> local_opener_;
  std::unique_ptr<LocalServer> local_server_;
  std::unique_ptr<DiskWatch> watch_;
  std::unique_ptr<MetricsServer> metrics_server_;
};

struct Flags {
  std::string config_file, node_name, listen, address, cluster_key, trust, data_security, log_file, log_level, metrics;
  std::vector<std::string> meta, disks;
  bool reindex = false, insecure = false;
};

Result<DataConfig> ConfigFrom(const Flags& flags) {
  DataConfig c;
  if (!flags.config_file.empty()) {
    ASSIGN_OR_RETURN(Config file, Config::Load(flags.config_file));
    ASSIGN_OR_RETURN(c, DataConfigFrom(std::move(file)));
  }
  auto override_with = [](const std::string& flag, std::string* setting) {
    if (!flag.empty()) *setting = flag;
  };
  override_with(flags.node_name, &c.node_name);
  override_with(flags.listen, &c.listen);
  override_with(flags.address, &c.address);
  override_with(flags.cluster_key, &c.cluster_key_file);
  override_with(flags.insecure ? kTrustOff : flags.trust, &c.trust);
  if (!flags.data_security.empty()) c.data_security = ParseWireMode(flags.data_security).value_or(c.data_security);
  override_with(flags.log_file, &c.log_file);
  override_with(flags.log_level, &c.log_level);
  override_with(flags.metrics, &c.metrics);
  if (!flags.meta.empty()) c.meta = flags.meta;
  if (!flags.disks.empty()) c.disks.clear();
  for (const std::string& text : flags.disks) {
    ASSIGN_OR_RETURN(DiskSpec d, ParseDiskSpec(text));
    c.disks.push_back(std::move(d));
  }
  c.reindex = flags.reindex;
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  RETURN_IF_ERROR(CompleteDataConfig(&c, host));
  return c;
}

// The credentials of this program. If there are none: null, and `insecure` has the sentence for the log.
Result<std::unique_ptr<SecuredEnds>> OpenEnds(const DataConfig& config, std::string* insecure) {
  ASSIGN_OR_RETURN(const TrustPlace place, FindTrust(config.trust, {Role::kData}));
  if (place.is != TrustIs::kThere) {
    *insecure = InsecureWarning(place);
    return std::unique_ptr<SecuredEnds>();
  }
  SecuredEndsOptions options;
  options.own = {Role::kData};
  options.lets_in = {Role::kMeta, Role::kData, Role::kClient};
  options.talks_to = {Role::kMeta, Role::kData};
  options.least = config.data_security;
  options.meta_addresses = config.meta;
  ASSIGN_OR_RETURN(std::unique_ptr<SecuredEnds> ends, SecuredEnds::Open(place.directory, std::move(options)));
  if (ends->identity().name != config.node_name) {
    return Error(FsError::kAccess, "the certificate in " + place.directory + " is of node " + ends->identity().name + ", and this one is called " +
                                       config.node_name + ": others would not believe it; set node_name, or let this node join anew");
  }
  ForbidCoreDumps();
  return ends;
}

// A node with a certificate is given its keys by the metadata server.
Result<std::vector<ClusterKey>> LoadKeys(const DataConfig& config, bool secured, std::string* said) {
  const bool given = !config.cluster_key_file.empty();
  const std::string path = given ? config.cluster_key_file : kClusterKeyFile;
  if (!given && secured && access(path.c_str(), F_OK) != 0) return std::vector<ClusterKey>();
  *said = WhoReadsClusterKeys(path);
  return LoadClusterKeys(path);
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Serves the disks of this PC to a Stria cluster.", "stria-data");
  app.add_option("--config", flags.config_file, "Settings (TOML); flags override them")
      ->check(CLI::ExistingFile);
  app.add_option("--node-name", flags.node_name, "Name of this node (default: the host's)");
  app.add_option("--listen", flags.listen, "IP[:PORT] to serve on (default 0.0.0.0:" + std::to_string(kDefaultDataPort) + ")");
  app.add_option("--address", flags.address, "HOST[:PORT] that others reach this node at (default: the host's name, and the port of --listen)");
  app.add_option("--meta", flags.meta, "Metadata servers, HOST[:PORT][,HOST[:PORT]]")->delimiter(',');
  app.add_option("--disk", flags.disks, "PATH[,label=L][,channel=C]; an empty directory becomes a disk, if the cluster knows none there")
      ->allow_extra_args(false);
  app.add_option("--cluster-key", flags.cluster_key, "File with the cluster key, of a cluster without certificates");
  app.add_option("--trust", flags.trust, "Directory of this node's certificate (default " + std::string(kTrustDirectory) + ")");
  app.add_option("--data-security", flags.data_security, "Least protection of data on the wire: privacy, integrity or auth (default privacy)")
      ->check(CLI::IsMember({"privacy", "integrity", "auth"}));
  app.add_flag("--insecure", flags.insecure, "Neither ask for certificates nor encrypt: everybody may do everything");
  app.add_option("--log-file", flags.log_file, "Log there instead of to stderr");
  app.add_option("--log-level", flags.log_level, "debug, info, warning, error or off");
  app.add_option("--metrics", flags.metrics, "IP:PORT to serve Prometheus metrics on");
  app.add_flag("--reindex", flags.reindex, "Put the index of the disks aside, then end: the next start makes it again from the files");
  AddSelfDescription(app);
  if (const std::optional<int> code = ParseArguments(app, argc, argv)) return *code;

  Result<DataConfig> config = ConfigFrom(flags);
  if (!config.ok()) return RefuseToStart("stria-data", config.error());
  std::vector<ClusterKey> keys;
  std::unique_ptr<SecuredEnds> ends;
  std::string insecure, readers;
  if (!config->reindex) {
    Result<std::unique_ptr<SecuredEnds>> opened = OpenEnds(*config, &insecure);
    if (!opened.ok()) return RefuseToStart("stria-data", opened.error());
    ends = std::move(*opened);
    Result<std::vector<ClusterKey>> loaded = LoadKeys(*config, ends != nullptr, &readers);
    if (!loaded.ok()) return RefuseToStart("stria-data", loaded.error());
    keys = std::move(*loaded);
  }
  BlockStopSignals();
  Result<LogLevel> level = ParseLogLevel(config->log_level);
  if (!level.ok()) return RefuseToStart("stria-data", level.error());
  Result<void> log = InitLog("data", config->log_file, *level);
  if (!log.ok()) return RefuseToStart("stria-data", log.error());
  for (const std::string& said : {readers, insecure}) {
    if (!said.empty()) LogWarning("{}", said);
  }

  int code = 0;
  {
    Daemon daemon(std::move(*config), std::move(keys), std::move(ends), std::move(insecure));
    daemon.Rereads([&flags] { return ConfigFrom(flags); });
    code = daemon.Run();
  }
  FlushLog();
  return code;
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) { return stria::Main(argc, argv); }
