// Enrolment: how machines come to be of the cluster, and cease to be. It admits those that have a token, renews their certificates,
// revokes them, and changes the authority for another.
//
// Owns: the tokens' grants (without their secrets), the certificates that were given and are not over, those that are revoked, with
// their records in the store (family cluster, docs/formats.md); the authority in memory, whose files AuthorityKeeper has.
//
// Invariants:
//  1. What is answered is durable: a certificate that is out is known here, and so can be revoked. A revocation is in the store
//     before it is in the file, and the file's are in the store after a start, also after one from a backup.
//  2. A revoked certificate is never given to be renewed, and its key never gets another one, as long as it would be good.
//  3. A use of a token is one key with one name. The same key is answered again for an hour, because an answer may be lost.
//  4. A name belongs to the key that has it, until its certificates are over or revoked, or an admin makes a token for that name.
//  5. An authority is dropped only when nobody needs a certificate of it any more, or an admin insists; never that of the server itself.
//  6. The authority goes to nobody but a machine with a token of role meta, which says its name, and a listed one of several metadata
//     servers, which says what it holds (Follow).
//  7. A new authority signs nothing before all metadata servers that are in sync hold its key durably: whoever takes over can go on with
//     it. No metadata server proves itself by it before all that are listed believe it: one that was down finds the others again.
//  8. All is bounded: grants, certificates in all and of one identity, renewals per hour.
//
// Called by the transport's server (Join), TrustCalls, MetaServer (its clock, the map) and Coherence (IsTrustedRoot). Sees the core;
// what others are to be told is a callback. Executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/cluster_api.h"
#include "api/trust_api.h"
#include "common/exec/task.h"
#include "trust/audit/audit_sink.h"
#include "meta/core/meta_core.h"
#include "meta/enrolment/authority_keeper.h"
#include "meta/enrolment/given_certificates.h"
#include "meta/enrolment/member_authorities.h"
#include "trust/authority.h"
#include "trust/enrolment.h"
#include "trust/join_token.h"

namespace stria {

inline constexpr size_t kMaxGrants = 4096;
inline constexpr size_t kMaxInForceOfIdentity = 64;  // certificates
inline constexpr size_t kMaxAnswersPerUse = 8;       // of a token's use: certificates to the same key
inline constexpr int64_t kLostAnswerS = 3600;        // for so long the same key is answered again
inline constexpr size_t kRenewalsPerHour = 10;       // of an identity; more where certificates are short-lived
inline constexpr int64_t kKeptGrantS = 24 * 3600;    // a token that has expired is listed for so long
inline constexpr size_t kMaxNamedHolders = 20;       // in a sentence or reply

class EnrolmentRoom {
 public:
  // Null: the cluster is insecure, and all of this is refused with kNotSupported.
  EnrolmentRoom(MetaCore* core, std::shared_ptr<const Authority> authority);
  // All before Load; what is given outlives the room. Without a keeper the authority cannot be changed, and no file is written.
  void UseKeeper(AuthorityKeeper* keeper) { keeper_ = keeper; }
  void UseAudit(AuditSink* audit) { audit_ = audit; }
  // What a metadata server gets that joins, but for the authority, which is the room's. Not said: this one serves alone, and none joins.
  void UseMembers(std::function<Result<MemberSecrets>()> secrets) { member_secrets_ = std::move(secrets); }
  // The other ones of several metadata servers, at any moment. Not said: this one serves alone.
  void UseOthers(ListedMembers others) { others_ = std::make_unique<MemberAuthorities>(std::move(others)); }
  // By which the server proves itself. Not said: every certificate of role meta may be its own.
  void UseOwnKey(const Sha256Hash& key) { own_key_ = key; }
  // For how long certificates are given: kMinCertificateLifeS to kCertificateDays.
  void UseLife(int64_t life_s) { life_s_ = life_s; }
  // The one that a change has begun with; null, or the same as the present one: no change is under way.
  Result<void> TakeNext(std::shared_ptr<const Authority> next);
  // Bundle or revoked have changed; they are durable. Not called by what is taken at a start.
  void OnChange(std::function<void()> changed) { changed_ = std::move(changed); }
  // Certificates of this key are revoked, durably: whatever it holds is to be taken from it. Before OnChange's is called. Not told again
  // after a crash: who starts asks IsRevokedKey and KeysRevokedSince.
  void OnRevoked(std::function<void(const Sha256Hash& key)> revoked) { key_revoked_ = std::move(revoked); }

  // ---- A start, between the loading of all rooms and the first answer ----
  Result<void> Load(Txn& txn);
  // The file's, which may know more than a store that was made from a backup. Durable with the next sync.
  Result<void> TakeRevokedFile(const stria::Revoked& file);
  // One that was made without this room: the server's own, the first admin's. Once is enough; again is no harm. Durable with
  // the next sync. kInval: it is of no identity, or no authority that is believed has signed it.
  Result<void> NoteGiven(const Certificate& certificate);
  // Forgets what is over, now and then.
  void Tick();

  // ---- Who is of the cluster ----
  bool secured() const { return authority_ != nullptr; }
  // One request of who has no certificate yet (trust/enrolment.h), over a connection with that binding, from "host:port". kAccess
  // with a sentence for who asks.
  Task<Result<std::string>> Join(std::string request, std::string binding, std::string address);
  // For the identity that the connection has proved, with a certificate that is in force.
  Task<Result<RenewCertificateReply>> Renew(Peer peer, std::string request);
  // The same for an admin's certificate in the directory of one of the other metadata servers, which asks.
  Task<Result<RenewCertificateReply>> RenewOf(Peer member, std::string serial, std::string request);
  // One of the other metadata servers says what it has of the authority, and gets what it has not. A denial for others.
  Task<Result<FollowAuthorityReply>> Follow(Peer peer, FollowAuthorityRequest r);
  // While the authority is changed: metadata servers go on with certificates of the former one.
  bool KeepsFormer() const;
  // Enrolled with a trusted root, by its key.
  bool IsTrustedRoot(const Peer& peer) const;
  // Identities whose last certificate in force ends before that: whose ("client wn7"), and when.
  std::map<std::string, int64_t> EndingBefore(int64_t time_s) const;
  bool IsRevoked(std::string_view serial) const { return revoked_.contains(serial); }
  bool IsRevokedKey(const Sha256Hash& key) const { return revoked_keys_.contains(key); }
  std::set<Sha256Hash> KeysRevokedSince(int64_t time_s) const;
  // For the map: authorities that are believed (PEM, "" if insecure), serial numbers in order.
  std::string Bundle() const { return bundle_pem_; }
  std::vector<std::string> Revoked() const;
  // Nodes that are not heard because none of their certificates is good, and what to do.
  std::vector<Advice> NodesKeptOut(const ClusterMap& map) const;

  // ---- Admins (TrustCalls has asked whether it is one) ----
  Task<Result<MakeTokenReply>> MakeToken(MakeTokenRequest r);
  ListTokensReply ListTokens() const;
  Task<Result<TrustReply>> RevokeToken(std::string id, bool dry_run);
  // Pages of what is not over, after that serial number.
  ListCertificatesReply ListCertificates(const std::string& after) const;
  // See RevokeCertificateRequest. An error of the file is one after the revocation, which counts.
  Task<Result<TrustReply>> RevokeCertificates(std::string which, bool dry_run);
  Task<Result<ChangeAuthorityReply>> ChangeAuthority(AuthorityVerb verb, bool dry_run, bool force);

 private:
  struct Admitted {
    std::string answer;
    CommitSeq seq;
    std::string whose, token, serial;
  };
  struct Doomed {  // certificates to be revoked
    std::map<std::string, RevokedCertificate> serials;
    std::string what;  // for people
    std::vector<std::string> tokens;
  };
  int64_t NowS() const;
  Result<void> CheckOpen() const;  // it is secured, and calls are answered
  const Authority& Signing() const { return next_signs_ ? *next_ : *authority_; }
  const Authority& SigningFor(Role role) const { return role == Role::kMeta && KeepsFormer() ? *authority_ : Signing(); }
  void LetNextSign();
  void NoteGivenOf(const std::vector<std::string>& given, std::vector<std::string>* serials);
  Task<Result<void>> TakeOffer(const FollowAuthorityRequest& r);
  Task<Result<void>> DropFormer();
  Task<void> AwaitOthers(AuthorityVerb verb);
  Result<std::string> WhoWouldBeShutOut(bool force) const;
  Result<void> CheckIsGone(const GivenCertificate& of_meta) const;
  Result<void> MakeBundle();
  Sha256Hash Pinned() const;
  bool InForce(const GivenCertificate& c, int64_t now_s) const;
  const GivenCertificate* NewestOfServer(int64_t now_s) const;
  bool IsReplaced(const GivenCertificate& c, int64_t now_s) const;
  bool IsBelieved(const Sha256Hash& issuer) const;
  void Revoke(const std::string& serial, const RevokedCertificate& r);
  Result<void> RecordRevoked(const std::map<std::string, RevokedCertificate>& serials);  // durable with the next sync
  // Of that identity: how many, without those of `but`; null counts all.
  size_t CountInForce(Role role, const std::string& name, const Sha256Hash* but, int64_t now_s) const;
  Result<void> CheckRoom(Role role, const std::string& name, int64_t now_s);
  Result<GivenCertificate> DescribeGiven(const Certificate& certificate) const;
  Result<std::string> SecretsOfMember() const;
  Result<Admitted> AdmitNow(std::string_view request, std::string_view binding, const std::string& address);
  Result<void> CheckAgain(const JoinGrant& grant, const GivenCertificate& now, int64_t now_s) const;
  Result<void> CheckBudget(const Peer& peer, int64_t now_s);
  Result<Doomed> FindDoomed(const std::string& which) const;
  Task<Result<void>> StoreRevokedFile();
  Task<Result<std::string>> Rotate(bool dry_run);
  Task<Result<std::string>> Finish(bool dry_run, bool force);
  AuthorityInfo Describe(const Authority& authority, int64_t now_s) const;
  Result<bool> ForgetSome(int64_t now_s);  // true: of the revoked

  MetaCore* const core_;
  std::shared_ptr<const Authority> authority_;
  std::shared_ptr<const Authority> next_;
  bool next_believed_ = false, next_signs_ = false;
  std::unique_ptr<MemberAuthorities> others_;  // null: it serves alone
  std::optional<Sha256Hash> own_key_;
  std::string bundle_pem_;
  AuthorityKeeper* keeper_ = nullptr;
  AuditSink* audit_ = nullptr;
  int64_t life_s_ = kCertificateDays * kDayS;
  std::function<Result<MemberSecrets>()> member_secrets_;
  std::function<void()> changed_ = [] {};
  std::function<void(const Sha256Hash&)> key_revoked_ = [](const Sha256Hash&) {};
  std::map<JoinVerifier, JoinGrant> grants_;
  GivenCertificates given_;
  std::map<std::string, RevokedCertificate, std::less<>> revoked_;
  std::map<Sha256Hash, size_t> revoked_keys_;  // how many of revoked_ have it
  std::map<std::pair<Role, std::string>, std::vector<int64_t>> renewals_;  // of the last hour
  AsyncMutex writes_;                          // one change of a file at a time, in the order of the store's
  int64_t forget_after_s_ = 0;
};

}  // namespace stria
