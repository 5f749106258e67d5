// Shard tokens: a token lets a client touch one shard on one target until a time. The metadata server signs it with a cluster
// key, data servers check it. HMAC-SHA256 cut to 128 bits; a check costs well under a microsecond.
//
// Also a session's proof that it was given an inode to open or to make, the proof with which a data server registers, what a disk
// has from the node that it is in, and the text form of cluster keys.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/ids.h"

namespace stria {

// Bits of ShardToken::rights; on the wire.
enum TokenRight : uint8_t {
  kTokenRead = 1,
  kTokenWrite = 2,  // also seal
  kTokenDelete = 4,
  kTokenAdmin = 8,  // inventory, scrub and the like, of the target named; with shard 0
};
inline constexpr uint8_t kTokenAllRights = kTokenRead | kTokenWrite | kTokenDelete | kTokenAdmin;

struct ShardToken {
  ShardId shard;
  TargetId target;
  uint8_t rights = 0;
  int64_t expiry_s = 0;  // wall clock, seconds since 1970; good up to and including it
  uint32_t key_id = 0;
  std::array<uint8_t, 16> mac{};
  bool operator==(const ShardToken&) const = default;
};

inline constexpr size_t kTokenBytes = 42;
// Always kTokenBytes long.
std::string EncodeToken(const ShardToken& token);
// kBadToken unless `bytes` are of an encoded token (its MAC is not looked at).
Result<ShardToken> DecodeToken(std::string_view bytes);

// Bits of OpenProof::rights.
enum OpenRight : uint8_t {
  kOpenRead = 1,    // it was opened for reading
  kOpenWrite = 2,
  kOpenNumber = 4,  // the number was given for an inode that the session made, or will make
};
// A grant of the metadata server to a session. The session keeps the proof and shows it where the server does not remember:
// after a restart, or after the inode was given back. Valid for this session only, and as long as it lives.
struct OpenProof {
  SessionId session;
  InodeId first;
  uint32_t count = 1;  // inodes, from the first on
  uint8_t rights = 0;
};

// OpenProof::rights as such a proof has them, true or not; 0 if it is none.
uint8_t RightsIn(std::string_view open_proof);

struct ClusterKey {
  uint32_t id = 0;  // from 1
  std::array<uint8_t, 32> secret{};
};
inline constexpr size_t kMaxClusterKeys = 8;
// A key file: lines of "ID SECRET", the secret in 64 hex digits; '#' starts a comment. The first key
// signs, all check: so keys can be changed while everything runs.
Result<std::vector<ClusterKey>> ParseClusterKeys(std::string_view text);
std::string FormatClusterKey(const ClusterKey& key);  // one line

namespace token_internal {
class Hmac;
}

// Immutable; any thread.
class TokenSigner {
 public:
  explicit TokenSigner(const ClusterKey& key);
  ~TokenSigner();
  ShardToken Sign(ShardId shard, TargetId target, uint8_t rights, int64_t expiry_s) const;
  std::string ProveOpen(const OpenProof& what) const;
  // The secret of a session: not to be guessed without the key.
  Epoch SecretEpoch(SessionId session, uint64_t nonce) const;
  // Proof that a node knows the key, for RegisterNode.
  std::string ProveNode(const Uuid& uuid, std::string_view name) const;
  // What the node that has a disk keeps on it: who shows it has the disk, or had it while it was that node's.
  std::string ProveDisk(const Uuid& disk, NodeId node) const;
  uint32_t key_id() const { return key_id_; }

 private:
  const uint32_t key_id_;
  std::unique_ptr<const token_internal::Hmac> hmac_;
};

// Immutable; any thread.
class TokenVerifier {
 public:
  // REQUIRES: at most kMaxClusterKeys, of different ids.
  explicit TokenVerifier(const std::vector<ClusterKey>& keys);
  ~TokenVerifier();
  // `right` is one TokenRight. kBadToken: forged, unknown key, or for something else. kTokenExpired.
  Result<void> Check(const ShardToken& token, ShardId shard, TargetId target, uint8_t right,
                     int64_t now_s) const;
  // The same for an encoded one.
  Result<void> Check(std::string_view token, ShardId shard, TargetId target, uint8_t right,
                     int64_t now_s) const;
  // The rights of that session to that inode, if `proof` was made by ProveOpen with one of the keys, else 0.
  uint8_t OpenRights(std::string_view proof, SessionId session, InodeId ino) const;
  // kBadToken unless `proof` was made by ProveNode with one of the keys.
  Result<void> CheckNode(std::string_view proof, const Uuid& uuid, std::string_view name) const;
  // Whether `proof` was made by ProveDisk with one of the keys.
  bool KnowsDisk(std::string_view proof, const Uuid& disk, NodeId node) const;

 private:
  const token_internal::Hmac* Find(uint32_t key_id) const;
  std::vector<std::pair<uint32_t, std::unique_ptr<const token_internal::Hmac>>> keys_;
};

}  // namespace stria
