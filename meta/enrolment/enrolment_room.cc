// A start, and machines that come or renew.
#include "meta/enrolment/enrolment_room.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/sabotage.h"
#include "common/units.h"
#include "meta/core/cluster_keys.h"
#include "meta/core/for_each.h"
#include "meta/enrolment/bytes_of.h"
#include "trust/enrolment.h"

namespace stria {
namespace {

constexpr size_t kPerTxn = 512;
constexpr int64_t kForgetEveryS = 60;
constexpr int64_t kHourS = 3600;

Error MayNotJoin(const std::string& why) { return Error(FsError::kAccess, "this machine may not join: " + why); }
Error NotRenewed(const Peer& peer, const std::string& why) {
  return Error::Denial(peer.ToString() + " gets no other certificate: " + why);
}

}  // namespace

EnrolmentRoom::EnrolmentRoom(MetaCore* core, std::shared_ptr<const Authority> authority)
    : core_(core), authority_(std::move(authority)) {
  if (authority_) MakeBundle().value();  // of one that is an authority
}

Result<void> EnrolmentRoom::MakeBundle() {
  std::vector<Certificate> all = {authority_->certificate()};
  if (next_believed_) all.push_back(next_->certificate());
  ASSIGN_OR_RETURN(const stria::Bundle bundle, stria::Bundle::Of(std::move(all)));
  bundle_pem_ = bundle.ToPem();
  return Ok();
}

Result<void> EnrolmentRoom::TakeNext(std::shared_ptr<const Authority> next) {
  if (!next || !authority_ || next->certificate() == authority_->certificate()) return Ok();
  next_ = std::move(next);
  next_believed_ = true;  // it may have signed
  next_signs_ = !others_;
  const Result<void> made = MakeBundle();
  if (!made.ok()) {
    next_.reset();
    next_believed_ = next_signs_ = false;
  }
  return made;
}

int64_t EnrolmentRoom::NowS() const { return core_->Wall() / kSecond; }

Result<void> EnrolmentRoom::CheckOpen() const {
  if (!secured()) return Error(FsError::kNotSupported, "this cluster is insecure: it has no authority, and so no tokens and no certificates");
  return core_->CheckHeader(OpHeader());
}

// ---- A start --------------------------------------------------------------------------------------

Result<void> EnrolmentRoom::Load(Txn& txn) {
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kCluster, JoinGrantPrefix(), [&](const auto& key, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(JoinGrant grant, DecodeJoinGrant(v));
    if (key != JoinGrantKey(BytesOf(grant.verifier))) return CorruptRecord(Family::kCluster, key, "it is of another token");
    const JoinVerifier verifier = grant.verifier;
    grants_[verifier] = std::move(grant);
    return Ok();
  }));
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kCluster, GivenPrefix(), [&](const auto& key, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(GivenCertificate c, DecodeGiven(std::string_view(key).substr(1), v));
    given_.Add(std::move(c));
    return Ok();
  }));
  return ForEachEntry(txn, Family::kCluster, RevokedPrefix(), [&](const auto& key, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(const RevokedCertificate r, DecodeRevoked(v));
    if (!IsSerial(std::string_view(key).substr(1))) return CorruptRecord(Family::kCluster, key, "it is of no serial number");
    Revoke(key.substr(1), r);
    return Ok();
  });
}

void EnrolmentRoom::Revoke(const std::string& serial, const RevokedCertificate& r) {
  if (!revoked_.emplace(serial, r).second) return;
  if (r.key != Sha256Hash{}) ++revoked_keys_[r.key];
}

Result<void> EnrolmentRoom::TakeRevokedFile(const stria::Revoked& file) {
  if (!secured()) return Ok();
  const int64_t now_s = NowS();
  const int64_t longest_s = now_s + kCertificateDays * kDayS;
  std::map<std::string, RevokedCertificate> missing;
  for (const std::string& serial : file.all()) {
    if (revoked_.contains(serial)) continue;
    const GivenCertificate* known = given_.Find(serial);
    missing[serial] = known ? RevokedCertificate{known->not_after_s, known->key, now_s} : RevokedCertificate{longest_s, {}, now_s};
  }
  if (revoked_.size() + missing.size() > stria::Revoked::kMax) {
    return Error(FsError::kNoSpace, "store and file of revoked certificates have more than " + std::to_string(stria::Revoked::kMax) +
                                        " together; take those that are over out of the file");
  }
  return RecordRevoked(missing);
}

Result<void> EnrolmentRoom::RecordRevoked(const std::map<std::string, RevokedCertificate>& serials) {
  for (auto it = serials.begin(); it != serials.end();) {
    Txn txn(core_->store());
    for (size_t n = 0; it != serials.end() && n < kPerTxn; ++it, ++n) {
      txn.Put(Family::kCluster, RevokedKey(it->first), EncodeRevoked(it->second));
      Revoke(it->first, it->second);
    }
    RETURN_IF_ERROR(core_->Commit(txn));
  }
  core_->Committed();
  return Ok();
}

Result<GivenCertificate> EnrolmentRoom::DescribeGiven(const Certificate& certificate) const {
  ASSIGN_OR_RETURN(const Identity who, certificate.identity());
  GivenCertificate c;
  for (const auto& authority : {authority_, next_}) {
    if (authority && SignedBy(certificate, authority->certificate())) c.issuer = authority->certificate().hash();
  }
  if (c.issuer == Sha256Hash{} || who.cluster != authority_->cluster()) {
    return Error(FsError::kInval, "the certificate " + certificate.serial() + " was signed by no authority that this cluster believes");
  }
  c.serial = certificate.serial();
  c.role = who.role;
  c.name = who.name;
  c.key = certificate.key_hash();
  c.given_s = certificate.not_before_s() + kBackdatedS;
  c.not_after_s = certificate.not_after_s();
  return c;
}

Result<void> EnrolmentRoom::NoteGiven(const Certificate& certificate) {
  if (!secured()) return Error(FsError::kNotSupported, "this cluster is insecure: it keeps no list of certificates");
  ASSIGN_OR_RETURN(GivenCertificate c, DescribeGiven(certificate));
  if (c.not_after_s < NowS() || given_.Find(c.serial) != nullptr) return Ok();
  Txn txn(core_->store());
  txn.Put(Family::kCluster, GivenKey(c.serial), EncodeGiven(c));
  RETURN_IF_ERROR(core_->Commit(txn));
  core_->Committed();
  given_.Add(std::move(c));
  return Ok();
}

// ---- What is over ---------------------------------------------------------------------------------

// The revoked late: clocks of others may be behind this one, and whoever still believes a certificate has to hear that it is not good.
Result<bool> EnrolmentRoom::ForgetSome(int64_t now_s) {
  const std::vector<std::string> over = given_.Over(now_s, kPerTxn);
  std::vector<std::string> revoked;
  for (const auto& [serial, r] : revoked_) {
    if (r.not_after_s < now_s - kBackdatedS && revoked.size() < kPerTxn) revoked.push_back(serial);
  }
  std::vector<JoinVerifier> grants;
  for (const auto& [verifier, grant] : grants_) {
    if (grant.expires_s + kKeptGrantS < now_s && grants.size() < kPerTxn) grants.push_back(verifier);
  }
  if (over.empty() && revoked.empty() && grants.empty()) return false;
  Txn txn(core_->store());
  for (const std::string& serial : over) txn.Delete(Family::kCluster, GivenKey(serial));
  for (const std::string& serial : revoked) txn.Delete(Family::kCluster, RevokedKey(serial));
  for (const JoinVerifier& v : grants) txn.Delete(Family::kCluster, JoinGrantKey(BytesOf(v)));
  RETURN_IF_ERROR(core_->Commit(txn));
  core_->Committed();
  for (const std::string& serial : over) given_.Remove(serial);
  for (const std::string& serial : revoked) {
    const auto it = revoked_.find(serial);
    if (const auto key = revoked_keys_.find(it->second.key); key != revoked_keys_.end() && --key->second == 0) revoked_keys_.erase(key);
    revoked_.erase(it);
  }
  for (const JoinVerifier& v : grants) grants_.erase(v);
  return !revoked.empty();
}

void EnrolmentRoom::Tick() {
  const int64_t now_s = NowS();
  if (!secured() || core_->HasFailed()) return;
  LetNextSign();
  if (now_s < forget_after_s_) return;
  forget_after_s_ = now_s + kForgetEveryS;
  std::erase_if(renewals_, [&](const auto& r) { return r.second.back() <= now_s - kHourS; });
  const Result<bool> forgot = ForgetSome(now_s);
  if (forgot.ok() && *forgot) changed_();
}

// ---- Who is of the cluster ------------------------------------------------------------------------

bool EnrolmentRoom::IsBelieved(const Sha256Hash& issuer) const {
  return authority_ && (authority_->certificate().hash() == issuer || (next_ && next_->certificate().hash() == issuer));
}

bool EnrolmentRoom::InForce(const GivenCertificate& c, int64_t now_s) const {
  return c.not_after_s >= now_s && !IsRevoked(c.serial) && IsBelieved(c.issuer);
}

bool EnrolmentRoom::IsTrustedRoot(const Peer& peer) const {
  if (peer.role != Role::kClient) return false;
  const int64_t now_s = NowS();
  const std::vector<const GivenCertificate*> all = given_.OfKey(peer.key_hash);
  return std::any_of(all.begin(), all.end(), [&](const GivenCertificate* c) {
    return c->trusted_root && c->role == peer.role && c->name == peer.name && InForce(*c, now_s);
  });
}

std::map<std::string, int64_t> EnrolmentRoom::EndingBefore(int64_t time_s) const {
  std::map<std::string, int64_t> last;
  const int64_t now_s = NowS();
  for (const auto& [serial, c] : given_.all()) {
    if (!InForce(c, now_s)) continue;
    int64_t& end_s = last[c.Whose()];
    end_s = std::max(end_s, c.not_after_s);
  }
  std::erase_if(last, [&](const auto& e) { return e.second >= time_s; });
  return last;
}

std::vector<std::string> EnrolmentRoom::Revoked() const {
  std::vector<std::string> out;
  out.reserve(revoked_.size());
  for (const auto& [serial, r] : revoked_) out.push_back(serial);
  return out;
}

std::set<Sha256Hash> EnrolmentRoom::KeysRevokedSince(int64_t time_s) const {
  std::set<Sha256Hash> keys;
  for (const auto& [serial, r] : revoked_) {
    if (r.revoked_s >= time_s) keys.insert(r.key);
  }
  keys.erase(Sha256Hash{});  // of those that are not known here
  return keys;
}

size_t EnrolmentRoom::CountInForce(Role role, const std::string& name, const Sha256Hash* but, int64_t now_s) const {
  const std::vector<const GivenCertificate*> all = given_.OfIdentity(role, name);
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [&](const GivenCertificate* c) {
    return InForce(*c, now_s) && (but == nullptr || c->key != *but);
  }));
}

// For one more certificate.
Result<void> EnrolmentRoom::CheckRoom(Role role, const std::string& name, int64_t now_s) {
  if (given_.size() >= kMaxGivenCertificates) {
    ASSIGN_OR_RETURN(const bool changed, ForgetSome(now_s));
    if (changed) changed_();
  }
  if (given_.size() >= kMaxGivenCertificates) {
    return Error(FsError::kNoSpace, std::to_string(kMaxGivenCertificates) + " certificates are in force: revoke some, or wait until some are over");
  }
  if (CountInForce(role, name, nullptr, now_s) >= kMaxInForceOfIdentity) {
    return Error(FsError::kBusy, std::string(RoleName(role)) + " " + name + " has " + std::to_string(kMaxInForceOfIdentity) +
                                     " certificates already: it asks again and again; look into its log, then revoke them and let it join anew");
  }
  return Ok();
}

// ---- Joining --------------------------------------------------------------------------------------

// The same key was admitted by this token before: that is for an answer that was lost, and for nothing else.
Result<void> EnrolmentRoom::CheckAgain(const JoinGrant& grant, const GivenCertificate& now, int64_t now_s) const {
  size_t answers = 0;
  int64_t first_s = INT64_MAX;
  for (const GivenCertificate* c : given_.OfKey(now.key)) {
    if (c->token != now.token || c->role != now.role) continue;
    if (c->name != now.name) return MayNotJoin("its key has joined as " + c->name + " by the token " + grant.Id() + ", and asks to be " + now.name + " now");
    if (IsRevoked(c->serial)) return MayNotJoin("its certificate was revoked");
    ++answers;
    first_s = std::min(first_s, c->given_s);
  }
  if (answers == 0 || now_s - first_s > kLostAnswerS) return MayNotJoin("its key has joined by the token " + grant.Id() + " already; ask for another token");
  if (answers >= kMaxAnswersPerUse) return MayNotJoin("it was answered " + std::to_string(answers) + " times; ask for another token");
  return Ok();
}

Result<std::string> EnrolmentRoom::SecretsOfMember() const {
  if (!member_secrets_) return MayNotJoin("the metadata server serves alone; make it one of several first: stria cluster init --etcd, there");
  Result<MemberSecrets> secrets = member_secrets_();
  if (!secrets.ok()) return MayNotJoin(secrets.error().message);
  secrets->authority = authority_->ToPem();
  return EncodeMemberSecrets(*secrets);
}

Result<EnrolmentRoom::Admitted> EnrolmentRoom::AdmitNow(std::string_view bytes, std::string_view binding, const std::string& address) {
  RETURN_IF_ERROR(CheckOpen());
  ASSIGN_OR_RETURN(const JoinRequest request, DecodeJoinRequest(bytes));
  const auto known = grants_.find(request.verifier);
  if (known == grants_.end()) return MayNotJoin("its token is not known here");
  const int64_t now_s = NowS();
  JoinGrant grant = known->second;
  ASSIGN_OR_RETURN(const Certificate certificate, AdmitJoin(request, &grant, binding, address, SigningFor(grant.role), now_s, life_s_));
  ASSIGN_OR_RETURN(GivenCertificate now, DescribeGiven(certificate));
  now.token = grant.Id();
  now.address = address;
  now.given_s = now_s;
  now.trusted_root = grant.trusted_root;
  if (IsRevokedKey(now.key)) return MayNotJoin("a certificate of its key was revoked; it needs another key");
  std::string member;
  if (grant.role == Role::kMeta) {
    ASSIGN_OR_RETURN(member, SecretsOfMember());
  }
  const bool again = grant.used.size() == known->second.used.size();
  if (again) {
    RETURN_IF_ERROR(CheckAgain(grant, now, now_s));
  } else if (grant.name.empty() && CountInForce(now.role, now.name, &now.key, now_s) > 0) {
    return MayNotJoin("another machine is " + now.Whose() + "; take another name, or have a token made for that name");
  }
  RETURN_IF_ERROR(CheckRoom(now.role, now.name, now_s));
  Admitted out;
  {
    Txn txn(core_->store());
    txn.Put(Family::kCluster, JoinGrantKey(BytesOf(grant.verifier)), EncodeJoinGrant(grant));
    txn.Put(Family::kCluster, GivenKey(now.serial), EncodeGiven(now));
    ASSIGN_OR_RETURN(out.seq, core_->Commit(txn));
  }
  out.answer = EncodeJoinAnswer({certificate.ToPem(), bundle_pem_, std::move(member)});
  out.whose = now.Whose();
  out.token = now.token;
  out.serial = now.serial;
  const JoinVerifier verifier = grant.verifier;
  grants_[verifier] = std::move(grant);
  given_.Add(std::move(now));
  return out;
}

Task<Result<std::string>> EnrolmentRoom::Join(std::string request, std::string binding, std::string address) {
  Result<Admitted> admitted = AdmitNow(request, binding, address);
  if (admitted.ok()) {
    if (const Result<void> durable = co_await core_->WaitDurable(admitted->seq); !durable.ok()) admitted = durable.error();
  }
  if (audit_ != nullptr) {
    AuditEntry e = AuditOf(admitted.ok() ? AuditEntry::Kind::kEnrolment : AuditEntry::Kind::kDenial, nullptr, "join",
                           admitted.ok() ? "token " + admitted->token : "",
                           admitted.ok() ? "done: " + admitted->whose + " has the certificate " + admitted->serial : "refused: " + admitted.error().message);
    e.address = std::move(address);
    audit_->Note(std::move(e));
  }
  if (!admitted.ok()) co_return std::move(admitted).error();
  co_return std::move(admitted->answer);
}

// ---- Renewal --------------------------------------------------------------------------------------

Result<void> EnrolmentRoom::CheckBudget(const Peer& peer, int64_t now_s) {
  std::vector<int64_t>& times = renewals_[{peer.role, peer.name}];
  std::erase_if(times, [&](int64_t t) { return t <= now_s - kHourS || t > now_s; });
  // Who asks at two thirds of a certificate's life asks one and a half times in it.
  if (times.size() >= kRenewalsPerHour + 2 * static_cast<size_t>(kHourS / life_s_)) {
    return Error(FsError::kBusy, peer.ToString() + " has asked for " + std::to_string(times.size()) + " certificates within an hour; it may ask again later");
  }
  times.push_back(now_s);
  return Ok();
}

Task<Result<RenewCertificateReply>> EnrolmentRoom::Renew(Peer peer, std::string request) {
  CO_RETURN_IF_ERROR(CheckOpen());
  const int64_t now_s = NowS();
  if (IsRevoked(peer.serial) || IsRevokedKey(peer.key_hash)) co_return NotRenewed(peer, "its own was revoked");
  if (peer.role == Role::kMeta && others_ && peer.key_hash != own_key_) {
    const Result<void> listed = others_->CheckListed(peer.key_hash);
    if (!listed.ok()) co_return listed.code() == FsError::kAccess ? NotRenewed(peer, listed.error().message) : listed.error();
  }
  const GivenCertificate* own = given_.Find(peer.serial);
  // Each of several metadata servers has the authority, and made its first one itself; who let it in has judged it.
  const bool made_itself = own == nullptr && peer.role == Role::kMeta && peer.not_after_s >= now_s && IsBelieved(peer.issuer);
  if (!made_itself && (own == nullptr || own->role != peer.role || own->name != peer.name || own->key != peer.key_hash)) {
    co_return NotRenewed(peer, "its own is not known here; let it join again with a token");
  }
  if (own != nullptr && !InForce(*own, now_s) && !Sabotaged(Sabotage::kRenewExpired)) {
    co_return NotRenewed(peer, "its own is over, or of an authority that is not believed any more");
  }
  const bool trusted_root = own != nullptr && own->trusted_root;
  const std::string token = own != nullptr ? own->token : "";
  CO_ASSIGN_OR_RETURN(const CertRequest csr, CertRequest::FromDer(request));
  if (IsRevokedKey(csr.key_hash())) co_return NotRenewed(peer, "the key in its request was revoked");
  // Who has its key for a moment would get one of his own by it, which goes on when the other is revoked.
  if (csr.key_hash() != peer.key_hash) co_return NotRenewed(peer, "its request is for another key; a new key needs a token ('stria join - --again')");
  CO_RETURN_IF_ERROR(CheckBudget(peer, now_s));
  CO_RETURN_IF_ERROR(CheckRoom(peer.role, peer.name, now_s));
  CO_ASSIGN_OR_RETURN(const Certificate certificate, stria::Renew(peer, csr, SigningFor(peer.role), now_s, life_s_));
  CO_ASSIGN_OR_RETURN(GivenCertificate now, DescribeGiven(certificate));
  now.token = token;
  now.address = peer.address;
  now.given_s = now_s;
  now.trusted_root = trusted_root;
  CommitSeq seq;
  {
    Txn txn(core_->store());
    txn.Put(Family::kCluster, GivenKey(now.serial), EncodeGiven(now));
    CO_ASSIGN_OR_RETURN(seq, core_->Commit(txn));
  }
  given_.Add(std::move(now));
  RenewCertificateReply reply{certificate.ToPem(), bundle_pem_};
  CO_RETURN_IF_ERROR(co_await core_->WaitDurable(seq));
  co_return std::move(reply);
}

}  // namespace stria
