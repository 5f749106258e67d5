#include "trust/credentials.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/temp_dir.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat st = {};
  EXPECT_EQ(stat(path.c_str(), &st), 0);
  return st.st_mode & 07777;
}

TEST(TrustFiles, SecretsOfOthersAreRefused) {
  const TempDir dir;
  const std::string path = dir.path() + "/key";
  ASSERT_TRUE(ReplaceFile(path, "secret", 0600).ok());
  EXPECT_EQ(ReadSecretFile(path).value(), "secret");
  EXPECT_EQ(ModeOf(path), 0600u);
  for (const mode_t mode : {0640u, 0604u, 0620u, 0602u, 0644u, 0666u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const Result<std::string> got = ReadSecretFile(path);
    EXPECT_EQ(got.code(), FsError::kAccess);
    EXPECT_NE(got.error().message.find("give it mode 0600"), std::string::npos) << got.error().message;
    EXPECT_EQ(ReadPublicFile(path).ok(), (mode & 0022) == 0);
  }
  ASSERT_EQ(chmod(path.c_str(), 0400), 0);
  EXPECT_TRUE(ReadSecretFile(path).ok());
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path.c_str(), 65534, 0), 0);
    EXPECT_EQ(ReadSecretFile(path).code(), FsError::kAccess);
  }
}

TEST(TrustFiles, OnlyRegularFiles) {
  const TempDir dir;
  const std::string real = dir.path() + "/real", link = dir.path() + "/link", pipe = dir.path() + "/pipe";
  ASSERT_TRUE(ReplaceFile(real, "x", 0600).ok());
  ASSERT_EQ(symlink(real.c_str(), link.c_str()), 0);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ReadSecretFile(link).code(), FsError::kAccess);
  EXPECT_EQ(ReadSecretFile(pipe).code(), FsError::kAccess);
  EXPECT_EQ(ReadSecretFile(dir.path()).code(), FsError::kAccess);
  EXPECT_EQ(ReadSecretFile(dir.path() + "/none").code(), FsError::kNoEnt);
  std::filesystem::resize_file(real, kMaxTrustFileBytes + 1);
  EXPECT_EQ(ReadSecretFile(real).code(), FsError::kAccess);
}

TEST(TrustFiles, AreReplacedAsAWhole) {
  const TempDir dir;
  const std::string path = dir.path() + "/ca.pem";
  ASSERT_TRUE(ReplaceFile(path, "one", 0644).ok());
  std::ifstream old_one(path);  // a reader of before goes on with what it opened
  const FileStamp before = StampOf(path);
  ASSERT_TRUE(ReplaceFile(path, "two", 0644).ok());
  EXPECT_FALSE(before == StampOf(path));
  std::string text;
  old_one >> text;
  EXPECT_EQ(text, "one");
  EXPECT_EQ(ReadPublicFile(path).value(), "two");
  EXPECT_EQ(ModeOf(path), 0644u);
  EXPECT_FALSE(ReplaceFile(dir.path() + "/no/such", "x", 0600).ok());
  ASSERT_TRUE(std::filesystem::create_directory(dir.path() + "/d"));
  EXPECT_FALSE(ReplaceFile(dir.path() + "/d", "x", 0600).ok());
  size_t files = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(dir.path())) ++files;
  EXPECT_EQ(files, 2u) << "something was left behind";
}

class CredentialFilesTest : public testing::Test {
 protected:
  void Save(const PrivateKey& key, const Certificate& certificate) {
    ASSERT_TRUE(CredentialFiles::SaveNode(dir_.path(), key, certificate).ok());
  }
  const TempDir dir_;
  const TestCluster cluster_;
  const PrivateKey key_ = PrivateKey::Make();
  CredentialFiles files_{dir_.path()};
};

TEST_F(CredentialFilesTest, AreReadAgainWhenTheyChange) {
  EXPECT_EQ(files_.Load().code(), FsError::kNoEnt);
  Save(key_, cluster_.Sign(key_, Role::kData, "n6"));
  ASSERT_TRUE(CredentialFiles::SaveBundle(dir_.path(), cluster_.bundle).ok());
  const auto first = files_.Load().value();
  EXPECT_EQ(first->identity, (Identity{kTestCluster, Role::kData, "n6"}));
  EXPECT_EQ(ModeOf(dir_.path() + "/node.pem"), 0600u);
  EXPECT_EQ(files_.Refresh().value(), first) << "nothing has changed";

  Save(key_, cluster_.Sign(key_, Role::kData, "n6", kTestNowS + 60 * kDayS));
  const auto renewed = files_.Refresh().value();
  EXPECT_NE(renewed, first);
  EXPECT_EQ(renewed->certificate.key_hash(), first->certificate.key_hash());
  EXPECT_GT(renewed->certificate.not_after_s(), first->certificate.not_after_s());

  Revoked revoked;
  revoked.Add("abc");
  ASSERT_TRUE(CredentialFiles::SaveRevoked(dir_.path(), revoked).ok());
  EXPECT_TRUE(files_.Refresh().value()->revoked.Has("abc"));

  const TestCluster next;
  ASSERT_TRUE(CredentialFiles::SaveBundle(dir_.path(), cluster_.bundle.With(next.authority.certificate()).value()).ok());
  EXPECT_EQ(files_.Refresh().value()->bundle.all().size(), 2u);
}

TEST_F(CredentialFilesTest, WhatIsWrongLeavesTheOldOnesInUse) {
  Save(key_, cluster_.Sign(key_, Role::kData, "n6"));
  ASSERT_TRUE(CredentialFiles::SaveBundle(dir_.path(), cluster_.bundle).ok());
  const auto good = files_.Load().value();
  ASSERT_TRUE(CredentialFiles::SaveBundle(dir_.path(), TestCluster().bundle).ok());
  const auto bad = files_.Refresh();
  EXPECT_EQ(bad.error().message,
            "the file " + dir_.path() + "/node.pem is not used: the certificate is signed by no authority of the bundle");
  EXPECT_EQ(files_.Refresh().value(), good) << "told once";
  ASSERT_TRUE(CredentialFiles::SaveBundle(dir_.path(), cluster_.bundle).ok());
  EXPECT_TRUE(files_.Refresh().ok());
  ASSERT_EQ(chmod((dir_.path() + "/node.pem").c_str(), 0644), 0);
  EXPECT_EQ(files_.Refresh().code(), FsError::kAccess);
  ASSERT_EQ(chmod((dir_.path() + "/node.pem").c_str(), 0600), 0);
  EXPECT_TRUE(files_.Refresh().ok());
  ASSERT_TRUE(ReplaceFile(dir_.path() + "/revoked", "what?", 0644).ok());
  EXPECT_EQ(files_.Refresh().code(), FsError::kBadRequest);
}

TEST_F(CredentialFilesTest, KeyAndCertificateBelongTogether) {
  const PrivateKey other = PrivateKey::Make();
  EXPECT_EQ(CredentialFiles::SaveNode(dir_.path(), other, cluster_.Sign(key_, Role::kData, "n6")).code(), FsError::kInval);
  ASSERT_TRUE(CredentialFiles::SaveBundle(dir_.path(), cluster_.bundle).ok());
  ASSERT_TRUE(ReplaceFile(dir_.path() + "/node.pem", other.ToPem() + cluster_.Sign(key_, Role::kData, "n6").ToPem(), 0600).ok());
  EXPECT_FALSE(files_.Load().ok());
  // Signed by an authority with the same names and another key.
  Save(key_, TestCluster().Sign(key_, Role::kData, "n6"));
  EXPECT_FALSE(files_.Load().ok());
  Save(key_, TestCluster(kOtherCluster).Sign(key_, Role::kData, "n6"));
  EXPECT_EQ(files_.Load().code(), FsError::kWrongCluster);
  Save(key_, cluster_.Sign(key_, Role::kData, "n6"));
  EXPECT_TRUE(files_.Load().ok());
}

TEST(CredentialsTest, JudgesWhatAnotherTlsHasProved) {
  const TestCluster cluster, twin, other(kOtherCluster);
  const PrivateKey key = PrivateKey::Make();
  const Certificate good = cluster.Sign(key, Role::kAdmin, "a");
  const RoleSet admins = {Role::kAdmin};
  const auto own = cluster.Give(Role::kMeta, "m");
  const Result<Peer> peer = own->Judge(good, "10.0.0.7:5", admins, kTestNowS);
  ASSERT_TRUE(peer.ok()) << peer.error();
  EXPECT_EQ(peer->role, Role::kAdmin);
  EXPECT_EQ(peer->name, "a");
  EXPECT_EQ(peer->key_hash, key.public_hash());
  EXPECT_EQ(peer->issuer, cluster.authority.certificate().hash());
  EXPECT_TRUE(own->StillGood(*peer, kTestNowS).ok());
  const auto why = [&](const Certificate& c, int64_t now_s = kTestNowS, RoleSet roles = {Role::kAdmin}) {
    const Result<Peer> got = own->Judge(c, "10.0.0.7:5", roles, now_s);
    EXPECT_EQ(got.code(), FsError::kAccess);
    return got.ok() ? "" : got.error().message;
  };
  EXPECT_NE(why(twin.Sign(key, Role::kAdmin, "a")).find("no authority of this cluster"), std::string::npos);
  EXPECT_NE(why(other.Sign(key, Role::kAdmin, "a")).find("is of cluster"), std::string::npos);
  EXPECT_NE(why(good, kTestNowS + 91 * kDayS).find("has expired"), std::string::npos);
  EXPECT_NE(why(good, kTestNowS - 31 * kDayS).find("not valid yet"), std::string::npos);
  EXPECT_NE(why(good, kTestNowS, {Role::kData}).find("another role"), std::string::npos);
  EXPECT_NE(why(cluster.authority.certificate()).find("was refused"), std::string::npos);
  Revoked revoked;
  revoked.Add(good.serial());
  const auto knows = cluster.Give(Role::kMeta, "m", kTestNowS, revoked);
  EXPECT_EQ(knows->Judge(good, "x", admins, kTestNowS).code(), FsError::kAccess);
}

}  // namespace
}  // namespace stria
