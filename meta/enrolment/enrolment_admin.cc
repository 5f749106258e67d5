// What admins ask for: tokens, revocation, another authority.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "common/printable.h"
#include "common/units.h"
#include "meta/core/cluster_keys.h"
#include "meta/enrolment/bytes_of.h"
#include "meta/enrolment/enrolment_room.h"
#include "trust/enrolment.h"

namespace stria {
namespace {

constexpr size_t kCertificatePage = 2048;
constexpr uint8_t kKeptOutSeverity = 1;  // degraded

std::string Certificates(size_t n) { return std::to_string(n) + (n == 1 ? " certificate" : " certificates"); }

JoinTokenInfo InfoOf(const JoinGrant& g) {
  JoinTokenInfo t;
  t.id = g.Id();
  t.role = g.role;
  t.name = g.name;
  t.names = g.names;
  t.uses = g.uses;
  t.used = static_cast<uint32_t>(g.used.size());
  for (const Network& n : g.networks) t.networks.push_back(n.ToString());
  t.expires_s = g.expires_s;
  t.trusted_root = g.trusted_root;
  return t;
}

}  // namespace

// ---- Tokens ---------------------------------------------------------------------------------------

// The authority by which the server itself is known while there are two: it shows that one to who joins. That is the one that has signed
// the server's newest certificate.
Sha256Hash EnrolmentRoom::Pinned() const {
  const GivenCertificate* newest = NewestOfServer(NowS());
  return newest == nullptr ? authority_->certificate().hash() : newest->issuer;
}

const GivenCertificate* EnrolmentRoom::NewestOfServer(int64_t now_s) const {
  const GivenCertificate* newest = nullptr;
  for (const auto& [serial, c] : given_.all()) {
    if (own_key_ && c.key != *own_key_) continue;
    if (c.role == Role::kMeta && InForce(c, now_s) && (newest == nullptr || c.given_s > newest->given_s)) newest = &c;
  }
  return newest;
}

Task<Result<MakeTokenReply>> EnrolmentRoom::MakeToken(MakeTokenRequest r) {
  CO_RETURN_IF_ERROR(CheckOpen());
  const int64_t now_s = NowS();
  if (r.ttl_s < 1 || r.ttl_s > kMaxTokenTtlS) {
    co_return Error(FsError::kInval, "a token is good for 1 s to " + std::to_string(kMaxTokenTtlS / kDayS) + " days, not for " + std::to_string(r.ttl_s) + " s");
  }
  JoinGrant grant;
  if (r.verifier.size() != grant.verifier.size()) co_return Error(FsError::kBadRequest, "the token's verifier has not 32 bytes");
  std::memcpy(grant.verifier.data(), r.verifier.data(), grant.verifier.size());
  grant.role = r.role;
  grant.name = r.name;
  grant.names = r.names;
  grant.uses = r.uses;
  grant.expires_s = now_s + r.ttl_s;
  grant.trusted_root = r.trusted_root;
  for (const std::string& text : r.networks) {
    const std::optional<Network> network = ParseNetwork(text);
    if (!network) co_return Error(FsError::kInval, "'" + Printable(text) + "' is no network; say 10.3.0.0/16 or fd00::/8, without bits beyond the prefix");
    grant.networks.push_back(*network);
  }
  CO_RETURN_IF_ERROR(CheckNewGrant(grant));
  if (grant.role == Role::kMeta && !member_secrets_) {
    co_return Error(FsError::kNotSupported, "the cluster has one metadata server, which serves alone: make it one of several first, on its machine, as  "
                                            "stria cluster init --etcd pc1,pc2,pc3  (docs/operations.md)");
  }
  if (grants_.size() >= kMaxGrants) {
    CO_ASSIGN_OR_RETURN(const bool changed, ForgetSome(now_s));
    if (changed) changed_();
  }
  if (grants_.size() >= kMaxGrants) {
    co_return Error(FsError::kNoSpace, "there are " + std::to_string(kMaxGrants) + " tokens already; revoke some ('stria token ls')");
  }
  const std::string id = grant.Id();
  if (std::any_of(grants_.begin(), grants_.end(), [&](const auto& g) { return g.second.Id() == id; })) {
    co_return Error(FsError::kExist, "there is a token " + id + " already; make another one");
  }
  CommitSeq seq;
  {
    Txn txn(core_->store());
    txn.Put(Family::kCluster, JoinGrantKey(BytesOf(grant.verifier)), EncodeJoinGrant(grant));
    CO_ASSIGN_OR_RETURN(seq, core_->Commit(txn));
  }
  MakeTokenReply reply{InfoOf(grant), HexOf(Pinned()), ""};
  const JoinVerifier verifier = grant.verifier;
  grants_[verifier] = std::move(grant);
  CO_RETURN_IF_ERROR(co_await core_->WaitDurable(seq));
  co_return std::move(reply);
}

ListTokensReply EnrolmentRoom::ListTokens() const {
  ListTokensReply reply;
  for (const auto& [verifier, grant] : grants_) reply.tokens.push_back(InfoOf(grant));
  std::sort(reply.tokens.begin(), reply.tokens.end(), [](const JoinTokenInfo& a, const JoinTokenInfo& b) {
    return std::pair(a.expires_s, a.id) < std::pair(b.expires_s, b.id);
  });
  return reply;
}

Task<Result<TrustReply>> EnrolmentRoom::RevokeToken(std::string id, bool dry_run) {
  CO_RETURN_IF_ERROR(CheckOpen());
  const auto it = std::find_if(grants_.begin(), grants_.end(), [&](const auto& g) { return g.second.Id() == id; });
  if (it == grants_.end()) co_return Error(FsError::kNoEnt, "there is no token " + Printable(id) + "; 'stria token ls' lists them");
  TrustReply reply{"the token " + id + " is revoked; those that have joined by it (" + std::to_string(it->second.used.size()) + ") stay"};
  if (dry_run) co_return std::move(reply);
  CommitSeq seq;
  {
    Txn txn(core_->store());
    txn.Delete(Family::kCluster, JoinGrantKey(BytesOf(it->first)));
    CO_ASSIGN_OR_RETURN(seq, core_->Commit(txn));
  }
  grants_.erase(it);
  CO_RETURN_IF_ERROR(co_await core_->WaitDurable(seq));
  co_return std::move(reply);
}

// ---- Certificates ---------------------------------------------------------------------------------

ListCertificatesReply EnrolmentRoom::ListCertificates(const std::string& after) const {
  ListCertificatesReply reply;
  const int64_t now_s = NowS();
  for (auto it = given_.all().upper_bound(after); it != given_.all().end(); ++it) {
    const GivenCertificate& c = it->second;
    if (c.not_after_s < now_s) continue;
    if (reply.certificates.size() == kCertificatePage) {
      reply.next = reply.certificates.back().serial;
      break;
    }
    reply.certificates.push_back({c.serial, c.role, c.name, HexOf(c.key), HexOf(c.issuer), c.token, c.address, c.given_s, c.not_after_s,
                                  c.trusted_root, IsRevoked(c.serial)});
  }
  return reply;
}

Result<EnrolmentRoom::Doomed> EnrolmentRoom::FindDoomed(const std::string& which) const {
  const int64_t now_s = NowS();
  std::vector<const GivenCertificate*> named;
  Doomed out;
  if (const size_t slash = which.find('/'); slash != which.npos) {
    const std::optional<Role> role = ParseRole(std::string_view(which).substr(0, slash));
    if (!role) return Error(FsError::kInval, "'" + Printable(which) + "' is no ROLE/NAME: the roles are meta, data, client, admin, monitor");
    named = given_.OfIdentity(*role, which.substr(slash + 1));
    std::erase_if(named, [&](const GivenCertificate* c) { return c->not_after_s < now_s; });
    if (named.empty()) return Error(FsError::kNoEnt, "no certificate of " + Printable(which) + " is in force; 'stria cert ls' lists them");
  } else if (!IsSerial(which)) {
    return Error(FsError::kInval, "'" + Printable(which) + "' is neither a serial number (as 'stria cert ls' has it) nor ROLE/NAME");
  } else if (const GivenCertificate* c = given_.Find(which); c != nullptr) {
    named.push_back(c);
  } else {
    if (!IsRevoked(which)) out.serials[which] = {now_s + kCertificateDays * kDayS, {}, now_s};
    out.what = IsRevoked(which) ? "the certificate " + which + " was revoked before"
                                : "the certificate " + which + " is revoked; it is not known here, and nothing else of its key can be";
    return out;
  }
  std::set<std::string> whose, tokens;
  for (const GivenCertificate* one : named) {
    for (const GivenCertificate* c : given_.OfKey(one->key)) {
      if (c->role == Role::kMeta) RETURN_IF_ERROR(CheckIsGone(*c));
      whose.insert(c->Whose());
      if (!c->token.empty()) tokens.insert(c->token);
      if (c->not_after_s >= now_s && !IsRevoked(c->serial)) out.serials[c->serial] = {c->not_after_s, c->key, now_s};
    }
  }
  std::string names;
  for (const std::string& w : whose) names += (names.empty() ? "" : ", ") + w;
  out.what = out.serials.empty() ? "all certificates of " + names + " were revoked before"
                                 : Certificates(out.serials.size()) + " of " + names + (out.serials.size() == 1 ? " is" : " are") + " revoked";
  for (const auto& [verifier, grant] : grants_) {
    if (tokens.contains(grant.Id()) && grant.expires_s >= now_s && grant.used.size() < grant.uses) out.tokens.push_back(grant.Id());
  }
  for (const std::string& id : out.tokens) {
    out.what += "; it knows the token " + id + ", which still lets machines join: stria token revoke " + id;
  }
  return out;
}

Task<Result<void>> EnrolmentRoom::StoreRevokedFile() {
  if (keeper_ == nullptr) co_return Ok();
  stria::Revoked all;
  for (const auto& [serial, r] : revoked_) all.Add(serial);
  co_return co_await keeper_->StoreRevoked(std::move(all));
}

Task<Result<TrustReply>> EnrolmentRoom::RevokeCertificates(std::string which, bool dry_run) {
  CO_RETURN_IF_ERROR(CheckOpen());
  const SemaphoreHold held = co_await writes_.Lock();
  CO_ASSIGN_OR_RETURN(const Doomed doomed, FindDoomed(which));
  if (dry_run) co_return TrustReply{doomed.what};
  if (revoked_.size() + doomed.serials.size() > stria::Revoked::kMax) {
    co_return Error(FsError::kNoSpace, std::to_string(stria::Revoked::kMax) + " certificates are revoked already; change the authority ('stria ca rotate')");
  }
  CO_RETURN_IF_ERROR(RecordRevoked(doomed.serials));
  CO_RETURN_IF_ERROR(co_await core_->Sync());
  std::set<Sha256Hash> keys;
  for (const auto& [serial, r] : doomed.serials) keys.insert(r.key);
  keys.erase(Sha256Hash{});  // of those that are not known here
  for (const Sha256Hash& key : keys) key_revoked_(key);
  if (!doomed.serials.empty()) changed_();
  if (const Result<void> stored = co_await StoreRevokedFile(); !stored.ok()) {
    co_return Error(stored.code(), doomed.what + ", which counts; but the file of revoked certificates was not written: " + stored.error().message +
                                       ". Mend that, and say the same again");
  }
  co_return TrustReply{doomed.what};
}

std::vector<Advice> EnrolmentRoom::NodesKeptOut(const ClusterMap& map) const {
  std::vector<Advice> out;
  const int64_t now_s = NowS();
  for (const NodeInfo& n : map.nodes) {
    if (n.state == NodeState::kUp) continue;
    const std::vector<const GivenCertificate*> all = given_.OfIdentity(Role::kData, n.name);
    const bool revoked = std::any_of(all.begin(), all.end(), [&](const GivenCertificate* c) { return IsRevoked(c->serial); });
    const bool good = std::any_of(all.begin(), all.end(), [&](const GivenCertificate* c) { return InForce(*c, now_s); });
    if (!revoked || good) continue;
    out.push_back({kKeptOutSeverity, "Node " + n.name + " is refused: its certificate is revoked.",
                   "If it is to come back, let it join anew:  stria token make --role data --name " + n.name +
                       "  and on that machine, with the token:  stria join - --again"});
  }
  return out;
}

// ---- The authority --------------------------------------------------------------------------------

// Its owner has one of the new authority, and had the time to come back if the answer was lost.
bool EnrolmentRoom::IsReplaced(const GivenCertificate& c, int64_t now_s) const {
  const Sha256Hash signs = Signing().certificate().hash();
  const std::vector<const GivenCertificate*> all = given_.OfKey(c.key);
  return c.issuer != signs && std::any_of(all.begin(), all.end(), [&](const GivenCertificate* o) {
    return o->issuer == signs && o->role == c.role && o->name == c.name && InForce(*o, now_s) && now_s - o->given_s > kLostAnswerS;
  });
}

AuthorityInfo EnrolmentRoom::Describe(const Authority& authority, int64_t now_s) const {
  AuthorityInfo info;
  const Sha256Hash hash = authority.certificate().hash();
  info.hash = HexOf(hash);
  info.not_after_s = authority.certificate().not_after_s();
  info.signs = &authority == &Signing();
  std::set<std::string> whose;
  for (const auto& [serial, c] : given_.all()) {
    if (c.issuer != hash || !InForce(c, now_s) || IsReplaced(c, now_s)) continue;
    ++info.in_force;
    if (whose.size() < kMaxNamedHolders) whose.insert(c.Whose());
  }
  info.whose.assign(whose.begin(), whose.end());
  if (others_ && (&authority == next_.get() || !next_)) {
    const auto far = next_ ? MemberAuthorities::Far::kProves : MemberAuthorities::Far::kOnly;
    for (const MemberAuthorities::Lack& l : others_->Lacking(info.hash, far)) info.lacking.push_back(l.name + " " + l.why);
  }
  return info;
}

Task<Result<std::string>> EnrolmentRoom::Rotate(bool dry_run) {
  if (next_ && next_signs_) co_return Error(FsError::kExist, "a change of the authority is under way; end it with 'stria ca finish' first");
  if (keeper_ == nullptr) co_return Error(FsError::kNotSupported, "this server has no place for another authority");
  const std::string message = "a new authority is made: both are believed, and it signs from now on. All that run "
                              "renew their certificates soon by themselves (where no daemon does, 'stria cert renew'); 'stria ca show' says who has not yet. "
                              "Then end it with 'stria ca finish'";
  // One that was made and does not sign yet is waited for.
  if (dry_run || next_) co_return message;
  auto next = std::make_shared<const Authority>(Authority::Make(authority_->cluster(), NowS()));
  CO_RETURN_IF_ERROR(co_await keeper_->StoreNext(next));
  next_ = std::move(next);
  LetNextSign();
  co_return message;
}

Task<Result<std::string>> EnrolmentRoom::Finish(bool dry_run, bool force) {
  if (!next_) co_return Error(FsError::kInval, "the authority is not being changed; begin that with 'stria ca rotate'");
  if (keeper_ == nullptr) co_return Error(FsError::kNotSupported, "this server has no place for another authority");
  const int64_t now_s = NowS();
  CO_ASSIGN_OR_RETURN(const std::string shut_out, WhoWouldBeShutOut(force));
  if (const GivenCertificate* own = NewestOfServer(now_s); own != nullptr && own->issuer == authority_->certificate().hash()) {
    co_return Error(FsError::kBusy, "the metadata server's own certificate is of the old authority still, and nobody would believe the server: it is renewed "
                                    "when its setting authority_overlap is over; else look into its log why it is not");
  }
  const AuthorityInfo old = Describe(*authority_, now_s);
  std::string whose;
  for (const std::string& w : old.whose) whose += (whose.empty() ? "" : ", ") + w;
  if (old.whose.size() == kMaxNamedHolders) whose += " and perhaps others";
  if (old.in_force > 0 && !force) {
    co_return Error(FsError::kBusy, Certificates(old.in_force) + " signed by the old authority would not be believed any more, of " + whose +
                                        ": wait until they are renewed; --force does it all the same, and they have to join again");
  }
  const std::string message = "the old authority is not believed any more" +
                              (old.in_force == 0 ? "" : (old.in_force == 1 ? ", nor is " : ", nor are ") + Certificates(old.in_force) + ", of " + whose + ": they have to join again") +
                              shut_out;
  if (dry_run) co_return message;
  CO_RETURN_IF_ERROR(co_await DropFormer());
  co_return message;
}

Task<Result<ChangeAuthorityReply>> EnrolmentRoom::ChangeAuthority(AuthorityVerb verb, bool dry_run, bool force) {
  CO_RETURN_IF_ERROR(CheckOpen());
  ChangeAuthorityReply reply;
  {
    const SemaphoreHold held = co_await writes_.Lock();
    switch (verb) {
      case AuthorityVerb::kShow: break;
      case AuthorityVerb::kRotate: {
        CO_ASSIGN_OR_RETURN(reply.message, co_await Rotate(dry_run));
        break;
      }
      case AuthorityVerb::kFinish: {
        CO_ASSIGN_OR_RETURN(reply.message, co_await Finish(dry_run, force));
        break;
      }
    }
  }
  if (!dry_run) co_await AwaitOthers(verb);
  const int64_t now_s = NowS();
  reply.authorities.push_back(Describe(*authority_, now_s));
  if (next_) reply.authorities.push_back(Describe(*next_, now_s));
  const std::string waits = next_ && !next_signs_ && others_ ? TextOf(others_->Lacking(HexOf(next_->certificate().hash()), MemberAuthorities::Far::kHolds)) : "";
  if (verb == AuthorityVerb::kShow) reply.message = next_ ? "the authority is being changed: end that with 'stria ca finish'" : "";
  if (!waits.empty() && verb != AuthorityVerb::kFinish && (!dry_run || verb == AuthorityVerb::kShow)) {
    reply.message = "a new authority is made, and signs as soon as all metadata servers that are in sync have it (" + waits + "); 'stria ca show' says how far it is";
  }
  if (verb == AuthorityVerb::kFinish && !dry_run && !reply.authorities.back().lacking.empty()) {
    std::string who;
    for (const std::string& l : reply.authorities.back().lacking) who += (who.empty() ? "" : ", ") + l;
    reply.message += "; of the metadata servers, " + who;
  }
  co_return std::move(reply);
}

}  // namespace stria
