// Members of the cluster, exports, clients with open sessions, and the audit: tokens to join with, certificates, exports,
// clients, the audit, the cluster's authority. Of the metadata server; for admins, but for RenewCertificate and FollowAuthority.
//
// Requests that change something are tried with dry_run: the reply says what would be done. Times are wall clock, in seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/types.h"
#include "common/error.h"
#include "common/exec/task.h"
#include "trust/identity.h"

namespace stria {

inline constexpr size_t kMaxAuditLines = 1000;                   // in a reply
inline constexpr size_t kMaxCertificateRequestBytes = 2048;      // DER
inline constexpr size_t kMaxExportLineBytes = 16 * 1024;
inline constexpr size_t kJoinVerifierBytes = 32;
inline constexpr int64_t kMaxTokenTtlS = 30 * 24 * 3600;

// Of everything that is listed.
struct TrustListRequest {
  OpHeader header;
  std::string after;  // `next` of the page before; "" at first
};
// Of what changes something.
struct TrustReply {
  std::string message;  // one sentence: done, or to be done
};

// ---- Tokens to join with ----
struct JoinTokenInfo {
  std::string id;  // eight hex digits
  Role role = Role::kClient;
  std::string name;  // "": each machine says its own
  uint32_t uses = 1;
  uint32_t used = 0;
  std::vector<std::string> networks;  // from where; empty: anywhere
  int64_t expires_s = 0;
  bool trusted_root = false;
  std::string names;  // that they may say, with '*' and '?'; "": any
};
// The secret does not leave the command that made it. The server gets the public key that checks proofs of it.
struct MakeTokenRequest {
  OpHeader header;
  std::string verifier;  // kJoinVerifierBytes, trust/join_token.h
  Role role = Role::kClient;
  std::string name;
  uint32_t uses = 1;
  std::vector<std::string> networks;
  int64_t ttl_s = 3600;  // 1 to kMaxTokenTtlS
  bool trusted_root = false;
  std::string names;  // as above; of a token for more than one machine never ""
};
struct MakeTokenReply {
  JoinTokenInfo token;
  std::string authority;  // whose hash the new machine pins: 64 hex digits
  std::string address;    // of the metadata server, host:port, as others reach it; "": it does not know
};
struct ListTokensReply {
  std::vector<JoinTokenInfo> tokens;
};
struct RevokeTokenRequest {
  OpHeader header;
  std::string id;
  bool dry_run = false;
};

// ---- Certificates ----
struct CertificateInfo {
  std::string serial;  // hex
  Role role = Role::kClient;
  std::string name;
  std::string key;     // SHA-256 of its public key, hex
  std::string issuer;  // SHA-256 of the authority's certificate, hex
  std::string token;   // id of the token that it was given for; "": for none
  std::string address;  // from where it was asked for; "" if it was made by the server itself
  int64_t given_s = 0;
  int64_t not_after_s = 0;
  bool trusted_root = false;
  bool revoked = false;
};
struct ListCertificatesReply {
  std::vector<CertificateInfo> certificates;  // that are not over, by serial
  std::string next;                           // "" if that were all
};
// Revokes all certificates with the same key: they are of one machine.
struct RevokeCertificateRequest {
  OpHeader header;
  std::string which;  // a serial number, or ROLE/NAME for all of that identity
  bool dry_run = false;
};
// For the identity that the connection has proved.
struct RenewCertificateRequest {
  OpHeader header;
  std::string request;  // DER of a certificate request, at most kMaxCertificateRequestBytes
  std::string of = {};  // of one of several metadata servers: the admin's certificate of its machine (serial) is renewed. "": the caller's own
};
struct RenewCertificateReply {
  std::string certificate;  // PEM
  std::string bundle;       // PEM
};

// ---- Exports: lines as trust/exports.h has them ----
struct ListExportsReply {
  std::vector<std::string> lines;  // in order
};
struct SetExportRequest {
  OpHeader header;
  std::string line;
  bool dry_run = false;
};
struct RemoveExportRequest {
  OpHeader header;
  std::string path;
  std::string clients;  // as in the line; "": the only one of that path, whichever its clients are
  bool dry_run = false;
};

// ---- Clients ----
struct ClientInfo {
  SessionId session;
  std::string client;  // in its own words
  std::string owner;   // as its certificate says; "": it has proved nothing
  std::string node;
  int64_t lease_left_ns = 0;
};
struct ListClientsReply {
  std::vector<ClientInfo> clients;
};
struct EvictClientRequest {
  OpHeader header;
  SessionId session;
  bool dry_run = false;
};

// ---- Audit ----
struct ReadAuditRequest {
  OpHeader header;
  int64_t since_s = 0;
  uint32_t limit = kMaxAuditLines;  // of lines; the last ones are given. At most kMaxAuditLines
};
struct ReadAuditReply {
  std::vector<std::string> lines;  // JSON objects, oldest first
  bool more = false;               // there were earlier ones since then
};

// ---- The authority ----
enum class AuthorityVerb : uint8_t {
  kShow = 1,
  kRotate = 2,  // a new one beside the present one: both are believed, the new one signs
  kFinish = 3,  // the old one is not believed any more
};
struct ChangeAuthorityRequest {
  OpHeader header;
  AuthorityVerb verb = AuthorityVerb::kShow;
  bool dry_run = false;
  bool force = false;  // kFinish: also while certificates of the old one are in force
};
struct AuthorityInfo {
  std::string hash;  // SHA-256 of its certificate, hex
  int64_t not_after_s = 0;
  bool signs = false;
  uint64_t in_force = 0;           // certificates that it has signed, without those that a newer one has replaced
  std::vector<std::string> whose;  // "data n6"; the first of them
  std::vector<std::string> lacking = {};  // of several metadata servers: "pc2 is not reached"; those that are not ready for it alone
};
struct ChangeAuthorityReply {
  std::string message;
  std::vector<AuthorityInfo> authorities;  // that are believed, the oldest first
};

// ---- Among several metadata servers: each of them is the authority ----
// What one that follows says of itself to the primary, again and again.
struct FollowAuthorityRequest {
  OpHeader header;
  std::string member;                  // its name among them
  Uuid store;                          // of its directory
  std::vector<std::string> holds;      // SHA-256 (hex) of the certificates of those whose keys are durable there: the authority, and the one of a change
  std::vector<std::string> believes;   // the same of those that it believes
  std::string signed_by;               // the same of the one that has signed its own certificate
  std::vector<std::string> given;      // certificates (PEM) that its directory has: its own, its admin's
  std::string offer;                   // the primary wants it: the one of the change (PEM with the key). Secret
};
// What it is to hold: nothing, if it does.
struct FollowAuthorityReply {
  std::string authority;  // PEM with the key. Secret
  std::string next;       // the same of a change; "": there is none
  bool wants = false;     // it holds one of a change that the primary has not got: to be offered
  bool keep = false;      // it goes on with a certificate of the former authority: another metadata server does not believe the new one yet
  std::string bundle;     // PEM: those that are believed
};

// Errors besides those of all calls: kNotSupported where the cluster has no certificates, kPerm and kAccess for who may not ask,
// kNoEnt, kInval and kBusy with a sentence.
class TrustService {
 public:
  virtual ~TrustService() = default;
  virtual Task<Result<MakeTokenReply>> MakeToken(MakeTokenRequest r) = 0;
  virtual Task<Result<ListTokensReply>> ListTokens(TrustListRequest r) = 0;
  virtual Task<Result<TrustReply>> RevokeToken(RevokeTokenRequest r) = 0;
  virtual Task<Result<ListCertificatesReply>> ListCertificates(TrustListRequest r) = 0;
  virtual Task<Result<TrustReply>> RevokeCertificate(RevokeCertificateRequest r) = 0;
  virtual Task<Result<RenewCertificateReply>> RenewCertificate(RenewCertificateRequest r) = 0;
  virtual Task<Result<ListExportsReply>> ListExports(TrustListRequest r) = 0;
  virtual Task<Result<TrustReply>> SetExport(SetExportRequest r) = 0;
  virtual Task<Result<TrustReply>> RemoveExport(RemoveExportRequest r) = 0;
  virtual Task<Result<ListClientsReply>> ListClients(TrustListRequest r) = 0;
  virtual Task<Result<TrustReply>> EvictClient(EvictClientRequest r) = 0;
  virtual Task<Result<ReadAuditReply>> ReadAudit(ReadAuditRequest r) = 0;
  virtual Task<Result<ChangeAuthorityReply>> ChangeAuthority(ChangeAuthorityRequest r) = 0;
  // Of metadata servers only.
  virtual Task<Result<FollowAuthorityReply>> FollowAuthority(FollowAuthorityRequest r) = 0;
};

class TrustConnector {
 public:
  virtual ~TrustConnector() = default;
  virtual std::shared_ptr<TrustService> ConnectTrust(const std::string& address) = 0;
};

}  // namespace stria
