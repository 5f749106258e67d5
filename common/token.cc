#include "common/token_hmac.h"

#include "common/token.h"

#include <algorithm>
#include <cstring>

#include "common/bad_token.h"
#include "common/codec.h"

namespace stria {
namespace {

using token_internal::Digest;
using token_internal::Hmac;

constexpr uint8_t kTokenVersion = 1;
// The signed bytes start with their purpose, so that no MAC serves for another.
constexpr std::string_view kTokenPurpose = "stria-shard-1";
constexpr std::string_view kNodePurpose = "stria-node-1";
constexpr std::string_view kDiskPurpose = "stria-disk-1";
constexpr std::string_view kOpenPurpose = "stria-open-1";
constexpr std::string_view kSessionPurpose = "stria-session-1";
constexpr size_t kOpenMacBytes = 16;
constexpr size_t kOpenRightsAt = 4 + 8 + 4;
constexpr size_t kOpenProofBytes = kOpenRightsAt + 1 + kOpenMacBytes;
constexpr size_t kHexSecret = 64;

std::string Body(const ShardToken& t) {
  ByteWriter w;
  w.U64(t.shard.v);
  w.U32(t.target.v);
  w.U8(t.rights);
  w.I64(t.expiry_s);
  w.U32(t.key_id);
  return w.Take();
}

std::array<uint8_t, 16> MacOf(const Hmac& hmac, const ShardToken& t) {
  const Digest d = hmac.Of(std::string(kTokenPurpose) + Body(t));
  std::array<uint8_t, 16> mac;
  std::copy_n(d.begin(), mac.size(), mac.begin());
  return mac;
}

Digest NodeMac(const Hmac& hmac, const Uuid& uuid, std::string_view name) {
  ByteWriter w;
  w.Raw(kNodePurpose);
  w.U64(uuid.hi);
  w.U64(uuid.lo);
  w.Str(name);
  return hmac.Of(w.str());
}

Digest DiskMac(const Hmac& hmac, const Uuid& disk, NodeId node) {
  ByteWriter w;
  w.Raw(kDiskPurpose);
  w.U64(disk.hi);
  w.U64(disk.lo);
  w.U32(node.v);
  return hmac.Of(w.str());
}

// "KEY-ID MAC"
std::string ProofOf(uint32_t key_id, const Digest& mac) {
  ByteWriter w;
  w.U32(key_id);
  w.Raw({reinterpret_cast<const char*>(mac.data()), mac.size()});
  return w.Take();
}

Digest OpenMac(const Hmac& hmac, const OpenProof& p) {
  ByteWriter w;
  w.Raw(kOpenPurpose);
  w.U64(p.session.v);
  w.U64(p.first.v);
  w.U32(p.count);
  w.U8(p.rights);
  return hmac.Of(w.str());
}

// -1 if not a hex digit.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool ParseKeyLine(std::string_view line, ClusterKey* key) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space > 9) return false;
  for (const char c : line.substr(0, space)) {
    if (c < '0' || c > '9') return false;
    key->id = key->id * 10 + static_cast<uint32_t>(c - '0');
  }
  const std::string_view hex = line.substr(space + 1);
  if (hex.size() != kHexSecret || key->id == 0) return false;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int hi = HexValue(hex[i]), lo = HexValue(hex[i + 1]);
    if (hi < 0 || lo < 0) return false;
    key->secret[i / 2] = static_cast<uint8_t>(hi << 4 | lo);
  }
  return true;
}

}  // namespace

std::string EncodeToken(const ShardToken& token) {
  ByteWriter w;
  w.U8(kTokenVersion);
  w.Raw(Body(token));
  w.Raw({reinterpret_cast<const char*>(token.mac.data()), token.mac.size()});
  CHECK(w.size() == kTokenBytes);
  return w.Take();
}

Result<ShardToken> DecodeToken(std::string_view bytes) {
  if (bytes.size() != kTokenBytes) return BadToken(bytes.empty() ? "is missing" : "has the wrong length");
  ByteReader r(bytes);
  if (r.U8() != kTokenVersion) return BadToken("has an unknown version");
  ShardToken t;
  t.shard = ShardId(r.U64());
  t.target = TargetId(r.U32());
  t.rights = r.U8();
  t.expiry_s = r.I64();
  t.key_id = r.U32();
  const std::string_view mac = r.Raw(t.mac.size());
  std::memcpy(t.mac.data(), mac.data(), t.mac.size());
  if (t.rights == 0 || (t.rights & ~kTokenAllRights) != 0) return BadToken("has unknown rights");
  return t;
}

Result<std::vector<ClusterKey>> ParseClusterKeys(std::string_view text) {
  std::vector<ClusterKey> keys;
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    line = line.substr(0, line.find('#'));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string where = "line " + std::to_string(number) + " of the cluster key file ";
    ClusterKey key;
    if (!ParseKeyLine(line, &key)) {
      return Error(FsError::kBadRequest, where + "is not 'ID SECRET' with a secret of 64 hex digits");
    }
    for (const ClusterKey& k : keys) {
      if (k.id == key.id)
        return Error(FsError::kBadRequest, where + "repeats the id " + std::to_string(key.id));
    }
    keys.push_back(key);
    if (keys.size() > kMaxClusterKeys) return Error(FsError::kBadRequest, where + "is one key too many");
  }
  if (keys.empty()) return Error(FsError::kBadRequest, "the cluster key file has no key");
  return keys;
}

std::string FormatClusterKey(const ClusterKey& key) {
  std::string out = std::to_string(key.id) + " ";
  for (const uint8_t b : key.secret) {
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return out + "\n";
}

uint8_t RightsIn(std::string_view open_proof) {
  return open_proof.size() == kOpenProofBytes ? static_cast<uint8_t>(open_proof[kOpenRightsAt]) : 0;
}

TokenSigner::TokenSigner(const ClusterKey& key)
    : key_id_(key.id), hmac_(std::make_unique<const Hmac>(key.secret)) {}
TokenSigner::~TokenSigner() = default;

ShardToken TokenSigner::Sign(ShardId shard, TargetId target, uint8_t rights, int64_t expiry_s) const {
  CHECK(rights != 0 && (rights & ~kTokenAllRights) == 0);
  ShardToken t{shard, target, rights, expiry_s, key_id_, {}};
  t.mac = MacOf(*hmac_, t);
  return t;
}

std::string TokenSigner::ProveOpen(const OpenProof& what) const {
  const Digest d = OpenMac(*hmac_, what);
  ByteWriter w;
  w.U32(key_id_);
  w.U64(what.first.v);
  w.U32(what.count);
  w.U8(what.rights);
  w.Raw({reinterpret_cast<const char*>(d.data()), kOpenMacBytes});
  return w.Take();
}

Epoch TokenSigner::SecretEpoch(SessionId session, uint64_t nonce) const {
  ByteWriter w;
  w.Raw(kSessionPurpose);
  w.U64(session.v);
  w.U64(nonce);
  const Digest d = hmac_->Of(w.str());
  uint64_t epoch = 0;
  std::memcpy(&epoch, d.data(), sizeof epoch);
  return Epoch((epoch >> 1) | 1);  // it grows when the session comes back
}

std::string TokenSigner::ProveNode(const Uuid& uuid, std::string_view name) const { return ProofOf(key_id_, NodeMac(*hmac_, uuid, name)); }
std::string TokenSigner::ProveDisk(const Uuid& disk, NodeId node) const { return ProofOf(key_id_, DiskMac(*hmac_, disk, node)); }

TokenVerifier::TokenVerifier(const std::vector<ClusterKey>& keys) {
  CHECK(keys.size() <= kMaxClusterKeys);
  for (const ClusterKey& key : keys) {
    CHECK(Find(key.id) == nullptr, "two cluster keys with one id");
    keys_.emplace_back(key.id, std::make_unique<const Hmac>(key.secret));
  }
}
TokenVerifier::~TokenVerifier() = default;

const Hmac* TokenVerifier::Find(uint32_t key_id) const {
  for (const auto& [id, hmac] : keys_) {
    if (id == key_id) return hmac.get();
  }
  return nullptr;
}

Result<void> TokenVerifier::Check(const ShardToken& token, ShardId shard, TargetId target, uint8_t right,
                                  int64_t now_s) const {
  const Hmac* hmac = Find(token.key_id);
  if (hmac == nullptr) return BadToken("is signed with a key that is not known here");
  const auto mac = MacOf(*hmac, token);
  if (CRYPTO_memcmp(mac.data(), token.mac.data(), mac.size()) != 0) return BadToken("is forged or damaged");
  if (token.shard != shard || token.target != target) return BadToken("is for another shard or disk");
  if ((token.rights & right) == 0) return BadToken("does not give the right to do this");
  if (now_s > token.expiry_s) return Error(FsError::kTokenExpired, "the shard token has expired");
  return Ok();
}

Result<void> TokenVerifier::Check(std::string_view token, ShardId shard, TargetId target, uint8_t right,
                                  int64_t now_s) const {
  ASSIGN_OR_RETURN(const ShardToken t, DecodeToken(token));
  return Check(t, shard, target, right, now_s);
}

uint8_t TokenVerifier::OpenRights(std::string_view proof, SessionId session, InodeId ino) const {
  if (proof.size() != kOpenProofBytes) return 0;
  ByteReader r(proof);
  const Hmac* hmac = Find(r.U32());
  OpenProof p;
  p.session = session;
  p.first = InodeId(r.U64());
  p.count = r.U32();
  p.rights = r.U8();
  if (hmac == nullptr || ino < p.first || ino.v - p.first.v >= p.count) return 0;
  const Digest d = OpenMac(*hmac, p);
  return CRYPTO_memcmp(d.data(), r.Raw(kOpenMacBytes).data(), kOpenMacBytes) == 0 ? p.rights : 0;
}

Result<void> TokenVerifier::CheckNode(std::string_view proof, const Uuid& uuid, std::string_view name) const {
  ByteReader r(proof);
  const Hmac* hmac = Find(r.U32());
  const std::string_view mac = r.Raw(SHA256_DIGEST_LENGTH);
  if (r.ok() && r.left() == 0 && hmac != nullptr) {
    const Digest want = NodeMac(*hmac, uuid, name);
    if (CRYPTO_memcmp(want.data(), mac.data(), want.size()) == 0) return Ok();
  }
  return Error(FsError::kBadToken, "the node does not have this cluster's key");
}

bool TokenVerifier::KnowsDisk(std::string_view proof, const Uuid& disk, NodeId node) const {
  ByteReader r(proof);
  const Hmac* hmac = Find(r.U32());
  const std::string_view mac = r.Raw(SHA256_DIGEST_LENGTH);
  if (!r.ok() || r.left() != 0 || hmac == nullptr) return false;
  const Digest want = DiskMac(*hmac, disk, node);
  return CRYPTO_memcmp(want.data(), mac.data(), want.size()) == 0;
}

}  // namespace stria
