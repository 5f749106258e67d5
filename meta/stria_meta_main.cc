// stria-meta: the metadata server. Only wiring. Each part of it has its state in a room of its own: the disk (meta_disk.h), what it
// proves itself with (meta_proof.h), what listens (meta_listeners.h), and what serves: always (served_meta.h), or, with [ha], while it is
// the primary of several (one_of_several.h).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/address.h"
#include "common/allocator.h"
#include "common/daemon.h"
#include "common/exec/pool.h"
#include "common/log.h"
#include "common/metrics_server.h"
#include "common/os_random.h"
#include "common/program.h"
#include "common/sentence.h"
#include "meta/audit/audit_log.h"
#include "meta/authority_follower.h"
#include "meta/beat_thread.h"
#include "meta/data_dir.h"
#include "meta/etcd_settings.h"
#include "meta/member_metrics.h"
#include "meta/membership.h"
#include "meta/meta_config.h"
#include "meta/meta_disk.h"
#include "meta/meta_flags.h"
#include "meta/meta_listeners.h"
#include "meta/meta_metrics.h"
#include "meta/meta_proof.h"
#include "meta/one_of_several.h"
#include "meta/restore_store.h"
#include "meta/served_meta.h"
#include "meta/trust_dir.h"
#include "meta/trust_start.h"
#include "proto/backup_stubs.h"
#include "proto/bulk_transport.h"
#include "proto/etcd_coordinator.h"
#include "proto/stubs.h"
#include "stripe/layout_spec.h"
#include "trust/place.h"

STRIA_ALLOCATOR_OPTIONS("")

namespace stria {
namespace {

constexpr int64_t kShutdownGraceNs = 5 * kSecond;
constexpr int64_t kLookForEventsNs = 2 * kSecond;

class Daemon final : public DaemonFrame {
 public:
  Daemon(MetaConfig config, std::vector<ClusterKey> keys, FormatFlags format, RestoreFlags restore, SeveralFlags several)
      : config_(std::move(config)), format_(format), restore_(std::move(restore)), several_(std::move(several)), disk_(&config_), trust_pool_(1, "trust"),
        check_pool_(1, "meta-check"), proof_(&config_, std::move(keys), &trust_pool_) {
    config_.server.admin_uids = {0, static_cast<uint32_t>(geteuid())};
    config_.server.version = Version();
    config_.server.events_ns = kLookForEventsNs;
  }
  ~Daemon() override {
    scope_.CancelAll();
    metrics_server_.reset();
    listeners_.reset();
    beats_.reset();
    member_.reset();
    authority_.reset();
    served_.reset();
    etcd_.reset();
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
    // To another, if there is one: while it listens, which the others' calls about that need.
    if (member_) co_await member_->Leave();
    if (served_) {
      const Result<void> stopped = co_await served_->Stop();
      if (!stopped.ok()) LogError("{}", stopped.error());
    }
    if (listeners_) co_await listeners_->Shutdown(kShutdownGraceNs);
    if (audit_) (void)co_await audit_->Flush();
    LogInfo("stopped");
    executor_.Stop();
  }

  void Reload() override {
    const Result<MetaConfig> now = settings_();
    const Result<LogLevel> level = now.ok() ? ParseLogLevel(now->log_level) : now.error();
    if (!level.ok()) return LogError("the settings stay as they are: {}", SentenceOf(level.error()));
    SetLogLevel(*level);
    if (ServedMeta* const served = Served()) served->TakeSettings(now->server, now->slow_request_ns);
    // And in the next life of one of several.
    config_.server.repair = now->server.repair;
    config_.server.fold = now->server.fold;
    config_.server.cluster = now->server.cluster;
    config_.slow_request_ns = now->slow_request_ns;
    LogInfo("log_level is {}, and slow_request, [repair], [fold] and [cluster] are as the settings say; others count after a restart", now->log_level);
  }

  std::string Status() override {
    const std::string warning = proof_.secured() ? "" : "; " + InsecureWarning(proof_.place());
    const std::string role = member_ ? member_->Describe() + ". " : "";
    MetaServer* const server = Server();
    if (server == nullptr) return role + "listens on " + bound_ + warning;
    const ClusterMap map = server->cluster().Map();
    const auto up = std::count_if(map.nodes.begin(), map.nodes.end(), [](const NodeInfo& n) { return n.state == NodeState::kUp; });
    return role + "serves on " + bound_ + ": " + std::to_string(up) + " of " + std::to_string(map.nodes.size()) + " nodes are up, " +
           std::to_string(server->sessions().All().size()) + " clients" + warning;
  }

  // Null: another of several serves, or nobody yet.
  ServedMeta* Served() { return member_ ? member_->served() : served_.get(); }
  MetaServer* Server() {
    ServedMeta* const served = Served();
    return served != nullptr ? served->server() : nullptr;
  }

  Task<void> Serve() {
    if (format_.only) {
      const Result<void> made = co_await FormatIfEmpty();
      if (!made.ok()) co_return Fail(made.error());
      co_return executor_.Stop();
    }
    if (several_.leave) {
      const Result<void> left = co_await BeAlone();
      if (!left.ok()) co_return Fail(left.error());
      co_return executor_.Stop();
    }
    const Result<void> started = co_await Start();
    if (!started.ok()) co_return Fail(started.error());
    Error fatal;
    if (member_) fatal = co_await member_->WaitFatal();
    else fatal = co_await served_->WaitFatal();
    Fail(member_ || fatal.code == FsError::kNotLeader ? fatal : fatal.WithContext("the metadata store cannot be written any more"));
  }

  // ---- The phases of a start ----

  Task<Result<void>> Start() {
    if (several_.join) CO_RETURN_IF_ERROR(co_await JoinIfEmpty());
    else CO_RETURN_IF_ERROR(co_await FormatIfEmpty());
    CO_ASSIGN_OR_RETURN(const Superblock super, ReadDataDir(config_.data));
    CO_RETURN_IF_ERROR(CheckServedAs(super, config_.ha.has_value(), config_.data));
    if (config_.ha && !IsOneOfSeveral(super) && !several_.init) {
      co_return Error(FsError::kInval, "the store in " + config_.data + " is served alone so far, and the settings have [ha]: start once with --ha-init to "
                                                                        "make it the first of several metadata servers, or leave out [ha]");
    }
    CO_RETURN_IF_ERROR(OpenProof(super));
    CO_RETURN_IF_ERROR(disk_.OpenRoom());
    CO_ASSIGN_OR_RETURN(std::unique_ptr<KvStore> kv, disk_.OpenStore(false, config_.ha.has_value()));
    audit_ = std::make_unique<AuditLog>(&trust_pool_, config_.data + "/audit.log");
    audit_->Start();
    MakeClients();
    if (config_.ha) CO_RETURN_IF_ERROR(co_await StartAsOneOfSeveral(super, std::move(kv)));
    else CO_RETURN_IF_ERROR(co_await StartAlone(super.cluster, std::move(kv)));
    CO_RETURN_IF_ERROR(co_await Listen());
    FollowTrust();
    if (!config_.metrics.empty()) CO_RETURN_IF_ERROR(ServeMetrics());
    if (member_) LogInfo("{}, one of the metadata servers of cluster {}, listens on {}", config_.ha->member, super.cluster, bound_);
    else LogInfo("cluster {} is served on {}, life {} of the server", super.cluster, bound_, served_->server()->term());
    SayReady();
    co_return Ok();
  }

  Result<void> OpenProof(const Superblock& super) {
    RETURN_IF_ERROR(proof_.Open(super.cluster));
    if (proof_.secured()) RETURN_IF_ERROR(NoteSecured(config_.data));
    return proof_.LoadKeys();
  }

  Task<Result<void>> StartAlone(Uuid cluster, std::unique_ptr<KvStore> kv) {
    served_ = std::make_unique<ServedMeta>(ServedOf(cluster), std::move(kv));
    scope_.Spawn(disk_.FollowRoom());
    const Result<void> opened = co_await served_->Start();
    if (!opened.ok()) co_return opened.code() == FsError::kWrongCluster ? opened.error().WithContext(config_.data) : opened.error();
    co_return Ok();
  }

  // ---- One of several ----

  Result<void> MakeCoordinator(const Uuid& cluster) {
    ASSIGN_OR_RETURN(const EtcdOptions options, EtcdOptionsOf(*config_.ha, cluster));
    if (const std::string said = EtcdWarning(*config_.ha); !said.empty()) LogWarning("{}", said);
    etcd_ = std::make_unique<EtcdCoordinator>(&executor_, options);
    return Ok();
  }

  std::vector<ClusterKey> OtherKeys() const { return {proof_.keys().begin() + 1, proof_.keys().end()}; }

  Membership MembershipOf(const Superblock& super) {
    return {config_.data, super, *config_.ha, Version(), proof_.keys().at(0), etcd_.get(), OtherKeys(), several_.adopt};
  }

  Task<Result<void>> StartAsOneOfSeveral(Superblock super, std::unique_ptr<KvStore> kv) {
    CO_RETURN_IF_ERROR(MakeCoordinator(super.cluster));
    const std::shared_ptr<KvStore> shared = std::move(kv);
    scope_.Spawn(disk_.FollowRoom());
    if (several_.init) CO_RETURN_IF_ERROR(co_await BecomeFirst(MembershipOf(super), shared));
    OneOfSeveralParams p;
    p.ha = *config_.ha;
    p.key = proof_.keys().at(0);
    p.other_keys = OtherKeys();
    p.cluster = super.cluster;
    p.store = super.own;
    p.release = Version();
    p.address = config_.address.empty() ? config_.ha->address : config_.address;
    p.joins = several_.join;
    p.kv = shared;
    p.coordinator = etcd_.get();
    p.transports = bulk_client_.get();
    p.served = [this, cluster = super.cluster] { return ServedOf(cluster); };
    p.admission = Admission();
    p.audit = audit_.get();
    p.beats_elsewhere = true;
    if (proof_.secured()) p.members = [ends = proof_.ends()](const std::vector<std::string>& addresses) { ends->ExpectMetas(addresses); };
    authority_ = proof_.MakeFollower();
    p.authority = authority_.get();
    member_ = std::make_unique<OneOfSeveral>(std::move(p));
    const Result<void> started = member_->Start();
    if (!started.ok()) co_return started.error().WithContext(config_.data);
    BeatThreadParams beats;
    beats.desk = member_->beats();
    beats.ends = proof_.ends();
    beats.admission.proved = proof_.secured();
    beats.admission.refused = [this](const Peer* peer, const std::string& method, const Error& why) {
      const std::shared_ptr<const Peer> who = peer != nullptr ? std::make_shared<const Peer>(*peer) : nullptr;
      executor_.Post([audit = audit_.get(), who, method, why] { NoteDenial(audit, who.get(), method, why); });
    };
    beats_ = std::make_unique<BeatThread>(std::move(beats));
    co_return Ok();
  }

  // An empty directory becomes one of several's; it is among them when the primary has taken it in, which it asks for while it serves.
  Task<Result<void>> JoinIfEmpty() {
    CO_ASSIGN_OR_RETURN(const DataDirState state, LookAtDataDir(config_.data));
    if (state != DataDirState::kEmpty) co_return Ok();
    Superblock super = NewSuperblock();
    if (config_.trust != kTrustOff) {
      CO_ASSIGN_OR_RETURN(super.cluster, proof_.MakeOwn());
    } else if (!Uuid::Parse(several_.cluster, &super.cluster)) {
      co_return Error(FsError::kInval, "without certificates, which say it, --join needs the cluster: give --cluster, as 'stria status --json' prints it");
    }
    super.incompat |= kIncompatOneOfSeveral;
    CO_RETURN_IF_ERROR(PrepareDataDir(config_.data));
    {
      CO_ASSIGN_OR_RETURN(const std::unique_ptr<KvStore> kv, disk_.OpenStore(true, true));
      CO_RETURN_IF_ERROR(co_await kv->Sync());
    }
    CO_RETURN_IF_ERROR(WriteDataDir(config_.data, super));
    LogInfo("made the directory {}, {}, of one more metadata server of cluster {}", config_.data, super.own, super.cluster);
    co_return Ok();
  }

  Task<Result<void>> BeAlone() {
    CO_ASSIGN_OR_RETURN(const Superblock super, ReadDataDir(config_.data));
    if (!IsOneOfSeveral(super)) {
      LogInfo("the store in {} is served alone already: it stays as it is", config_.data);
      co_return Ok();
    }
    CO_RETURN_IF_ERROR(OpenProof(super));
    CO_RETURN_IF_ERROR(disk_.OpenRoom());
    CO_ASSIGN_OR_RETURN(std::shared_ptr<KvStore> kv, disk_.OpenStore(false, true));
    CO_RETURN_IF_ERROR(MakeCoordinator(super.cluster));
    co_return co_await BecomeAlone(MembershipOf(super), std::move(kv));
  }

  // ---- A new cluster ----

  Superblock NewSuperblock() {
    Superblock super;
    super.kind = StoreKind::kMetadata;
    super.own = NewUuid();
    super.incarnation = 1;
    super.created_s = executor_.WallNs() / kSecond;
    super.label = "metadata";
    return super;
  }

  Task<Result<void>> FormatIfEmpty() {
    CO_ASSIGN_OR_RETURN(const DataDirState state, LookAtDataDir(config_.data));
    if (state != DataDirState::kEmpty) {
      if (format_.make_trust) {
        CO_ASSIGN_OR_RETURN(const Superblock super, ReadDataDir(config_.data));
        Uuid cluster = super.cluster;
        CO_RETURN_IF_ERROR(proof_.Make(&cluster));
      }
      if (format_.only) LogInfo("{} has the metadata of a cluster already: it stays as it is", config_.data);
      co_return Ok();
    }
    if (!format_.format && !format_.only) {
      co_return Error(FsError::kNoEnt, config_.data + " has no metadata store; create a new cluster with --format");
    }
    co_return co_await Format();
  }

  Task<Result<void>> Format() {
    Superblock super = NewSuperblock();
    super.cluster = NewUuid();
    CO_RETURN_IF_ERROR(PrepareDataDir(config_.data));
    if (config_.trust != kTrustOff) CO_RETURN_IF_ERROR(proof_.Make(&super.cluster));
    CO_RETURN_IF_ERROR(co_await disk_.Format(super));
    LogInfo("created cluster {} with layout {}", super.cluster, LayoutToString(config_.layout));
    co_return Ok();
  }

  void MakeClients() {
    BulkClientOptions options;
    if (proof_.secured()) proof_.ends()->Secure(&options);
    bulk_client_ = std::make_unique<BulkClient>(&executor_, options);
    backups_ = std::make_unique<TransportBackupConnector>(bulk_client_.get());
    data_connector_ = std::make_unique<TransportDataConnector>(bulk_client_.get());
  }

  ServedMetaParams ServedOf(const Uuid& cluster) {
    ServedMetaParams p;
    p.server = config_.server;
    p.keys = proof_.keys();
    p.cluster = cluster;
    p.trust = proof_.TrustOfServer();
    p.admission = Admission();
    p.audit = audit_.get();
    p.room = disk_.room();
    p.checks = &check_pool_;
    p.data = data_connector_.get();
    p.backups = config_.backup ? backups_.get() : nullptr;
    p.figures = !config_.metrics.empty();
    return p;
  }

  DispatchOptions Admission() {
    DispatchOptions options;
    options.proved = proof_.secured();
    options.refused = [this](const Peer* peer, const std::string& method, const Error& why) { NoteDenial(audit_.get(), peer, method, why); };
    options.slow_ns = config_.slow_request_ns;
    options.slow = [](const std::string& line) { LogWarning("{}", line); };
    return options;
  }

  Task<Result<void>> Listen() {
    MetaListenersParams params;
    params.executor = &executor_;
    params.config = &config_;
    params.proof = &proof_;
    params.audit = audit_.get();
    params.pool = &trust_pool_;
    if (beats_) params.aside = [beats = beats_.get()](std::shared_ptr<BulkHandedOn> arrival) { beats->Take(std::move(arrival)); };
    listeners_ = std::make_unique<MetaListeners>(params);
    MetaListeners::JoinFn join;
    if (member_) {
      member_->AddTo(listeners_->router());
      join = [this](std::string request, std::string binding, std::string address) {
        return member_->Join(std::move(request), std::move(binding), std::move(address));
      };
    } else {
      served_->AddTo(listeners_->router());
      join = [trust = &served_->server()->trust()](std::string request, std::string binding, std::string address) {
        return trust->enrolment()->Join(std::move(request), std::move(binding), std::move(address));
      };
    }
    CO_ASSIGN_OR_RETURN(bound_, listeners_->Open(disk_.connections(), std::move(join)));
    if (served_) served_->server()->trust().UseAddress(config_.address.empty() ? AddressForOthers(bound_, HostName()) : config_.address);
    if (proof_.secured()) co_await listeners_->ServeAdminsHere();
    co_return Ok();
  }

  void FollowTrust() {
    if (!proof_.secured()) return;
    proof_.ends()->OnChange([this] {
      listeners_->Judge();
      if (beats_) beats_->Judge();
      bulk_client_->CloseUnless([ends = proof_.ends()](const Peer& peer) { return ends->StillGood(peer); });
    });
    if (member_) {
      proof_.KeepFormerWhile([this] { return member_->KeepsFormer(); });
      proof_.Follow([this](Peer who, std::string request) { return member_->Renew(std::move(who), std::move(request)); },
                    [this] { return member_->Map(); }, &scope_);
      return;
    }
    proof_.Follow(
        [this](Peer who, std::string request) { return served_->server()->trust().enrolment()->Renew(std::move(who), std::move(request)); },
        [this] { return std::make_shared<const ClusterMap>(served_->server()->cluster().Map()); }, &scope_);
  }

  Result<void> ServeMetrics() {
    ASSIGN_OR_RETURN(metrics_server_, MetricsServer::Start(config_.metrics, &executor_, {"stria-meta", {}, [this](MetricFamilies* out) { Gather(out); }}));
    LogInfo("metrics are served on {}, to whoever can connect", config_.metrics);
    return Ok();
  }

  void Gather(MetricFamilies* out) {
    ServedMeta* const served = Served();
    MetaFigures figures = served != nullptr ? served->Figures() : MetaFigures();
    figures.running_calls = listeners_->running();
    figures.disk_bytes = disk_.room()->total_bytes();
    figures.disk_free_bytes = disk_.room()->free_bytes();
    if (proof_.secured()) figures.certificate_end_s = proof_.ends()->credentials()->certificate.not_after_s();
    if (member_) AddMemberMetrics(member_->Members(), out);
    if (member_) AddBeatMetrics(member_->beats()->figures(), out);
    if (served == nullptr) return AddStandbyMetrics(figures, out);
    AddMetaMetrics(figures, out);
    served->AddCalls(out);
  }

  // ---- Another way to run: a store made from its backup ----

  Task<void> Restore() {
    Result<void> ready = proof_.Open(std::nullopt);
    bool has_key = true;
    if (ready.ok()) {
      ready = proof_.LoadKeys();
      // Data servers take a metadata server's certificate in place of a token.
      if (ready.code() == FsError::kNoEnt && restore_.unproven && proof_.secured()) {
        has_key = false;
        proof_.UseKeys({KeyForOnce()});
        ready = Ok();
      }
    }
    if (!ready.ok()) co_return Fail(ready.error());
    const ArchiveSeal seal(proof_.keys());
    MakeClients();
    const TokenSigner signer(proof_.keys().at(0));
    RestoreStoreParams p;
    p.data = config_.data;
    p.from = restore_.from;
    p.dry_run = restore_.dry_run;
    p.unproven = restore_.unproven;
    p.seal = has_key ? &seal : nullptr;
    p.connector = backups_.get();
    p.signer = &signer;
    p.open_store = [this] { return disk_.OpenStore(true); };
    p.new_store = NewUuid();
    const Result<void> done = co_await RestoreStore(std::move(p));
    if (!done.ok()) co_return Fail(done.error());
    executor_.Stop();
  }

  MetaConfig config_;
  const FormatFlags format_;
  const RestoreFlags restore_;
  const SeveralFlags several_;
  std::function<Result<MetaConfig>()> settings_;
  std::string bound_;  // the address that it serves on
  MetaDisk disk_;
  ThreadPool trust_pool_, check_pool_;  // files of credentials, and lists of users; checks of the metadata
  MetaProof proof_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<BulkClient> bulk_client_;
  std::unique_ptr<TransportBackupConnector> backups_;  // to data servers
  std::unique_ptr<TransportDataConnector> data_connector_;
  std::unique_ptr<ServedMeta> served_;  // alone; null: one of several
  std::unique_ptr<EtcdCoordinator> etcd_;
  std::unique_ptr<AuthorityFollower> authority_;  // of one of several; null: alone, or insecure
  std::unique_ptr<OneOfSeveral> member_;  // null: alone
  std::unique_ptr<BeatThread> beats_;     // of the member
  std::unique_ptr<MetaListeners> listeners_;
  std::unique_ptr<MetricsServer> metrics_server_;  // null: nobody wants metrics
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
               "With --restore-from: also take what is not proven to be of the cluster's metadata server, unless it is encrypted, and say so");
  app.add_flag("--ha-init", flags.several.init, "With [ha] in the settings: make this the first of several metadata servers, then serve");
  app.add_flag("--adopt", flags.several.adopt, "With --ha-init, once: etcd has lost what it had, or all that it names are lost, and no other member's store has more than this one's");
  app.add_flag("--join", flags.several.join, "With [ha] in the settings: make an empty directory one more metadata server's, then serve");
  app.add_option("--cluster", flags.several.cluster, "With --join and without certificates: the cluster");
  app.add_flag("--ha-leave", flags.several.leave, "With [ha] in the settings: make the last of several metadata servers one that is alone, then end");
  app.add_option("--layout", flags.layout, "Layout of a new cluster, such as raid5:4+1");
  app.add_option("--log-file", flags.log_file, "Log there instead of to stderr");
  app.add_option("--log-level", flags.log_level, "debug, info, warning, error or off");
  app.add_option("--metrics", flags.metrics, "IP:PORT to serve Prometheus metrics on");
  AddSelfDescription(app);
  if (const std::optional<int> code = ParseArguments(app, argc, argv)) return *code;

  BlockStopSignals();

  Result<MetaConfig> config = ConfigFrom(flags);
  if (!config.ok()) return RefuseToStart("stria-meta", config.error());
  if (const Result<void> fit = CheckSeveralFlags(flags, *config); !fit.ok()) return RefuseToStart("stria-meta", fit.error());
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
    Daemon daemon(std::move(*config), std::move(*keys), flags.format, std::move(flags.restore), flags.several);
    daemon.Rereads([&flags] { return ConfigFrom(flags); });
    code = daemon.Run();
  }
  FlushLog();
  return code;
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) { return stria::Main(argc, argv); }
