// Several metadata servers: the authority is changed for another while one of them serves and the others follow; machines become one of
// them by tokens. On a core, without a metadata server.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/trust_api.h"
#include "meta/core/core_testing.h"
#include "meta/enrolment/authority_keeper.h"
#include "meta/enrolment/enrolment_room.h"
#include "meta/enrolment/member_authorities.h"
#include "trust/credentials.h"
#include "trust/enrolment.h"

namespace stria {
namespace {

constexpr Uuid kCluster{1, 2}, kStore2{2, 2}, kStore3{3, 3};
constexpr char kBinding[] = "thirty-two bytes of a connection";

class HeldKeeper final : public AuthorityKeeper {
 public:
  Task<Result<void>> StoreNext(std::shared_ptr<const Authority> a) override {
    next = std::move(a);
    co_return Ok();
  }
  Task<Result<void>> StoreOnly(std::shared_ptr<const Authority> a) override {
    only = std::move(a);
    next.reset();
    co_return Ok();
  }
  Task<Result<void>> StoreRevoked(Revoked) override { co_return Ok(); }
  std::shared_ptr<const Authority> only, next;
};

std::string NameOf(const Authority& a) { return HexOf(a.certificate().hash()); }

// Another member: what its directory has, which it makes as it is told.
struct Member {
  std::string name;
  Uuid store;
  PrivateKey key = PrivateKey::Make();
  std::optional<Certificate> own;
  std::shared_ptr<const Authority> authority, next;
  bool wants = false;
  std::vector<std::string> believes;

  FollowAuthorityRequest Says() const {
    FollowAuthorityRequest r;
    r.member = name;
    r.store = store;
    r.holds = {NameOf(*authority)};
    if (next) r.holds.push_back(NameOf(*next));
    r.believes = believes;
    for (const auto& a : {authority, next}) {
      if (a && own && SignedBy(*own, a->certificate())) r.signed_by = NameOf(*a);
    }
    if (own) r.given = {own->ToPem()};
    if (wants && next) r.offer = next->ToPem();
    return r;
  }
  void Take(const FollowAuthorityReply& reply) {
    wants = reply.wants;
    const Bundle bundle = Bundle::FromPem(reply.bundle).value();
    believes.clear();
    for (const Certificate& c : bundle.all()) believes.push_back(HexOf(c.hash()));
    if (reply.authority.empty()) return;
    authority = std::make_shared<const Authority>(Authority::FromPem(reply.authority).value());
    next = reply.next.empty() ? nullptr : std::make_shared<const Authority>(Authority::FromPem(reply.next).value());
  }
};

class EnrolmentMembersTest : public CoreTest {
 protected:
  EnrolmentMembersTest() : first(std::make_shared<const Authority>(Authority::Make(kCluster, NowS()))) {
    keeper.only = first;
    own_certificate = Sign(own_key, "m1");
    for (Member* m : {&m2, &m3}) {
      m->authority = first;
      m->own = Sign(m->key, m->name);
      m->believes = {NameOf(*first)};
    }
    MakeRoom();
  }
  Certificate Sign(const PrivateKey& key, const std::string& name, Role role = Role::kMeta) const {
    return first->Sign(CertRequest::Make(key), {kCluster, role, name}, NowS()).value();
  }
  void MakeRoom() {
    room = std::make_unique<EnrolmentRoom>(core.get(), keeper.only);
    room->UseKeeper(&keeper);
    room->UseMembers([]() -> Result<MemberSecrets> { return MemberSecrets{"", "master", {"pc1:2379"}, "", "", ""}; });
    room->UseOthers([this] { return listed; });
    room->UseOwnKey(own_certificate->key_hash());
    ASSERT_TRUE(room->TakeNext(keeper.next).ok());
    Start([&](Txn& txn) { return room->Load(txn); });
    ASSERT_TRUE(room->NoteGiven(*own_certificate).ok());
  }
  // Another life, which has what is in the directory of that member.
  void TakesOver(const Member& m) {
    room.reset();
    core.reset();
    Make();
    keeper.only = m.authority;
    keeper.next = m.next;
    MakeRoom();
  }
  int64_t NowS() const { return ex.WallNs() / kSecond; }
  static Peer PeerOf(const Certificate& c, const Authority& issuer) {
    const Identity who = c.identity().value();
    return {who.role, who.name, "10.0.0.2:1", c.key_hash(), issuer.certificate().hash(), c.serial(), c.not_after_s()};
  }
  Result<FollowAuthorityReply> Ask(const Member& m) { return RunSim(ex, room->Follow(PeerOf(*m.own, *m.authority), m.Says())); }
  // Until it is as the primary is.
  void Follows(Member* m) {
    for (int i = 0; i < 4; ++i) {
      const Result<FollowAuthorityReply> reply = Ask(*m);
      ASSERT_TRUE(reply.ok()) << reply.error();
      m->Take(*reply);
    }
  }
  Certificate Renewed(const PrivateKey& key, const Certificate& own) {
    const Authority& by = SignedBy(own, keeper.only->certificate()) ? *keeper.only : *keeper.next;
    return Certificate::FromPem(RunSim(ex, room->Renew(PeerOf(own, by), CertRequest::Make(key).ToDer())).value().certificate).value();
  }
  Result<ChangeAuthorityReply> Change(AuthorityVerb verb, bool force = false) { return RunSim(ex, room->ChangeAuthority(verb, false, force)); }
  static void Says(const Error& e, FsError code, const std::string& part) {
    EXPECT_EQ(e.code, code) << e;
    EXPECT_NE(e.message.find(part), std::string::npos) << e;
  }
  std::vector<std::string> Lacking() { return Change(AuthorityVerb::kShow).value().authorities.back().lacking; }

  HeldKeeper keeper;
  std::shared_ptr<const Authority> first;
  PrivateKey own_key = PrivateKey::Make();
  std::optional<Certificate> own_certificate;
  Member m2{"m2", kStore2}, m3{"m3", kStore3};
  std::vector<ListedMember> listed = {{"m2", kStore2, true}, {"m3", kStore3, false}};
  std::unique_ptr<EnrolmentRoom> room;
};

TEST_F(EnrolmentMembersTest, AChangeGoesToAll) {
  Follows(&m2);
  EXPECT_EQ(Lacking(), std::vector<std::string>{"m3 has not been heard"});
  // m2 does not answer: the new one is made, and signs nothing yet.
  const ChangeAuthorityReply begun = Change(AuthorityVerb::kRotate).value();
  EXPECT_NE(begun.message.find("m2 has not got it"), std::string::npos) << begun.message;
  ASSERT_EQ(begun.authorities.size(), 2u);
  EXPECT_TRUE(begun.authorities[0].signs);
  EXPECT_EQ(Bundle::FromPem(room->Bundle()).value().all().size(), 1u) << "nobody asks for a certificate that it could not get";
  const auto made = keeper.next;
  // The same again goes on with the one that was made.
  EXPECT_FALSE(Change(AuthorityVerb::kRotate).value().authorities[1].signs);
  EXPECT_EQ(keeper.next, made);
  Follows(&m2);
  EXPECT_EQ(NameOf(*m2.next), NameOf(*made));
  EXPECT_TRUE(Change(AuthorityVerb::kShow).value().authorities[1].signs);
  EXPECT_EQ(Bundle::FromPem(room->Bundle()).value().all().size(), 2u);
  EXPECT_EQ(Change(AuthorityVerb::kRotate).code(), FsError::kExist);
  // m3, which is down, believes the former one only. As long as that is so all go on with certificates of it.
  Follows(&m2);
  EXPECT_TRUE(room->KeepsFormer());
  EXPECT_TRUE(Ask(m2).value().keep);
  EXPECT_TRUE(SignedBy(Renewed(m2.key, *m2.own), first->certificate()));
  Says(Change(AuthorityVerb::kFinish).error(), FsError::kBusy, "m2 has no certificate of it yet, m3 has not been heard");
  // It comes back.
  Follows(&m3);
  EXPECT_FALSE(room->KeepsFormer());
  EXPECT_EQ(Lacking(), (std::vector<std::string>{"m2 has no certificate of it yet", "m3 has no certificate of it yet"}));
  for (Member* m : {&m2, &m3}) {
    m->own = Renewed(m->key, *m->own);
    EXPECT_TRUE(SignedBy(*m->own, made->certificate()));
    Follows(m);
  }
  EXPECT_TRUE(Lacking().empty());
  Says(Change(AuthorityVerb::kFinish, true).error(), FsError::kBusy, "the metadata server's own certificate");
  ex.JumpWall(kSecond);
  own_certificate = Renewed(own_key, *own_certificate);
  Says(Change(AuthorityVerb::kFinish).error(), FsError::kBusy, "signed by the old authority");
  ex.JumpWall((kLostAnswerS + 1) * kSecond);
  const ChangeAuthorityReply ended = Change(AuthorityVerb::kFinish).value();
  EXPECT_NE(ended.message.find("m2 has the former one still"), std::string::npos) << "it was not heard since: " << ended.message;
  EXPECT_EQ(NameOf(*keeper.only), NameOf(*made));
  Follows(&m2);
  EXPECT_EQ(NameOf(*m2.authority), NameOf(*made));
  EXPECT_EQ(m2.next, nullptr);
  Follows(&m3);
  EXPECT_TRUE(Lacking().empty());
}

TEST_F(EnrolmentMembersTest, OneThatIsDownMayBeLeftBehindButNotOneInSync) {
  Follows(&m2);
  Change(AuthorityVerb::kRotate).value();
  Follows(&m2);
  Follows(&m2);
  // Its own comes before: m3 is listed, so all keep theirs.
  Says(Change(AuthorityVerb::kFinish, true).error(), FsError::kBusy, "m2 has no certificate of it yet");
  listed.pop_back();  // stria meta remove
  m2.own = Renewed(m2.key, *m2.own);
  ex.JumpWall(kSecond);
  own_certificate = Renewed(own_key, *own_certificate);
  Follows(&m2);
  listed.push_back({"m3", kStore3, false});
  Says(Change(AuthorityVerb::kFinish).error(), FsError::kBusy, "m3 has not been heard");
  const std::string said = Change(AuthorityVerb::kFinish, true).value().message;
  EXPECT_NE(said.find("m3 has not been heard, and has to join the metadata servers again"), std::string::npos) << said;
}

TEST_F(EnrolmentMembersTest, WhoTakesOverGoesOn) {
  Follows(&m2);
  Change(AuthorityVerb::kRotate).value();
  Follows(&m2);
  ASSERT_NE(m2.next, nullptr);
  const auto made = m2.next;
  Member m1{"m1", Uuid{1, 1}};
  m1.authority = first;
  m1.next = made;
  m1.own = own_certificate;
  listed = {{"m1", m1.store, true}, {"m3", kStore3, true}};
  own_certificate = m2.own;
  TakesOver(m2);
  EXPECT_EQ(Bundle::FromPem(room->Bundle()).value().all().size(), 2u) << "it may have signed";
  EXPECT_FALSE(Change(AuthorityVerb::kShow).value().authorities[1].signs) << "nobody has been heard yet";
  Follows(&m3);
  Follows(&m1);
  room->Tick();
  EXPECT_TRUE(Change(AuthorityVerb::kShow).value().authorities[1].signs);
}

// The change was begun and nobody else had it: it is not lost, nor is one that was ended.
TEST_F(EnrolmentMembersTest, WhatOnlyAFollowerHasComesBack) {
  Follows(&m2);
  m2.next = std::make_shared<const Authority>(Authority::Make(kCluster, NowS()));
  Follows(&m2);
  ASSERT_NE(keeper.next, nullptr);
  EXPECT_EQ(NameOf(*keeper.next), NameOf(*m2.next));
  const auto next = keeper.next;
  ex.JumpWall(kSecond);
  listed.pop_back();
  own_certificate = Renewed(own_key, *own_certificate);
  ASSERT_TRUE(SignedBy(*own_certificate, next->certificate()));
  m2.authority = std::exchange(m2.next, nullptr);
  Follows(&m2);
  EXPECT_EQ(keeper.next, nullptr);
  EXPECT_EQ(NameOf(*keeper.only), NameOf(*next));
  EXPECT_EQ(NameOf(*m2.authority), NameOf(*next)) << "and is not taken back";
}

TEST_F(EnrolmentMembersTest, WhatDoesNotFitIsNotTaken) {
  Follows(&m2);
  Member odd = m2;
  odd.wants = true;
  odd.next = std::make_shared<const Authority>(Authority::Make(kCluster, NowS() - kDayS));  // made before
  EXPECT_EQ(Ask(odd).code(), FsError::kBadRequest);
  odd.next = std::make_shared<const Authority>(Authority::Make(Uuid{8, 8}, NowS()));
  EXPECT_EQ(Ask(odd).code(), FsError::kBadRequest);
  FollowAuthorityRequest r = odd.Says();
  r.offer = "no key";
  EXPECT_EQ(RunSim(ex, room->Follow(PeerOf(*m2.own, *first), r)).code(), FsError::kBadRequest);
  EXPECT_EQ(keeper.next, nullptr);
}

TEST_F(EnrolmentMembersTest, TheKeyGoesToThoseThatAreListedOnly) {
  Change(AuthorityVerb::kRotate).value();
  Member removed{"m4", Uuid{4, 4}};
  removed.authority = first;
  removed.own = Sign(removed.key, "m4");
  EXPECT_EQ(Ask(removed).code(), FsError::kAccess);
  removed.name = "m2";
  EXPECT_EQ(Ask(removed).code(), FsError::kAccess) << "it has not the directory of m2";
  for (const Role role : {Role::kData, Role::kClient, Role::kAdmin, Role::kMonitor}) {
    Peer peer = PeerOf(*m2.own, *first);
    peer.role = role;
    const Result<FollowAuthorityReply> reply = RunSim(ex, room->Follow(peer, m2.Says()));
    EXPECT_EQ(reply.code(), FsError::kAccess);
    EXPECT_TRUE(reply.error().denies);
  }
  const Result<FollowAuthorityReply> m2s = Ask(m2);
  ASSERT_TRUE(m2s.ok());
  EXPECT_FALSE(m2s->authority.empty());
  m2.Take(*m2s);
  EXPECT_TRUE(Ask(m2).value().authority.empty()) << "it has it: the key does not go over the wire once more";
}

TEST_F(EnrolmentMembersTest, AnAdminsCertificateOfAMembersMachineIsRenewed) {
  const PrivateKey key = PrivateKey::Make();
  const Certificate admin = Sign(key, "pc2", Role::kAdmin), strange = Sign(PrivateKey::Make(), "mallory", Role::kClient);
  const auto renew = [&](const Peer& peer, const std::string& serial) {
    return RunSim(ex, room->RenewOf(peer, serial, CertRequest::Make(key).ToDer())).code();
  };
  const Peer of_m2 = PeerOf(*m2.own, *first);
  EXPECT_EQ(renew(of_m2, admin.serial()), FsError::kAccess) << "nobody has told of it";
  FollowAuthorityRequest r = m2.Says();
  r.given.push_back(admin.ToPem());
  r.given.push_back(strange.ToPem());
  r.given.push_back("no certificate");
  ASSERT_TRUE(RunSim(ex, room->Follow(of_m2, r)).ok());
  EXPECT_EQ(room->ListCertificates("").certificates.size(), 3u) << "those of both metadata servers, and the admin's";
  EXPECT_EQ(renew(of_m2, admin.serial()), FsError::kOk);
  EXPECT_EQ(renew(PeerOf(*m3.own, *first), admin.serial()), FsError::kAccess) << "it is not of that one's machine";
  EXPECT_EQ(renew(of_m2, m2.own->serial()), FsError::kAccess) << "an admin's only";
  Peer client = of_m2;
  client.role = Role::kClient;
  EXPECT_EQ(renew(client, admin.serial()), FsError::kAccess);
}

TEST_F(EnrolmentMembersTest, ACertificateOfOneThatIsGoneCanBeRevoked) {
  Follows(&m2);
  Follows(&m3);
  const auto revoke = [&](const std::string& which) { return RunSim(ex, room->RevokeCertificates(which, false)); };
  Says(revoke("meta/m1").error(), FsError::kInval, "this one's");
  Says(revoke("meta/m2").error(), FsError::kInval, "metadata server m2");
  Says(revoke(m3.own->serial()).error(), FsError::kInval, "metadata server m3");
  const auto renew_m3 = [&] { return RunSim(ex, room->Renew(PeerOf(*m3.own, *first), CertRequest::Make(m3.key).ToDer())).error(); };
  listed.pop_back();  // stria meta remove m3
  Says(renew_m3(), FsError::kAccess, "none of the metadata servers any more");
  ASSERT_TRUE(revoke("meta/m3").ok());
  EXPECT_TRUE(room->IsRevoked(m3.own->serial()));
  EXPECT_FALSE(room->IsRevoked(m2.own->serial()));
  // Nor does it become one again by that certificate, whatever the register says.
  listed.push_back({"m3", kStore3, false});
  Says(Ask(m3).error(), FsError::kAccess, "was revoked");
  Says(renew_m3(), FsError::kAccess, "was revoked");
}

// ---- Tokens of role meta --------------------------------------------------------------------------

class MetaTokenTest : public EnrolmentMembersTest {
 protected:
  void MakeToken(const std::string& name, std::vector<std::string> networks = {}) {
    secret = NewJoinSecret();
    MakeTokenRequest r;
    const JoinVerifier v = VerifierOf(secret);
    r.verifier.assign(v.begin(), v.end());
    r.role = Role::kMeta;
    r.name = name;
    r.networks = std::move(networks);
    token = RunSim(ex, room->MakeToken(std::move(r))).value().token.id;
  }
  Result<JoinAnswer> Join(const PrivateKey& key, const std::string& name, std::string_view binding = kBinding, const std::string& from = "10.3.0.7:1") {
    const std::string request = EncodeJoinRequest(MakeJoinRequest(secret, name, CertRequest::Make(key), kBinding));
    ASSIGN_OR_RETURN(const std::string answer, RunSim(ex, room->Join(request, std::string(binding), from)));
    return DecodeJoinAnswer(answer);
  }
  JoinSecret secret = NewJoinSecret();
  std::string token;
};

TEST_F(MetaTokenTest, IsForOneMachineOnce) {
  MakeToken("m4");
  const PrivateKey key = PrivateKey::Make();
  EXPECT_EQ(Join(key, "m5").code(), FsError::kAccess);
  EXPECT_FALSE(Join(key, "m4", "and those of another connection.").ok());
  const JoinAnswer got = Join(key, "m4").value();
  EXPECT_EQ(DecodeMemberSecrets(got.member).value().authority, first->ToPem());
  // Whoever found the token afterwards.
  Says(Join(PrivateKey::Make(), "m4").error(), FsError::kAccess, "is used up");
  Says(Join(PrivateKey::Make(), "").error(), FsError::kAccess, "is used up");
  // A lost answer, to the same key, for an hour.
  EXPECT_FALSE(Join(key, "m4").value().member.empty());
  ex.JumpWall((kLostAnswerS + 1) * kSecond);
  EXPECT_FALSE(Join(key, "m4").ok());
}

// Exports and trusted roots go by names: a token for many machines says which ones.
TEST_F(MetaTokenTest, OneForManySaysWhichNamesTheyMayHave) {
  MakeTokenRequest r;
  const JoinVerifier v = VerifierOf(secret);
  r.verifier.assign(v.begin(), v.end());
  r.role = Role::kClient;
  r.uses = 500;
  Says(RunSim(ex, room->MakeToken(r)).error(), FsError::kInval, "--names 'wn*'");
  r.names = "wn*";
  EXPECT_EQ(RunSim(ex, room->MakeToken(r)).value().token.names, "wn*");
  EXPECT_EQ(room->ListTokens().tokens.at(0).names, "wn*");
  EXPECT_TRUE(Join(PrivateKey::Make(), "wn1").ok());
  Says(Join(PrivateKey::Make(), "trusted1").error(), FsError::kAccess, "is for machines called wn*, not for trusted1");
  EXPECT_FALSE(Join(PrivateKey::Make(), "wn1").ok()) << "somebody has it";
  EXPECT_TRUE(Join(PrivateKey::Make(), "wn2").ok());
}

TEST_F(MetaTokenTest, NamesOneMachine) {
  MakeTokenRequest r;
  const JoinVerifier v = VerifierOf(secret);
  r.verifier.assign(v.begin(), v.end());
  r.role = Role::kMeta;
  EXPECT_EQ(RunSim(ex, room->MakeToken(r)).code(), FsError::kInval) << "whoever comes first";
  r.name = "m4";
  r.uses = 2;
  EXPECT_EQ(RunSim(ex, room->MakeToken(r)).code(), FsError::kInval);
}

TEST_F(MetaTokenTest, IsForItsNetwork) {
  MakeToken("m4", {"10.3.0.0/16"});
  const PrivateKey key = PrivateKey::Make();
  Says(Join(key, "m4", kBinding, "10.4.0.1:5").error(), FsError::kAccess, "is for other networks");
  EXPECT_TRUE(Join(key, "m4").ok());
}

TEST_F(MetaTokenTest, OneThatIsRevokedGivesNoKey) {
  MakeToken("m4");
  const PrivateKey key = PrivateKey::Make();
  ASSERT_TRUE(Join(key, "m4").ok());
  ASSERT_TRUE(RunSim(ex, room->RevokeToken(token, false)).ok());
  Says(Join(key, "m4").error(), FsError::kAccess, "not known here");
}

TEST_F(MetaTokenTest, AMachineThatIsRevokedGetsNone) {
  Follows(&m2);
  Follows(&m3);
  MakeToken("m4");
  const PrivateKey key = PrivateKey::Make();
  ASSERT_TRUE(Join(key, "m4").ok());
  ASSERT_TRUE(RunSim(ex, room->RevokeCertificates("meta/m4", false)).ok());
  Says(Join(key, "m4").error(), FsError::kAccess, "revoked");
  MakeToken("m4");
  Says(Join(key, "m4").error(), FsError::kAccess, "revoked");
  EXPECT_TRUE(Join(PrivateKey::Make(), "m4").ok()) << "set up anew, with a token of its own";
}

// The new machine has what there is, and follows like the others; the new authority goes to it as to them.
TEST_F(MetaTokenTest, JoinsInTheMiddleOfAChange) {
  Follows(&m2);
  Change(AuthorityVerb::kRotate).value();
  Follows(&m2);
  MakeToken("m4");
  Member m4{"m4", Uuid{4, 4}};
  const JoinAnswer answer = Join(m4.key, "m4").value();
  EXPECT_EQ(DecodeMemberSecrets(answer.member).value().authority, first->ToPem());
  m4.own = Certificate::FromPem(answer.certificate).value();
  EXPECT_TRUE(SignedBy(*m4.own, first->certificate())) << "m3 is down, and would not believe it else";
  m4.authority = first;
  listed.push_back({"m4", m4.store, false});
  Follows(&m4);
  ASSERT_NE(m4.next, nullptr);
  EXPECT_EQ(NameOf(*m4.next), NameOf(*keeper.next));
}

}  // namespace
}  // namespace stria
