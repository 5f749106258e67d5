#include "trust/authority.h"

#include <gtest/gtest.h>
#include <openssl/rsa.h>

#include "common/random.h"
#include "trust/ssl_ptr.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

TEST(Authority, SignsForOthersWhatTheyAre) {
  const TestCluster cluster;
  const PrivateKey key = PrivateKey::Make();
  const CertRequest request = CertRequest::FromDer(CertRequest::Make(key).ToDer()).value();
  const Identity id{kTestCluster, Role::kData, "n6"};
  const Certificate c = cluster.authority.Sign(request, id, kTestNowS).value();
  EXPECT_EQ(c.identity().value(), id);
  EXPECT_TRUE(c.MatchesKey(key));
  EXPECT_FALSE(c.MatchesKey(PrivateKey::Make()));
  EXPECT_EQ(c.key_hash(), key.public_hash());
  EXPECT_EQ(request.key_hash(), key.public_hash());
  EXPECT_EQ(c.not_before_s(), kTestNowS - kBackdatedS);
  EXPECT_EQ(c.not_after_s(), kTestNowS + 90 * kDayS);
  EXPECT_EQ(RenewAt(c), kTestNowS + 60 * kDayS);
  EXPECT_FALSE(c.authority_of().has_value());
  EXPECT_EQ(cluster.authority.certificate().authority_of(), kTestCluster);
  EXPECT_FALSE(cluster.authority.certificate().identity().ok());
  EXPECT_EQ(Certificate::FromPem(c.ToPem()).value(), c);
}

TEST(Authority, GivesNoSerialTwice) {
  const TestCluster cluster;
  const PrivateKey key = PrivateKey::Make();
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    const std::string serial = cluster.Sign(key, Role::kClient, "a").serial();
    EXPECT_EQ(serial.size(), 32u) << serial;
    EXPECT_TRUE(seen.insert(serial).second);
  }
}

TEST(Authority, EndsWithItsOwnCertificate) {
  const TestCluster cluster;
  const PrivateKey key = PrivateKey::Make();
  const int64_t end_s = cluster.authority.certificate().not_after_s();
  EXPECT_EQ(cluster.Sign(key, Role::kClient, "a", end_s - 5 * kDayS).not_after_s(), end_s);
  const Certificate brief = cluster.authority.Sign(CertRequest::Make(key), {kTestCluster, Role::kClient, "a"}, kTestNowS, 90).value();
  EXPECT_EQ(brief.not_after_s(), kTestNowS + 90);
  EXPECT_EQ(RenewAt(brief), kTestNowS + 60);
  const auto late = cluster.authority.Sign(CertRequest::Make(key), {kTestCluster, Role::kClient, "a"}, end_s);
  EXPECT_EQ(late.code(), FsError::kInval);
}

TEST(Authority, RefusesOtherClustersAndNames) {
  const TestCluster cluster;
  const CertRequest request = CertRequest::Make(PrivateKey::Make());
  EXPECT_EQ(cluster.authority.Sign(request, {kOtherCluster, Role::kData, "n6"}, kTestNowS).code(), FsError::kInval);
  for (const char* name : {"", "a,URI:stria://x", "a b", "-a", "a/b", "a\n"}) {
    EXPECT_EQ(cluster.authority.Sign(request, {kTestCluster, Role::kData, name}, kTestNowS).code(), FsError::kInval) << name;
  }
}

TEST(Authority, ComesBackFromItsFile) {
  const TestCluster cluster;
  const Authority again = Authority::FromPem(cluster.authority.ToPem()).value();
  EXPECT_EQ(again.cluster(), kTestCluster);
  EXPECT_EQ(again.certificate(), cluster.authority.certificate());
  // What the second signs the first's bundle believes.
  PrivateKey key = PrivateKey::Make();
  const Certificate c = again.Sign(CertRequest::Make(key), {kTestCluster, Role::kClient, "a"}, kTestNowS).value();
  EXPECT_TRUE(Credentials::Of(key, c, cluster.bundle, {}).ok());
  // A key without its certificate, another's certificate, a certificate that is no authority's.
  EXPECT_FALSE(Authority::FromPem(PrivateKey::Make().ToPem()).ok());
  EXPECT_FALSE(Authority::FromPem(PrivateKey::Make().ToPem() + cluster.authority.certificate().ToPem()).ok());
  EXPECT_FALSE(Authority::FromPem(key.ToPem() + c.ToPem()).ok());
  EXPECT_FALSE(Authority::FromPem("").ok());
}

TEST(Authority, TwoAreBelievedForAWhile) {
  const TestCluster before, after, foreign(kOtherCluster);
  const Bundle both = before.bundle.With(after.authority.certificate()).value();
  EXPECT_EQ(Bundle::FromPem(both.ToPem()).value().all().size(), 2u);
  const PrivateKey key = PrivateKey::Make();
  const Certificate old_one = before.Sign(key, Role::kClient, "a"), new_one = after.Sign(key, Role::kClient, "a");
  EXPECT_TRUE(Credentials::Of(key, old_one, both, {}).ok());
  EXPECT_TRUE(Credentials::Of(key, new_one, both, {}).ok());
  EXPECT_FALSE(Credentials::Of(key, new_one, before.bundle, {}).ok());
  const Bundle last = both.Without(before.authority.certificate().hash()).value();
  EXPECT_FALSE(Credentials::Of(key, old_one, last, {}).ok());
  EXPECT_TRUE(last.Has(after.authority.certificate().hash()));
  EXPECT_FALSE(last.Has(before.authority.certificate().hash()));

  EXPECT_FALSE(last.Without(after.authority.certificate().hash()).ok());
  EXPECT_FALSE(both.With(after.authority.certificate()).ok());
  EXPECT_FALSE(both.With(foreign.authority.certificate()).ok());
  EXPECT_FALSE(both.With(new_one).ok());
  EXPECT_FALSE(Bundle::FromPem("").ok());
}

TEST(Authority, APeerIsJudgedAgainWhileItIsConnected) {
  const TestCluster cluster;
  Peer peer;
  peer.role = Role::kData;
  peer.name = "n6";
  peer.serial = "abc";
  peer.issuer = cluster.authority.certificate().hash();
  peer.not_after_s = kTestNowS + 10;
  const auto own = cluster.Give(Role::kMeta, "m");
  EXPECT_TRUE(own->StillGood(peer, kTestNowS).ok());
  EXPECT_EQ(own->StillGood(peer, kTestNowS + 11).code(), FsError::kAccess);
  Revoked revoked;
  revoked.Add("abc");
  const Result<void> no = cluster.Give(Role::kMeta, "m", kTestNowS, revoked)->StillGood(peer, kTestNowS);
  EXPECT_EQ(no.error().message, "data n6 is not believed any more: its certificate is revoked");
  EXPECT_FALSE(TestCluster().Give(Role::kMeta, "m")->StillGood(peer, kTestNowS).ok());
}

TEST(Certificate, RequestsOfStrangersAreChecked) {
  const std::string good = CertRequest::Make(PrivateKey::Make()).ToDer();
  ASSERT_TRUE(CertRequest::FromDer(good).ok());
  Random rng(1);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << rng.Below(8)));
    // What still parses (the version, which nobody reads) is signed, so it would not verify.
    EXPECT_FALSE(CertRequest::FromDer(bad).ok()) << i;
  }
  EXPECT_FALSE(CertRequest::FromDer(good + "x").ok());
  EXPECT_FALSE(CertRequest::FromDer(good.substr(0, good.size() - 1)).ok());
  EXPECT_FALSE(CertRequest::FromDer("").ok());
  EXPECT_FALSE(CertRequest::FromDer(std::string(kMaxRequestBytes + 1, '\0')).ok());
}

TEST(Certificate, OtherKindsOfKeysAreRefused) {
  const PkeyPtr rsa(EVP_RSA_gen(1024)), p384(EVP_EC_gen("P-384")), ed(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  const auto pem = [](EVP_PKEY* key) {
    const BioPtr bio = WritingBio();
    CHECK(PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
    return TakeBytes(bio.get());
  };
  EXPECT_FALSE(PrivateKey::FromPem(pem(rsa.get())).ok());
  EXPECT_FALSE(PrivateKey::FromPem(pem(p384.get())).ok());
  const PrivateKey key = PrivateKey::FromPem(pem(ed.get())).value();
  const TestCluster cluster;
  EXPECT_TRUE(Credentials::Of(key, cluster.Sign(key, Role::kClient, "a"), cluster.bundle, {}).ok());
  EXPECT_FALSE(PrivateKey::FromPem("").ok());
  EXPECT_FALSE(PrivateKey::FromPem(std::string(kMaxPemBytes + 1, 'x')).ok());
}

TEST(Certificate, TornPemIsNotHalfBelieved) {
  const TestCluster a, b;
  const std::string two = a.bundle.With(b.authority.certificate()).value().ToPem();
  ASSERT_TRUE(Bundle::FromPem(two).ok());
  for (const size_t cut : {size_t{1}, size_t{30}, size_t{100}, size_t{300}}) {
    EXPECT_FALSE(Bundle::FromPem(two.substr(0, two.size() - cut - 1)).ok()) << cut;
  }
}

TEST(Revoked, TextThereAndBack) {
  const Revoked r = Revoked::Parse("# gone\nabc\n12f0  \r\n\nabc # twice\n").value();
  EXPECT_EQ(r.Format(), "12f0\nabc\n");
  EXPECT_TRUE(r.Has("abc"));
  EXPECT_FALSE(r.Has("ABC"));
  for (const char* bad : {"ABC", "0abc", "xyz", "ab c", "-1", "11111111111111111111111111111111111111111"}) {
    EXPECT_FALSE(Revoked::Parse(bad).ok()) << bad;
  }
  EXPECT_EQ(Revoked::Parse("abc\nZ").error().message,
            "line 2 of the revoked certificates is no serial number in lower-case hex digits");
}

}  // namespace
}  // namespace stria
