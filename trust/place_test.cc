#include "trust/place.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "common/temp_dir.h"
#include "trust/files.h"

namespace stria {
namespace {

TrustIs WhatIs(const std::string& setting, const std::vector<Role>& roles = {Role::kData}) { return FindTrust(setting, roles).value().is; }

TEST(TrustPlaceTest, NothingIsThereOrSomething) {
  const TempDir dir;
  EXPECT_EQ(WhatIs("off"), TrustIs::kOff);
  EXPECT_EQ(WhatIs(dir.path() + "/none"), TrustIs::kAbsent);
  EXPECT_EQ(WhatIs(dir.path()), TrustIs::kAbsent);
  ASSERT_TRUE(ReplaceFile(dir.path() + "/revoked", "", 0644).ok());
  EXPECT_EQ(WhatIs(dir.path()), TrustIs::kAbsent) << "it proves nothing";
  EXPECT_EQ(FindTrust("", {Role::kData}).code(), FsError::kInval);
}

TEST(TrustPlaceTest, HalfIsNotTakenForNothing) {
  for (const char* file : {"/node.pem", "/ca.pem", "/authority.pem"}) {
    const TempDir dir;
    ASSERT_TRUE(ReplaceFile(dir.path() + file, "", 0600).ok());
    EXPECT_EQ(WhatIs(dir.path()), TrustIs::kThere) << file;
    std::filesystem::remove(dir.path() + file);
    ASSERT_EQ(symlink("/nonexistent", (dir.path() + file).c_str()), 0);
    EXPECT_EQ(WhatIs(dir.path()), TrustIs::kThere) << file << ": a link to nothing is something";
  }
}

TEST(TrustPlaceTest, WhatCannotBeSeenIsNotTakenForNothing) {
  if (geteuid() == 0) GTEST_SKIP() << "root sees everything";
  const TempDir dir;
  ASSERT_EQ(mkdir((dir.path() + "/closed").c_str(), 0), 0);
  const Result<TrustPlace> place = FindTrust(dir.path() + "/closed", {Role::kData});
  EXPECT_EQ(place.code(), FsError::kAccess);
  EXPECT_NE(place.error().message.find("/closed"), std::string::npos) << place.error();
}

TEST(TrustPlaceTest, EachRoleHasAPlaceOfItsOwn) {
  const TempDir dir;
  ASSERT_TRUE(ReplaceFile(dir.path() + "/node.pem", "", 0600).ok());
  ASSERT_EQ(mkdir((dir.path() + "/client").c_str(), 0700), 0);
  EXPECT_EQ(FindTrust(dir.path(), {Role::kData}).value().directory, dir.path());
  const TrustPlace client = FindTrust(dir.path(), {Role::kAdmin, Role::kClient}).value();
  EXPECT_EQ(client.directory, dir.path() + "/client");
  EXPECT_EQ(client.is, TrustIs::kAbsent) << "what is in the directory above is another's";
  ASSERT_EQ(mkdir((dir.path() + "/admin").c_str(), 0700), 0);
  EXPECT_EQ(FindTrust(dir.path(), {Role::kAdmin, Role::kClient}).value().directory, dir.path() + "/admin");
}

TEST(TrustPlaceTest, TheWarningSaysWhy) {
  EXPECT_NE(InsecureWarning({TrustIs::kOff, ""}).find("trust is off"), std::string::npos);
  EXPECT_NE(InsecureWarning({TrustIs::kAbsent, "/x/y"}).find("no credentials in /x/y"), std::string::npos);
}

TEST(TrustPlaceTest, NoCore) {
  ForbidCoreDumps();
  rlimit now = {0, 0};
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &now), 0);
  EXPECT_EQ(now.rlim_cur, 1u) << "0 does not keep the kernel from piping it to a program";
  EXPECT_EQ(now.rlim_max, 1u);
  EXPECT_EQ(prctl(PR_GET_DUMPABLE), 0);
  // It may look at itself all the same.
  EXPECT_EQ(access("/proc/self/fd", R_OK | X_OK), 0);
}

TEST(TrustPlaceTest, NoCoreOfACommand) {
  const pid_t child = fork();
  if (child == 0) {
    // Whatever the tests before have left.
    const bool could = prctl(PR_SET_DUMPABLE, 1) == 0 && prctl(PR_GET_DUMPABLE) == 1;
    ForbidOwnCoreDump();
    _exit(could && prctl(PR_GET_DUMPABLE) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace stria
