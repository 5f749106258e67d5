#include "meta/enrolment/authority_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "common/exec/sim_run.h"
#include "common/temp_dir.h"
#include "trust/files.h"
#include "trust/place.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

TEST(AuthorityFiles, OneAfterTheOther) {
  const TempDir dir;
  SimExecutor ex(1);
  InlinePool pool;
  AuthorityFiles files(&pool, dir.path());
  EXPECT_EQ(LoadNextAuthority(dir.path()).value(), nullptr);
  const auto next = std::make_shared<const Authority>(Authority::Make(kTestCluster, kTestNowS));
  ASSERT_TRUE(RunSim(ex, files.StoreNext(next)).ok());
  EXPECT_EQ(LoadNextAuthority(dir.path()).value()->certificate().hash(), next->certificate().hash());
  struct stat st;
  ASSERT_EQ(stat((dir.path() + kNextAuthorityFile).c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  ASSERT_TRUE(RunSim(ex, files.StoreOnly(next)).ok());
  EXPECT_EQ(LoadNextAuthority(dir.path()).value(), nullptr);
  EXPECT_EQ(Authority::FromPem(ReadSecretFile(dir.path() + kAuthorityFile).value()).value().certificate().hash(), next->certificate().hash());
  ASSERT_TRUE(RunSim(ex, files.StoreOnly(next)).ok()) << "again is no harm";
  Revoked revoked;
  revoked.Add("4abc");
  ASSERT_TRUE(RunSim(ex, files.StoreRevoked(revoked)).ok());
  EXPECT_EQ(ReadPublicFile(dir.path() + "/revoked").value(), "4abc\n");
}

TEST(AuthorityFiles, WhatCannotBeDoneIsSaid) {
  const TempDir dir;
  SimExecutor ex(1);
  InlinePool pool;
  AuthorityFiles nowhere(&pool, dir.path() + "/missing");
  EXPECT_NE(RunSim(ex, nowhere.StoreRevoked({})).error().message.find("missing"), std::string::npos);
  ASSERT_TRUE(ReplaceFile(dir.path() + kNextAuthorityFile, "no key", 0600).ok());
  EXPECT_NE(LoadNextAuthority(dir.path()).error().message.find(kNextAuthorityFile), std::string::npos);
}

}  // namespace
}  // namespace stria
