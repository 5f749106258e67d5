#include "trust/join_token.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "common/codec.h"
#include "trust/ssl_ptr.h"

namespace stria {
namespace {

constexpr std::string_view kPrefix = kJoinTokenPrefix;
constexpr std::string_view kHash = "sha256=";
constexpr std::string_view kDigits = "abcdefghijklmnopqrstuvwxyz234567";  // base32: can be read aloud and typed
constexpr size_t kSecretText = 26;
constexpr size_t kMaxHost = 255;
constexpr size_t kMaxTokenText = 512;
constexpr size_t kIdDigits = 8;
constexpr uint8_t kNoNamesVersion = 1;
constexpr uint8_t kGrantVersion = 2;
constexpr size_t kMaxNamesGlob = 255;

std::string Base32(const JoinSecret& secret) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const uint8_t b : secret) {
    bits = bits << 8 | b;
    for (have += 8; have >= 5; have -= 5) out += kDigits[bits >> (have - 5) & 31];
  }
  if (have > 0) out += kDigits[bits << (5 - have) & 31];
  return out;
}

bool FromBase32(std::string_view text, JoinSecret* secret) {
  if (text.size() != kSecretText) return false;
  uint32_t bits = 0;
  int have = 0;
  size_t at = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) return false;
    bits = bits << 5 | static_cast<uint32_t>(digit);
    have += 5;
    if (have >= 8) {
      have -= 8;
      (*secret)[at++] = static_cast<uint8_t>(bits >> have);
    }
  }
  return (bits & ((1u << have) - 1)) == 0;  // one spelling
}

// Of names as IsPeerName has them, with '*' and '?'.
bool IsNamesGlob(std::string_view glob) {
  return !glob.empty() && glob.size() <= kMaxNamesGlob && std::all_of(glob.begin(), glob.end(), [](char c) {
    return c == '*' || c == '?' || IsPeerName(std::string_view(&c, 1)) || c == '.' || c == '-' || c == '_';
  });
}

bool IsHost(std::string_view host) {
  if (host.empty() || host.size() > kMaxHost) return false;
  const bool v6 = host.find(':') != host.npos;
  if (v6) return ParseIp(host).has_value();
  return host[0] != '-' && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
  });
}

PkeyPtr KeyOf(const JoinSecret& secret) {
  std::array<uint8_t, 32> seed{};
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* ctx = EVP_KDF_CTX_new(kdf);
  char digest[] = "SHA256", info[] = "stria-join-key-1";
  JoinSecret copy = secret;
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                               OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, copy.data(), copy.size()),
                               OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, sizeof info - 1),
                               OSSL_PARAM_construct_end()};
  CHECK(ctx != nullptr && EVP_KDF_derive(ctx, seed.data(), seed.size(), params) == 1, TakeSslReason());
  EVP_KDF_CTX_free(ctx);
  EVP_KDF_free(kdf);
  PkeyPtr key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()));
  CHECK(key != nullptr, TakeSslReason());
  OPENSSL_cleanse(seed.data(), seed.size());
  OPENSSL_cleanse(copy.data(), copy.size());
  return key;
}

Error NoToken(const char* why) {
  return Error(FsError::kBadRequest, std::string("this is no token to join with (stria-join:HOST:PORT:sha256=...:...): ") + why);
}

}  // namespace

std::string FormatJoinToken(const JoinToken& t) {
  CHECK(IsHost(t.host) && t.port != 0);
  const bool v6 = t.host.find(':') != t.host.npos;
  return std::string(kPrefix) + (v6 ? "[" + t.host + "]" : t.host) + ":" + std::to_string(t.port) + ":" + std::string(kHash) +
         HexOf(t.authority) + ":" + Base32(t.secret);
}

Result<JoinToken> ParseJoinToken(std::string_view text) {
  if (text.size() > kMaxTokenText || !text.starts_with(kPrefix)) return NoToken("it does not begin so, or is too long");
  text.remove_prefix(kPrefix.size());
  JoinToken t;
  const size_t secret_at = text.rfind(':');
  if (secret_at == text.npos || !FromBase32(text.substr(secret_at + 1), &t.secret)) return NoToken("its secret is not 26 letters and digits");
  text = text.substr(0, secret_at);
  const size_t hash_at = text.rfind(':');
  const std::string_view hash = hash_at == text.npos ? std::string_view() : text.substr(hash_at + 1);
  const std::optional<Sha256Hash> authority = hash.starts_with(kHash) ? ParseSha256(hash.substr(kHash.size())) : std::nullopt;
  if (!authority) return NoToken("it has no sha256= with 64 hex digits");
  t.authority = *authority;
  text = text.substr(0, hash_at);
  const size_t port_at = text.rfind(':');
  const std::string_view port = port_at == text.npos ? std::string_view() : text.substr(port_at + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), t.port);
  if (port.empty() || port[0] == '0' || error != std::errc() || end != port.data() + port.size()) return NoToken("it has no port");
  std::string_view host = text.substr(0, port_at);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!IsHost(host) || bracketed != (host.find(':') != host.npos)) return NoToken("it has no host");
  t.host = host;
  return t;
}

JoinSecret NewJoinSecret() {
  JoinSecret s;
  CHECK(RAND_bytes(s.data(), static_cast<int>(s.size())) == 1, "there is no randomness");
  return s;
}

JoinVerifier VerifierOf(const JoinSecret& secret) {
  JoinVerifier v;
  size_t n = v.size();
  CHECK(EVP_PKEY_get_raw_public_key(KeyOf(secret).get(), v.data(), &n) == 1 && n == v.size());
  return v;
}

std::string ProveJoin(const JoinSecret& secret, std::string_view message) {
  const PkeyPtr key = KeyOf(secret);
  const MdCtxPtr ctx(EVP_MD_CTX_new());
  std::string proof(kJoinProofBytes, '\0');
  size_t n = proof.size();
  CHECK(EVP_DigestSignInit(ctx.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
        EVP_DigestSign(ctx.get(), reinterpret_cast<uint8_t*>(proof.data()), &n, reinterpret_cast<const uint8_t*>(message.data()), message.size()) == 1 &&
        n == kJoinProofBytes);
  return proof;
}

bool CheckJoinProof(const JoinVerifier& verifier, std::string_view message, std::string_view proof) {
  if (proof.size() != kJoinProofBytes) return false;
  const PkeyPtr key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, verifier.data(), verifier.size()));
  const MdCtxPtr ctx(EVP_MD_CTX_new());
  const bool good = key != nullptr && EVP_DigestVerifyInit(ctx.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
                    EVP_DigestVerify(ctx.get(), reinterpret_cast<const uint8_t*>(proof.data()), proof.size(),
                                     reinterpret_cast<const uint8_t*>(message.data()), message.size()) == 1;
  ERR_clear_error();
  return good;
}

// ---- Grants ---------------------------------------------------------------------------------------

std::string JoinGrant::Id() const {
  Sha256Hash h;
  SHA256(verifier.data(), verifier.size(), h.data());
  return HexOf(h).substr(0, kIdDigits);
}

Result<void> CheckJoinGrant(const JoinGrant& g) {
  const auto bad = [](const std::string& why) { return Error(FsError::kInval, "the token cannot be made: " + why); };
  if (g.role == Role::kMeta && g.name.empty()) return bad("a metadata server gets the cluster's authority, so its token says which one: give a name");
  if (!g.name.empty() && !IsPeerName(g.name)) return bad("its name has other characters than letters, digits, '.', '-' and '_', or is too long");
  if (!g.name.empty() && g.uses != 1) return bad("a name is for one machine, and it is for " + std::to_string(g.uses));
  if (!g.names.empty() && !g.name.empty()) return bad("say either its name or which names there are, not both");
  if (!g.names.empty() && !IsNamesGlob(g.names)) return bad("its names are letters, digits, '.', '-', '_', and '*' and '?' for those that differ, as wn*");
  if (g.uses == 0 || g.uses > kMaxJoinUses) return bad("it is for 1 to " + std::to_string(kMaxJoinUses) + " machines");
  if (g.networks.size() > kMaxJoinNetworks) return bad("it has too many networks");
  if (g.trusted_root && g.role != Role::kClient) return bad("only clients have a root that can be trusted");
  if (g.used.size() > g.uses) return bad("it was used too often");
  return Ok();
}

// Exports and trusted roots go by names: who has such a token is whoever he says he is.
Result<void> CheckNewGrant(const JoinGrant& g) {
  RETURN_IF_ERROR(CheckJoinGrant(g));
  if (g.uses == 1 || !g.names.empty()) return Ok();
  return Error(FsError::kInval, "the token cannot be made: it is for " + std::to_string(g.uses) +
                                    " machines, so say which names they may have, as --names 'wn*' (--names '*': any that nobody has)");
}

std::string EncodeJoinGrant(const JoinGrant& g) {
  ByteWriter w;
  w.Raw({reinterpret_cast<const char*>(g.verifier.data()), g.verifier.size()});
  w.U8(static_cast<uint8_t>(g.role));
  w.Str(g.name);
  w.U32(g.uses);
  w.I64(g.expires_s);
  w.Bool(g.trusted_root);
  w.U32(static_cast<uint32_t>(g.networks.size()));
  for (const Network& n : g.networks) {
    w.Raw({reinterpret_cast<const char*>(n.base.bytes.data()), n.base.bytes.size()});
    w.U8(n.bits);
  }
  w.U32(static_cast<uint32_t>(g.used.size()));
  for (const Sha256Hash& h : g.used) w.Raw({reinterpret_cast<const char*>(h.data()), h.size()});
  if (g.names.empty()) return SealRecord(kNoNamesVersion, w.str());
  w.Str(g.names);
  return SealRecord(kGrantVersion, w.str());
}

Result<JoinGrant> DecodeJoinGrant(std::string_view record) {
  const Error corrupt(FsError::kCorrupt, "the record of a token to join with does not decode");
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(record, kGrantVersion, &version, &body)) return corrupt;
  ByteReader r(body);
  JoinGrant g;
  const auto raw = [&](auto& to) {
    const std::string_view bytes = r.Raw(to.size());
    if (r.ok()) std::memcpy(to.data(), bytes.data(), to.size());
  };
  raw(g.verifier);
  const uint8_t role = r.U8();
  g.name = r.Str();
  g.uses = r.U32();
  g.expires_s = r.I64();
  g.trusted_root = r.Bool();
  uint32_t n = 0;
  if (r.Count(&n, 17)) g.networks.resize(n);
  for (Network& network : g.networks) {
    raw(network.base.bytes);
    network.bits = r.U8();
    if (network.bits > 128) return corrupt;
  }
  if (r.Count(&n, 32)) g.used.resize(n);
  for (Sha256Hash& h : g.used) raw(h);
  if (version > kNoNamesVersion) g.names = r.Str();
  const bool known = std::any_of(std::begin(kAllRoles), std::end(kAllRoles), [&](Role each) { return static_cast<uint8_t>(each) == role; });
  if (!r.ok() || !known) return corrupt;
  g.role = static_cast<Role>(role);
  if (!CheckJoinGrant(g).ok()) return corrupt;
  return g;
}

}  // namespace stria
