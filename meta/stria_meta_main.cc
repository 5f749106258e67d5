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
#include "meta/audit/audit_log.h"
#include "meta/data_dir.h"
#include "meta/disk_room.h"
#include "meta/enrolment/authority_files.h"
#include "meta/exports/confined_front.h"
#include "meta/local_admins.h"
#include "meta/meta_config.h"
#include "meta/meta_flags.h"
#include "meta/meta_gatherer.h"
#include "meta/meta_metrics.h"
#include "meta/node_probe.h"
#include "meta/restore_store.h"
#include "meta/trust_dir.h"
#include "meta/trust_start.h"
#include "proto/admin_stubs.h"
#include "proto/backup_stubs.h"
#include "proto/bulk_transport.h"
#include "proto/grpc_transport.h"
#include "proto/rpc_metrics.h"
#include "proto/secured_ends.h"
#include "proto/stubs.h"
#include "proto/trust_stubs.h"
#include "stripe/layout_spec.h"
#include "trust/place.h"

STRIA_ALLOCATOR_OPTIONS("")

namespace stria {
namespace {

constexpr int64_t kShutdownGraceNs = 5 * kSecond;
constexpr int64_t kRoomPeriodNs = 2 * kSecond;
constexpr int64_t kLookAtAdminsNs = 60 * kSecond;
constexpr int64_t kLookForEventsNs = 2 * kSecond;

class Daemon final : public DaemonFrame {
 public:
  Daemon(MetaConfig config, std::vector<ClusterKey> keys, FormatFlags format, RestoreFlags restore)
      : config_(std::move(config)),
        keys_(std::move(keys)),
        format_(format.format || format.only),
        format_only_(format.only),
        make_trust_(format.make_trust),
        restore_(std::move(restore)),
        room_(config_.data),
        sync_pool_(2, "meta-sync"), trust_pool_(1, "trust"), check_pool_(1, "meta-check") {
    config_.server.admin_uids = {0, static_cast<uint32_t>(geteuid())};
    config_.server.version = Version();
  }
  ~Daemon() override {
    scope_.CancelAll();
    metrics_server_.reset();
    admin_server_.reset();
    bulk_server_.reset();  // first: it hands connections to the other
    grpc_server_.reset();
    probe_.reset();
    server_.reset();
    audit_.reset();
    data_connector_.reset();
    backups_.reset();
    bulk_client_.reset();
  }

  // Gives the settings that a start would have now.
  void Rereads(std::function<Result<MetaConfig>()> settings) { settings_ = std::move(settings); }
  int Run() { return DaemonFrame::Run(restore_.from.empty() ? Serve() : Restore()); }

 private:
  Task<void> Shutdown() override {
    LogInfo("stopping");
    metrics_server_.reset();
    if (server_) {
      const Result<void> stopped = co_await server_->Stop();
      if (!stopped.ok()) LogError("{}", stopped.error());
    }
    if (admin_server_) co_await admin_server_->Shutdown(kShutdownGraceNs);
    if (bulk_server_) co_await bulk_server_->Shutdown(kShutdownGraceNs);
    if (grpc_server_) co_await grpc_server_->Shutdown(kShutdownGraceNs);
    if (audit_) (void)co_await audit_->Flush();
    LogInfo("stopped");
    executor_.Stop();
  }

  void Reload() override {
    const Result<MetaConfig> now = settings_();
    const Result<LogLevel> level = now.ok() ? ParseLogLevel(now->log_level) : now.error();
    if (!level.ok()) return LogError("the settings stay as they are: {}", SentenceOf(level.error()));
    SetLogLevel(*level);
    if (server_ != nullptr) server_->TakeSettings(now->server);
    if (dispatcher_) dispatcher_->SetSlow(now->slow_request_ns);
    if (admin_dispatcher_) admin_dispatcher_->SetSlow(now->slow_request_ns);
    if (trust_dispatcher_) trust_dispatcher_->SetSlow(now->slow_request_ns);
    LogInfo("log_level is {}, and slow_request, [repair], [fold] and [cluster] are as the settings say; others count after a restart", now->log_level);
  }

  std::string Status() override {
    const ClusterMap map = server_->cluster().Map();
    const auto up = std::count_if(map.nodes.begin(), map.nodes.end(), [](const NodeInfo& n) { return n.state == NodeState::kUp; });
    return "serves on " + bound_ + ": " + std::to_string(up) + " of " + std::to_string(map.nodes.size()) + " nodes are up, " +
           std::to_string(server_->sessions().All().size()) + " clients" + (ends_ ? "" : "; " + InsecureWarning(place_));
  }

  Task<void> Serve() {
    if (format_only_) {
      const Result<void> made = co_await FormatIfEmpty();
      if (!made.ok()) co_return Fail(made.error());
      co_return executor_.Stop();
    }
    const Result<void> started = co_await Start();
    if (!started.ok()) co_return Fail(started.error());
    const Error fatal = co_await server_->WaitFatal();
    Fail(fatal.code == FsError::kNotLeader ? fatal : fatal.WithContext("the metadata store cannot be written any more"));
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

  // ---- What it proves itself with ----

  Result<TrustPlace> LookForTrust() {
    ASSIGN_OR_RETURN(place_, FindTrust(config_.trust, {Role::kMeta}));
    return place_;
  }

  Result<void> MakeTrust(Uuid* cluster) {
    if (config_.trust == kTrustOff) return Error(FsError::kInval, "trust is off, so no authority is made: leave out --insecure or --make-trust");
    TrustDirParams params;
    params.cluster = *cluster;
    params.host = HostName();
    params.now_s = executor_.WallNs() / kSecond;
    params.master_key = config_.cluster_key_file.empty();
    ASSIGN_OR_RETURN(*cluster, MakeTrustDir(config_.trust, params));
    LogInfo("the cluster's authority is in {}: keep a copy of that directory where only admins get at it", config_.trust);
    return Ok();
  }

  // With `cluster`: of a store that is there.
  Result<void> OpenTrust(const std::optional<Uuid>& cluster) {
    ASSIGN_OR_RETURN(const TrustPlace place, LookForTrust());
    if (place.is == TrustIs::kThere) {
      SecuredEndsOptions options;
      options.own = {Role::kMeta};
      options.lets_in = {Role::kMeta, Role::kData, Role::kClient, Role::kAdmin, Role::kMonitor};
      options.talks_to = options.elsewhere = {Role::kData};  // it knows addresses from those who have proved that they are theirs
      options.joins = true;
      options.overlap_s = config_.authority_overlap_ns / kSecond;
      ASSIGN_OR_RETURN(ends_, SecuredEnds::Open(place.directory, std::move(options)));
      ASSIGN_OR_RETURN(authority_, LoadAuthority(place.directory));
      ASSIGN_OR_RETURN(next_authority_, LoadNextAuthority(place.directory));
      if (cluster && ends_->identity().cluster != *cluster) {
        return Error(FsError::kWrongCluster, place.directory + " is of cluster " + ends_->identity().cluster.ToString() + ", and the store in " +
                                                 config_.data + " of cluster " + cluster->ToString());
      }
      ForbidCoreDumps();
      return Ok();
    }
    if (place.is == TrustIs::kAbsent && cluster) {
      ASSIGN_OR_RETURN(const bool was, WasSecured(config_.data));
      if (was) {
        return Error(FsError::kAccess, "the store in " + config_.data + " was served with certificates, and there are none in " + place.directory +
                                           ": put the directory back, or say that everybody may do everything with --insecure");
      }
    }
    LogWarning("{}", InsecureWarning(place));
    return Ok();
  }

  // After OpenTrust. None given: the secret beside the authority, or the file of former days.
  Result<void> LoadKeys() {
    if (!keys_.empty()) return Ok();
    const bool own = ends_ && access(MasterKeyPath(place_.directory).c_str(), F_OK) == 0;
    const std::string path = own ? MasterKeyPath(place_.directory) : kClusterKeyFile;
    ASSIGN_OR_RETURN(keys_, LoadClusterKeys(path));
    if (const std::string said = WhoReadsClusterKeys(path); !said.empty()) LogWarning("{}", said);
    return Ok();
  }

  void MakeClient() {
    BulkClientOptions options;
    if (ends_) ends_->Secure(&options);
    bulk_client_ = std::make_unique<BulkClient>(&executor_, options);
  }

  DispatchOptions Admission() {
    DispatchOptions options;
    options.proved = ends_ != nullptr;
    options.refused = [this](const Peer* peer, const std::string& method, const Error& why) { NoteDenial(audit_.get(), peer, method, why); };
    options.slow_ns = config_.slow_request_ns;
    options.slow = [](const std::string& line) { LogWarning("{}", line); };
    return options;
  }

  // What is known of certificates besides the store; before the server starts.
  void GiveTrust() {
    server_->trust().UseAudit(audit_.get());
    if (!ends_) return;
    authority_files_ = std::make_unique<AuthorityFiles>(&trust_pool_, place_.directory);
    MetaTrust trust{authority_, next_authority_, authority_files_.get(), ends_->credentials()->revoked,
                    OwnCertificates(*ends_->credentials(), place_.directory)};
    trust.life_s = config_.certificate_life_ns / kSecond;
    server_->trust().Use(std::move(trust));
  }

  // Its own certificate, and that of the admin beside it, are renewed as those of others are.
  Task<Result<std::string>> RenewAs(std::shared_ptr<const Credentials> own, std::string request) {
    EnrolmentRoom* const room = server_->trust().enrolment();
    CO_ASSIGN_OR_RETURN(RenewCertificateReply reply, co_await room->Renew(PeerOfOwn(*own), std::move(request)));
    co_return std::move(reply.certificate);
  }

  void FollowTrust() {
    if (!ends_) return;
    ends_->RenewBy([this](std::string request) { return RenewAs(ends_->credentials(), std::move(request)); });
    ends_->Follow([this] { return std::make_shared<const ClusterMap>(server_->cluster().Map()); });
    ends_->OnChange([this] {
      const auto judge = [this](const Peer& peer) { return ends_->StillGood(peer); };
      bulk_server_->CloseUnless(judge);
      bulk_client_->CloseUnless(judge);
      if (!grpc_server_ || grpc_credentials_ == ends_->credentials()) return;
      grpc_server_.reset();
      const Result<void> again = StartGrpc();
      if (!again.ok()) LogError("gRPC is served no more, until a restart: {}", again.error());
    });
    scope_.Spawn(ends_->Keep(&trust_pool_));
    KeepAdmin();
  }

  // Commands end before they could renew anything. The admin's directory that was made here is kept by this server: during a change of
  // the authority, too, it has what the server is to be believed by.
  void KeepAdmin() {
    const std::string directory = place_.directory + "/admin";
    if (access((directory + "/node.pem").c_str(), F_OK) != 0) return;  // it was moved to where it is used
    SecuredEndsOptions options;
    options.own = {Role::kAdmin};
    Result<std::unique_ptr<SecuredEnds>> admin = SecuredEnds::Open(directory, std::move(options));
    if (!admin.ok()) return LogWarning("the admin's certificate is not kept: {}", admin.error());
    admin_ends_ = std::move(*admin);
    admin_ends_->RenewBy([this](std::string request) { return RenewAs(admin_ends_->credentials(), std::move(request)); });
    admin_ends_->Follow([this] { return std::make_shared<const ClusterMap>(server_->cluster().Map()); });
    scope_.Spawn(admin_ends_->Keep(&trust_pool_));
  }

  // To data servers.
  BackupConnector* Backups() {
    backups_ = std::make_unique<TransportBackupConnector>(bulk_client_.get());
    return backups_.get();
  }

  Task<void> Restore() {
    Result<void> ready = OpenTrust(std::nullopt);
    bool has_key = true;
    if (ready.ok()) {
      ready = LoadKeys();
      // Data servers take a metadata server's certificate in place of a token.
      if (ready.code() == FsError::kNoEnt && restore_.unproven && ends_) {
        has_key = false;
        keys_ = {KeyForOnce()};
        ready = Ok();
      }
    }
    if (!ready.ok()) co_return Fail(ready.error());
    const ArchiveSeal seal(keys_);
    MakeClient();
    const TokenSigner signer(keys_.at(0));
    RestoreStoreParams p;
    p.data = config_.data;
    p.from = restore_.from;
    p.dry_run = restore_.dry_run;
    p.unproven = restore_.unproven;
    p.seal = has_key ? &seal : nullptr;
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
      if (make_trust_) {
        CO_ASSIGN_OR_RETURN(const Superblock super, ReadDataDir(config_.data));
        Uuid cluster = super.cluster;
        CO_RETURN_IF_ERROR(MakeTrust(&cluster));
      }
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
    CO_RETURN_IF_ERROR(OpenTrust(super.cluster));
    if (ends_) CO_RETURN_IF_ERROR(NoteSecured(config_.data));
    CO_RETURN_IF_ERROR(LoadKeys());
    CO_RETURN_IF_ERROR(room_.Open());
    is_full_ = room_.Level() >= RoomLevel::kFull;
    CO_ASSIGN_OR_RETURN(std::unique_ptr<KvStore> kv, OpenStore());
    audit_ = std::make_unique<AuditLog>(&trust_pool_, config_.data + "/audit.log");
    audit_->Start();
    config_.server.events_ns = kLookForEventsNs;
    server_ = std::make_unique<MetaServer>(config_.server, std::move(kv), Random(OsRandom64()), keys_);
    GiveTrust();
    MakeClient();
    if (config_.backup) server_->UseBackups(Backups());
    server_->UseRoom(&room_);
    server_->UsePool(&check_pool_);
    scope_.Spawn(FollowRoom());
    data_connector_ = std::make_unique<TransportDataConnector>(bulk_client_.get());
    CO_RETURN_IF_ERROR(co_await server_->Start());
    if (server_->store()->super()->cluster != super.cluster) {
      co_return Error(FsError::kWrongCluster, config_.data + " has the store of another cluster than its superblock");
    }
    probe_ = std::make_unique<NodeProbe>(data_connector_.get(), &server_->cluster(), [this](std::vector<NodeId> cannot) {
      server_->NoteUnreachable("the metadata server", std::move(cannot));
    });
    scope_.Spawn(probe_->Run());
    const auto denied = [this](const OpHeader& by, std::string_view why) {
      NoteDenial(audit_.get(), by.peer.get(), "a call in its export", Error(FsError::kAccess, std::string(why)));
    };
    confined_ = std::make_unique<ConfinedFront>(server_.get(), server_.get(), server_->confined(), [this] { return server_->store(); }, denied);
    dispatcher_ = std::make_unique<MetaDispatcher>(confined_->meta(), Admission());
    router_.Add(kMetaServiceName, dispatcher_.get());
    admin_dispatcher_ = std::make_unique<AdminDispatcher>(confined_->admin(), Admission());
    router_.Add(kAdminServiceName, admin_dispatcher_.get());
    trust_dispatcher_ = std::make_unique<TrustDispatcher>(server_->trust().service(), Admission());
    router_.Add(kTrustServiceName, trust_dispatcher_.get());
    CO_RETURN_IF_ERROR(StartGrpc());
    BulkServerOptions bulk;
    CO_ASSIGN_OR_RETURN(const WakeLatency latency, ParseWakeLatency(config_.wake_latency, IdleDriver()));
    bulk.wake = &wake_.emplace(latency);
    bulk.max_connections = std::min<size_t>(kMaxBulkConnections, files_.connections);
    if (ends_) {
      ends_->Secure(&bulk);
      bulk.refused = [this, log = std::move(bulk.refused)](const Error& why) {
        log(why);
        // Who is refused at the door has proved nothing: all of them share one place among the denials.
        if (why.code == FsError::kAccess) executor_.Post([this, why] { NoteDenial(audit_.get(), nullptr, "connect", why); });
      };
      bulk.join = [room = server_->trust().enrolment()](std::string request, std::string binding, std::string address) {
        return room->Join(std::move(request), std::move(binding), std::move(address));
      };
    } else bulk.other = [grpc = grpc_server_.get()](int fd) { grpc->Adopt(fd); };
    bulk_server_ = std::make_unique<BulkServer>(&executor_, &router_, std::move(bulk));
    CO_ASSIGN_OR_RETURN(bound_, bulk_server_->Start(config_.listen));
    server_->trust().UseAddress(config_.address.empty() ? AddressForOthers(bound_, HostName()) : config_.address);
    if (ends_) co_await ServeAdminsHere();
    FollowTrust();
    if (!config_.metrics.empty()) CO_RETURN_IF_ERROR(ServeMetrics());
    LogInfo("cluster {} is served on {}, life {} of the server", super.cluster, bound_, server_->term());
    SayReady();
    co_return Ok();
  }

  // Where nothing is proved, on the port of the others, too.
  Result<void> StartGrpc() {
    if (config_.grpc_listen.empty() && ends_) return Ok();
    GrpcServerOptions options;
    if (ends_) {
      options.credentials = grpc_credentials_ = ends_->credentials();
      options.judge = [this](const Certificate& shown, const std::string& address) {
        return ends_->credentials()->Judge(shown, address, {Role::kData, Role::kClient, Role::kAdmin, Role::kMonitor}, ends_->NowS());
      };
      options.refused = [this](const std::string& address, const Error& why) {
        AuditEntry e = AuditOf(AuditEntry::Kind::kDenial, nullptr, "a call over gRPC", "", "refused: " + why.message);
        e.address = address;
        audit_->Note(std::move(e));
      };
    }
    auto server = std::make_unique<GrpcServer>(&executor_, &router_, options);
    if (config_.grpc_listen.empty()) {
      RETURN_IF_ERROR(server->StartWithoutAddress());
    } else {
      ASSIGN_OR_RETURN(const std::string bound, server->Start(config_.grpc_listen));
      LogInfo("gRPC is served on {}", bound);
    }
    grpc_server_ = std::move(server);
    return Ok();
  }

  // Commands of admins of this machine. The kernel says who they are, so everybody may connect.
  Task<void> ServeAdminsHere() {
    admins_ = co_await RunOn(trust_pool_, [] { return std::make_shared<const LocalAdmins>(LocalAdmins::Look()); });
    BulkServerOptions options;
    options.loops = 1;
    options.socket_mode = 0666;
    options.local_peer = [this](uint32_t uid, uint32_t gid, int32_t pid) {
      std::lock_guard lock(admins_mu_);
      return admins_->PeerOf(uid, gid, pid);
    };
    auto server = std::make_unique<BulkServer>(&executor_, &router_, std::move(options));
    const Result<std::string> bound = server->Start("unix:" + config_.admin_socket);
    if (!bound.ok()) {
      LogWarning("commands of this machine need a certificate: the socket {} cannot be had ({}); name another with admin_socket",
                 config_.admin_socket, bound.error().message);
      co_return;
    }
    admin_server_ = std::move(server);
    scope_.Spawn(FollowAdmins());
  }

  Task<void> FollowAdmins() {
    while (true) {
      co_await Sleep(kLookAtAdminsNs);
      auto now = co_await RunOn(trust_pool_, [] { return std::make_shared<const LocalAdmins>(LocalAdmins::Look()); });
      std::lock_guard lock(admins_mu_);
      admins_.swap(now);
    }
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
    if (config_.trust != kTrustOff) CO_RETURN_IF_ERROR(MakeTrust(&super.cluster));
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

  Result<void> ServeMetrics() {
    gatherer_ = std::make_unique<MetaGatherer>(server_.get());
    scope_.Spawn(gatherer_->Keep());
    ASSIGN_OR_RETURN(metrics_server_, MetricsServer::Start(config_.metrics, &executor_, {"stria-meta", {}, [this](MetricFamilies* out) { Gather(out); }}));
    LogInfo("metrics are served on {}, to whoever can connect", config_.metrics);
    return Ok();
  }

  void Gather(MetricFamilies* out) const {
    MetaFigures figures = gatherer_->Now();
    figures.running_calls = bulk_server_->running();
    figures.disk_bytes = room_.total_bytes();
    figures.disk_free_bytes = room_.free_bytes();
    if (ends_) figures.certificate_end_s = ends_->credentials()->certificate.not_after_s();
    AddMetaMetrics(figures, out);
    AddRpcMetrics({dispatcher_.get(), admin_dispatcher_.get(), trust_dispatcher_.get()}, out);
  }

  MetaConfig config_;
  std::vector<ClusterKey> keys_;
  std::function<Result<MetaConfig>()> settings_;
  FileBudget files_;
  bool format_;
  const bool format_only_, make_trust_;
  std::string bound_;  // the address that it serves on
  const RestoreFlags restore_;
  DiskRoom room_;
  bool is_full_ = false;  // the store's disk, at the start
  std::optional<QuickWake> wake_;
  ThreadPool sync_pool_;
  ThreadPool trust_pool_, check_pool_;  // files of credentials, and lists of users; checks of the metadata
  TrustPlace place_;
  std::unique_ptr<SecuredEnds> ends_;            // null: insecure
  std::unique_ptr<SecuredEnds> admin_ends_;      // of the admin's directory; null: it is not here
  std::shared_ptr<const Authority> authority_, next_authority_;  // null: insecure, or none
  std::unique_ptr<AuthorityFiles> authority_files_;
  std::unique_ptr<AuditLog> audit_;
  std::shared_ptr<const Credentials> grpc_credentials_;
  std::mutex admins_mu_;
  std::shared_ptr<const LocalAdmins> admins_;  // guarded by admins_mu_
  std::unique_ptr<BulkClient> bulk_client_;
  std::unique_ptr<TransportBackupConnector> backups_;
  std::unique_ptr<TransportDataConnector> data_connector_;
  std::unique_ptr<MetaServer> server_;
  std::unique_ptr<NodeProbe> probe_;
  std::unique_ptr<ConfinedFront> confined_;
  std::unique_ptr<MetaDispatcher> dispatcher_;
  std::unique_ptr<AdminDispatcher> admin_dispatcher_;
  std::unique_ptr<TrustDispatcher> trust_dispatcher_;
  Router router_;
  std::unique_ptr<GrpcServer> grpc_server_;
  std::unique_ptr<BulkServer> bulk_server_;
  std::unique_ptr<BulkServer> admin_server_;
  std::unique_ptr<MetaGatherer> gatherer_;  // null: nobody wants metrics
  std::unique_ptr<MetricsServer> metrics_server_;
};

int Main(int argc, char** argv) {
  MetaFlags flags;
  CLI::App app("The metadata server of a Stria cluster.", "stria-meta");
  app.add_option("--config", flags.config_file, "Settings (TOML); flags override them")->check(CLI::ExistingFile);
  app.add_option("--data", flags.data, "Directory of the metadata store (default /var/lib/stria/meta)");
  app.add_option("--listen", flags.listen, "IP[:PORT] to serve on (default 0.0.0.0:" + std::to_string(kDefaultMetaPort) + ")");
  app.add_option("--cluster-key", flags.cluster_key, "File with the cluster key (default: made with the authority)");
  app.add_option("--trust", flags.trust, "Directory of the cluster's authority and this server's certificate (default DATA/trust)");
  app.add_option("--trusted-root", flags.trusted_root, "NAME[,NAME] of clients whose root counts as root (* and ? match)")->delimiter(',');
  app.add_flag("--insecure", flags.insecure, "Neither ask for certificates nor encrypt: everybody may do everything");
  app.add_option("--certificate-life", flags.certificate_life, "How long certificates that it gives are good, from 1min to 90d (default 90d)");
  app.add_flag("--make-trust", flags.format.make_trust, "Make the authority of a cluster that has none yet, then go on");
  app.add_option("--admin-socket", flags.admin_socket, "Unix socket for admins of this machine (default DATA/admin.sock)");
  app.add_option("--grpc-listen", flags.grpc_listen, "IP:PORT to serve gRPC on as well (default: none)");
  app.add_flag("--format", flags.format.format, "Create a new cluster if the directory is empty");
  app.add_flag("--format-only", flags.format.only, "Create a new cluster if the directory is empty, then end");
  app.add_option("--restore-from", flags.restore.from,
                 "Make the store again from the backup on these data servers, HOST[:PORT][,HOST[:PORT]], then end")
      ->delimiter(',');
  app.add_flag("--dry-run", flags.restore.dry_run, "With --restore-from: only say what there is");
  app.add_flag("--unproven", flags.restore.unproven,
               "With --restore-from: also take what is not proven to be of the cluster's metadata server, and say so");
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
  Result<std::vector<ClusterKey>> keys = std::vector<ClusterKey>();
  if (!config->cluster_key_file.empty()) keys = LoadClusterKeys(config->cluster_key_file);
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
