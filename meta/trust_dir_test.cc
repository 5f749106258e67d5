#include "meta/trust_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/temp_dir.h"
#include "common/token.h"
#include "trust/credentials.h"
#include "trust/files.h"

namespace stria {
namespace {

constexpr int64_t kNowS = 1'800'000'000;
constexpr Uuid kCluster{0x1111222233334444, 0x5555666677778888};
constexpr Uuid kAnother{0x9999222233334444, 0x5555666677778888};

mode_t ModeOf(const std::string& path) {
  struct stat st = {};
  EXPECT_EQ(stat(path.c_str(), &st), 0) << path;
  return st.st_mode & 07777;
}

TEST(TrustDir, AServerAndAnAdminThatBelieveEachOther) {
  const TempDir tmp;
  const std::string dir = tmp.path() + "/meta/trust";
  ASSERT_EQ(MakeTrustDir(dir, {kCluster, "pc1.example", kNowS, true}).value(), kCluster);
  const auto meta = CredentialFiles(dir).Load(), admin = CredentialFiles(dir + "/admin").Load();
  ASSERT_TRUE(meta.ok()) << meta.error();
  ASSERT_TRUE(admin.ok()) << admin.error();
  EXPECT_EQ((*meta)->identity, (Identity{kCluster, Role::kMeta, "pc1.example"}));
  EXPECT_EQ((*admin)->identity, (Identity{kCluster, Role::kAdmin, "pc1.example"}));
  EXPECT_TRUE((*meta)->Judge((*admin)->certificate, "x", {Role::kAdmin}, kNowS).ok());
  EXPECT_EQ(ModeOf(dir), 0700u);
  EXPECT_EQ(ModeOf(dir + "/admin"), 0700u);
  for (const char* secret : {"/authority.pem", "/node.pem", "/master.key", "/admin/node.pem"}) EXPECT_EQ(ModeOf(dir + secret), 0600u) << secret;
  EXPECT_EQ(LoadAuthority(dir).value()->cluster(), kCluster);
  EXPECT_EQ(ParseClusterKeys(ReadSecretFile(MasterKeyPath(dir)).value()).value().size(), 1u);
}

TEST(TrustDir, WhatIsThereStays) {
  const TempDir tmp;
  ASSERT_TRUE(MakeTrustDir(tmp.path(), {kCluster, "pc1", kNowS, false}).ok());
  EXPECT_FALSE(std::filesystem::exists(MasterKeyPath(tmp.path())));
  const std::string authority = ReadSecretFile(tmp.path() + "/authority.pem").value(), node = ReadSecretFile(tmp.path() + "/node.pem").value();
  // As after an interruption: the admin's is not there yet.
  std::filesystem::remove_all(tmp.path() + "/admin");
  EXPECT_EQ(MakeTrustDir(tmp.path(), {kAnother, "pc2", kNowS, true}).value(), kCluster) << "the authority's, not another";
  EXPECT_EQ(ReadSecretFile(tmp.path() + "/authority.pem").value(), authority);
  EXPECT_EQ(ReadSecretFile(tmp.path() + "/node.pem").value(), node);
  EXPECT_TRUE(CredentialFiles(tmp.path() + "/admin").Load().ok());
  EXPECT_TRUE(std::filesystem::exists(MasterKeyPath(tmp.path())));
}

TEST(TrustDir, AnAuthorityThatIsNotGoodIsNotReplaced) {
  const TempDir tmp;
  ASSERT_TRUE(ReplaceFile(tmp.path() + "/authority.pem", "", 0600).ok());
  EXPECT_FALSE(MakeTrustDir(tmp.path(), {kCluster, "pc1", kNowS, true}).ok());
  EXPECT_EQ(ReadSecretFile(tmp.path() + "/authority.pem").value(), "");
  EXPECT_FALSE(std::filesystem::exists(tmp.path() + "/node.pem"));
  const Result<std::shared_ptr<const Authority>> why = LoadAuthority(tmp.path());
  EXPECT_NE(why.error().message.find("authority.pem"), std::string::npos) << why.error();
}

TEST(TrustDir, ANameThatIsNoneIsReplaced) {
  const TempDir tmp;
  ASSERT_TRUE(MakeTrustDir(tmp.path(), {kCluster, "a host/of mine", kNowS, false}).ok());
  EXPECT_EQ(CredentialFiles(tmp.path()).Load().value()->identity.name, "meta");
}

TEST(TrustDir, AStoreRemembersThatItWasSecured) {
  const TempDir tmp;
  EXPECT_FALSE(WasSecured(tmp.path()).value());
  ASSERT_TRUE(NoteSecured(tmp.path()).ok());
  ASSERT_TRUE(NoteSecured(tmp.path()).ok());
  EXPECT_TRUE(WasSecured(tmp.path()).value());
}

}  // namespace
}  // namespace stria
