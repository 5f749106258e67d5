#include "trust/enrolment.h"

#include <gtest/gtest.h>

#include "common/random.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

constexpr char kBinding[] = "thirty-two bytes of a connection";
constexpr char kFrom[] = "10.3.0.7:40112";

TEST(JoinToken, TextThereAndBack) {
  Random rng(1);
  for (const char* host : {"pc1", "pc1.example", "10.0.0.1", "fd00::1"}) {
    JoinToken t;
    t.host = host;
    t.port = static_cast<uint16_t>(rng.Between(1, 65535));
    for (uint8_t& b : t.authority) b = static_cast<uint8_t>(rng.Next());
    t.secret = NewJoinSecret();
    const std::string text = FormatJoinToken(t);
    EXPECT_EQ(ParseJoinToken(text).value(), t) << text;
    EXPECT_EQ(text.find(' '), text.npos);
    for (size_t i = 0; i < text.size(); ++i) {
      for (const char c : {'\0', ' ', '/', '\n', '!'}) {
        std::string bad = text;
        bad[i] = c;
        EXPECT_FALSE(ParseJoinToken(bad).ok()) << bad;
      }
      EXPECT_FALSE(ParseJoinToken(text.substr(0, i)).ok());
    }
    EXPECT_FALSE(ParseJoinToken(text + "a").ok());
    EXPECT_FALSE(ParseJoinToken(" " + text).ok());
  }
}

TEST(JoinToken, ErrorsDoNotRepeatTheSecret) {
  JoinToken t;
  t.host = "pc1", t.port = 7424, t.secret = NewJoinSecret();
  std::string text = FormatJoinToken(t);
  const std::string secret = text.substr(text.rfind(':') + 1);
  text.replace(text.find("sha256"), 6, "sha255");
  EXPECT_EQ(ParseJoinToken(text).error().message.find(secret), std::string::npos);
  EXPECT_EQ(ParseJoinToken("stria-join:pc1:0:sha256=" + HexOf({}) + ":" + secret).code(), FsError::kBadRequest);
  EXPECT_EQ(ParseJoinToken("stria-join:fd00::1:5:sha256=" + HexOf({}) + ":" + secret).code(), FsError::kBadRequest);
}

TEST(JoinToken, WhatIsStoredIsNotTheSecret) {
  const JoinSecret secret = NewJoinSecret();
  const JoinVerifier verifier = VerifierOf(secret);
  const std::string proof = ProveJoin(secret, "message");
  EXPECT_TRUE(CheckJoinProof(verifier, "message", proof));
  EXPECT_FALSE(CheckJoinProof(verifier, "messagf", proof));
  EXPECT_FALSE(CheckJoinProof(VerifierOf(NewJoinSecret()), "message", proof));
  EXPECT_FALSE(CheckJoinProof(verifier, "message", ""));
  EXPECT_FALSE(CheckJoinProof(verifier, "message", proof + "x"));
  EXPECT_FALSE(CheckJoinProof(JoinVerifier{}, "message", proof));
  // HKDF-SHA256 and Ed25519 by other programs; it may not change while tokens are out.
  EXPECT_EQ(HexOf(VerifierOf(JoinSecret{})), "8d318f7054d3834c62b22ed3cd3a1a720ff258da2ce5615a2a04604e61b0e9e0");
}

TEST(JoinGrant, RecordThereAndBack) {
  JoinGrant g;
  g.verifier = VerifierOf(NewJoinSecret());
  g.role = Role::kData;
  g.uses = 500;
  g.networks = {ParseNetwork("10.3.0.0/16").value(), ParseNetwork("fd00::/8").value()};
  g.expires_s = kTestNowS;
  g.used = {Sha256Hash{1}, Sha256Hash{2}};
  EXPECT_EQ(DecodeJoinGrant(EncodeJoinGrant(g)).value(), g) << "as they were made before";
  EXPECT_FALSE(CheckNewGrant(g).ok());
  g.names = "wn*";
  EXPECT_TRUE(CheckNewGrant(g).ok());
  EXPECT_EQ(DecodeJoinGrant(EncodeJoinGrant(g)).value(), g);
  EXPECT_EQ(g.Id().size(), 8u);
  const std::string record = EncodeJoinGrant(g);
  Random rng(2);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = record;
    bad[rng.Below(bad.size())] = static_cast<char>(rng.Next());
    (void)DecodeJoinGrant(bad.substr(0, rng.Between(0, bad.size())));
  }
  const auto refused = [](auto change) {
    JoinGrant bad;
    change(bad);
    return !CheckJoinGrant(bad).ok();
  };
  EXPECT_FALSE(refused([](JoinGrant&) {}));
  EXPECT_TRUE(refused([](JoinGrant& b) { b.role = Role::kMeta; }));
  EXPECT_TRUE(refused([](JoinGrant& b) { b.name = "a b"; }));
  EXPECT_TRUE(refused([](JoinGrant& b) { b.name = "a", b.uses = 2; }));
  EXPECT_TRUE(refused([](JoinGrant& b) { b.names = "wn*", b.name = "wn1"; }));
  EXPECT_TRUE(refused([](JoinGrant& b) { b.names = "wn *"; }));
  EXPECT_TRUE(refused([](JoinGrant& b) { b.names = std::string(256, '*'); }));
  EXPECT_FALSE(refused([](JoinGrant& b) { b.names = "wn?-*.cern.ch", b.uses = 9; }));
  EXPECT_FALSE(refused([](JoinGrant& b) { b.uses = 9; })) << "as those were made before";
  EXPECT_TRUE(refused([](JoinGrant& b) { b.uses = 0; }));
  EXPECT_TRUE(refused([](JoinGrant& b) { b.uses = kMaxJoinUses + 1; }));
  EXPECT_TRUE(refused([](JoinGrant& b) { b.trusted_root = true, b.role = Role::kData; }));
}

class EnrolmentTest : public testing::Test {
 protected:
  EnrolmentTest() {
    grant_.verifier = VerifierOf(secret_);
    grant_.role = Role::kData;
    grant_.name = "n6";
    grant_.expires_s = kTestNowS + 3600;
  }
  JoinRequest Ask(const PrivateKey& key, const std::string& name = "n6") {
    return MakeJoinRequest(secret_, name, CertRequest::Make(key), kBinding);
  }
  Result<Certificate> Admit(const JoinRequest& r, std::string_view from = kFrom, int64_t now_s = kTestNowS) {
    return AdmitJoin(DecodeJoinRequest(EncodeJoinRequest(r)).value(), &grant_, kBinding, from, cluster_.authority, now_s);
  }
  const TestCluster cluster_;
  const JoinSecret secret_ = NewJoinSecret();
  const PrivateKey key_ = PrivateKey::Make();
  JoinGrant grant_;
};

TEST_F(EnrolmentTest, AMachineJoins) {
  const Certificate c = Admit(Ask(key_)).value();
  EXPECT_EQ(c.identity().value(), (Identity{kTestCluster, Role::kData, "n6"}));
  const JoinAnswer answer = DecodeJoinAnswer(EncodeJoinAnswer({c.ToPem(), cluster_.bundle.ToPem()})).value();
  const Credentials own = AcceptJoin(answer, key_, cluster_.authority.certificate().hash()).value();
  EXPECT_EQ(own.identity.name, "n6");
  EXPECT_EQ(AcceptJoin(answer, key_, Sha256Hash{}).code(), FsError::kWrongCluster);
  EXPECT_FALSE(AcceptJoin(answer, PrivateKey::Make(), cluster_.authority.certificate().hash()).ok());
}

TEST_F(EnrolmentTest, AMetadataServerIsGivenWhatItIsTheAuthorityWith) {
  const MemberSecrets secrets{cluster_.authority.ToPem(), "key", {"pc1:2379", "pc2:2379", "pc3:2379"}, "/etc/ca", "/etc/cert", "/etc/key"};
  const std::string bytes = EncodeMemberSecrets(secrets);
  EXPECT_EQ(DecodeMemberSecrets(bytes).value(), secrets);
  const JoinAnswer answer{"c", "b", bytes};
  EXPECT_EQ(DecodeJoinAnswer(EncodeJoinAnswer(answer)).value(), answer);
  EXPECT_EQ(DecodeJoinAnswer(EncodeJoinAnswer({"c", "b"})).value().member, "") << "others get nothing of it";
  EXPECT_EQ(DecodeMemberSecrets("").code(), FsError::kBadRequest);
  EXPECT_EQ(DecodeMemberSecrets(bytes.substr(0, bytes.size() / 2)).code(), FsError::kBadRequest);
  MemberSecrets none = secrets;
  none.authority = "none";
  EXPECT_EQ(DecodeMemberSecrets(EncodeMemberSecrets(none)).code(), FsError::kBadRequest);
  JoinGrant grant;
  grant.role = Role::kMeta;
  EXPECT_FALSE(CheckJoinGrant(grant).ok()) << "it names nobody";
  grant.name = "pc2";
  EXPECT_TRUE(CheckJoinGrant(grant).ok());
}

// It goes into files of root's, and makes the machine the cluster.
TEST_F(EnrolmentTest, WhatAMetadataServerIsGivenFits) {
  const MemberSecrets good{cluster_.authority.ToPem(), "key", {"pc1:2379", "[fd00::1]:2379"}, "/etc/a file", "/etc/cert", "/etc/key"};
  EXPECT_TRUE(CheckMemberSecrets(good, cluster_.bundle).ok());
  MemberSecrets odd = good;
  odd.authority = TestCluster(kTestCluster).authority.ToPem();
  EXPECT_EQ(CheckMemberSecrets(odd, cluster_.bundle).code(), FsError::kWrongCluster) << "of the same cluster, and nobody believes it";
  odd.authority = "none";
  EXPECT_EQ(CheckMemberSecrets(odd, cluster_.bundle).code(), FsError::kBadRequest);
  for (const char* etcd : {"", "pc1:2379\nmember = \"x\"", "pc 1", "pc\x7f", "pc\xc3\xa9"}) {
    odd = good;
    odd.etcd[1] = etcd;
    EXPECT_EQ(CheckMemberSecrets(odd, cluster_.bundle).code(), FsError::kBadRequest) << etcd;
  }
  for (const char* path : {"etc/key", "/etc/key\n[ha]", "\"/etc\"", "../key"}) {
    odd = good;
    odd.key = path;
    EXPECT_EQ(CheckMemberSecrets(odd, cluster_.bundle).code(), FsError::kBadRequest) << path;
  }
  odd = good;
  odd.ca = odd.cert = odd.key = "";
  EXPECT_TRUE(CheckMemberSecrets(odd, cluster_.bundle).ok()) << "etcd asks for none";
  odd.master_key = "";
  EXPECT_EQ(CheckMemberSecrets(odd, cluster_.bundle).code(), FsError::kBadRequest);
  odd = good;
  odd.etcd.assign(1, std::string(kMaxMemberTextTold + 1, 'a'));
  EXPECT_EQ(CheckMemberSecrets(odd, cluster_.bundle).code(), FsError::kBadRequest);
}

TEST_F(EnrolmentTest, OneUseIsOneMachine) {
  ASSERT_TRUE(Admit(Ask(key_)).ok());
  ASSERT_TRUE(Admit(Ask(key_)).ok()) << "its answer was lost";
  EXPECT_EQ(grant_.used.size(), 1u);
  const auto second = Admit(Ask(PrivateKey::Make()));
  EXPECT_EQ(second.error().message, "this machine may not join: the token " + grant_.Id() + " is used up");
  EXPECT_EQ(grant_.used.size(), 1u);
}

TEST_F(EnrolmentTest, AFarmJoins) {
  grant_.name = "";
  grant_.uses = 3;
  grant_.role = Role::kClient;
  grant_.networks = {ParseNetwork("10.3.0.0/16").value()};
  for (int i = 0; i < 3; ++i) {
    const std::string name = "wn" + std::to_string(i);
    EXPECT_EQ(Admit(Ask(PrivateKey::Make(), name)).value().identity().value().name, name);
  }
  EXPECT_FALSE(Admit(Ask(PrivateKey::Make(), "wn3")).ok());
  grant_.uses = 4;
  EXPECT_NE(Admit(Ask(PrivateKey::Make(), "wn3"), "10.4.0.1:5").error().message.find("is for other networks than that of 10.4.0.1"), std::string::npos);
  EXPECT_FALSE(Admit(Ask(PrivateKey::Make(), "wn3"), "unix:/x").ok());
  EXPECT_NE(Admit(Ask(PrivateKey::Make(), "")).error().message.find("names no machine"), std::string::npos);
  EXPECT_TRUE(Admit(Ask(PrivateKey::Make(), "wn3")).ok());
}

TEST_F(EnrolmentTest, AFarmHasTheNamesOfItsToken) {
  grant_.name = "";
  grant_.names = "wn*";
  grant_.uses = 3;
  grant_.role = Role::kClient;
  for (const char* name : {"trusted1", "own1", "", "w", "pc-wn1"}) EXPECT_FALSE(Admit(Ask(PrivateKey::Make(), name)).ok()) << name;
  EXPECT_EQ(Admit(Ask(key_, "pc1")).error().message,
            "this machine may not join: the token " + grant_.Id() + " is for machines called wn*, not for pc1");
  EXPECT_TRUE(grant_.used.empty()) << "who is refused uses nothing up";
  EXPECT_TRUE(Admit(Ask(key_, "wn1")).ok());
  EXPECT_FALSE(Admit(Ask(key_, "pc1")).ok()) << "with a key that it has been used for, too";
}

TEST_F(EnrolmentTest, TokensAreForWhatTheySay) {
  EXPECT_NE(Admit(Ask(key_, "n7")).error().message.find("is for n6, not for n7"), std::string::npos);
  EXPECT_TRUE(Admit(Ask(key_, "")).ok());
  EXPECT_NE(Admit(Ask(key_), kFrom, grant_.expires_s + 1).error().message.find("has expired"), std::string::npos);
  EXPECT_TRUE(Admit(Ask(key_), kFrom, grant_.expires_s).ok());
}

TEST_F(EnrolmentTest, ProofsAreOfThisConnectionAndRequest) {
  const std::string unknown = "this machine may not join: its token is not known here";
  const JoinRequest good = Ask(key_);
  const auto says = [&](const JoinRequest& r, std::string_view binding) {
    return AdmitJoin(r, &grant_, binding, kFrom, cluster_.authority, kTestNowS).error().message;
  };
  EXPECT_EQ(says(good, "another connection"), unknown);
  JoinRequest other_key = good;
  other_key.request = CertRequest::Make(PrivateKey::Make()).ToDer();
  EXPECT_EQ(says(other_key, kBinding), unknown) << "somebody between them puts in his own key";
  JoinRequest other_name = good;
  other_name.name = "n7";
  EXPECT_EQ(says(other_name, kBinding), unknown);
  JoinRequest other_secret = MakeJoinRequest(NewJoinSecret(), "n6", CertRequest::Make(key_), kBinding);
  EXPECT_EQ(says(other_secret, kBinding), unknown);
  other_secret.verifier = grant_.verifier;
  EXPECT_EQ(says(other_secret, kBinding), unknown);
  // Who does not know the secret does not learn that the token is over, either.
  grant_.expires_s = 0;
  EXPECT_EQ(says(other_secret, kBinding), unknown);
  EXPECT_TRUE(grant_.used.empty());
}

TEST_F(EnrolmentTest, AnyHurtRequestIsRefused) {
  const std::string good = EncodeJoinRequest(Ask(key_));
  Random rng(3);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= static_cast<char>(1 << rng.Below(8));
    const auto decoded = DecodeJoinRequest(bad);
    if (!decoded.ok()) continue;
    EXPECT_FALSE(AdmitJoin(*decoded, &grant_, kBinding, kFrom, cluster_.authority, kTestNowS).ok()) << i;
  }
  EXPECT_FALSE(DecodeJoinRequest(std::string(kMaxJoinRequestBytes + 1, 'x')).ok());
  EXPECT_FALSE(DecodeJoinAnswer("").ok());
}

TEST_F(EnrolmentTest, RenewalKeepsWhoOneIs) {
  Peer peer;
  peer.role = Role::kClient;
  peer.name = "wn7";
  const int64_t later = kTestNowS + 60 * kDayS;
  const Certificate c = Renew(peer, CertRequest::Make(key_), cluster_.authority, later).value();
  EXPECT_EQ(c.identity().value(), (Identity{kTestCluster, Role::kClient, "wn7"}));
  EXPECT_EQ(c.not_after_s(), later + kCertificateDays * kDayS);
}

}  // namespace
}  // namespace stria
