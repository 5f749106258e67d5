// stria-meta: the metadata server. Only wiring: settings, store, transport.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/allocator.h"
#include "common/daemon.h"
#include "common/exec/loop_executor.h"
#include "common/exec/pool.h"
#include "common/file_limit.h"
#include "common/kv/rocks_kv.h"
#include "common/log.h"
#include "common/metrics_server.h"
#include "common/os_random.h"
#include "common/program.h"
#include "common/quick_wake.h"
#include "common/sentence.h"
#include "meta/data_dir.h"
#include "meta/disk_room.h"
#include "meta/meta_config.h"
#include "meta/meta_metrics.h"
#include "meta/node_probe.h"
#include "meta/restore_store.h"
#include "proto/admin_stubs.h"
#include "proto/backup_stubs.h"
#include "proto/bulk_transport.h"
#include "proto/grpc_transport.h"
#include "proto/stubs.h"
#include "stripe/layout_spec.h"

STRIA_ALLOCATOR_OPTIONS("")

namespace stria {
namespace {

constexpr int64_t kShutdownGraceNs = 5 * kSecond;
constexpr int64_t kMetricsPeriodNs = 2 * kSecond;
constexpr int64_t kRoomPeriodNs = 2 * kSecond;

struct RestoreFlags {
  std::vector<std::string> from;  // empty: serve
  bool dry_run = false;
};

struct FormatFlags {
  bool format = false;
  bool only = false;  // end afterwards
};

class Daemon final : public DaemonFrame {
 public:
  Daemon(MetaConfig config, std::vector<ClusterKey> keys, FormatFlags format, RestoreFlags restore)
      : config_(std::move(config)),
        keys_(std::move(keys)),
        format_(format.format || format.only),
        format_only_(format.only),
        restore_(std::move(restore)),
        room_(config_.data),
        sync_pool_(2, "meta-sync") {
    config_.server.admin_uids = {0, static_cast<uint32_t>(geteuid())};
  }
  ~Daemon() override {
    scope_.CancelAll();
    metrics_server_.reset();
    bulk_server_.reset();  // first: it hands connections to the other
    grpc_server_.reset();
    probe_.reset();
    server_.reset();
    data_connector_.reset();
    bulk_client_.reset();
    backups_.reset();
    grpc_client_.reset();
  }

  // Gives the settings that a start would have now.
  void Rereads(std::function<Result<MetaConfig>()> settings) { settings_ = std::move(settings); }
  int Run() { return DaemonFrame::Run(restore_.from.empty() ? Serve() : Restore()); }

 private:
  Task<void> Shutdown() override {
    LogInfo("stopping");
    if (server_) {
      const Result<void> stopped = co_await server_->Stop();
      if (!stopped.ok()) LogError("{}", stopped.error());
    }
    if (bulk_server_) co_await bulk_server_->Shutdown(kShutdownGraceNs);
    if (grpc_server_) co_await grpc_server_->Shutdown(kShutdownGraceNs);
    LogInfo("stopped");
    executor_.Stop();
  }

  void Reload() override {
    const Result<MetaConfig> now = settings_();
    const Result<LogLevel> level = now.ok() ? ParseLogLevel(now->log_level) : now.error();
    if (!level.ok()) return LogError("the settings stay as they are: {}", SentenceOf(level.error()));
    SetLogLevel(*level);
    if (server_ != nullptr) server_->TakeSettings(now->server);
    LogInfo("log_level is {}, and [repair], [fold] and [cluster] are as the settings say; others count after a restart", now->log_level);
  }

  std::string Status() override {
    const ClusterMap map = server_->cluster().Map();
    const auto up = std::count_if(map.nodes.begin(), map.nodes.end(), [](const NodeInfo& n) { return n.state == NodeState::kUp; });
    return "serves on " + bound_ + ": " + std::to_string(up) + " of " + std::to_string(map.nodes.size()) + " nodes are up, " +
           std::to_string(server_->sessions().All().size()) + " clients";
  }

  Task<void> Serve() {
    if (format_only_) {
      const Result<void> made = co_await FormatIfEmpty();
      if (!made.ok()) co_return Fail(made.error());
      co_return executor_.Stop();
    }
    const Result<void> started = co_await Start();
    if (!started.ok()) co_return Fail(started.error());
    scope_.Spawn(UpdateMetrics());
    const Error fatal = co_await server_->WaitFatal();
    Fail(fatal.WithContext("the metadata store cannot be written any more"));
  }

  Result<std::unique_ptr<KvStore>> OpenStore() {
    ASSIGN_OR_RETURN(files_, DivideFiles(RaiseFileLimit(), 1, "stria-meta"));
    RocksKvOptions options;
    options.memory = RocksMemory::Make(config_.memory_bytes);
    options.prefix_bytes = FamilyPrefixBytes();
    options.create_if_missing = format_ || !restore_.from.empty();
    options.max_open_files = static_cast<int>(files_.per_store);
    if (room_.total_bytes() > 0) options.max_wal_bytes = std::min(options.max_wal_bytes, ReserveBytes(room_.total_bytes()));
    options.flush_at_open = !is_full_;
    ASSIGN_OR_RETURN(std::unique_ptr<RocksKv> kv,
                     RocksKv::Open(MetaStorePath(config_.data), FamilyNames(), options, sync_pool_));
    return std::unique_ptr<KvStore>(std::move(kv));
  }

  // To data servers.
  BackupConnector* Backups() {
    grpc_client_ = std::make_unique<GrpcClient>(&executor_);
    backups_ = std::make_unique<TransportBackupConnector>(grpc_client_.get());
    return backups_.get();
  }

  Task<void> Restore() {
    const TokenSigner signer(keys_.at(0));
    RestoreStoreParams p;
    p.data = config_.data;
    p.from = restore_.from;
    p.dry_run = restore_.dry_run;
    p.connector = Backups();
    p.signer = &signer;
    p.open_store = [this] { return OpenStore(); };
    p.new_store = NewUuid();
    const Result<void> done = co_await RestoreStore(std::move(p));
    if (!done.ok()) co_return Fail(done.error());
    executor_.Stop();
  }

  Task<Result<void>> FormatIfEmpty() {
    CO_ASSIGN_OR_RETURN(const DataDirState state, LookAtDataDir(config_.data));
    if (state != DataDirState::kEmpty) {
      if (format_only_) LogInfo("{} has the metadata of a cluster already: it stays as it is", config_.data);
      co_return Ok();
    }
    if (!format_) {
      co_return Error(FsError::kNoEnt, config_.data + " has no metadata store; create a new cluster with --format");
    }
    co_return co_await Format();
  }

  Task<Result<void>> Start() {
    CO_RETURN_IF_ERROR(co_await FormatIfEmpty());
    format_ = false;
    CO_ASSIGN_OR_RETURN(const Superblock super, ReadDataDir(config_.data));
    CO_RETURN_IF_ERROR(room_.Open());
    is_full_ = room_.Level() >= RoomLevel::kFull;
    CO_ASSIGN_OR_RETURN(std::unique_ptr<KvStore> kv, OpenStore());
    server_ = std::make_unique<MetaServer>(config_.server, std::move(kv), Random(OsRandom64()), keys_);
    if (config_.backup) server_->UseBackups(Backups());
    server_->UseRoom(&room_);
    scope_.Spawn(FollowRoom());
    bulk_client_ = std::make_unique<BulkClient>(&executor_);
    data_connector_ = std::make_unique<TransportDataConnector>(bulk_client_.get());
    CO_RETURN_IF_ERROR(co_await server_->Start());
    if (server_->store()->super()->cluster != super.cluster) {
      co_return Error(FsError::kWrongCluster, config_.data + " has the store of another cluster than its superblock");
    }
    probe_ = std::make_unique<NodeProbe>(data_connector_.get(), &server_->cluster(), [this](std::vector<NodeId> cannot) {
      server_->NoteUnreachable("the metadata server", std::move(cannot));
    });
    scope_.Spawn(probe_->Run());
    dispatcher_ = std::make_unique<MetaDispatcher>(server_.get());
    router_.Add(kMetaServiceName, dispatcher_.get());
    admin_dispatcher_ = std::make_unique<AdminDispatcher>(server_.get());
    router_.Add(kAdminServiceName, admin_dispatcher_.get());
    grpc_server_ = std::make_unique<GrpcServer>(&executor_, &router_);
    CO_RETURN_IF_ERROR(grpc_server_->StartWithoutAddress());
    BulkServerOptions bulk;
    CO_ASSIGN_OR_RETURN(const WakeLatency latency, ParseWakeLatency(config_.wake_latency, IdleDriver()));
    bulk.wake = &wake_.emplace(latency);
    bulk.max_connections = std::min<size_t>(kMaxBulkConnections, files_.connections);
    bulk.other = [grpc = grpc_server_.get()](int fd) { grpc->Adopt(fd); };
    bulk_server_ = std::make_unique<BulkServer>(&executor_, &router_, std::move(bulk));
    CO_ASSIGN_OR_RETURN(bound_, bulk_server_->Start(config_.listen));
    if (!config_.metrics.empty()) {
      CO_ASSIGN_OR_RETURN(metrics_server_, MetricsServer::Start(config_.metrics, [this] {
                            std::lock_guard lock(metrics_mu_);
                            return metrics_text_;
                          }));
    }
    LogInfo("cluster {} is served on {}, life {} of the server", super.cluster, bound_, server_->term());
    SayReady();
    co_return Ok();
  }

  // A new cluster. The superblock comes last: without it the directory does not count as a store, and
  // an interrupted --format can be repeated after emptying it.
  Task<Result<void>> Format() {
    Superblock super;
    super.kind = StoreKind::kMetadata;
    super.cluster = NewUuid();
    super.own = NewUuid();
    super.incarnation = 1;
    super.created_s = executor_.WallNs() / kSecond;
    super.label = "metadata";
    CO_RETURN_IF_ERROR(PrepareDataDir(config_.data));
    CO_ASSIGN_OR_RETURN(std::unique_ptr<KvStore> kv, OpenStore());
    FormatParams params;
    params.cluster = super.cluster;
    params.store = super.own;
    params.layout = config_.layout;
    params.now_ns = executor_.WallNs();
    CO_RETURN_IF_ERROR(co_await FormatMetaStore(std::move(kv), params));
    CO_RETURN_IF_ERROR(WriteDataDir(config_.data, super));
    LogInfo("created cluster {} with layout {}", super.cluster, LayoutToString(config_.layout));
    co_return Ok();
  }

  Task<void> FollowRoom() {
    while (true) {
      co_await Sleep(kRoomPeriodNs);
      room_.Follow();
    }
  }

  Task<void> UpdateMetrics() {
    while (true) {
      std::string text = MetaMetricsText(*server_);
      {
        std::lock_guard lock(metrics_mu_);
        metrics_text_ = std::move(text);
      }
      co_await Sleep(kMetricsPeriodNs);
    }
  }

  MetaConfig config_;
  const std::vector<ClusterKey> keys_;
  std::function<Result<MetaConfig>()> settings_;
  FileBudget files_;
  bool format_;
  const bool format_only_;
  std::string bound_;  // the address that it serves on
  const RestoreFlags restore_;
  DiskRoom room_;
  bool is_full_ = false;  // the store's disk, at the start
  std::optional<QuickWake> wake_;
  ThreadPool sync_pool_;
  std::mutex metrics_mu_;
  std::string metrics_text_;  // guarded by metrics_mu_
  std::unique_ptr<GrpcClient> grpc_client_;
  std::unique_ptr<TransportBackupConnector> backups_;
  std::unique_ptr<BulkClient> bulk_client_;
  std::unique_ptr<TransportDataConnector> data_connector_;
  std::unique_ptr<MetaServer> server_;
  std::unique_ptr<NodeProbe> probe_;
  std::unique_ptr<MetaDispatcher> dispatcher_;
  std::unique_ptr<AdminDispatcher> admin_dispatcher_;
  Router router_;
  std::unique_ptr<GrpcServer> grpc_server_;
  std::unique_ptr<BulkServer> bulk_server_;
  std::unique_ptr<MetricsServer> metrics_server_;
};

struct Flags {
  std::string config_file, data, listen, cluster_key, layout, log_file, log_level, metrics;
  FormatFlags format;
  RestoreFlags restore;
};

Result<MetaConfig> ConfigFrom(const Flags& flags) {
  MetaConfig c;
  if (!flags.config_file.empty()) {
    ASSIGN_OR_RETURN(Config file, Config::Load(flags.config_file));
    ASSIGN_OR_RETURN(c, MetaConfigFrom(std::move(file)));
  }
  auto override_with = [](const std::string& flag, std::string* setting) {
    if (!flag.empty()) *setting = flag;
  };
  override_with(flags.data, &c.data);
  override_with(flags.listen, &c.listen);
  override_with(flags.cluster_key, &c.cluster_key_file);
  override_with(flags.log_file, &c.log_file);
  override_with(flags.log_level, &c.log_level);
  override_with(flags.metrics, &c.metrics);
  if (!flags.layout.empty()) {
    const Result<Layout> layout = ParseLayout(flags.layout);
    if (!layout.ok()) return layout.error().WithContext("--layout");
    c.layout = *layout;
  }
  RETURN_IF_ERROR(CompleteMetaConfig(&c));
  return c;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("The metadata server of a Stria cluster.", "stria-meta");
  app.add_option("--config", flags.config_file, "Settings (TOML); flags override them")->check(CLI::ExistingFile);
  app.add_option("--data", flags.data, "Directory of the metadata store (default /var/lib/stria/meta)");
  app.add_option("--listen", flags.listen, "IP[:PORT] to serve on (default 0.0.0.0:" + std::to_string(kDefaultMetaPort) + ")");
  app.add_option("--cluster-key", flags.cluster_key, "File with the cluster key");
  app.add_flag("--format", flags.format.format, "Create a new cluster if the directory is empty");
  app.add_flag("--format-only", flags.format.only, "Create a new cluster if the directory is empty, then end");
  app.add_option("--restore-from", flags.restore.from,
                 "Make the store again from the backup on these data servers, HOST[:PORT][,HOST[:PORT]], then end")
      ->delimiter(',');
  app.add_flag("--dry-run", flags.restore.dry_run, "With --restore-from: only say what there is");
  app.add_option("--layout", flags.layout, "Layout of a new cluster, such as raid5:4+1");
  app.add_option("--log-file", flags.log_file, "Log there instead of to stderr");
  app.add_option("--log-level", flags.log_level, "debug, info, warning, error or off");
  app.add_option("--metrics", flags.metrics, "IP:PORT to serve Prometheus metrics on");
  AddSelfDescription(app);
  CLI11_PARSE(app, argc, argv);

  BlockStopSignals();

  Result<MetaConfig> config = ConfigFrom(flags);
  if (!config.ok()) return RefuseToStart("stria-meta", config.error());
  Result<std::vector<std::string>> from = WithPorts(flags.restore.from, kDefaultDataPort);
  if (!from.ok()) return RefuseToStart("stria-meta", from.error());
  flags.restore.from = std::move(*from);
  Result<std::vector<ClusterKey>> keys = LoadClusterKeys(config->cluster_key_file);
  if (!keys.ok()) return RefuseToStart("stria-meta", keys.error());
  Result<LogLevel> level = ParseLogLevel(config->log_level);
  if (!level.ok()) return RefuseToStart("stria-meta", level.error());
  Result<void> log = InitLog("meta", config->log_file, *level);
  if (!log.ok()) return RefuseToStart("stria-meta", log.error());
  if (const std::string said = WhoReadsClusterKeys(config->cluster_key_file); !said.empty()) LogWarning("{}", said);

  int code = 0;
  {
    Daemon daemon(std::move(*config), std::move(*keys), flags.format, std::move(flags.restore));
    daemon.Rereads([&flags] { return ConfigFrom(flags); });
    code = daemon.Run();
  }
  FlushLog();
  return code;
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) { return stria::Main(argc, argv); }
