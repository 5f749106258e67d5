// The packets between a mount and the data server of the same machine, over a Unix socket: "open this shard for me" - "here is
// its descriptor". Numbers are in the machine's byte order: they never leave it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/local_api.h"

namespace stria {

inline constexpr size_t kMaxLocalPacketBytes = 80 * 1024;

struct LocalAsk {
  uint64_t id = 0;
  ShardId shard;
  TargetId target;
  std::string token;
};
struct LocalAnswer {
  uint64_t id = 0;
  FsError error = FsError::kOk;
  uint64_t length = 0;
  std::vector<uint32_t> crcs;
};

std::string EncodeLocal(const LocalAsk& ask);
std::string EncodeLocal(const LocalAnswer& answer);
// nullopt for bytes that are none.
std::optional<LocalAsk> DecodeLocalAsk(const std::string& packet);
std::optional<LocalAnswer> DecodeLocalAnswer(const std::string& packet);

// The data server at `address` listens on an abstract Unix socket of this name, which exists in its network
// namespace only. Both give -1 if that is not possible; sockets are non-blocking.
int ListenLocal(const std::string& address);
int ConnectLocal(const std::string& address);
// True if the process at the other end belongs to root or to this process' user.
bool IsTrustedPeer(int fd);

// The same of a data server that a mount asks, which may belong to the user of packages, too. Anybody can take a socket's name.
inline constexpr char kServerUser[] = "stria";
bool IsTrustedServer(int fd);

// False if the connection is of no more use. `fd`: -1 for none.
bool SendPacket(int fd, const std::string& packet, int passed_fd);
enum class Got { kPacket, kNothingYet, kEnd };
// A descriptor that came with it goes to `passed`.
Got ReceivePacket(int fd, std::string* packet, UniqueFd* passed);

}  // namespace stria
