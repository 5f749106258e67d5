// stria-mount: wires a Client to the kernel, and lives as long as the mount.
//
// Start: 1 the metadata server answers, 2 the directory to be mounted is found, 3 the kernel mounts it, 4 the starter is told.
// End (SIGTERM, SIGINT, umount(8)): 1 everything is flushed, 2 the mount goes, 3 requests end, 4 writes since 1 are flushed and
// the session is closed.
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/client.h"
#include "client/client_metrics.h"
#include "client/fuse/daemon.h"
#include "client/fuse/executor_thread.h"
#include "client/fuse/find_node.h"
#include "client/fuse/fuse_adapter.h"
#include "client/fuse/fuse_mount.h"
#include "client/fuse/fuse_times.h"
#include "client/fuse/kernel_cache.h"
#include "client/fuse/mount_config.h"
#include "client/fuse/mount_state.h"
#include "client/fuse/mount_table.h"
#include "client/fuse/mount_verbs.h"
#include "client/jobs/caller_jobs.h"
#include "common/allocator.h"
#include "common/file_limit.h"
#include "common/log.h"
#include "common/log_control.h"
#include "common/metrics.h"
#include "common/metrics_server.h"
#include "common/notify.h"
#include "common/os_random.h"
#include "common/printable.h"
#include "common/quick_wake.h"
#include "common/sentence.h"
#include "proto/bulk_transport.h"
#include "proto/local_client.h"
#include "proto/replica_stubs.h"
#include "proto/secured_ends.h"
#include "proto/stubs.h"
#include "proto/trust_stubs.h"
#include "trust/place.h"

// Freed memory goes back to the system after a fifth of a second, not ten: a stream of bytes left as much free memory as is in
// use.
STRIA_ALLOCATOR_OPTIONS(",dirty_decay_ms:200,muzzy_decay_ms:0")

namespace stria {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kComputeThreads = 2;
constexpr int kLocalReadThreads = 4;
constexpr int64_t kDrainNs = 5 * kSecond;
constexpr size_t kRequestBuffersBesidesDirty = 64;
constexpr int64_t kAskRoomNs = 5 * kSecond;
constexpr int kAskRoomAgainMs = 1000;
constexpr int kAskSessionAgainMs = 100;
constexpr int64_t kMaxAliveMs = 60'000;
constexpr char kProgram[] = "stria-mount";
constexpr char kDaemonLog[] = "/var/log/stria-mount.log";

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "?";
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& p : parts) out += (out.empty() ? "" : "+") + p;  // commas part mount options
  return out;
}

// Signals that end the mount, and SIGHUP, become readable; no thread is interrupted by them.
int BlockSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, s);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_CLOEXEC);
}

// The source that df(1) and mount(8) show. As it was given, so that programs that look whether it is mounted find it, and what they
// show can be mounted again.
std::string SourceName(const MountConfig& config) {
  return config.source.empty() ? Joined(config.addresses) + ":" + config.path : config.source;
}

// A path as sessions are opened with it: without doubled slashes, or one at its end.
std::string PlainPath(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (c != '/' || out.empty() || out.back() != '/') out += c;
  }
  if (out.size() > 1 && out.back() == '/') out.pop_back();
  return out.empty() ? "/" : out;
}

ClientOptions MakeClientOptions(const MountConfig& config, Uuid client, MemberConnector* members) {
  ClientOptions o;
  o.session.addresses = config.addresses;
  o.session.members = members;
  o.session.client_name =
      "mount " + config.mountpoint + " on " + HostName() + " (pid " + std::to_string(getpid()) + ")";
  o.session.client_uuid = client;
  o.session.node_name = config.node;
  o.session.path = PlainPath(config.path);
  o.session.timeout_ns = config.timeout_ns;
  o.session.seed = OsRandom64();
  o.peers.local_node = config.node;
  o.vfs.dirty_limit_bytes = config.dirty_limit_bytes();
  o.vfs.block_cache_bytes = config.block_cache_bytes();
  o.vfs.mapping_bytes = config.mapping_bytes();
  o.vfs.sync_on_close = !config.async_close;
  o.vfs.sync_writes = config.sync;
  o.vfs.show_last_known = true;
  const auto& options = config.fuse_options;
  o.vfs.relatime = !config.read_only && std::find(options.begin(), options.end(), "noatime") == options.end();
  return o;
}

// One that has come: true if it ends the mount. SIGHUP opens the log anew.
bool TakeSignal(int signal_fd) {
  signalfd_siginfo came = {};
  if (read(signal_fd, &came, sizeof came) != sizeof came || came.ssi_signo != SIGHUP) return true;
  ReopenLog();
  LogInfo("SIGHUP: the log was opened anew");
  return false;
}

class MountProgram {
 public:
  // `former`: a crashed client that this one takes the place of.
  MountProgram(MountConfig config, std::optional<Uuid> former, std::unique_ptr<SecuredEnds> ends)
      : config_(std::move(config)), ends_(std::move(ends)), uuid_(former ? *former : NewUuid()), gone_fd_(eventfd(0, EFD_CLOEXEC)),
        compute_(kComputeThreads, "compute"), local_reads_(kLocalReadThreads, "local"), trust_pool_(1, "trust"), metrics_pool_(1, "metrics") {}
  ~MountProgram() { close(gone_fd_); }

  Result<void> Start(int signal_fd);
  // Until a signal comes that ends it, or the mount is gone.
  void Wait(int signal_fd);
  // The exit code.
  int End();

 private:
  // Waits for a metadata server, as a room may power up in any order, and finds out which node this is.
  Result<void> AwaitRoom(int signal_fd, int64_t began_ns);
  void StartClient();
  // Until it has a session; the server that answered before may be away again.
  Result<void> AwaitSession(int signal_fd, int64_t began_ns);
  // Pauses before another try, or says why there is none: `why`, if there is no time left or waiting does not help, or a signal.
  Result<void> WaitOn(int signal_fd, int pause_ms, bool has_time, const Error& why);
  bool HasTime(int64_t began_ns) const { return loop_.executor().NowNs() - began_ns < config_.wait_ns.value_or(config_.timeout_ns); }
  // Looks what a remount has made of the mount's flags, and goes by them.
  Task<Result<std::string>> HeedFlags();
  void MakeStateFile(const std::optional<MountEntry>& entry);
  void TellMetrics();
  void EndMetrics();
  void Gather(MetricFamilies* out);
  // For Passthrough.
  Task<std::shared_ptr<const UniqueFd>> WholeFile(VfsHandlePtr h);
  // Whether this is the data server of the node that the mount is said to be on.
  bool IsLocal(const std::string& address) const {
    for (const NodeInfo& n : client_->peers().map()->nodes) {
      if (n.address == address) return !config_.node.empty() && n.name == config_.node;
    }
    return false;
  }

  MountConfig config_;  // its `node` may be found
  const std::unique_ptr<SecuredEnds> ends_;  // null: insecure
  const Uuid uuid_;
  const int gone_fd_;
  ExecutorThread loop_;  // outlives the pools, whose work goes on there
  ThreadPool compute_;
  ThreadPool local_reads_;  // from disks of the own node
  ThreadPool trust_pool_;   // files of credentials
  ThreadPool metrics_pool_;
  FuseKernelCache kernel_;
  std::optional<QuickWake> wake_;
  // Executor's thread only.
  std::unique_ptr<BulkClient> peers_;
  std::unique_ptr<TransportFactory> knowing_;  // of peers_: expects the node of each address
  std::unique_ptr<TransportMetaConnector> meta_;
  std::unique_ptr<TransportMemberConnector> members_;
  std::unique_ptr<TransportTrustConnector> trust_connector_;
  std::unique_ptr<TransportDataConnector> data_;
  std::unique_ptr<LocalDataConnector> local_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<CallerJobs> jobs_;
  std::unique_ptr<FuseAdapter> adapter_;
  std::unique_ptr<TaskScope> trust_scope_;
  std::unique_ptr<TaskScope> metrics_scope_;
  std::optional<MountEntry> entry_;  // as the kernel has the mount; none before it is there
  MountFlags flags_;                 // that it goes by
  // Main thread only.
  std::unique_ptr<FuseMount> mount_;
  std::unique_ptr<MetricsServer> metrics_server_;
  bool said_waiting_ = false;
  std::optional<MountStateFile> state_;  // the last to go
};

// The answer of the first server that gives one; else the last error.
Task<Result<ClusterMap>> AskForMap(MetaConnector* meta, std::vector<std::string> addresses) {
  Result<ClusterMap> map = Error(FsError::kUnavailable);
  for (const std::string& address : addresses) {
    InodeRequest request;
    request.header.timeout_ns = kAskRoomNs;
    const std::shared_ptr<MetaService> service = meta->Connect(address);
    map = co_await service->GetMap(std::move(request));
    if (map.ok()) co_return map;
  }
  co_return map;
}

Result<void> MountProgram::AwaitRoom(int signal_fd, int64_t began_ns) {
  loop_.Do([this] {
    BulkClientOptions options;
    if (ends_) ends_->Secure(&options);
    peers_ = std::make_unique<BulkClient>(&loop_.executor(), options);
    meta_ = std::make_unique<TransportMetaConnector>(peers_.get());
  });
  while (true) {
    const Result<ClusterMap> map = loop_.Run([this] { return AskForMap(meta_.get(), config_.addresses); });
    if (map.ok()) {
      if (!config_.node.empty()) return Ok();
      const NodeFound found = FindOwnNode(*map, [](const std::string& address) { return IsOwnAddress(address); });
      config_.node = found.name;
      LogInfo("{}", found.said);
      return Ok();
    }
    RETURN_IF_ERROR(WaitOn(signal_fd, kAskRoomAgainMs, HasTime(began_ns), map.error()));
  }
}

Result<void> MountProgram::WaitOn(int signal_fd, int pause_ms, bool has_time, const Error& why) {
  // The last two are of a session: nobody answered in time, and a server that was restarted does not know it, until the next one.
  const bool may_come = IsRetryable(why.code) || why.code == FsError::kTimedOut || why.code == FsError::kFenced;
  if (!may_come || !has_time) return why;
  if (!std::exchange(said_waiting_, true)) LogWarning("waiting for a metadata server: {}", why);
  pollfd ends = {signal_fd, POLLIN, 0};
  if (poll(&ends, 1, pause_ms) <= 0 || !TakeSignal(signal_fd)) return Ok();
  return Error(FsError::kCancelled, "it was told to end while it waited for a metadata server");
}

void MountProgram::StartClient() {
  loop_.Do([this] {
    TransportFactory* peers = peers_.get();
    if (ends_) {
      peers = (knowing_ = ends_->Over(peers)).get();
      ends_->Follow([this] { return client_ ? client_->peers().map() : nullptr; });
      trust_connector_ = std::make_unique<TransportTrustConnector>(peers_.get());
      ends_->RenewBy([this](std::string request) { return AskForRenewal(trust_connector_.get(), ends_->metas(), std::move(request)); });
      ends_->OnChange([this] { peers_->CloseUnless([this](const Peer& server) { return ends_->StillGood(server); }); });
      trust_scope_ = std::make_unique<TaskScope>();
      trust_scope_->Spawn(ends_->Keep(&trust_pool_));
    }
    data_ = std::make_unique<TransportDataConnector>(peers);
    local_ = std::make_unique<LocalDataConnector>(&loop_.executor(), data_.get(), &local_reads_,
                                                  [this](const std::string& address) { return IsLocal(address); });
    members_ = std::make_unique<TransportMemberConnector>(peers_.get());
    ClientOptions options = MakeClientOptions(config_, uuid_, members_.get());
    if (ends_) options.session.on_addresses = [this](const std::vector<std::string>& metas) { ends_->ExpectMetas(metas); };
    client_ = std::make_unique<Client>(std::move(options), *meta_, *local_, compute_, kernel_);
    client_->Start();
  });
}

Result<void> MountProgram::AwaitSession(int signal_fd, int64_t began_ns) {
  const int64_t opened_ns = loop_.executor().NowNs();
  while (true) {
    const Result<void> ready = loop_.Run([this] { return client_->WaitReady(kAskRoomAgainMs * kMillisecond); });
    if (ready.ok()) return Ok();
    // It has its timeout, however long the room was waited for.
    const bool has_time = HasTime(began_ns) || loop_.executor().NowNs() - opened_ns < config_.timeout_ns;
    RETURN_IF_ERROR(WaitOn(signal_fd, kAskSessionAgainMs, has_time, ready.error()));
  }
}

Task<Result<std::string>> MountProgram::HeedFlags() {
  if (!entry_) co_return Error(FsError::kAgain, "the mount is not ready yet");
  const auto now = co_await RunOn(trust_pool_, [own = *entry_, at = config_.mountpoint] { return FindSameMount(own, at); });
  if (!now) co_return Error(FsError::kNoEnt, config_.mountpoint + " is not this mount where its program sees it");
  const MountFlags flags = MountFlags::Of(*now);
  client_->vfs().SetFlags({flags.sync, !flags.noatime && !flags.read_only});
  const std::string text = flags.ToString();
  if (std::exchange(flags_, flags) != flags) LogInfo("remounted: {}", text.empty() ? "neither sync nor noatime" : text);
  co_return text;
}

Result<void> MountProgram::Start(int signal_fd) {
  const int64_t began_ns = loop_.executor().NowNs();
  RETURN_IF_ERROR(AwaitRoom(signal_fd, began_ns));
  StartClient();
  RETURN_IF_ERROR(AwaitSession(signal_fd, began_ns));
  InodeId root;
  loop_.Do([&] {
    root = client_->session().root();
    if (!client_->session().read_only() || config_.read_only) return;
    LogWarning("the export of {} is read-only, and so is this mount", config_.path);
    config_.fuse_options.push_back("ro");
  });
  if (!root) return Error(FsError::kVersion, "the metadata server is older than this mount: it does not say where " + config_.path + " is");
  (void)loop_.Run([this] { return client_->vfs().StatFs(Caller()); });  // df(1) has something to show from now on
  FuseAdapterOptions adapter;
  adapter.roots.root = root;
  adapter.owner = {config_.uid, config_.gid, geteuid(), getegid()};
  adapter.warn = [](const std::string& line) { LogWarning("{}", line); };
  adapter.slow = adapter.warn;
  adapter.timeout_ns = config_.timeout_ns;
  adapter.told = [this](InodeId ino) { kernel_.Told(ino); };
  adapter.given = [this](InodeId ino) { kernel_.Given(ino); };
  adapter.forgotten = [this](uint64_t node, uint64_t times) { kernel_.Forgotten(node, times); };
  adapter.names = &kernel_;
  adapter.where = [this, roots = adapter.roots](InodeId ino) { return PathBelowRoot(client_->session(), roots, ino); };
  adapter.walk = [mountpoint = config_.mountpoint](const std::string& path, InodeId ino) { return WalkTo(mountpoint, path, ino); };
  adapter.in_use = [mountpoint = config_.mountpoint] { return DirsInUse(mountpoint); };
  if (config_.passthrough) {
    adapter.whole_file = [this](VfsHandlePtr h) { return WholeFile(std::move(h)); };
  }
  adapter.flags = [this] { return HeedFlags(); };
  kernel_.SetRoots(adapter.roots);
  loop_.Do([&] {
    jobs_ = std::make_unique<CallerJobs>();
    adapter.jobs = jobs_.get();
    adapter_ = std::make_unique<FuseAdapter>(client_->vfs(), loop_.executor(), adapter);
  });
  FuseMountOptions mount;
  mount.mountpoint = config_.mountpoint;
  mount.fsname = SourceName(config_);
  mount.options = config_.fuse_options;
  mount.no_symlinks = config_.no_symlinks;
  mount.max_buffers = RequestBuffers::HoldingAtMost(config_.dirty_limit_bytes(), FuseMount::kMaxWriteBytes) +
                      kRequestBuffersBesidesDirty;
  ASSIGN_OR_RETURN(const WakeLatency latency, ParseWakeLatency(config_.wake_latency, IdleDriver()));
  mount.wake = &wake_.emplace(latency);
  ASSIGN_OR_RETURN(mount_, FuseMount::Mount(*adapter_, kernel_, std::move(mount), [fd = gone_fd_] {
                     const uint64_t one = 1;
                     (void)!write(fd, &one, sizeof(one));
                   }));
  if (config_.passthrough && !adapter_->features().passthrough) {
    LogWarning("no file is read past the mount: this kernel cannot do that (Linux 6.9 and later can)");
  }
  const std::optional<MountEntry> entry = FindMount(config_.mountpoint);
  MakeStateFile(entry);
  loop_.Do([this, &entry] {
    if (entry) flags_ = MountFlags::Of(*entry);
    entry_ = entry;
  });
  TellMetrics();
  return Ok();
}

// Over HTTP and into a file, as far as it is wanted. What cannot be had keeps nobody from the files.
void MountProgram::TellMetrics() {
  const MetricsSource source{"stria-mount", {{"mount", Printable(config_.mountpoint)}}, [this](MetricFamilies* out) { Gather(out); }};
  if (!config_.metrics.empty()) {
    auto server = MetricsServer::Start(config_.metrics, &loop_.executor(), source);
    if (server.ok()) {
      metrics_server_ = std::move(*server);
      LogInfo("metrics are served on {}, to whoever can connect", config_.metrics);
    } else {
      LogError("{}", server.error());
    }
  }
  if (config_.metrics_file.empty()) return;
  loop_.Do([&] {
    metrics_scope_ = std::make_unique<TaskScope>();
    metrics_scope_->Spawn(KeepMetricsFile(config_.metrics_file, &metrics_pool_, source));
  });
}

// The metrics end before the objects whose counters they show.
void MountProgram::EndMetrics() {
  metrics_server_.reset();
  if (!metrics_scope_) return;
  loop_.Do([this] { metrics_scope_.reset(); });
  // The pool has one thread, so a write that is under way comes first.
  loop_.Run([this] { return RunOn(metrics_pool_, [path = config_.metrics_file] { return unlink(path.c_str()) == 0; }); });
}

void MountProgram::Gather(MetricFamilies* out) {
  ClientFigures figures = GatherClientFigures(*client_);
  figures.dirty_limit_bytes = config_.dirty_limit_bytes();
  figures.running_requests = adapter_->running();
  figures.local_opened = local_->stats().opened;
  figures.local_direct_bytes = local_->stats().local_bytes;
  for (size_t i = 0; i < kFuseKindNames.size(); ++i) {
    figures.requests.emplace_back(kFuseKindNames[i], &adapter_->times().of(static_cast<FuseKind>(i)));
  }
  figures.jobs = jobs_->Labels(loop_.executor().NowNs());
  if (ends_) figures.certificate_end_s = ends_->credentials()->certificate.not_after_s();
  AddClientMetrics(figures, out);
}

Task<std::shared_ptr<const UniqueFd>> MountProgram::WholeFile(VfsHandlePtr h) {
  std::optional<ShardRead> shard = co_await client_->vfs().WholeShard(std::move(h));
  if (!shard) co_return nullptr;
  const NodeId node = client_->peers().NodeOf(shard->target);
  for (const NodeInfo& n : client_->peers().map()->nodes) {
    if (n.id == node) co_return co_await local_->OpenWhole(n.address, std::move(*shard));
  }
  co_return nullptr;
}

// root's umount(8) waits for the program by this file; a mount without it works.
void MountProgram::MakeStateFile(const std::optional<MountEntry>& entry) {
  if (!entry || geteuid() != 0) return;
  MountState state;
  state.pid = getpid();
  state.client = uuid_;
  state.timeout_s = config_.timeout_ns / kSecond;
  auto made = MountStateFile::Make(*entry, state);
  if (made.ok()) {
    state_.emplace(std::move(*made));
  } else {
    LogWarning("umount will not wait until all bytes are written: {}", made.error());
  }
}

void MountProgram::Wait(int signal_fd) {
  pollfd fds[2] = {{signal_fd, POLLIN, 0}, {gone_fd_, POLLIN, 0}};
  const int64_t alive_ns = AlivePeriodNs();
  const int period_ms = alive_ns == 0 ? -1 : static_cast<int>(std::clamp<int64_t>(alive_ns / kMillisecond, 1, kMaxAliveMs));
  while (true) {
    const int came = poll(fds, 2, period_ms);
    if (came == 0) loop_.executor().Post(TellAlive);  // it is the executor that must not stand still
    if (came <= 0) continue;
    if (fds[1].revents != 0 || TakeSignal(signal_fd)) break;
  }
  LogInfo("{} ends: {}", config_.mountpoint, fds[1].revents ? "it was unmounted" : "a signal came");
}

int MountProgram::End() {
  EndMetrics();
  int code = kExitOk;
  auto flush = [this, &code](bool close) {
    std::optional<Result<void>> r = loop_.Run([this, close] {
      return WithTimeout(config_.timeout_ns, close ? client_->Shutdown() : client_->vfs().FlushAll());
    });
    const Error error = !r ? Error(FsError::kTimedOut, "the servers did not take all bytes in time") : r->error();
    if (error.ok()) return;
    LogError("bytes that were written may be lost: {}", error);
    code = kExitFailed;
    if (state_) state_->SetLostBytes();
  };
  if (mount_) {
    flush(false);
    mount_->Stop();
    loop_.Run([this] { return adapter_->Drain(kDrainNs); });
    mount_.reset();
  }
  if (client_) flush(true);
  loop_.Do([this] {
    trust_scope_.reset();
    trust_connector_.reset();
    adapter_.reset();
    jobs_.reset();
    client_.reset();
    local_.reset();
    data_.reset();
    members_.reset();
    meta_.reset();
    knowing_.reset();
    peers_.reset();
  });
  return code;
}

// The credentials of this program. If there are none: null, and `insecure` has the sentence for the log.
Result<std::unique_ptr<SecuredEnds>> OpenEnds(const MountConfig& config, std::string* insecure) {
  ASSIGN_OR_RETURN(const TrustPlace place, FindTrust(config.trust, {Role::kClient}));
  if (place.is != TrustIs::kThere) {
    *insecure = InsecureWarning(place);
    return std::unique_ptr<SecuredEnds>();
  }
  SecuredEndsOptions options;
  options.own = {Role::kClient};
  options.talks_to = {Role::kMeta, Role::kData};
  options.least = config.data_security;
  options.meta_addresses = config.addresses;
  ASSIGN_OR_RETURN(std::unique_ptr<SecuredEnds> ends, SecuredEnds::Open(place.directory, std::move(options)));
  ForbidCoreDumps();
  return ends;
}

int RunMount(MountConfig config) {
  if (config.by_mount8 && IsMountedAlready(config.mountpoint, SourceName(config))) {
    SaySentence(kProgram, config.mountpoint + " is mounted already");
    return kMountOk;
  }
  std::optional<Uuid> former;
  auto mountpoint = PrepareMountpoint(config.mountpoint, &former);
  if (!mountpoint.ok()) {
    SaySentence(kProgram, SentenceOf(mountpoint.error()));
    return kExitFailed;
  }
  config.mountpoint = std::move(*mountpoint);
  // It is looked at while it runs, from another working directory.
  if (config.trust != kTrustOff) config.trust = std::filesystem::absolute(config.trust);
  std::string insecure;
  auto ends = OpenEnds(config, &insecure);
  if (!ends.ok()) {
    SaySentence(kProgram, SentenceOf(ends.error()));
    return kExitFailed;
  }
  auto daemon = Daemon::Start(config.foreground);
  if (!daemon.ok()) {
    SaySentence(kProgram, SentenceOf(daemon.error()));
    return kExitFailed;
  }
  // It is opened again when it is rotated, from another working directory.
  if (!config.log_file.empty()) config.log_file = std::filesystem::absolute(config.log_file);
  if (!config.metrics_file.empty()) config.metrics_file = std::filesystem::absolute(config.metrics_file);
  const int signal_fd = BlockSignals();
  (void)RaiseFileLimit();
  if (config.log_file.empty() && !config.foreground && geteuid() == 0) config.log_file = kDaemonLog;
  if (auto r = InitLog(kProgram, config.log_file, config.log_level); !r.ok()) {
    daemon->Failed(SentenceOf(r.error()), kExitFailed);
    return kExitFailed;
  }
  if (!insecure.empty()) LogWarning("{}", insecure);
  MountProgram program(config, former, std::move(*ends));
  if (auto started = program.Start(signal_fd); !started.ok()) {
    LogError("cannot mount {}: {}", config.mountpoint, started.error());
    program.End();
    daemon->Failed(SentenceOf(started.error()), kExitFailed);
    return kExitFailed;
  }
  LogInfo("{} is mounted", config.mountpoint);
  FlushLog();
  daemon->Ready();
  TellReady(config.mountpoint + " is mounted" + (insecure.empty() ? "" : "; " + insecure));
  program.Wait(signal_fd);
  TellStopping();
  const int code = program.End();
  FlushLog();
  return code;  // the state file goes with `program`: now umount(8) returns
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) {
  stria::ParsedCommand command = stria::ParseCommandLine(argc, argv, geteuid() == 0);
  if (command.exit_now) {
    std::fputs(command.text.c_str(), command.exit_code == 0 ? stdout : stderr);
    return command.exit_code;
  }
  switch (command.config.verb) {
    case stria::MountVerb::kMount: return stria::RunMount(std::move(command.config));
    case stria::MountVerb::kRemount: return stria::RemountMount(command.config);
    case stria::MountVerb::kUnmount: return stria::UnmountAndWait(command.config);
    case stria::MountVerb::kNothing: return stria::kMountOk;
  }
}
