#include "tools/cli/dev/dev_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/os_random.h"
#include "common/printable.h"
#include "common/token.h"
#include "tools/cli/dev/dev_etcd.h"
#include "tools/cli/dev/dev_metas.h"
#include "tools/cli/dev/dev_trust.h"
#include "tools/cli/dev/ports.h"
#include "tools/cli/dev/process.h"

namespace stria::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLockNs = 120 * kSecond;
constexpr int64_t kUnmountNs = 10 * kSecond;
constexpr int64_t kStopNs = 10 * kSecond;
constexpr int64_t kCallNs = 2 * kSecond;
constexpr int64_t kJoinNs = 30 * kSecond;

std::atomic<bool> g_interrupted{false};  // set by a signal handler

std::string JsonPath(const std::string& dir) { return dir + "/cluster.json"; }

Result<void> MakeDirs(const std::string& path) {
  std::error_code ec;
  fs::create_directories(path, ec);
  if (ec) return ErrnoError(ec.value(), "make the directory " + path);
  return {};
}

Result<void> WriteFile(const std::string& path, const std::string& text, mode_t mode) {
  const std::string temporary = path + ".new";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return ErrnoError(errno, "write " + temporary);
  const bool ok = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const int err = errno;
  close(fd);
  if (!ok) return ErrnoError(err, "write " + temporary);
  if (rename(temporary.c_str(), path.c_str()) != 0) return ErrnoError(errno, "write " + path);
  return {};
}

Result<std::string> ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return ErrnoError(errno, "read " + path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

Result<std::string> Absolute(const std::string& path) {
  std::error_code ec;
  const fs::path p = fs::weakly_canonical(fs::absolute(path, ec), ec);  // weakly_canonical leaves a missing path relative
  if (ec) return ErrnoError(ec.value(), "find " + path);
  std::string text = p.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_interrupted.store(true); };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
}
bool Interrupted() { return g_interrupted.load(); }

DevDir::~DevDir() { close(lock_fd_); }

Result<DevCluster> DevDir::Peek(const std::string& dir) {
  ASSIGN_OR_RETURN(const std::string real, Absolute(dir));
  std::error_code ec;
  if (!fs::exists(JsonPath(real), ec)) {
    return Error(FsError::kNoEnt, "there is no cluster in " + real + "; make one with:  stria dev up --dir " +
                                      real + " --mount MOUNTPOINT");
  }
  ASSIGN_OR_RETURN(const std::string text, ReadAll(JsonPath(real)));
  ASSIGN_OR_RETURN(DevCluster c, DecodeDevCluster(text, JsonPath(real)));
  c.dir = real;  // the directory may have been moved
  return c;
}

Result<std::unique_ptr<DevDir>> DevDir::Open(const Context& ctx, const std::string& dir, bool create) {
  if (!create) {
    const auto there = Peek(dir);
    if (!there.ok()) return there.error();
  }
  ASSIGN_OR_RETURN(const std::string real, Absolute(dir));
  // Other programs read cluster.json, and `ps` shows the programs' arguments.
  if (!IsPrintable(real)) return Error(FsError::kInval, "give a directory whose name can be printed, and not " + PrintableName(real));
  if (create) RETURN_IF_ERROR(MakeDirs(real));
  const std::string lock = real + "/.lock";
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoError(errno, "open " + lock);
  std::unique_ptr<DevDir> out(new DevDir(ctx, fd));
  const int64_t end_ns = BoottimeNs() + kLockNs;
  for (bool said = false; flock(fd, LOCK_EX | LOCK_NB) != 0; said = true) {
    if (!said) out->Say("waiting for another 'stria dev' on " + real);
    if (Interrupted()) return Error(FsError::kIntr, "interrupted");
    if (BoottimeNs() > end_ns) return Error(FsError::kBusy, "another 'stria dev' works on " + real);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::error_code ec;
  if (fs::exists(JsonPath(real), ec)) {
    ASSIGN_OR_RETURN(out->cluster_, Peek(real));
  } else {
    out->cluster_.dir = real;
  }
  return out;
}

Result<void> DevDir::Save() const {
  return WriteFile(JsonPath(cluster_.dir), EncodeDevCluster(cluster_), 0644);
}

bool DevDir::Running(const DevProcess& p) const { return IsRunning(p.pid, p.start_time); }

void DevDir::Say(const std::string& line) const {
  if (!ctx_.json) *ctx_.out << PrintableLines(line) << std::endl;
}

Result<ClusterClient*> DevDir::Client() {
  if (!client_) {
    if (cluster_.secured && !HasDevAdmin(cluster_)) return Error(FsError::kNotReady, "it has not made its certificates yet");
    ClientOptions options;
    options.addresses = cluster_.MetaAddresses();
    options.timeout_ns = kCallNs;
    ASSIGN_OR_RETURN(Reach reach, ctx_.connector(cluster_.secured ? cluster_.AdminTrust() : "off"));
    client_ = std::make_unique<ClusterClient>(std::move(options), std::move(reach.connector));
  }
  return client_.get();
}

Result<ClusterMap> DevDir::AskForMap() {
  ASSIGN_OR_RETURN(ClusterClient* client, Client());
  return client->Call<ClusterMap>("map", [](MetaService& meta, OpHeader header) {
    InodeRequest r;
    r.header = std::move(header);
    return meta.GetMap(std::move(r));
  });
}

// ---- State of the cluster ------------------------------------------------------------------------

Result<std::string> DevDir::PickAddress(int wanted_port) const {
  std::vector<int> taken;
  for (const DevProcess& p : cluster_.processes) {
    if (p.kind != DevProcess::Kind::kMount) taken.push_back(PortOf(p.address));
    if (!p.peer.empty()) taken.push_back(PortOf(p.peer));
  }
  if (wanted_port > 0) {
    if (!PortIsFree(wanted_port)) {
      return Error(FsError::kBusy, "port " + std::to_string(wanted_port) +
                                       " of 127.0.0.1 is in use; give another --port-base");
    }
    return "127.0.0.1:" + std::to_string(wanted_port);
  }
  ASSIGN_OR_RETURN(const int port, FindFreePort(cluster_.dir, taken));
  return "127.0.0.1:" + std::to_string(port);
}

Result<void> DevDir::AddEtcdEntries() {
  for (int i = 1; i <= kDevEtcdMembers; ++i) {
    DevProcess p;
    p.kind = DevProcess::Kind::kEtcd;
    p.name = "etcd" + std::to_string(i);
    p.log = cluster_.dir + "/log/" + p.name + ".log";
    ASSIGN_OR_RETURN(p.address, PickAddress(0));
    cluster_.processes.push_back(std::move(p));
    ASSIGN_OR_RETURN(cluster_.processes.back().peer, PickAddress(0));
  }
  return {};
}

Result<void> DevDir::AddMetaEntries(int metas, int port_base) {
  for (const std::string& name : DevMetaNames(metas)) {
    DevProcess p;
    p.name = name;
    p.log = cluster_.dir + "/log/" + name + ".log";
    // The ports that follow are the nodes'.
    ASSIGN_OR_RETURN(p.address, PickAddress(cluster_.Metas().empty() ? port_base : 0));
    cluster_.processes.push_back(std::move(p));
  }
  return {};
}

Result<void> DevDir::AddNodeEntry(const std::string& name, int disks, int port_base) {
  DevProcess p;
  p.kind = DevProcess::Kind::kNode;
  p.name = name;
  p.disks = disks;
  p.log = cluster_.dir + "/log/" + name + ".log";
  const int number = std::stoi(name.substr(1));
  ASSIGN_OR_RETURN(p.address, PickAddress(port_base > 0 ? port_base + number : 0));
  for (int d = 1; d <= disks; ++d) {
    RETURN_IF_ERROR(MakeDirs(cluster_.dir + "/" + name + "/d" + std::to_string(d)));
  }
  // Nodes stand before mounts: that is the order of starting.
  auto at = cluster_.processes.begin();
  while (at != cluster_.processes.end() && at->kind != DevProcess::Kind::kMount) ++at;
  cluster_.processes.insert(at, std::move(p));
  return {};
}

Result<void> DevDir::AddMountEntry(const std::string& path, const std::string& node, const std::string& options) {
  if (!cluster_.Find(node))
    return Error(FsError::kNoEnt, "no node is called '" + node + "' in " + cluster_.dir);
  DevProcess p;
  p.kind = DevProcess::Kind::kMount;
  p.name = FreeMountName(cluster_);
  ASSIGN_OR_RETURN(p.address, Absolute(path));
  for (const DevProcess& other : cluster_.processes) {
    if (other.kind == DevProcess::Kind::kMount && other.address == p.address) {
      return Error(FsError::kExist, p.address + " is the mount point of '" + other.name + "' already");
    }
  }
  p.log = cluster_.dir + "/log/" + p.name + ".log";
  p.node = node;
  p.options = options;
  cluster_.processes.push_back(std::move(p));
  return {};
}

Result<void> DevDir::Create(const DevUpArgs& args) {
  cluster_.disks = args.disks;
  cluster_.secured = !args.insecure;
  cluster_.data_security = args.data_security;
  cluster_.layout = args.layout.empty() ? DefaultDevLayout(args.nodes, args.disks) : args.layout;
  RETURN_IF_ERROR(CheckDevLayout(cluster_.layout, args.nodes, args.disks));
  RETURN_IF_ERROR(MakeDirs(cluster_.dir + "/log"));
  if (args.only_etcd) return AddEtcdEntries();
  ClusterKey key;
  key.id = 1;
  OsRandomBytes(key.secret);
  RETURN_IF_ERROR(WriteFile(cluster_.dir + "/cluster.key", FormatClusterKey(key) + "\n", 0600));
  if (args.metas > 1) RETURN_IF_ERROR(AddEtcdEntries());
  RETURN_IF_ERROR(AddMetaEntries(args.metas, args.port_base));
  RETURN_IF_ERROR(MakeDirs(cluster_.dir + "/" + cluster_.Metas().front()->name));
  for (int n = 1; n <= args.nodes; ++n) {
    RETURN_IF_ERROR(AddNodeEntry("n" + std::to_string(n), args.disks, args.port_base));
  }
  return {};
}

// Over a cluster that is there: more nodes are added; a layout and a mount point that are named now count.
Result<void> DevDir::Extend(const DevUpArgs& args) {
  if (args.insecure && cluster_.secured) {
    return Error(FsError::kExist, "the cluster in " + cluster_.dir + " is secured, and stays so: make an insecure one in another directory");
  }
  if (!args.data_security.empty() && args.data_security != cluster_.data_security) {
    return Error(FsError::kExist, "the cluster in " + cluster_.dir + " is there: how it protects data is said when it is made");
  }
  const int metas = static_cast<int>(cluster_.Metas().size());
  if (args.metas > 1 && args.metas != metas) {
    return Error(FsError::kExist, "the cluster in " + cluster_.dir + " has " + (metas == 1 ? "one metadata server" : std::to_string(metas) + " metadata servers") +
                                      ": how many is said when it is made; leave out --metas, or give another directory");
  }
  for (int n = cluster_.Nodes() + 1; n <= args.nodes; ++n) {
    RETURN_IF_ERROR(AddNodeEntry("n" + std::to_string(n), args.disks, args.port_base));
  }
  if (args.layout.empty()) return {};
  RETURN_IF_ERROR(CheckDevLayout(args.layout, cluster_.Nodes(), cluster_.disks));
  cluster_.layout = args.layout;
  return {};
}

Result<void> DevDir::Up(const DevUpArgs& args) {
  if (args.only_etcd && args.metas > 1) return Error(FsError::kInval, "nothing but etcd runs with --only-etcd: leave out --metas");
  if (args.only_etcd && !cluster_.MetaAddress().empty()) {
    return Error(FsError::kExist, "the cluster in " + cluster_.dir + " has more than etcd: give another directory");
  }
  const bool only_etcd = args.only_etcd || (!cluster_.processes.empty() && cluster_.MetaAddress().empty());
  std::vector<const char*> binaries;
  if (!only_etcd) binaries = {"stria-meta", "stria-data"};
  if (!args.mount.empty() || cluster_.Find("mount")) binaries.push_back("stria-mount");
  for (const char* binary : binaries) {
    const auto found = FindBinary(binary);
    if (!found.ok()) return found.error();
  }
  if (args.metas > 1 || args.only_etcd) {
    const auto found = FindEtcd();
    if (!found.ok()) return found.error();
  }
  if (only_etcd && !args.mount.empty()) return Error(FsError::kInval, "nothing is mounted with --only-etcd: leave out --mount");
  if (cluster_.processes.empty()) RETURN_IF_ERROR(Create(args));
  else if (!only_etcd) RETURN_IF_ERROR(Extend(args));
  if (!args.mount.empty()) {
    ASSIGN_OR_RETURN(const std::string path, Absolute(args.mount));
    DevProcess* first = cluster_.Find("mount");
    if (first == nullptr) {
      RETURN_IF_ERROR(AddMountEntry(path, "n1", ""));
    } else if (first->address != path) {
      if (Running(*first)) {
        return Error(FsError::kBusy, "'mount' is at " + first->address +
                                         "; for one more use:  stria dev mount --dir " + cluster_.dir +
                                         " --at " + path);
      }
      first->address = path;
    }
  }
  RETURN_IF_ERROR(Save());
  std::vector<std::string> started;
  const auto result = StartAll(&started);
  if (!result.ok()) return StopAfterFailure(started, result.error());
  return {};
}

Result<void> DevDir::StartAll(std::vector<std::string>* started) {
  std::vector<std::string> etcds, nodes, mounts;
  const auto launch = [&](const std::string& name) -> Result<void> {
    if (Running(*cluster_.Find(name))) return {};
    started->push_back(name);
    return Launch(name);
  };
  for (const DevProcess& p : cluster_.processes) {
    if (p.kind == DevProcess::Kind::kEtcd) etcds.push_back(p.name);
    if (p.kind == DevProcess::Kind::kNode) nodes.push_back(p.name);
    if (p.kind == DevProcess::Kind::kMount) mounts.push_back(p.name);
  }
  for (const std::string& e : etcds) RETURN_IF_ERROR(launch(e));
  if (!etcds.empty()) RETURN_IF_ERROR(AwaitEtcd(etcds));
  if (cluster_.MetaAddress().empty()) return {};
  RETURN_IF_ERROR(StartMetas(launch));
  std::vector<std::string> members = nodes;
  members.insert(members.end(), mounts.begin(), mounts.end());
  RETURN_IF_ERROR(Enrol(members));
  for (const std::string& n : nodes) RETURN_IF_ERROR(launch(n));
  RETURN_IF_ERROR(AwaitNodes(nodes));
  RETURN_IF_ERROR(ApplyLayout());
  for (const std::string& m : mounts) {
    RETURN_IF_ERROR(launch(m));
    RETURN_IF_ERROR(AwaitMount(m));
  }
  return {};
}

// Who has a store may be the primary; who has none copies from that.
Result<void> DevDir::StartMetas(const std::function<Result<void>(const std::string&)>& launch) {
  std::vector<std::string> names, others;
  for (const DevProcess* p : cluster_.Metas()) {
    const bool first = names.empty();
    names.push_back(p->name);
    if (!first && !IsDevMetaMade(cluster_, *p)) others.push_back(p->name);
  }
  for (const std::string& name : names) {
    if (std::ranges::find(others, name) == others.end()) RETURN_IF_ERROR(launch(name));
  }
  RETURN_IF_ERROR(AwaitMeta());
  for (const std::string& name : others) {
    ASSIGN_OR_RETURN(const ClusterMap map, AskForMap());
    cluster_.cluster = map.cluster.ToString();
    RETURN_IF_ERROR(PrepareDevMeta(cluster_, *cluster_.Find(name)));
    RETURN_IF_ERROR(launch(name));
  }
  return names.size() > 1 ? AwaitMembers(names) : Ok();
}

Result<void> DevDir::StopAfterFailure(const std::vector<std::string>& started, Error why) {
  for (auto name = started.rbegin(); name != started.rend(); ++name) {
    DevProcess* p = cluster_.Find(*name);
    if (p->kind == DevProcess::Kind::kMount) (void)Unmount(p->address, true).ok();
    StopProcess(p->pid, p->start_time, kStopNs);
    if (p->kind == DevProcess::Kind::kMount) (void)Unmount(p->address, true).ok();
    p->pid = 0;
  }
  (void)Save().ok();
  return why;
}

// ---- One process ----------------------------------------------------------------------------------

Result<void> DevDir::Enrol(const std::vector<std::string>& names) {
  if (!cluster_.secured) return {};
  std::vector<const DevProcess*> members;
  for (const std::string& name : names) {
    const DevProcess* p = cluster_.Find(name);
    if (p->kind == DevProcess::Kind::kEtcd) continue;                 // it knows nothing of the cluster
    if (p->kind == DevProcess::Kind::kMeta || Running(*p)) continue;  // the one makes its own; the others renew theirs
    ASSIGN_OR_RETURN(const bool has_to, HasToJoin(cluster_, *p, WallclockNs() / kSecond));
    if (has_to) members.push_back(p);
  }
  if (members.empty()) return {};
  ASSIGN_OR_RETURN(ClusterClient* admin, Client());
  DevJoining how;
  how.make_token = [admin](MakeTokenRequest request) {
    return admin->CallTrust<MakeTokenReply>("token", [request](TrustService& trust, OpHeader header) {
      MakeTokenRequest r = request;
      r.header = std::move(header);
      return trust.MakeToken(std::move(r));
    });
  };
  how.ask = ctx_.ask_to_join;
  how.timeout_ns = kJoinNs;
  admin->set_timeout_ns(kJoinNs);
  const Result<void> joined = JoinDevMembers(cluster_, members, how);
  admin->set_timeout_ns(kCallNs);
  return joined;
}

Result<void> DevDir::Launch(const std::string& name) {
  DevProcess& p = *cluster_.Find(name);
  const char* program = p.kind == DevProcess::Kind::kMeta   ? "stria-meta"
                        : p.kind == DevProcess::Kind::kNode ? "stria-data"
                                                            : "stria-mount";
  ASSIGN_OR_RETURN(const std::string binary, p.kind == DevProcess::Kind::kEtcd ? FindEtcd() : FindBinary(program));
  RETURN_IF_ERROR(MakeDirs(cluster_.dir + "/log"));
  if (p.kind == DevProcess::Kind::kMount) RETURN_IF_ERROR(PrepareMountPoint(p.address));
  if (p.kind == DevProcess::Kind::kMeta && cluster_.Metas().size() > 1) {
    RETURN_IF_ERROR(WriteFile(cluster_.dir + "/" + p.name + ".toml", DevMetaSettings(cluster_, p), 0644));
  }
  ASSIGN_OR_RETURN(const StartedProcess started, StartDetached(CommandLine(cluster_, p, binary), p.log));
  p.pid = started.pid;
  p.start_time = started.start_time;
  return Save();
}

Result<void> DevDir::Kill(const std::string& name) {
  DevProcess* p = cluster_.Find(name);
  if (p == nullptr)
    return Error(FsError::kNoEnt,
                 "no process is called '" + name + "'; see:  stria dev status --dir " + cluster_.dir);
  if (!Running(*p)) return Error(FsError::kNxio, "'" + name + "' does not run");
  SendSignal(p->pid, p->start_time, SIGKILL);
  if (!WaitGone(p->pid, p->start_time, kStopNs)) return Error(FsError::kBusy, "'" + name + "' does not die");
  Say("killed " + name + " (pid " + std::to_string(p->pid) + ")");
  p->pid = 0;
  return Save();
}

Result<void> DevDir::Start(const std::string& name) {
  DevProcess* p = cluster_.Find(name);
  if (p == nullptr)
    return Error(FsError::kNoEnt,
                 "no process is called '" + name + "'; see:  stria dev status --dir " + cluster_.dir);
  if (Running(*p)) {
    Say("'" + name + "' runs already (pid " + std::to_string(p->pid) + ")");
    return {};
  }
  const auto all = [&]() -> Result<void> {
    RETURN_IF_ERROR(Enrol({name}));
    RETURN_IF_ERROR(Launch(name));
    switch (p->kind) {
      case DevProcess::Kind::kMeta: return cluster_.Metas().size() > 1 ? AwaitMembers({name}) : AwaitMeta();
      case DevProcess::Kind::kNode: return AwaitNodes({name});
      case DevProcess::Kind::kMount: return AwaitMount(name);
      case DevProcess::Kind::kEtcd: return AwaitEtcd({name});
    }
    return {};
  };
  const auto result = all();
  if (!result.ok()) return StopAfterFailure({name}, result.error());
  return {};
}

Result<void> DevDir::Add(const std::string& name, int disks) {
  if (!IsNodeName(name))
    return Error(FsError::kInval,
                 "'" + name + "' is not a name for a node: use n1 to n" + std::to_string(kMaxDevNodes));
  if (cluster_.Find(name)) return Error(FsError::kExist, "'" + name + "' is there already");
  if (cluster_.MetaAddress().empty()) return Error(FsError::kNoEnt, "there is only etcd in " + cluster_.dir);
  RETURN_IF_ERROR(AddNodeEntry(name, disks > 0 ? disks : cluster_.disks, 0));
  RETURN_IF_ERROR(Save());
  return Start(name);
}

Result<void> DevDir::AddMount(const std::string& path, const std::string& node, const std::string& options) {
  RETURN_IF_ERROR(AddMountEntry(path, node, options));
  const std::string name = cluster_.processes.back().name;
  RETURN_IF_ERROR(Save());
  const auto result = Start(name);
  if (result.ok()) return {};
  std::erase_if(cluster_.processes, [&](const DevProcess& p) { return p.name == name; });
  (void)Save().ok();
  return result.error();
}

Result<void> DevDir::Down() {
  std::string stubborn;
  for (const auto kind : {DevProcess::Kind::kMount, DevProcess::Kind::kNode, DevProcess::Kind::kMeta, DevProcess::Kind::kEtcd}) {
    for (DevProcess& p : cluster_.processes) {
      if (p.kind != kind) continue;
      if (kind == DevProcess::Kind::kMount) {
        // A busy mount point gets a little time: a process that was just told to end still holds it.
        const int64_t end_ns = BoottimeNs() + kUnmountNs;
        Result<void> gone = Unmount(p.address, false);
        for (bool said = false; !gone.ok() && BoottimeNs() < end_ns && Running(p); said = true) {
          if (!said)
            Say(p.address + " is in use; waiting up to " + std::to_string(kUnmountNs / kSecond) + " s");
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          gone = Unmount(p.address, false);
        }
        if (!gone.ok()) (void)Unmount(p.address, true).ok();
        WaitGone(p.pid, p.start_time, kStopNs);  // it ends by itself, having written everything
      } else {
        SendSignal(p.pid, p.start_time, SIGTERM);
      }
    }
    for (DevProcess& p : cluster_.processes) {
      if (p.kind != kind) continue;
      if (!StopProcess(p.pid, p.start_time, kStopNs)) stubborn += (stubborn.empty() ? "" : ", ") + p.name;
      if (kind == DevProcess::Kind::kMount) (void)Unmount(p.address, true).ok();
      p.pid = 0;
    }
  }
  RETURN_IF_ERROR(Save());
  if (!stubborn.empty())
    return Error(FsError::kBusy, "these processes do not end, not even by KILL: " + stubborn);
  return {};
}

}  // namespace stria::cli
