#include "common/bound_token.h"

#include <algorithm>
#include <cstring>

#include "common/bad_token.h"
#include "common/codec.h"
#include "common/token_hmac.h"

namespace stria {
namespace {

using token_internal::Digest;
using token_internal::Hmac;

constexpr uint8_t kBoundTokenVersion = 2;
constexpr std::string_view kPurpose = "stria-shard-2";
constexpr std::string_view kNodeKeySalt = "stria-node-key-1";

std::string Body(const BoundToken& t) {
  ByteWriter w;
  w.U64(t.shard.v);
  w.U32(t.target.v);
  w.U8(t.rights);
  w.I64(t.expiry_s);
  w.U32(t.key_id);
  w.U64(t.holder);
  w.U64(t.most_bytes);
  w.U64(t.incarnation);
  return w.Take();
}

std::array<uint8_t, 16> MacOf(const Hmac& hmac, const BoundToken& t) {
  const Digest d = hmac.Of(std::string(kPurpose) + Body(t));
  std::array<uint8_t, 16> mac;
  std::copy_n(d.begin(), mac.size(), mac.begin());
  return mac;
}

std::string_view View(const std::array<uint8_t, 32>& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

std::string EncodeBoundToken(const BoundToken& token) {
  ByteWriter w;
  w.U8(kBoundTokenVersion);
  w.Raw(Body(token));
  w.Raw({reinterpret_cast<const char*>(token.mac.data()), token.mac.size()});
  CHECK(w.size() == kBoundTokenBytes);
  return w.Take();
}

bool IsBoundToken(std::string_view bytes) { return !bytes.empty() && static_cast<uint8_t>(bytes[0]) == kBoundTokenVersion; }

Result<BoundToken> DecodeBoundToken(std::string_view bytes) {
  if (bytes.empty()) return BadToken("is missing");
  if (!IsBoundToken(bytes)) return BadToken("is bound to no holder, or has an unknown version");
  if (bytes.size() != kBoundTokenBytes) return BadToken("has the wrong length");
  ByteReader r(bytes.substr(1));
  BoundToken t;
  t.shard = ShardId(r.U64());
  t.target = TargetId(r.U32());
  t.rights = r.U8();
  t.expiry_s = r.I64();
  t.key_id = r.U32();
  t.holder = r.U64();
  t.most_bytes = r.U64();
  t.incarnation = r.U64();
  const std::string_view mac = r.Raw(t.mac.size());
  std::memcpy(t.mac.data(), mac.data(), t.mac.size());
  if (t.rights == 0 || (t.rights & ~kTokenAllRights) != 0) return BadToken("has unknown rights");
  if (t.holder == 0) return BadToken("has no holder");
  return t;
}

uint32_t KeyGeneration(int64_t now_s) { return static_cast<uint32_t>(std::clamp<int64_t>(now_s / kKeyLifeS, 2, UINT32_MAX - 1)); }

// RFC 5869, with one block of output.
ClusterKey DeriveNodeKey(const ClusterKey& master, const Uuid& node, uint32_t generation) {
  std::array<uint8_t, 32> salt{};
  std::memcpy(salt.data(), kNodeKeySalt.data(), kNodeKeySalt.size());  // HMAC pads keys with zeros: the same key
  Digest extracted = Hmac(salt).Of(View(master.secret));
  ByteWriter info;
  info.U64(node.hi);
  info.U64(node.lo);
  info.U32(generation);
  info.U8(1);
  ClusterKey key;
  key.id = generation;
  key.secret = Hmac(extracted).Of(info.str());
  OPENSSL_cleanse(extracted.data(), extracted.size());
  return key;
}

std::vector<ClusterKey> NodeKeysAround(const ClusterKey& master, const Uuid& node, int64_t now_s) {
  const uint32_t today = KeyGeneration(now_s);
  return {DeriveNodeKey(master, node, today - 1), DeriveNodeKey(master, node, today), DeriveNodeKey(master, node, today + 1)};
}

BoundTokenSigner::BoundTokenSigner(const ClusterKey& node_key)
    : generation_(node_key.id), hmac_(std::make_unique<const Hmac>(node_key.secret)) {}
BoundTokenSigner::~BoundTokenSigner() = default;

BoundToken BoundTokenSigner::Sign(BoundToken t) const {
  CHECK(t.rights != 0 && (t.rights & ~kTokenAllRights) == 0 && t.holder != 0);
  t.key_id = generation_;
  t.mac = MacOf(*hmac_, t);
  return t;
}

BoundTokenVerifier::BoundTokenVerifier(const std::vector<ClusterKey>& node_keys, uint64_t incarnation) : incarnation_(incarnation) {
  CHECK(node_keys.size() <= kMaxClusterKeys);
  for (const ClusterKey& key : node_keys) {
    const bool twice = std::any_of(keys_.begin(), keys_.end(), [&](const auto& k) { return k.first == key.id; });
    CHECK(!twice, "two keys of one generation");
    keys_.emplace_back(key.id, std::make_unique<const Hmac>(key.secret));
  }
}
BoundTokenVerifier::~BoundTokenVerifier() = default;

Result<void> BoundTokenVerifier::Check(std::string_view token, const TokenUse& use, int64_t now_s) const {
  ASSIGN_OR_RETURN(const BoundToken t, DecodeBoundToken(token));
  const auto key = std::find_if(keys_.begin(), keys_.end(), [&](const auto& k) { return k.first == t.key_id; });
  if (key == keys_.end()) return BadToken("is signed with a key that is not known here");
  const auto mac = MacOf(*key->second, t);
  if (CRYPTO_memcmp(mac.data(), t.mac.data(), mac.size()) != 0) return BadToken("is forged or damaged");
  if (!use.any_holder && t.holder != use.holder) return BadToken("is another's");
  if (t.incarnation != incarnation_) return BadToken("is of another incarnation of the cluster");
  if (t.shard != use.shard || t.target != use.target) return BadToken("is for another shard or disk");
  if ((t.rights & use.right) == 0) return BadToken("does not give the right to do this");
  if (use.right == kTokenWrite && use.bytes > t.most_bytes) return BadToken("is for fewer bytes");
  if (now_s > t.expiry_s) return Error(FsError::kTokenExpired, "the shard token has expired");
  return Ok();
}

}  // namespace stria
