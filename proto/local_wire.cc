#include "proto/local_wire.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>


namespace stria {
namespace {

constexpr char kNamePrefix[] = "stria-data/";
constexpr int kBacklog = 64;
constexpr size_t kMaxTokenBytes = 4096;

struct AskHead {
  uint64_t id, shard;
  uint32_t target, token_bytes;
};
struct AnswerHead {
  uint64_t id, length;
  uint32_t error, crcs;
};

socklen_t NameFor(const std::string& address, sockaddr_un* out) {
  *out = {};
  out->sun_family = AF_UNIX;
  const std::string name = kNamePrefix + address;
  if (name.size() + 1 > sizeof(out->sun_path)) return 0;
  memcpy(out->sun_path + 1, name.data(), name.size());  // a leading NUL: not in the file system
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

std::optional<uid_t> PeerUser(int fd) {
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return std::nullopt;
  return peer.uid;
}

// Looked up once, and only where somebody has to be told apart from it.
std::optional<uid_t> ServerUser() {
  static const std::optional<uid_t> user = []() -> std::optional<uid_t> {
    std::vector<char> text(16 * 1024);
    passwd entry = {};
    passwd* found = nullptr;
    if (getpwnam_r(kServerUser, &entry, text.data(), text.size(), &found) != 0 || found == nullptr) return std::nullopt;
    return found->pw_uid;
  }();
  return user;
}

int NewSocket() { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

}  // namespace

std::string EncodeLocal(const LocalAsk& ask) {
  const AskHead head{ask.id, ask.shard.v, ask.target.v, static_cast<uint32_t>(ask.token.size())};
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + ask.token;
}

std::string EncodeLocal(const LocalAnswer& answer) {
  const AnswerHead head{answer.id, answer.length, static_cast<uint32_t>(answer.error),
                        static_cast<uint32_t>(answer.crcs.size())};
  std::string out(reinterpret_cast<const char*>(&head), sizeof head);
  return out.append(reinterpret_cast<const char*>(answer.crcs.data()), answer.crcs.size() * sizeof(uint32_t));
}

std::optional<LocalAsk> DecodeLocalAsk(const std::string& packet) {
  AskHead head;
  if (packet.size() < sizeof head) return std::nullopt;
  memcpy(&head, packet.data(), sizeof head);
  if (head.token_bytes > kMaxTokenBytes || packet.size() != sizeof head + head.token_bytes) return std::nullopt;
  return LocalAsk{head.id, ShardId(head.shard), TargetId(head.target), packet.substr(sizeof head)};
}

std::optional<LocalAnswer> DecodeLocalAnswer(const std::string& packet) {
  AnswerHead head;
  if (packet.size() < sizeof head) return std::nullopt;
  memcpy(&head, packet.data(), sizeof head);
  if (head.crcs > kMaxLocalCrcs || packet.size() != sizeof head + head.crcs * sizeof(uint32_t)) return std::nullopt;
  LocalAnswer out{head.id, static_cast<FsError>(head.error), head.length, std::vector<uint32_t>(head.crcs)};
  if (head.crcs > 0) memcpy(out.crcs.data(), packet.data() + sizeof head, head.crcs * sizeof(uint32_t));
  return out;
}

int ListenLocal(const std::string& address) {
  sockaddr_un name;
  const socklen_t bytes = NameFor(address, &name);
  UniqueFd fd(bytes > 0 ? NewSocket() : -1);
  if (!fd.ok() || bind(fd.get(), reinterpret_cast<sockaddr*>(&name), bytes) != 0 || listen(fd.get(), kBacklog) != 0) {
    return -1;
  }
  return fd.Release();
}

int ConnectLocal(const std::string& address) {
  sockaddr_un name;
  const socklen_t bytes = NameFor(address, &name);
  UniqueFd fd(bytes > 0 ? NewSocket() : -1);
  if (!fd.ok() || connect(fd.get(), reinterpret_cast<sockaddr*>(&name), bytes) != 0) return -1;
  return IsTrustedServer(fd.get()) ? fd.Release() : -1;
}

bool IsTrustedPeer(int fd) {
  const std::optional<uid_t> uid = PeerUser(fd);
  return uid && (*uid == 0 || *uid == geteuid());
}

bool IsTrustedServer(int fd) {
  if (IsTrustedPeer(fd)) return true;
  const std::optional<uid_t> uid = PeerUser(fd);
  return uid && uid == ServerUser();
}

bool SendPacket(int fd, const std::string& packet, int passed_fd) {
  iovec part = {const_cast<char*>(packet.data()), packet.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (passed_fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &passed_fd, sizeof passed_fd);
  }
  ssize_t n;
  do {
    n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(packet.size());
}

Got ReceivePacket(int fd, std::string* packet, UniqueFd* passed) {
  packet->resize(kMaxLocalPacketBytes);
  iovec part = {packet->data(), packet->size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Got::kNothingYet;
  passed->Reset();
  if (n > 0) {
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int))) continue;
      int got;
      memcpy(&got, CMSG_DATA(c), sizeof got);
      *passed = UniqueFd(got);
    }
  }
  if (n <= 0 || (message.msg_flags & MSG_TRUNC)) return Got::kEnd;
  packet->resize(static_cast<size_t>(n));
  return Got::kPacket;
}

}  // namespace stria
