// Waits until started processes are in service.
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "stripe/layout_spec.h"
#include "tools/cli/dev/dev_cluster.h"
#include "tools/cli/dev/dev_etcd.h"
#include "tools/cli/dev/process.h"

namespace stria::cli {
namespace {

constexpr int64_t kReadyNs = 90 * kSecond;  // from start to service, of one step
constexpr int64_t kPollNs = 50 * kMillisecond;
constexpr int64_t kProgressNs = 2 * kSecond;
constexpr int64_t kEtcdLookNs = 1 * kSecond;
constexpr int64_t kProbeNs = 5 * kSecond;  // one look into the mount
constexpr size_t kLogTailBytes = 64 * kKiB;

std::string Seconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ns) / kSecond);
  return text;
}

// In a child, so that a hanging mount does not hang this program.
bool MountAnswers(const std::string& path) {
  const pid_t pid = fork();
  if (pid < 0) return false;
  if (pid == 0) {
    struct statvfs st;
    _exit(statvfs(path.c_str(), &st) == 0 && access(path.c_str(), X_OK) == 0 ? 0 : 1);
  }
  const int64_t end_ns = BoottimeNs() + kProbeNs;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (BoottimeNs() > end_ns) {
      kill(pid, SIGKILL);  // whether it is reaped is left to init: a hung mount may keep it
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool IsMountedHere(const std::string& path) {
  for (const StriaMount& m : ReadMounts()) {
    if (m.path == path) return true;
  }
  return false;
}

}  // namespace

Error DevDir::Died(const DevProcess& p) const {
  const std::string last = LastError(ReadTail(p.log, kLogTailBytes));
  return Error(FsError::kUnavailable,
               "'" + p.name + "' ended: " + (last.empty() ? "its log is empty" : last) + " (" + p.log + ")");
}

Result<void> DevDir::Await(const std::string& what, const std::vector<std::string>& watched,
                           const std::function<bool(std::string* detail)>& ready) {
  const int64_t start_ns = BoottimeNs();
  int64_t next_ns = start_ns + kProgressNs;
  while (true) {
    std::string detail;
    if (ready(&detail)) {
      Say(what + " ready after " + Seconds(BoottimeNs() - start_ns));
      return {};
    }
    for (const std::string& name : watched) {
      const DevProcess& p = *cluster_.Find(name);
      if (!Running(p)) return Died(p);
    }
    const int64_t now_ns = BoottimeNs();
    if (Interrupted()) return Error(FsError::kIntr, "interrupted; started processes are stopped again");
    if (now_ns - start_ns > kReadyNs) {
      const DevProcess& p = *cluster_.Find(watched.front());
      const std::string last = LastError(ReadTail(p.log, kLogTailBytes));
      return Error(FsError::kTimedOut, what + " is not ready after " + Seconds(now_ns - start_ns) +
                                           (detail.empty() ? "" : ": " + detail) + "; the log " + p.log +
                                           (last.empty() ? " is empty" : " ends with: " + last));
    }
    if (now_ns >= next_ns) {
      next_ns = now_ns + kProgressNs;
      Say(what + ": waiting, " + Seconds(now_ns - start_ns) + (detail.empty() ? "" : " (" + detail + ")"));
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(kPollNs));
  }
}

// A member that is back counts when it is in a majority again.
Result<void> DevDir::AwaitEtcd(const std::vector<std::string>& names) {
  size_t ready = 0;  // of them, in their order
  return Await(names.size() == 1 ? names[0] : "etcd", names, [&](std::string* detail) {
    while (ready < names.size() && EtcdHasMajority(cluster_.Find(names[ready])->address, kEtcdLookNs)) ++ready;
    if (ready == names.size()) return true;
    *detail = names[ready] + " is in no majority yet";
    return false;
  });
}

Result<void> DevDir::AwaitMeta() {
  std::vector<std::string> started;
  for (const DevProcess* p : cluster_.Metas()) {
    if (p->pid != 0) started.push_back(p->name);
  }
  return Await("meta  " + cluster_.MetaAddress(), started, [this](std::string* detail) {
    const Result<ClusterMap> map = AskForMap();
    if (!map.ok()) *detail = map.error().message;
    return map.ok();
  });
}

// In sync by what the members say, so that any other one may be lost.
Result<void> DevDir::AwaitMembers(const std::vector<std::string>& names) {
  const std::string what = names.size() == 1 ? names[0] + "  " + cluster_.Find(names[0])->address : std::to_string(names.size()) + " metadata servers";
  return Await(what, names, [this, &names](std::string* detail) {
    const Result<ClusterClient*> client = Client();
    if (!client.ok()) {
      *detail = client.error().message;
      return false;
    }
    const auto status = (*client)->CallMembers<MemberStatusReply>("metadata servers", [](MemberService& members, OpHeader header) {
      MemberStatusRequest r;
      r.header.timeout_ns = header.timeout_ns;
      return members.MemberStatus(std::move(r));
    });
    if (!status.ok()) {
      *detail = status.error().message;
      return false;
    }
    for (const std::string& name : names) {
      const auto m = std::ranges::find(status->members, name, &MemberState::name);
      const bool listed = m != status->members.end();
      if (listed && m->in_sync && (m->role == MemberRole::kStandby || m->role == MemberRole::kPrimary)) continue;
      *detail += (detail->empty() ? "" : ", ") + name + " is " + (listed ? MemberRoleName(m->role) : "no member yet");
    }
    return detail->empty();
  });
}

Result<void> DevDir::AwaitNodes(const std::vector<std::string>& names) {
  std::vector<std::string> watched = names;
  // A server that this program did not start (a restored one, say) may answer as well.
  // One of several may end meanwhile.
  const std::vector<const DevProcess*> metas = cluster_.Metas();
  if (metas.size() == 1 && Running(*metas.front())) watched.push_back(metas.front()->name);
  const std::string what = names.size() == 1 ? names[0] + "  " + cluster_.Find(names[0])->address
                                             : std::to_string(names.size()) + " nodes";
  return Await(what, watched, [this, &names](std::string* detail) {
    const Result<ClusterMap> map = AskForMap();
    if (!map.ok()) {
      *detail = map.error().message;
      return false;
    }
    for (const std::string& name : names) {
      const DevProcess& p = *cluster_.Find(name);
      int disks = 0;
      bool up = false;
      for (const NodeInfo& n : map->nodes) {
        if (n.name != name || n.state != NodeState::kUp || n.address != p.address) continue;
        up = true;
        for (const TargetInfo& t : map->targets) disks += t.node == n.id && t.state != TargetState::kRemoved;
      }
      if (!up || disks < p.disks) *detail += (detail->empty() ? "not up yet: " : ", ") + name;
    }
    return detail->empty();
  });
}

Result<void> DevDir::ApplyLayout() {
  ASSIGN_OR_RETURN(const Layout wanted, ParseLayout(cluster_.layout));
  ASSIGN_OR_RETURN(ClusterClient* client, Client());
  const auto call = [client](std::optional<Layout> set) {
    return client->Call<LayoutReply>("layout", [set](MetaService& meta, OpHeader header) {
      LayoutRequest r;
      r.header = std::move(header);
      r.ino = kRootInode;
      r.layout = set;
      return set ? meta.SetLayout(std::move(r)) : meta.GetLayout(std::move(r));
    });
  };
  client->set_timeout_ns(30 * kSecond);
  const auto now = call(std::nullopt);
  if (!now.ok()) return now.error().WithContext("cannot get the layout of /");
  if (!(now->layout == wanted)) {
    const auto set = call(wanted);
    if (!set.ok()) return set.error().WithContext("cannot set the layout of / to " + cluster_.layout);
  }
  client->set_timeout_ns(2 * kSecond);
  Say("layout " + cluster_.layout);
  return {};
}

Result<void> DevDir::PrepareMountPoint(const std::string& path) const {
  namespace fs = std::filesystem;
  if (IsMountedHere(path)) RETURN_IF_ERROR(Unmount(path, true));  // left by one that was killed
  std::error_code ec;
  fs::create_directories(path, ec);
  if (ec) return ErrnoError(ec.value(), "make the mount point " + path);
  const bool empty = fs::is_empty(path, ec);
  if (ec) return ErrnoError(ec.value(), "read the mount point " + path);
  if (!empty) return Error(FsError::kNotEmpty, "the mount point " + path + " is not an empty directory");
  return {};
}

Result<void> DevDir::AwaitMount(const std::string& name) {
  const std::string path = cluster_.Find(name)->address;
  return Await(name + "  " + path, {name}, [&](std::string* detail) {
    if (!IsMountedHere(path)) {
      *detail = "not mounted yet";
    } else if (!MountAnswers(path)) {
      *detail = "it does not answer yet";
    }
    return detail->empty();
  });
}

}  // namespace stria::cli
