// The exchange by which a machine joins: one request, one answer, over TLS whose server has shown the authority that the token names
// (TlsContext::MakeJoining). Pure: the metadata server keeps the grants and signs; renewal is the same without a token.
//
//   request   verifier of the token | name it wants | CSR | signature by the token's secret over all of that and the connection
//   answer    certificate | bundle | of a metadata server: what it is the cluster's authority with
//
// The signature covers the connection's exporter value, so a request that somebody catches is worth nothing on another connection. An
// answer may be lost: who asks again with the same key gets another certificate, and it counts once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trust/credentials.h"
#include "trust/join_token.h"

namespace stria {

struct JoinRequest {
  JoinVerifier verifier{};
  std::string name;     // of this machine; empty: as the grant says
  std::string request;  // DER of a CertRequest
  std::string proof;
  bool operator==(const JoinRequest&) const = default;
};
inline constexpr size_t kMaxJoinRequestBytes = 3072;
// `binding`: TlsSession::ChannelBinding.
JoinRequest MakeJoinRequest(const JoinSecret& secret, const std::string& name, const CertRequest& csr, std::string_view binding);
std::string EncodeJoinRequest(const JoinRequest& request);
// kBadRequest.
Result<JoinRequest> DecodeJoinRequest(std::string_view bytes);

struct JoinAnswer {
  std::string certificate;  // PEM
  std::string bundle;       // PEM
  std::string member;       // of a metadata server: EncodeMemberSecrets; else ""
  bool operator==(const JoinAnswer&) const = default;
};
std::string EncodeJoinAnswer(const JoinAnswer& answer);
Result<JoinAnswer> DecodeJoinAnswer(std::string_view bytes);

// What a machine is given beside its certificate that joins as one of several metadata servers: it is the cluster's authority from then on,
// as the others are. Secret.
struct MemberSecrets {
  std::string authority;           // the text of authority.pem
  std::string master_key;          // of master.key
  std::vector<std::string> etcd;   // host:port of each member of etcd
  std::string ca, cert, key;       // where the others have their files for etcd over TLS; "": they have none
  bool operator==(const MemberSecrets&) const = default;
};
inline constexpr size_t kMaxEtcdTold = 16;
inline constexpr size_t kMaxMemberTextTold = 1024;  // bytes of an address or a path
std::string EncodeMemberSecrets(const MemberSecrets& secrets);
// kBadRequest. The authority is one.
Result<MemberSecrets> DecodeMemberSecrets(std::string_view bytes);

// Whether it fits what the machine was given beside it, and can go into its settings: the authority is one of those that are believed, and
// nothing else is more than it should be. kBadRequest, kWrongCluster.
Result<void> CheckMemberSecrets(const MemberSecrets& secrets, const Bundle& believed);

// Decides on a request for the grant that its verifier names, which comes from `address`; `grant` notes the use, and is to be stored before
// the answer goes. kAccess with a sentence for the audit and for who asks: it says no more than who has the token may know.
// `authority` signs. What the certificate says is in its identity().
Result<Certificate> AdmitJoin(const JoinRequest& request, JoinGrant* grant, std::string_view binding, std::string_view address,
                              const Authority& authority, int64_t now_s, int64_t life_s = kCertificateDays * kDayS);

// The new machine's end of it: the certificate is for its key, and the bundle has the authority that the token named and has signed it.
Result<Credentials> AcceptJoin(const JoinAnswer& answer, const PrivateKey& key, const Sha256Hash& pinned);

// Another certificate for one that has one: same identity; that it is of the same key is looked at before. The peer is that of the connection, which was judged by
// its handshake.
Result<Certificate> Renew(const Peer& peer, const CertRequest& csr, const Authority& authority, int64_t now_s, int64_t life_s = kCertificateDays * kDayS);

}  // namespace stria
