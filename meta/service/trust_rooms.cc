#include "meta/service/trust_rooms.h"

#include <set>
#include <utility>

#include "common/bound_token.h"
#include "common/log.h"
#include "common/units.h"
#include "meta/calls/call_audit.h"

namespace stria {

TrustRooms::TrustRooms(MetaCore* core, Coherence* coherence, ExportRoom* exports, ClusterKeeper* cluster, AdminCalls* admins)
    : core_(core), coherence_(coherence), exports_(exports), cluster_(cluster), admins_(admins) {
  Use({});
}

void TrustRooms::Use(MetaTrust trust) {
  trust_ = std::move(trust);
  calls_.reset();
  enrolment_ = std::make_unique<EnrolmentRoom>(core_, trust_.authority);
  enrolment_->UseKeeper(trust_.keeper);
  enrolment_->UseLife(trust_.life_s);
  enrolment_->UseMembers(trust_.member);
  if (trust_.others) UseOthers();
  enrolment_->OnChange([this] { Tell(); });
  enrolment_->OnRevoked([this](const Sha256Hash& key) { coherence_->EndHolder(key); });
  calls_ = std::make_unique<TrustCalls>(core_, coherence_, exports_, enrolment_.get());
  calls_->UseAddress(address_);
  UseAudit(audit_);
}

void TrustRooms::UseOthers() {
  enrolment_->UseOthers(trust_.others);
  for (const Certificate& c : trust_.given) {
    const Result<Identity> who = c.identity();
    if (who.ok() && who->role == Role::kMeta) enrolment_->UseOwnKey(c.key_hash());
  }
}

void TrustRooms::UseAudit(AuditLog* audit) {
  audit_ = audit;
  admins_->UseAudit(audit);
  enrolment_->UseAudit(audit);
  calls_->UseAudit(audit);
}

void TrustRooms::UseAddress(const std::string& address) {
  address_ = address;
  calls_->UseAddress(address);
}

// A store that was made from a backup may know less than the files.
Result<void> TrustRooms::Begin() {
  RETURN_IF_ERROR(enrolment_->TakeNext(trust_.next));
  RETURN_IF_ERROR(enrolment_->TakeRevokedFile(trust_.revoked));
  for (const Certificate& c : trust_.given) {
    const Result<void> noted = enrolment_->NoteGiven(c);
    if (noted.code() == FsError::kInval) LogWarning("a certificate of this machine is not counted: {}", noted.error());
    else if (!noted.ok()) return noted;
  }
  cluster_->SetTrust(enrolment_->Bundle(), enrolment_->Revoked());
  EndRevoked();
  return Ok();
}

// A revocation is durable before it takes anything from whom it hits, and a crash may have come between the two. A start also forgets
// which holders are cut off: that is said again as long as one of their tokens may be good.
void TrustRooms::EndRevoked() {
  std::set<Sha256Hash> keys = enrolment_->KeysRevokedSince(core_->Wall() / kSecond - kKeyLifeS);
  const SessionTable& sessions = coherence_->sessions().table();
  for (SessionId s : sessions.All()) {
    const SessionOwner& owner = sessions.Find(s)->owner;
    if (!owner.name.empty() && enrolment_->IsRevokedKey(owner.key)) keys.insert(owner.key);
  }
  for (const Sha256Hash& key : keys) coherence_->EndHolder(key);
}

void TrustRooms::Tell() {
  cluster_->SetTrust(enrolment_->Bundle(), enrolment_->Revoked());
  (void)cluster_->Publish();  // an error ends the server
}

void TrustRooms::NoteSession(const OpHeader& header, const std::string& what, SessionId session) {
  NoteCall(audit_, header, {AuditEntry::Kind::kSession, "mount", what, false}, Error(), "session " + std::to_string(session.v));
}

}  // namespace stria
