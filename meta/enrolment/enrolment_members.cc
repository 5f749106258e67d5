// The other ones of several metadata servers: each of them is the authority, and follows when it is changed for another.
#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/units.h"
#include "meta/enrolment/enrolment_room.h"

namespace stria {
namespace {

using Far = MemberAuthorities::Far;

constexpr int64_t kFollowNs = 10 * kSecond;  // a command waits so long for those that are up
constexpr int64_t kLookNs = 100 * kMillisecond;
constexpr size_t kMaxGivenOfMember = 4;

std::string NameOf(const Authority& a) { return HexOf(a.certificate().hash()); }

}  // namespace

// ---- How far a change is --------------------------------------------------------------------------

void EnrolmentRoom::LetNextSign() {
  if (!next_ || next_signs_ || (others_ && !others_->InSyncAre(NameOf(*next_), Far::kHolds))) return;
  const bool was_believed = std::exchange(next_believed_, true);
  if (const Result<void> made = MakeBundle(); !made.ok()) {
    next_believed_ = was_believed;
    return LogError("the new authority is not believed, and does not sign: {}", made.error());
  }
  next_signs_ = true;
  changed_();
}

bool EnrolmentRoom::KeepsFormer() const { return next_ && others_ && !others_->Lacking(NameOf(*next_), Far::kBelieves).empty(); }

Task<void> EnrolmentRoom::AwaitOthers(AuthorityVerb verb) {
  if (!others_ || verb == AuthorityVerb::kShow) co_return;
  const int64_t end_ns = core_->Now() + kFollowNs;
  while (core_->Now() < end_ns && !core_->HasFailed()) {
    LetNextSign();
    if (verb == AuthorityVerb::kRotate ? !next_ || next_signs_ : next_ || others_->InSyncAre(NameOf(*authority_), Far::kOnly)) co_return;
    co_await Sleep(kLookNs);
  }
}

// What is to be added to the message about those that are not in sync, which may be left behind.
Result<std::string> EnrolmentRoom::WhoWouldBeShutOut(bool force) const {
  if (!others_) return std::string();
  std::vector<MemberAuthorities::Lack> lacking = others_->Lacking(NameOf(*next_), Far::kProves);
  if (force) {
    std::vector<MemberAuthorities::Lack> left;
    std::copy_if(lacking.begin(), lacking.end(), std::back_inserter(left), [](const auto& l) { return !l.in_sync; });
    std::erase_if(lacking, [](const auto& l) { return !l.in_sync; });
    if (lacking.empty()) return left.empty() ? "" : "; " + TextOf(left) + ", and has to join the metadata servers again";
  }
  if (lacking.empty()) return std::string();
  return Error(FsError::kBusy, "not all metadata servers have the new authority: " + TextOf(lacking) + ". Wait, or start those that are down ('stria meta status'); "
                                                                                                       "one that does not come back is to be removed first ('stria meta remove')");
}

Task<Result<void>> EnrolmentRoom::DropFormer() {
  CO_RETURN_IF_ERROR(co_await keeper_->StoreOnly(next_));
  authority_ = std::move(next_);
  next_.reset();
  next_believed_ = next_signs_ = false;
  CO_RETURN_IF_ERROR(MakeBundle());
  changed_();
  co_return Ok();
}

// A metadata server that is gone is shut out as others are, though its authority is not, which only a change of that does.
Result<void> EnrolmentRoom::CheckIsGone(const GivenCertificate& c) const {
  std::string used = !others_ || !own_key_ || c.key == *own_key_ ? "it is this one's" : others_->WhoMayUse(c.key, c.name);
  if (used.empty()) return Ok();
  return Error(FsError::kInval, "the certificate " + c.serial + " is a metadata server's (" + used + "): if its key is known to others, so is the authority's; "
                                                                "change that ('stria ca rotate')");
}

// ---- One that follows -----------------------------------------------------------------------------

// Those that its machine made itself are known here from now on, and can be revoked. What is not good is nobody's.
void EnrolmentRoom::NoteGivenOf(const std::vector<std::string>& given, std::vector<std::string>* serials) {
  for (size_t i = 0; i < std::min(given.size(), kMaxGivenOfMember); ++i) {
    const Result<Certificate> c = Certificate::FromPem(given[i]);
    const Result<Identity> who = c.ok() ? c->identity() : c.error();
    if (!who.ok() || (who->role != Role::kMeta && who->role != Role::kAdmin)) continue;
    if (given_.Find(c->serial()) == nullptr && (!CheckRoom(who->role, who->name, NowS()).ok() || !NoteGiven(*c).ok())) continue;
    serials->push_back(c->serial());
  }
}

// It has one that this server has not got: the one that has begun the change was lost before the others had it.
Task<Result<void>> EnrolmentRoom::TakeOffer(const FollowAuthorityRequest& r) {
  if (next_ || keeper_ == nullptr || r.holds.size() != 2 || r.holds[0] != NameOf(*authority_)) co_return Ok();
  CO_ASSIGN_OR_RETURN(Authority offered, Authority::FromPem(r.offer));
  const bool later = offered.certificate().not_before_s() >= authority_->certificate().not_before_s();
  if (offered.cluster() != authority_->cluster() || NameOf(offered) != r.holds[1] || !later) {
    co_return Error(FsError::kBadRequest, "the authority that the metadata server " + r.member + " offers is none that could come after the present one");
  }
  const auto next = std::make_shared<const Authority>(std::move(offered));
  CO_RETURN_IF_ERROR(co_await keeper_->StoreNext(next));
  CO_RETURN_IF_ERROR(TakeNext(next));
  LogInfo("the metadata server {} has the authority of a change that this one did not know of: it goes on", r.member);
  changed_();
  co_return Ok();
}

Task<Result<FollowAuthorityReply>> EnrolmentRoom::Follow(Peer peer, FollowAuthorityRequest r) {
  CO_RETURN_IF_ERROR(CheckOpen());
  if (!others_ || peer.role != Role::kMeta) co_return Error::Denial(peer.ToString() + " does not get the cluster's authority: this metadata server shares it with nobody");
  if (IsRevoked(peer.serial) || IsRevokedKey(peer.key_hash)) co_return Error::Denial(peer.ToString() + " does not get the cluster's authority: its certificate was revoked");
  MemberAuthorities::Said said{r.holds, r.believes, r.signed_by, peer.key_hash, {}};
  CO_RETURN_IF_ERROR(others_->Note(r.member, r.store, said));
  NoteGivenOf(r.given, &said.serials);
  CO_RETURN_IF_ERROR(others_->Note(r.member, r.store, std::move(said)));
  LetNextSign();
  const SemaphoreHold held = co_await writes_.Lock();
  if (!r.offer.empty()) CO_RETURN_IF_ERROR(co_await TakeOffer(r));
  // Another one has ended the change, and was lost before this one followed.
  const bool ended = next_ && r.holds == std::vector<std::string>{NameOf(*next_)};
  const GivenCertificate* own = NewestOfServer(NowS());
  if (ended && keeper_ != nullptr && (own == nullptr || own->issuer == next_->certificate().hash())) CO_RETURN_IF_ERROR(co_await DropFormer());
  FollowAuthorityReply reply;
  std::vector<std::string> all = {NameOf(*authority_)};
  if (next_) all.push_back(NameOf(*next_));
  reply.wants = !next_ && r.holds.size() == 2 && r.holds[0] == all[0];
  const bool is_ahead = next_ && r.holds == std::vector<std::string>{all[1]};
  if (r.holds != all && !reply.wants && !is_ahead) {
    reply.authority = authority_->ToPem();
    if (next_) reply.next = next_->ToPem();
  }
  reply.keep = KeepsFormer();
  reply.bundle = bundle_pem_;
  co_return std::move(reply);
}

Task<Result<RenewCertificateReply>> EnrolmentRoom::RenewOf(Peer member, std::string serial, std::string request) {
  const GivenCertificate* c = given_.Find(serial);
  if (!others_ || member.role != Role::kMeta || c == nullptr || c->role != Role::kAdmin || !others_->Has(member.key_hash, serial)) {
    co_return Error::Denial(member.ToString() + " asks for a certificate that is not of its machine");
  }
  Peer of = std::move(member);
  of.role = c->role;
  of.name = c->name;
  of.key_hash = c->key;
  of.issuer = c->issuer;
  of.serial = serial;
  of.not_after_s = c->not_after_s;
  co_return co_await Renew(std::move(of), std::move(request));
}

}  // namespace stria
