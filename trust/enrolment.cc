#include "trust/enrolment.h"

#include <algorithm>
#include <cstring>

#include "common/codec.h"
#include "common/printable.h"
#include "trust/exports.h"

namespace stria {
namespace {

constexpr uint8_t kRequestVersion = 1;
constexpr uint8_t kAnswerVersion = 1;
constexpr uint8_t kMemberVersion = 1;
constexpr std::string_view kPurpose = "stria-join-1";

std::string SignedBytes(const JoinRequest& r, std::string_view binding) {
  ByteWriter w;
  w.Raw(kPurpose);
  w.Str(binding);
  w.Raw({reinterpret_cast<const char*>(r.verifier.data()), r.verifier.size()});
  w.Str(r.name);
  w.Str(r.request);
  return w.Take();
}

Error Refused(const std::string& why) { return Error(FsError::kAccess, "this machine may not join: " + why); }

}  // namespace

JoinRequest MakeJoinRequest(const JoinSecret& secret, const std::string& name, const CertRequest& csr, std::string_view binding) {
  JoinRequest r{VerifierOf(secret), name, csr.ToDer(), ""};
  r.proof = ProveJoin(secret, SignedBytes(r, binding));
  return r;
}

std::string EncodeJoinRequest(const JoinRequest& request) {
  ByteWriter w;
  w.Raw({reinterpret_cast<const char*>(request.verifier.data()), request.verifier.size()});
  w.Str(request.name);
  w.Str(request.request);
  w.Str(request.proof);
  return SealRecord(kRequestVersion, w.str());
}

Result<JoinRequest> DecodeJoinRequest(std::string_view bytes) {
  const Error bad(FsError::kBadRequest, "a request to join is malformed");
  uint8_t version = 0;
  std::string_view body;
  if (bytes.size() > kMaxJoinRequestBytes || !OpenRecord(bytes, kRequestVersion, &version, &body)) return bad;
  ByteReader r(body);
  JoinRequest request;
  const std::string_view verifier = r.Raw(request.verifier.size());
  request.name = r.Str();
  request.request = r.Str();
  request.proof = r.Str();
  if (!r.ok() || (!request.name.empty() && !IsPeerName(request.name)) || request.proof.size() != kJoinProofBytes ||
      request.request.size() > kMaxRequestBytes) {
    return bad;
  }
  std::memcpy(request.verifier.data(), verifier.data(), verifier.size());
  return request;
}

std::string EncodeJoinAnswer(const JoinAnswer& answer) {
  ByteWriter w;
  w.Str(answer.certificate);
  w.Str(answer.bundle);
  if (!answer.member.empty()) w.Str(answer.member);
  return SealRecord(kAnswerVersion, w.str());
}

Result<JoinAnswer> DecodeJoinAnswer(std::string_view bytes) {
  uint8_t version = 0;
  std::string_view body;
  const bool opened = OpenRecord(bytes, kAnswerVersion, &version, &body);
  ByteReader r(body);
  JoinAnswer answer;
  answer.certificate = r.Str();
  answer.bundle = r.Str();
  if (r.ok() && r.left() > 0) answer.member = r.Str();
  if (!opened || !r.ok()) return Error(FsError::kBadRequest, "the answer to a request to join is malformed");
  return answer;
}

std::string EncodeMemberSecrets(const MemberSecrets& secrets) {
  ByteWriter w;
  w.Str(secrets.authority);
  w.Str(secrets.master_key);
  w.U32(static_cast<uint32_t>(secrets.etcd.size()));
  for (const std::string& e : secrets.etcd) w.Str(e);
  for (const std::string* path : {&secrets.ca, &secrets.cert, &secrets.key}) w.Str(*path);
  return SealRecord(kMemberVersion, w.str());
}

Result<MemberSecrets> DecodeMemberSecrets(std::string_view bytes) {
  uint8_t version = 0;
  std::string_view body;
  const bool opened = OpenRecord(bytes, kMemberVersion, &version, &body);
  ByteReader r(body);
  MemberSecrets secrets;
  secrets.authority = r.Str();
  secrets.master_key = r.Str();
  const uint32_t members = r.U32();
  if (members > kMaxEtcdTold) return Error(FsError::kBadRequest, "the answer to a metadata server names too many members of etcd");
  for (uint32_t i = 0; i < members && r.ok(); ++i) secrets.etcd.emplace_back(r.Str());
  for (std::string* path : {&secrets.ca, &secrets.cert, &secrets.key}) *path = r.Str();
  if (!opened || !r.ok()) return Error(FsError::kBadRequest, "what a metadata server is given to join with is malformed");
  if (const Result<Authority> authority = Authority::FromPem(secrets.authority); !authority.ok()) {
    return Error(FsError::kBadRequest, "what a metadata server is given to join with has no authority that is good: " + authority.error().message);
  }
  return secrets;
}

Result<void> CheckMemberSecrets(const MemberSecrets& secrets, const Bundle& believed) {
  ASSIGN_OR_RETURN(const Authority authority, Authority::FromPem(secrets.authority));
  if (!believed.Has(authority.certificate().hash())) {
    return Error(FsError::kWrongCluster, "the authority that a metadata server is given to join with is none that the cluster believes");
  }
  const auto is_plain = [](const std::string& text, bool with_spaces) {
    return text.size() <= kMaxMemberTextTold && std::all_of(text.begin(), text.end(), [&](char c) { return c > ' ' ? c < 0x7f : with_spaces && c == ' '; });
  };
  const auto odd = [](const std::string& what) { return Error(FsError::kBadRequest, "what a metadata server is given to join with has " + what); };
  for (const std::string& e : secrets.etcd) {
    if (e.empty() || !is_plain(e, false)) return odd("a member of etcd that is no HOST:PORT");
  }
  for (const std::string* path : {&secrets.ca, &secrets.cert, &secrets.key}) {
    if (!path->empty() && (path->front() != '/' || !is_plain(*path, true))) return odd("a path of a file for etcd that is none");
  }
  if (secrets.master_key.empty() || secrets.master_key.find('\0') != secrets.master_key.npos) return odd("no secret of tokens");
  return Ok();
}

Result<Certificate> AdmitJoin(const JoinRequest& request, JoinGrant* grant, std::string_view binding, std::string_view address,
                              const Authority& authority, int64_t now_s, int64_t life_s) {
  // Nothing is said of the grant to who does not know its secret.
  if (request.verifier != grant->verifier || !CheckJoinProof(grant->verifier, SignedBytes(request, binding), request.proof)) {
    return Refused("its token is not known here");
  }
  const std::string token = "the token " + grant->Id() + " ";
  if (now_s > grant->expires_s) return Refused(token + "has expired");
  if (!grant->networks.empty()) {
    const std::optional<IpAddress> from = IpOfAddress(address);
    const bool inside = from && std::any_of(grant->networks.begin(), grant->networks.end(), [&](const Network& n) { return n.Has(*from); });
    if (!inside) return Refused(token + "is for other networks than that of " + (from ? from->ToString() : "its address"));
  }
  const std::string& name = grant->name.empty() ? request.name : grant->name;
  if (name.empty()) return Refused(token + "names no machine, and neither does the request");
  if (!request.name.empty() && request.name != name) return Refused(token + "is for " + name + ", not for " + request.name);
  if (!grant->names.empty() && !GlobMatches(grant->names, name)) {
    return Refused(token + "is for machines called " + grant->names + ", not for " + Printable(name));
  }
  ASSIGN_OR_RETURN(const CertRequest csr, CertRequest::FromDer(request.request));
  const Sha256Hash key = csr.key_hash();
  const bool again = std::find(grant->used.begin(), grant->used.end(), key) != grant->used.end();
  if (!again && grant->used.size() >= grant->uses) return Refused(token + "is used up");
  ASSIGN_OR_RETURN(Certificate certificate, authority.Sign(csr, {authority.cluster(), grant->role, name}, now_s, life_s));
  if (!again) grant->used.push_back(key);
  return certificate;
}

Result<Credentials> AcceptJoin(const JoinAnswer& answer, const PrivateKey& key, const Sha256Hash& pinned) {
  ASSIGN_OR_RETURN(Certificate certificate, Certificate::FromPem(answer.certificate));
  ASSIGN_OR_RETURN(Bundle bundle, Bundle::FromPem(answer.bundle));
  if (!bundle.Has(pinned)) return Error(FsError::kWrongCluster, "the cluster's bundle does not have the authority that the join command names");
  return Credentials::Of(key, std::move(certificate), std::move(bundle), Revoked());
}

Result<Certificate> Renew(const Peer& peer, const CertRequest& csr, const Authority& authority, int64_t now_s, int64_t life_s) {
  return authority.Sign(csr, {authority.cluster(), peer.role, peer.name}, now_s, life_s);
}

}  // namespace stria
