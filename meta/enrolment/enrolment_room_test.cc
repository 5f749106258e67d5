// Machines join, renew, are revoked; on a core, without a metadata server.
#include "meta/enrolment/enrolment_room.h"

#include <set>

#include "meta/core/core_testing.h"
#include "meta/enrolment/authority_keeper.h"
#include "trust/credentials.h"
#include "trust/enrolment.h"

namespace stria {
namespace {

constexpr char kBinding[] = "thirty-two bytes of a connection", kOtherBinding[] = "and those of another connection.";
constexpr char kFrom[] = "10.3.0.7:40112";

class FakeKeeper final : public AuthorityKeeper {
 public:
  Task<Result<void>> StoreNext(std::shared_ptr<const Authority> a) override {
    CO_RETURN_IF_ERROR(Fate());
    next = std::move(a);
    co_return Ok();
  }
  Task<Result<void>> StoreOnly(std::shared_ptr<const Authority> a) override {
    CO_RETURN_IF_ERROR(Fate());
    only = std::move(a);
    next.reset();
    co_return Ok();
  }
  Task<Result<void>> StoreRevoked(Revoked revoked) override {
    EXPECT_FALSE(std::exchange(busy, true)) << "one writer at a time";
    co_await Sleep(kSecond);
    busy = false;
    CO_RETURN_IF_ERROR(Fate());
    files.push_back(revoked.Format());
    co_return Ok();
  }
  Result<void> Fate() const { return fails ? Result<void>(Error(FsError::kNoSpace, "the disk is full")) : Ok(); }

  std::shared_ptr<const Authority> only, next;
  std::vector<std::string> files;  // `revoked`, as it was written each time
  bool fails = false;
  bool busy = false;
};

class EnrolmentRoomTest : public CoreTest, public AuditSink {
 protected:
  EnrolmentRoomTest() : authority(std::make_shared<const Authority>(Authority::Make(Uuid{1, 2}, NowS()))) {
    keeper.only = authority;
    MakeRoom();
  }
  void Note(AuditEntry e) override { noted.push_back(std::move(e)); }

  int64_t NowS() const { return ex.WallNs() / kSecond; }
  void PassDays(int64_t days) { ex.JumpWall(days * kDayS * kSecond); }
  void MakeRoom() {
    room = std::make_unique<EnrolmentRoom>(core.get(), keeper.only);
    room->UseKeeper(&keeper);
    room->UseAudit(this);
    ASSERT_TRUE(room->TakeNext(keeper.next).ok());
    room->OnChange([this] { ++changes; });
    room->OnRevoked([this](const Sha256Hash& key) { ended.push_back(key); });
    Start([&](Txn& txn) { return room->Load(txn); });
  }
  // After a power cut: only what is durable is there.
  void PowerCut() {
    room.reset();
    core.reset();
    Random rng(7);
    media->Crash(rng, true);
    Make();
    MakeRoom();
  }

  MakeTokenRequest Token(Role role, const std::string& name, uint32_t uses = 1) {
    MakeTokenRequest r;
    const JoinVerifier v = VerifierOf(secret);
    r.verifier.assign(v.begin(), v.end());
    r.role = role;
    r.name = name;
    r.uses = uses;
    if (uses > 1) r.names = "*";
    return r;
  }
  MakeTokenReply Make(const MakeTokenRequest& r) { return RunSim(ex, room->MakeToken(r)).value(); }
  using CoreTest::Make;
  std::string Ask(const PrivateKey& key, const std::string& name, std::string_view binding = kBinding) {
    return EncodeJoinRequest(MakeJoinRequest(secret, name, CertRequest::Make(key), binding));
  }
  Result<std::string> Send(const std::string& request, std::string_view binding = kBinding, const std::string& from = kFrom) {
    return RunSim(ex, room->Join(request, std::string(binding), from));
  }
  // With a key of its own, unless it is given.
  Result<Credentials> Join(const std::string& name, std::optional<PrivateKey> key = std::nullopt) {
    if (!key) key = PrivateKey::Make();
    ASSIGN_OR_RETURN(const std::string answer, Send(Ask(*key, name)));
    ASSIGN_OR_RETURN(const JoinAnswer decoded, DecodeJoinAnswer(answer));
    return AcceptJoin(decoded, *key, keeper.only->certificate().hash());
  }
  Credentials Joined(Role role, const std::string& name) {
    secret = NewJoinSecret();
    Make(Token(role, name));
    return Join(name).value();
  }
  Peer PeerOf(const Credentials& c) const {
    const Sha256Hash issuer = SignedBy(c.certificate, authority->certificate()) ? authority->certificate().hash() : Sha256Hash{1};
    return {c.identity.role, c.identity.name, kFrom, c.certificate.key_hash(), issuer, c.certificate.serial(), c.certificate.not_after_s()};
  }
  Result<Certificate> Renew(const Peer& peer, const PrivateKey& key) {
    ASSIGN_OR_RETURN(const RenewCertificateReply reply, RunSim(ex, room->Renew(peer, CertRequest::Make(key).ToDer())));
    return Certificate::FromPem(reply.certificate);
  }
  Result<TrustReply> RevokeIt(const std::string& which, bool dry_run = false) { return RunSim(ex, room->RevokeCertificates(which, dry_run)); }
  static void Says(const Error& e, FsError code, const std::string& part) {
    EXPECT_EQ(e.code, code) << e;
    EXPECT_NE(e.message.find(part), std::string::npos) << e;
  }

  FakeKeeper keeper;
  std::shared_ptr<const Authority> authority;
  std::unique_ptr<EnrolmentRoom> room;
  JoinSecret secret = NewJoinSecret();
  std::vector<AuditEntry> noted;
  int changes = 0;
  std::vector<Sha256Hash> ended;  // keys
};

TEST_F(EnrolmentRoomTest, AMachineJoinsAndIsKnownAfterAPowerCut) {
  const MakeTokenReply token = Make(Token(Role::kData, "n6"));
  EXPECT_EQ(token.authority, HexOf(authority->certificate().hash()));
  const Credentials n6 = Join("n6").value();
  EXPECT_EQ(n6.identity, (Identity{Uuid{1, 2}, Role::kData, "n6"}));
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].kind, AuditEntry::Kind::kEnrolment);
  EXPECT_EQ(noted[0].address, kFrom);
  PowerCut();
  const auto all = room->ListCertificates("").certificates;
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].serial, n6.certificate.serial());
  EXPECT_EQ(all[0].name, "n6");
  EXPECT_EQ(all[0].token, token.token.id);
  EXPECT_EQ(all[0].address, kFrom);
  ASSERT_EQ(room->ListTokens().tokens.size(), 1u);
  EXPECT_EQ(room->ListTokens().tokens[0].used, 1u);
  Says(Join("n6").error(), FsError::kAccess, "is used up");
  EXPECT_EQ(noted.back().kind, AuditEntry::Kind::kDenial);
}

TEST_F(EnrolmentRoomTest, ALostAnswerIsGivenAgain) {
  Make(Token(Role::kData, "n6"));
  const PrivateKey key = PrivateKey::Make();
  const Credentials first = Join("n6", key).value();
  const Credentials second = Join("n6", key).value();
  EXPECT_NE(first.certificate.serial(), second.certificate.serial());
  EXPECT_EQ(room->ListTokens().tokens[0].used, 1u);
  // As often as answers may be lost, not for ever.
  for (size_t i = 2; i < kMaxAnswersPerUse; ++i) ASSERT_TRUE(Join("n6", key).ok()) << i;
  Says(Join("n6", key).error(), FsError::kAccess, "times; ask for another token");
}

TEST_F(EnrolmentRoomTest, AgainIsForAnHour) {
  MakeTokenRequest r = Token(Role::kData, "n6");
  r.ttl_s = kDayS;
  Make(r);
  const PrivateKey key = PrivateKey::Make();
  ASSERT_TRUE(Join("n6", key).ok());
  ex.JumpWall((kLostAnswerS + 60) * kSecond);
  Says(Join("n6", key).error(), FsError::kAccess, "has joined by the token");
}

TEST_F(EnrolmentRoomTest, OneUseIsOneName) {
  Make(Token(Role::kClient, "", 2));
  const PrivateKey key = PrivateKey::Make();
  ASSERT_TRUE(Join("wn1", key).ok());
  Says(Join("wn2", key).error(), FsError::kAccess, "has joined as wn1");
  EXPECT_EQ(room->ListTokens().tokens[0].used, 1u);
  EXPECT_TRUE(Join("wn2").ok()) << "another key, another use";
}

TEST_F(EnrolmentRoomTest, ARequestIsForItsConnection) {
  Make(Token(Role::kData, "n6"));
  const std::string request = Ask(PrivateKey::Make(), "n6");
  Says(Send(request, kOtherBinding).error(), FsError::kAccess, "its token is not known here");
  EXPECT_EQ(room->ListTokens().tokens[0].used, 0u);
  EXPECT_TRUE(Send(request).ok());
  EXPECT_FALSE(Send("what is this").ok());
}

TEST_F(EnrolmentRoomTest, TokensAreForTheirNetworkAndTheirTime) {
  MakeTokenRequest r = Token(Role::kClient, "", 10);
  r.networks = {"10.3.0.0/16"};
  r.ttl_s = 600;
  Make(r);
  const PrivateKey key = PrivateKey::Make();
  Says(Send(Ask(key, "wn1"), kBinding, "10.4.0.1:5").error(), FsError::kAccess, "is for other networks");
  EXPECT_TRUE(Send(Ask(key, "wn1")).ok());
  ex.JumpWall(601 * kSecond);
  Says(Send(Ask(PrivateKey::Make(), "wn2")).error(), FsError::kAccess, "has expired");
  secret = NewJoinSecret();
  EXPECT_EQ(RunSim(ex, room->MakeToken(Token(Role::kMeta, ""))).code(), FsError::kInval);
  Says(RunSim(ex, room->MakeToken(Token(Role::kMeta, "m"))).error(), FsError::kNotSupported, "serves alone");
  MakeTokenRequest bad = Token(Role::kClient, "");
  bad.networks = {"10.3.1.0/16"};
  Says(RunSim(ex, room->MakeToken(bad)).error(), FsError::kInval, "10.3.1.0/16");
  bad = Token(Role::kClient, "");
  bad.ttl_s = kMaxTokenTtlS + 1;
  EXPECT_EQ(RunSim(ex, room->MakeToken(bad)).code(), FsError::kInval);
}

TEST_F(EnrolmentRoomTest, AMetadataServerThatJoinsGetsTheAuthority) {
  room->UseMembers([]() -> Result<MemberSecrets> { return MemberSecrets{"", "master", {"pc1:2379"}, "", "", ""}; });
  Make(Token(Role::kMeta, "pc2"));
  const std::string bytes = Send(Ask(PrivateKey::Make(), "pc2")).value();
  EXPECT_EQ(DecodeMemberSecrets(DecodeJoinAnswer(bytes).value().member).value(), (MemberSecrets{authority->ToPem(), "master", {"pc1:2379"}, "", "", ""}));
  secret = NewJoinSecret();
  Make(Token(Role::kData, "n1"));
  EXPECT_EQ(DecodeJoinAnswer(Send(Ask(PrivateKey::Make(), "n1")).value()).value().member, "") << "nobody else does";
}

TEST_F(EnrolmentRoomTest, ANameBelongsToItsKey) {
  Make(Token(Role::kData, "", 5));
  const Credentials n6 = Join("n6").value();
  Says(Join("n6").error(), FsError::kAccess, "another machine is data n6");
  EXPECT_EQ(room->ListTokens().tokens[0].used, 1u) << "who is refused has used nothing";
  // An admin who says the name means it: the machine was set up anew.
  const Credentials anew = Joined(Role::kData, "n6");
  EXPECT_NE(anew.certificate.key_hash(), n6.certificate.key_hash());
  // A client of that name is somebody else.
  EXPECT_EQ(Joined(Role::kClient, "n6").identity.role, Role::kClient);
}

TEST_F(EnrolmentRoomTest, ANameIsFreeWhenItsCertificatesAreOver) {
  Joined(Role::kClient, "wn1");
  PassDays(kCertificateDays + 1);
  secret = NewJoinSecret();
  Make(Token(Role::kClient, "", 1));
  EXPECT_TRUE(Join("wn1").ok());
}

TEST_F(EnrolmentRoomTest, ATokenThatIsRevokedLetsNobodyIn) {
  const std::string id = Make(Token(Role::kData, "n6")).token.id;
  EXPECT_EQ(RunSim(ex, room->RevokeToken("00000000", false)).code(), FsError::kNoEnt);
  ASSERT_TRUE(RunSim(ex, room->RevokeToken(id, true)).ok());
  EXPECT_EQ(room->ListTokens().tokens.size(), 1u) << "that was a dry run";
  ASSERT_TRUE(RunSim(ex, room->RevokeToken(id, false)).ok());
  Says(Join("n6").error(), FsError::kAccess, "its token is not known here");
  PowerCut();
  Says(Join("n6").error(), FsError::kAccess, "its token is not known here");
}

// Each of several metadata servers has the authority, and makes its first certificate itself.
TEST_F(EnrolmentRoomTest, AMetadataServersOwnIsRenewedThoughNobodyKnewOfIt) {
  const PrivateKey key = PrivateKey::Make();
  const Certificate own = authority->Sign(CertRequest::Make(key), {authority->cluster(), Role::kMeta, "pc2"}, NowS()).value();
  const auto peer_with = [&](const Sha256Hash& issuer) {
    return Peer{Role::kMeta, "pc2", kFrom, own.key_hash(), issuer, own.serial(), own.not_after_s()};
  };
  const Peer pc2 = peer_with(authority->certificate().hash());
  const Certificate renewed = Renew(pc2, key).value();
  EXPECT_EQ(renewed.identity().value(), (Identity{authority->cluster(), Role::kMeta, "pc2"}));
  EXPECT_EQ(room->ListCertificates("").certificates.size(), 1u) << "from now on it is known";
  Says(Renew(peer_with(Sha256Hash{7}), key).error(), FsError::kAccess, "is not known here");
  Peer data = pc2;
  data.role = Role::kData;
  Says(Renew(data, key).error(), FsError::kAccess, "is not known here");
  PassDays(kCertificateDays + 1);
  Says(Renew(pc2, key).error(), FsError::kAccess, "is not known here");
}

TEST_F(EnrolmentRoomTest, CertificatesAreRenewedByThoseThatHaveThem) {
  const Credentials n6 = Joined(Role::kData, "n6");
  PassDays(60);
  const Certificate renewed = Renew(PeerOf(n6), n6.key).value();
  EXPECT_EQ(renewed.identity().value(), n6.identity);
  EXPECT_GT(renewed.not_after_s(), n6.certificate.not_after_s());
  PowerCut();
  EXPECT_EQ(room->ListCertificates("").certificates.size(), 2u);
  // Not who says that it is n6 with a certificate that nobody knows here, nor with that of another.
  Peer unknown = PeerOf(n6);
  unknown.serial = "4abc";
  Says(Renew(unknown, n6.key).error(), FsError::kAccess, "is not known here");
  Peer other = PeerOf(n6);
  other.name = "n7";
  Says(Renew(other, n6.key).error(), FsError::kAccess, "is not known here");
  PassDays(31);
  Says(Renew(PeerOf(n6), n6.key).error(), FsError::kAccess, "is over");
}

TEST_F(EnrolmentRoomTest, ACertificateIsRenewedWithItsOwnKeyOnly) {
  const Credentials n6 = Joined(Role::kData, "n6"), n7 = Joined(Role::kData, "n7");
  for (const PrivateKey& other : {PrivateKey::Make(), n7.key}) Says(Renew(PeerOf(n6), other).error(), FsError::kAccess, "another key");
  EXPECT_EQ(Renew(PeerOf(n6), n6.key).value().key_hash(), n6.certificate.key_hash());
}

TEST_F(EnrolmentRoomTest, RenewalsAreFew) {
  const Credentials n6 = Joined(Role::kData, "n6"), n7 = Joined(Role::kData, "n7");
  for (size_t i = 0; i < kRenewalsPerHour; ++i) ASSERT_TRUE(Renew(PeerOf(n6), n6.key).ok()) << i;
  Says(Renew(PeerOf(n6), n6.key).error(), FsError::kBusy, "within an hour");
  EXPECT_TRUE(Renew(PeerOf(n7), n7.key).ok()) << "others may";
  ex.JumpWall(3601 * kSecond);
  for (size_t made = kRenewalsPerHour + 1; made < kMaxInForceOfIdentity; ++made) {
    ex.JumpWall(400 * kSecond);
    ASSERT_TRUE(Renew(PeerOf(n6), n6.key).ok()) << made;
  }
  ex.JumpWall(3601 * kSecond);
  Says(Renew(PeerOf(n6), n6.key).error(), FsError::kBusy, "certificates already");
}

TEST_F(EnrolmentRoomTest, AnAdminMayWantThemToBeShortLived) {
  room->UseLife(kMinCertificateLifeS);
  const Credentials n6 = Joined(Role::kData, "n6");
  EXPECT_NEAR(static_cast<double>(n6.certificate.not_after_s()), static_cast<double>(NowS() + kMinCertificateLifeS), 2);
  // All that fit into an hour.
  Peer now = PeerOf(n6);
  for (int i = 0; i < 3600 / 40; ++i) {
    ex.JumpWall(40 * kSecond);
    const Result<Certificate> next = Renew(now, n6.key);
    ASSERT_TRUE(next.ok()) << i << ": " << next.error();
    EXPECT_NEAR(static_cast<double>(next->not_after_s()), static_cast<double>(NowS() + kMinCertificateLifeS), 2);
    now.serial = next->serial();
  }
  ex.JumpWall(61 * kSecond);
  Says(Renew(now, n6.key).error(), FsError::kAccess, "is over");
}

TEST_F(EnrolmentRoomTest, ANodeThatIsKeptOutIsNamed) {
  const Credentials n6 = Joined(Role::kData, "n6");
  ClusterMap map;
  NodeInfo node;
  node.name = "n6";
  node.state = NodeState::kDown;
  map.nodes = {node};
  node.name = "n7";  // of which nothing is known
  map.nodes.push_back(node);
  EXPECT_TRUE(room->NodesKeptOut(map).empty()) << "it is down for another reason";
  ASSERT_TRUE(RevokeIt("data/n6").ok());
  const std::vector<Advice> told = room->NodesKeptOut(map);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].what, "Node n6 is refused: its certificate is revoked.");
  EXPECT_NE(told[0].action.find("stria token make --role data --name n6"), std::string::npos) << told[0].action;
  map.nodes[0].state = NodeState::kUp;
  EXPECT_TRUE(room->NodesKeptOut(map).empty()) << "it is heard still";
  map.nodes[0].state = NodeState::kDown;
  (void)Joined(Role::kData, "n6");
  EXPECT_TRUE(room->NodesKeptOut(map).empty()) << "it has joined anew";
}

TEST_F(EnrolmentRoomTest, ARevokedMachineIsOut) {
  Make(Token(Role::kClient, "", 5));
  const Credentials wn1 = Join("wn1").value();
  const Certificate renewed = Renew(PeerOf(wn1), wn1.key).value();
  EXPECT_EQ(changes, 0);
  const std::string would = RevokeIt("client/wn1", true).value().message;
  EXPECT_FALSE(room->IsRevoked(wn1.certificate.serial())) << "that was a dry run";
  const std::string did = RevokeIt("client/wn1").value().message;
  EXPECT_EQ(did, would);
  EXPECT_NE(did.find("2 certificates of client wn1 are revoked; it knows the token "), std::string::npos) << did;
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(ended, std::vector<Sha256Hash>{wn1.certificate.key_hash()}) << "not by the dry run, and once";
  for (const std::string& serial : {wn1.certificate.serial(), renewed.serial()}) EXPECT_TRUE(room->IsRevoked(serial));
  EXPECT_EQ(room->Revoked().size(), 2u);
  ASSERT_EQ(keeper.files.size(), 1u);
  EXPECT_NE(keeper.files[0].find(renewed.serial() + "\n"), std::string::npos);
  // Neither by its certificate, nor by its key: not as for a lost answer, not by another token, not as somebody else.
  Says(Renew(PeerOf(wn1), wn1.key).error(), FsError::kAccess, "was revoked");
  Says(Join("wn1", wn1.key).error(), FsError::kAccess, "was revoked");
  secret = NewJoinSecret();
  Make(Token(Role::kData, "n6"));
  Says(Join("n6", wn1.key).error(), FsError::kAccess, "of its key was revoked");
  const Credentials other = Joined(Role::kClient, "wn2");
  Says(Renew(PeerOf(other), wn1.key).error(), FsError::kAccess, "was revoked");
  PowerCut();
  EXPECT_EQ(room->Revoked().size(), 2u);
  Says(Renew(PeerOf(wn1), wn1.key).error(), FsError::kAccess, "was revoked");
  EXPECT_TRUE(RevokeIt("client/wn1").ok()) << "again is no harm";
  EXPECT_EQ(room->Revoked().size(), 2u);
}

TEST_F(EnrolmentRoomTest, ASerialNumberStandsForItsKey) {
  const Credentials n6 = Joined(Role::kData, "n6");
  const Certificate renewed = Renew(PeerOf(n6), n6.key).value();
  ASSERT_TRUE(RevokeIt(n6.certificate.serial()).ok());
  EXPECT_TRUE(room->IsRevoked(renewed.serial()));
  EXPECT_EQ(RevokeIt("data/n9").code(), FsError::kNoEnt);
  EXPECT_EQ(RevokeIt("nonsense").code(), FsError::kInval);
  EXPECT_EQ(RevokeIt("king/n6").code(), FsError::kInval);
  // After a restore there may be some that are not known here.
  ASSERT_TRUE(RevokeIt("4abc").ok());
  EXPECT_TRUE(room->IsRevoked("4abc"));
}

TEST_F(EnrolmentRoomTest, AFileThatCannotBeWrittenIsSaid) {
  const Credentials n6 = Joined(Role::kData, "n6");
  keeper.fails = true;
  Says(RevokeIt("data/n6").error(), FsError::kNoSpace, "which counts; but the file of revoked certificates was not written: the disk is full");
  EXPECT_TRUE(room->IsRevoked(n6.certificate.serial()));
  EXPECT_EQ(changes, 1) << "it is told all the same";
  keeper.fails = false;
  ASSERT_TRUE(RevokeIt("data/n6").ok());
  ASSERT_EQ(keeper.files.size(), 1u);
  EXPECT_EQ(keeper.files[0], n6.certificate.serial() + "\n");
}

TEST_F(EnrolmentRoomTest, TwoRevocationsAreWrittenInOrder) {
  const Credentials n6 = Joined(Role::kData, "n6"), n7 = Joined(Role::kData, "n7");
  int done = 0;
  TaskScope scope;
  for (const char* which : {"data/n6", "data/n7"}) {
    scope.Spawn(room->RevokeCertificates(which, false), [&](Result<TrustReply> r) { done += r.ok(); });
  }
  ASSERT_TRUE(ex.RunUntil([&] { return done == 2; }, ex.NowNs() + 60 * kSecond));
  ASSERT_EQ(keeper.files.size(), 2u);
  EXPECT_EQ(keeper.files[0], n6.certificate.serial() + "\n");
  EXPECT_NE(keeper.files[1].find(n6.certificate.serial()), std::string::npos);
  EXPECT_NE(keeper.files[1].find(n7.certificate.serial()), std::string::npos);
}

TEST_F(EnrolmentRoomTest, ARestoreFromABackupRevokesNothingLess) {
  const Credentials n6 = Joined(Role::kData, "n6");
  Revoked file;
  file.Add(n6.certificate.serial());
  file.Add("4abc");
  ASSERT_TRUE(room->TakeRevokedFile(file).ok());
  ASSERT_TRUE(RunSim(ex, core->Sync()).ok());
  PowerCut();
  EXPECT_EQ(room->Revoked().size(), 2u);
  secret = NewJoinSecret();
  Make(Token(Role::kData, "n6"));
  Says(Join("n6", n6.key).error(), FsError::kAccess, "was revoked");
}

// A start asks for them: a crash may have come before anything else was done.
TEST_F(EnrolmentRoomTest, ItIsKnownWhichKeysWereRevokedAndSinceWhen) {
  const Credentials n6 = Joined(Role::kData, "n6"), n7 = Joined(Role::kData, "n7"), n8 = Joined(Role::kData, "n8");
  const Sha256Hash key6 = n6.certificate.key_hash(), key7 = n7.certificate.key_hash();
  const int64_t first_s = NowS();
  ASSERT_TRUE(RevokeIt("data/n6").ok());
  ASSERT_TRUE(RevokeIt("4abc").ok());  // of a key that nobody knows
  PassDays(2);
  Revoked file;
  file.Add(n7.certificate.serial());
  ASSERT_TRUE(room->TakeRevokedFile(file).ok());
  ASSERT_TRUE(RunSim(ex, core->Sync()).ok());
  PowerCut();
  EXPECT_EQ(room->KeysRevokedSince(first_s), (std::set<Sha256Hash>{key6, key7}));
  EXPECT_EQ(room->KeysRevokedSince(first_s + kDayS), std::set<Sha256Hash>{key7});
  EXPECT_TRUE(room->IsRevokedKey(key6) && room->IsRevokedKey(key7));
  EXPECT_FALSE(room->IsRevokedKey(n8.certificate.key_hash()));
}

TEST_F(EnrolmentRoomTest, WhatIsOverIsForgotten) {
  const Credentials n6 = Joined(Role::kData, "n6");
  ASSERT_TRUE(RevokeIt("data/n6").ok());
  room->Tick();
  EXPECT_EQ(room->Revoked().size(), 1u);
  EXPECT_EQ(room->ListTokens().tokens.size(), 1u);
  changes = 0;
  PassDays(kCertificateDays);
  ex.JumpWall(kSecond);
  room->Tick();
  EXPECT_EQ(room->Revoked().size(), 1u) << "clocks of others may be late";
  PassDays(kBackdatedS / kDayS + 1);
  room->Tick();
  EXPECT_TRUE(room->Revoked().empty());
  EXPECT_EQ(changes, 1);
  EXPECT_TRUE(room->ListTokens().tokens.empty());
  ASSERT_TRUE(RunSim(ex, core->Sync()).ok());
  PowerCut();
  EXPECT_TRUE(room->Revoked().empty());
  EXPECT_TRUE(room->ListCertificates("").certificates.empty());
}

TEST_F(EnrolmentRoomTest, TheServersOwnCertificatesAreKnown) {
  const PrivateKey key = PrivateKey::Make();
  const Certificate own = authority->Sign(CertRequest::Make(key), {Uuid{1, 2}, Role::kMeta, "m1"}, NowS()).value();
  const Certificate admin = authority->Sign(CertRequest::Make(PrivateKey::Make()), {Uuid{1, 2}, Role::kAdmin, "pc1"}, NowS()).value();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(room->NoteGiven(own).ok());
    ASSERT_TRUE(room->NoteGiven(admin).ok());
  }
  EXPECT_EQ(room->ListCertificates("").certificates.size(), 2u);
  ASSERT_TRUE(RevokeIt("admin/pc1").ok());
  EXPECT_TRUE(room->IsRevoked(admin.serial()));
  EXPECT_EQ(RevokeIt("meta/m1").code(), FsError::kInval) << "who has that has the authority";
  const Peer peer{Role::kMeta, "m1", "", own.key_hash(), authority->certificate().hash(), own.serial(), own.not_after_s()};
  EXPECT_TRUE(Renew(peer, key).ok());
  const Authority other = Authority::Make(Uuid{1, 2}, NowS());
  EXPECT_EQ(room->NoteGiven(other.Sign(CertRequest::Make(key), {Uuid{1, 2}, Role::kMeta, "m1"}, NowS()).value()).code(), FsError::kInval);
}

TEST_F(EnrolmentRoomTest, ARootIsTrustedAsItsTokenSays) {
  MakeTokenRequest r = Token(Role::kClient, "wn1");
  r.trusted_root = true;
  Make(r);
  const Credentials wn1 = Join("wn1").value(), wn2 = Joined(Role::kClient, "wn2");
  EXPECT_TRUE(room->IsTrustedRoot(PeerOf(wn1)));
  EXPECT_FALSE(room->IsTrustedRoot(PeerOf(wn2)));
  Peer other = PeerOf(wn1);
  other.name = "wn2";
  EXPECT_FALSE(room->IsTrustedRoot(other));
  other = PeerOf(wn1);
  other.key_hash = wn2.certificate.key_hash();
  EXPECT_FALSE(room->IsTrustedRoot(other));
  other = PeerOf(wn1);
  other.serial = Renew(other, wn1.key).value().serial();
  EXPECT_TRUE(room->IsTrustedRoot(other)) << "renewal keeps it";
  PowerCut();
  EXPECT_TRUE(room->IsTrustedRoot(PeerOf(wn1)));
  ASSERT_TRUE(RevokeIt("client/wn1").ok());
  EXPECT_FALSE(room->IsTrustedRoot(PeerOf(wn1)));
}

TEST_F(EnrolmentRoomTest, TheAuthorityIsChangedForAnother) {
  const auto change = [&](AuthorityVerb verb, bool dry_run = false, bool force = false) {
    return RunSim(ex, room->ChangeAuthority(verb, dry_run, force));
  };
  const Credentials n6 = Joined(Role::kData, "n6");
  EXPECT_EQ(change(AuthorityVerb::kFinish).code(), FsError::kInval);
  ASSERT_TRUE(change(AuthorityVerb::kRotate, true).ok());
  EXPECT_EQ(keeper.next, nullptr) << "that was a dry run";
  const std::string before = room->Bundle();
  keeper.fails = true;
  EXPECT_EQ(change(AuthorityVerb::kRotate).code(), FsError::kNoSpace);
  EXPECT_EQ(room->Bundle(), before);
  keeper.fails = false;
  const ChangeAuthorityReply two = change(AuthorityVerb::kRotate).value();
  ASSERT_NE(keeper.next, nullptr);
  EXPECT_EQ(changes, 1);
  ASSERT_EQ(two.authorities.size(), 2u);
  EXPECT_EQ(two.authorities[0].hash, HexOf(authority->certificate().hash()));
  EXPECT_EQ(two.authorities[0].whose, std::vector<std::string>{"data n6"});
  EXPECT_FALSE(two.authorities[0].signs);
  EXPECT_TRUE(two.authorities[1].signs);
  EXPECT_EQ(Bundle::FromPem(room->Bundle()).value().all().size(), 2u);
  EXPECT_EQ(change(AuthorityVerb::kRotate).code(), FsError::kExist);
  PowerCut();
  EXPECT_EQ(Bundle::FromPem(room->Bundle()).value().all().size(), 2u);
  // Who joins is shown the old one as long as the server is known by that, and gets a certificate of the new one.
  secret = NewJoinSecret();
  EXPECT_EQ(Make(Token(Role::kData, "n7")).authority, HexOf(authority->certificate().hash()));
  const Credentials n7 = Join("n7").value();
  EXPECT_TRUE(SignedBy(n7.certificate, keeper.next->certificate()));
  Says(change(AuthorityVerb::kFinish).error(), FsError::kBusy, "1 certificate signed by the old authority would not be believed any more, of data n6");
  const Certificate renewed = Renew(PeerOf(n6), n6.key).value();
  EXPECT_TRUE(SignedBy(renewed, keeper.next->certificate()));
  EXPECT_EQ(change(AuthorityVerb::kFinish).code(), FsError::kBusy) << "its answer may have been lost";
  ex.JumpWall((kLostAnswerS + 1) * kSecond);
  EXPECT_EQ(change(AuthorityVerb::kShow).value().authorities[0].in_force, 0u);
  changes = 0;
  ASSERT_TRUE(change(AuthorityVerb::kFinish).ok());
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(keeper.next, nullptr);
  EXPECT_NE(keeper.only->certificate().hash(), authority->certificate().hash());
  EXPECT_EQ(Bundle::FromPem(room->Bundle()).value().all().size(), 1u);
  PowerCut();
  const auto show = change(AuthorityVerb::kShow).value();
  ASSERT_EQ(show.authorities.size(), 1u);
  EXPECT_EQ(show.authorities[0].in_force, 2u) << "n6 and n7";
  Says(Renew(PeerOf(n6), n6.key).error(), FsError::kAccess, "not believed any more");
  Peer peer = PeerOf(n6);
  peer.serial = renewed.serial();
  EXPECT_TRUE(Renew(peer, n6.key).ok());
}

TEST_F(EnrolmentRoomTest, TheServersOwnAuthorityIsNotDropped) {
  const PrivateKey key = PrivateKey::Make();
  const Certificate own = authority->Sign(CertRequest::Make(key), {Uuid{1, 2}, Role::kMeta, "m1"}, NowS()).value();
  ASSERT_TRUE(room->NoteGiven(own).ok());
  ASSERT_TRUE(RunSim(ex, room->ChangeAuthority(AuthorityVerb::kRotate, false, false)).ok());
  Says(RunSim(ex, room->ChangeAuthority(AuthorityVerb::kFinish, false, true)).error(), FsError::kBusy, "the metadata server's own certificate");
  ex.JumpWall(kSecond);
  const Peer peer{Role::kMeta, "m1", "", own.key_hash(), authority->certificate().hash(), own.serial(), own.not_after_s()};
  ASSERT_TRUE(Renew(peer, key).ok());
  EXPECT_EQ(Make(Token(Role::kData, "n6")).authority, HexOf(keeper.next->certificate().hash())) << "by which the server is known now";
  EXPECT_TRUE(RunSim(ex, room->ChangeAuthority(AuthorityVerb::kFinish, false, true)).ok());
}

TEST_F(EnrolmentRoomTest, ForceEndsAChangeAtOnce) {
  const Credentials n6 = Joined(Role::kData, "n6");
  ASSERT_TRUE(RunSim(ex, room->ChangeAuthority(AuthorityVerb::kRotate, false, false)).ok());
  const std::string said = RunSim(ex, room->ChangeAuthority(AuthorityVerb::kFinish, false, true)).value().message;
  EXPECT_NE(said.find("1 certificate, of data n6"), std::string::npos) << said;
  Says(Renew(PeerOf(n6), n6.key).error(), FsError::kAccess, "not believed any more");
  EXPECT_FALSE(room->IsTrustedRoot(PeerOf(n6)));
}

TEST_F(EnrolmentRoomTest, AnInsecureClusterHasNone) {
  EnrolmentRoom none(core.get(), nullptr);
  EXPECT_FALSE(none.secured());
  EXPECT_EQ(none.Bundle(), "");
  EXPECT_EQ(RunSim(ex, none.Join(Ask(PrivateKey::Make(), "n6"), kBinding, kFrom)).code(), FsError::kNotSupported);
  EXPECT_EQ(RunSim(ex, none.MakeToken(Token(Role::kData, "n6"))).code(), FsError::kNotSupported);
  EXPECT_EQ(RunSim(ex, none.Renew(Peer(), "")).code(), FsError::kNotSupported);
  EXPECT_EQ(RunSim(ex, none.ChangeAuthority(AuthorityVerb::kRotate, false, false)).code(), FsError::kNotSupported);
  EXPECT_FALSE(none.IsTrustedRoot(Peer()));
  none.Tick();
}

}  // namespace
}  // namespace stria
