#include "tools/cli/doctor/gather.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "common/address.h"
#include "common/io/unique_fd.h"
#include "common/superblock.h"
#include "tools/cli/setup/machine.h"
#include "trust/credentials.h"
#include "trust/place.h"

namespace stria::cli::doctor {
namespace {

constexpr int kConnectMs = 3000;
constexpr int kEchoMs = 700;
constexpr int kEchoes = 3;
constexpr int kSmallBytes = 64;
constexpr int kIp4HeadBytes = 28, kIp6HeadBytes = 48;  // with UDP's
constexpr int kMaxUdpBytes = 65507;
constexpr size_t kPeersAtOnce = 32;

struct FreeAddresses {
  void operator()(addrinfo* a) const { freeaddrinfo(a); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses Resolve(const std::string& host, const std::string& port, int kind, std::string* error) {
  addrinfo hints = {};
  hints.ai_socktype = kind;
  addrinfo* found = nullptr;
  std::string bare = host;
  if (bare.starts_with('[') && bare.ends_with(']')) bare = bare.substr(1, bare.size() - 2);
  const int rc = getaddrinfo(bare.c_str(), port.empty() ? nullptr : port.c_str(), &hints, &found);
  if (rc != 0) *error = gai_strerror(rc);
  return Addresses(rc == 0 ? found : nullptr);
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// 0, or errno.
int Connect(int fd, const sockaddr* to, socklen_t length) {
  if (connect(fd, to, length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd p = {fd, POLLOUT, 0};
  const int ready = poll(&p, 1, kConnectMs);
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

// A datagram of `bytes` to a port where nothing listens is answered by "port unreachable", unless it, or the answer, is lost.
bool Arrives(const sockaddr* to, socklen_t length, int bytes) {
  const UniqueFd fd(socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int probe = to->sa_family == AF_INET6 ? static_cast<int>(IPV6_PMTUDISC_PROBE) : static_cast<int>(IP_PMTUDISC_PROBE);
  if (to->sa_family == AF_INET6) (void)setsockopt(fd.get(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof probe);
  else (void)setsockopt(fd.get(), IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
  if (fd.get() < 0 || connect(fd.get(), to, length) != 0) return false;
  const std::string packet(static_cast<size_t>(bytes), '\0');
  for (int i = 0; i < kEchoes; ++i) {
    if (send(fd.get(), packet.data(), packet.size(), 0) < 0) return errno == ECONNREFUSED;
    pollfd p = {fd.get(), POLLIN, 0};
    if (poll(&p, 1, kEchoMs) > 0) {
      char byte;
      return recv(fd.get(), &byte, 1, MSG_DONTWAIT) >= 0 || errno == ECONNREFUSED;
    }
  }
  return false;
}

void ProbeMtu(const sockaddr* to, socklen_t length, PeerFact* peer) {
  const bool v6 = to->sa_family == AF_INET6;
  const UniqueFd fd(socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  int mtu = 0;
  socklen_t size = sizeof mtu;
  if (fd.get() < 0 || connect(fd.get(), to, length) != 0) return;
  if (getsockopt(fd.get(), v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &size) != 0 || mtu <= 0) return;
  peer->mtu_bytes = mtu;
  const int payload = std::min(mtu - (v6 ? kIp6HeadBytes : kIp4HeadBytes), kMaxUdpBytes);
  if (payload <= kSmallBytes) return;
  if (Arrives(to, length, payload)) peer->mtu = MtuIs::kPasses;
  else if (Arrives(to, length, kSmallBytes)) peer->mtu = MtuIs::kLost;
}

void TryPeer(PeerFact* peer) {
  const std::string host = HostOfAddress(peer->address), port = PortOfAddress(peer->address);
  const Addresses found = Resolve(host, port, SOCK_STREAM, &peer->error);
  for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next) {
    const UniqueFd fd(socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int error = fd.get() < 0 ? errno : Connect(fd.get(), a->ai_addr, a->ai_addrlen);
    if (error != 0) {
      peer->error = strerror(error);
      continue;
    }
    peer->reached = true;
    peer->error.clear();
    return ProbeMtu(a->ai_addr, a->ai_addrlen, peer);
  }
}

std::optional<bool> TakesXattrs(const std::string& path) {
  char value[8];
  if (getxattr(path.c_str(), "user.stria.doctor", value, sizeof value) >= 0 || errno == ENODATA) return true;
  if (errno == EOPNOTSUPP) return false;
  return std::nullopt;
}

// Where a file can be made at all; else it is not told.
bool TakesDirect(const std::string& path) {
  std::string name = path + "/.stria-doctor.XXXXXX";
  const UniqueFd fd(mkostemp(name.data(), O_CLOEXEC));
  if (fd.get() < 0) return true;
  const UniqueFd direct(open(name.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  const bool takes = direct.get() >= 0 || errno != EINVAL;
  (void)unlink(name.c_str());
  return takes;
}

std::string Unescaped(std::string_view word) {
  std::string out;
  for (size_t i = 0; i < word.size(); ++i) {
    const auto octal = [&](size_t at) { return at < word.size() && word[at] >= '0' && word[at] <= '7'; };
    if (word[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((word[i + 1] - '0') * 64 + (word[i + 2] - '0') * 8 + (word[i + 3] - '0'));
      i += 3;
    } else {
      out += word[i];
    }
  }
  return out;
}

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) out.push_back(part);
  return out;
}

}  // namespace

std::vector<MountLine> ParseMountLines(std::string_view text) {
  std::vector<MountLine> out;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    MountLine m;
    std::string options;
    if (!(words >> m.source >> m.point >> m.type) || m.source.starts_with('#')) continue;
    words >> options;
    m.source = Unescaped(m.source);
    m.point = Unescaped(m.point);
    while (m.point.size() > 1 && m.point.ends_with('/')) m.point.pop_back();
    m.options = Split(options, ',');
    out.push_back(std::move(m));
  }
  return out;
}

const MountLine* MountHolding(const std::vector<MountLine>& lines, const std::string& path) {
  const MountLine* best = nullptr;
  for (const MountLine& m : lines) {
    const bool holds = m.point == "/" || path == m.point || path.starts_with(m.point + "/");
    if (holds && (best == nullptr || m.point.size() >= best->point.size())) best = &m;
  }
  return best;
}

bool AllowsOthers(std::string_view fuse_conf) {
  std::istringstream lines{std::string(fuse_conf)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    if (words >> word && word == "user_allow_other") return true;
  }
  return false;
}

std::optional<bool> HasPassthrough(std::string_view config) {
  if (config.find("CONFIG_FUSE_FS") == config.npos) return std::nullopt;
  return config.find("\nCONFIG_FUSE_PASSTHROUGH=y") != config.npos;
}

std::vector<MountLine> ReadFstab() { return ParseMountLines(ReadText("/etc/fstab")); }

NameFact LookUp(const std::string& whose, const std::string& name, bool own) {
  NameFact fact;
  fact.whose = whose;
  fact.name = name;
  fact.own = own;
  const Addresses found = Resolve(name, "", SOCK_STREAM, &fact.error);
  for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::find(fact.addresses.begin(), fact.addresses.end(), text) != fact.addresses.end()) continue;
    fact.addresses.push_back(text);
    if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, nullptr, 0, NI_NAMEREQD) == 0) fact.back.push_back(text);
  }
  // An address in the place of a name is no name that could be wrong.
  if (fact.addresses.size() == 1 && (fact.addresses[0] == name || "[" + fact.addresses[0] + "]" == name)) fact.back.clear();
  return fact;
}

bool ClockIsSynchronized() {
  timex t = {};
  return adjtimex(&t) >= 0 && (t.status & STA_UNSYNC) == 0;
}

void TryPeers(std::vector<PeerFact>* peers) {
  for (size_t begin = 0; begin < peers->size(); begin += kPeersAtOnce) {
    std::vector<std::thread> threads;
    for (size_t i = begin; i < std::min(peers->size(), begin + kPeersAtOnce); ++i) threads.emplace_back([peer = &(*peers)[i]] { TryPeer(peer); });
    for (std::thread& t : threads) t.join();
  }
}

DiskFact LookAtDisk(const NewDisk& disk) {
  DiskFact fact;
  fact.label = disk.label;
  fact.path = disk.path;
  struct stat st, root;
  if (stat(disk.path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode) || stat("/", &root) != 0) return fact;
  fact.is_dir = true;
  fact.on_root = st.st_dev == root.st_dev;
  const passwd* server = getpwnam(kServerUser);
  fact.of_server = server == nullptr || st.st_uid == server->pw_uid;
  fact.superblock = access((disk.path + "/" + std::string(kSuperblockFile)).c_str(), F_OK) == 0;
  const std::vector<MountLine> mounts = ParseMountLines(ReadText("/proc/self/mounts")), fstab = ReadFstab();
  if (const MountLine* m = MountHolding(mounts, disk.path)) {
    fact.filesystem = m->type;
    fact.mount_point = m->point;
    fact.options = m->options;
    for (const MountLine& line : fstab) {
      if (line.point != m->point) continue;
      fact.in_fstab = true;
      fact.fstab_options = line.options;
    }
  }
  fact.xattrs = TakesXattrs(disk.path);
  fact.direct = TakesDirect(disk.path);
  struct statvfs v;
  if (statvfs(disk.path.c_str(), &v) == 0) {
    // As df counts: what only root may use is no capacity.
    fact.total_bytes = (v.f_blocks - (v.f_bfree - v.f_bavail)) * v.f_frsize;
    fact.free_bytes = v.f_bavail * v.f_frsize;
    fact.total_inodes = v.f_files;
    fact.free_inodes = v.f_ffree;
  }
  return fact;
}

KernelFact LookAtKernel() {
  KernelFact fact;
  utsname u;
  if (uname(&u) == 0) fact.release = u.release;
  fact.fuse = access("/dev/fuse", F_OK) == 0;
  fact.fuse_passthrough = HasPassthrough(ReadText("/boot/config-" + fact.release));
  io_uring_params params = {};
  const UniqueFd ring(static_cast<int>(syscall(__NR_io_uring_setup, 1, &params)));
  fact.io_uring = ring.get() >= 0;
  fact.user_allow_other = AllowsOthers(ReadText("/etc/fuse.conf"));
  return fact;
}

uint64_t OpenFilesHard() {
  rlimit limit = {};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : 0;
}

std::vector<CertificateFact> LookAtCertificates(const std::vector<std::string>& more) {
  std::vector<std::string> places = {kTrustDirectory};
  for (const Role role : kAllRoles) places.push_back(std::string(kTrustDirectory) + "/" + std::string(RoleName(role)));
  for (const std::string& place : more) {
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  std::vector<CertificateFact> out;
  for (const std::string& place : places) {
    if (access((place + "/node.pem").c_str(), F_OK) != 0) continue;
    CertificateFact fact;
    fact.directory = place;
    const AsOwnerOf owner(place);
    const Result<std::shared_ptr<const Credentials>> there = CredentialFiles(place).Load();
    if (!there.ok()) {
      fact.error = there.error().message;
    } else {
      fact.role = RoleName((*there)->identity.role);
      fact.name = (*there)->identity.name;
      fact.cluster = (*there)->identity.cluster.ToString();
      fact.not_before_s = (*there)->certificate.not_before_s();
      fact.not_after_s = (*there)->certificate.not_after_s();
    }
    out.push_back(std::move(fact));
  }
  return out;
}

}  // namespace stria::cli::doctor
