// A directory of the cluster's authority becomes as the primary's is, and loses no key that may be the only one.
#include "meta/authority_follower.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "common/exec/sim_run.h"
#include "common/temp_dir.h"
#include "meta/trust_dir.h"
#include "trust/files.h"
#include "trust/place.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

std::string NameOf(const Authority& a) { return HexOf(a.certificate().hash()); }

class AuthorityFollowerTest : public testing::Test {
 protected:
  AuthorityFollowerTest() {
    TrustDirParams params;
    params.cluster = kTestCluster;
    params.host = "m2";
    params.now_s = kTestNowS;
    params.master_key = true;
    CHECK(MakeTrustDir(dir.path(), params).ok());
    first = LoadAuthority(dir.path()).value();
    own = CredentialFiles(dir.path()).Load().value();
  }
  static std::shared_ptr<const Authority> Made(int64_t later_s, const Uuid& cluster = kTestCluster) {
    return std::make_shared<const Authority>(Authority::Make(cluster, kTestNowS + later_s));
  }
  FollowAuthorityRequest Ask() { return RunSim(ex, follower.Ask()).value(); }
  Result<bool> Take(const Authority* authority, const Authority* next = nullptr) {
    FollowAuthorityReply reply;
    if (authority != nullptr) reply.authority = authority->ToPem();
    if (next != nullptr) reply.next = next->ToPem();
    return RunSim(ex, follower.Take(std::move(reply)));
  }
  // Hashes of what the files hold.
  std::string Holds() {
    std::string out = NameOf(*LoadAuthority(dir.path()).value());
    if (const auto next = LoadNextAuthority(dir.path()).value()) out += " " + NameOf(*next);
    return out;
  }

  const TempDir dir;
  SimExecutor ex{1};
  InlinePool pool;
  std::shared_ptr<const Authority> first;
  std::shared_ptr<const Credentials> own;
  AuthorityFollower follower{&pool, dir.path(), [this] { return own; }};
};

TEST_F(AuthorityFollowerTest, SaysWhatIsHere) {
  const FollowAuthorityRequest r = Ask();
  EXPECT_EQ(r.holds, std::vector<std::string>{NameOf(*first)});
  EXPECT_EQ(r.believes, r.holds);
  EXPECT_EQ(r.signed_by, NameOf(*first));
  EXPECT_EQ(r.given.size(), 2u) << "its own, and the admin's";
  EXPECT_EQ(r.offer, "");
  for (const std::string& pem : r.given) EXPECT_EQ(pem.find("PRIVATE"), std::string::npos) << "certificates only";
  EXPECT_TRUE(follower.keeps_former()) << "nobody has said anything yet";
  follower.PrimaryIsOld();
  EXPECT_FALSE(follower.keeps_former());
}

TEST_F(AuthorityFollowerTest, AChangeComesAndEnds) {
  const auto next = Made(10);
  EXPECT_TRUE(Take(first.get(), next.get()).value());
  EXPECT_EQ(Holds(), NameOf(*first) + " " + NameOf(*next));
  struct stat st;
  ASSERT_EQ(stat((dir.path() + kNextAuthorityFile).c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  EXPECT_EQ(Ask().holds, (std::vector<std::string>{NameOf(*first), NameOf(*next)}));
  EXPECT_EQ(Ask().believes, std::vector<std::string>{NameOf(*first)}) << "that comes with the map";
  EXPECT_TRUE(Take(next.get()).value());
  EXPECT_EQ(Holds(), NameOf(*next));
  ASSERT_EQ(stat((dir.path() + kAuthorityFile).c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  // It was away for a whole change, and the next one has begun.
  const auto third = Made(20), fourth = Made(30);
  EXPECT_TRUE(Take(third.get(), fourth.get()).value());
  EXPECT_EQ(Holds(), NameOf(*third) + " " + NameOf(*fourth));
  EXPECT_FALSE(Take(nullptr).value()) << "as it is";
  EXPECT_FALSE(follower.keeps_former());
}

TEST_F(AuthorityFollowerTest, WhatThePrimaryHasLostIsOffered) {
  const auto next = Made(10);
  ASSERT_TRUE(Take(first.get(), next.get()).ok());
  EXPECT_EQ(Ask().offer, "") << "not before it is wanted";
  FollowAuthorityReply reply;
  reply.wants = reply.keep = true;
  reply.bundle = "bundle";
  EXPECT_FALSE(RunSim(ex, follower.Take(reply)).value());
  EXPECT_EQ(Authority::FromPem(Ask().offer).value().certificate().hash(), next->certificate().hash());
  EXPECT_TRUE(follower.keeps_former());
  EXPECT_EQ(follower.bundle(), "bundle");
  ASSERT_TRUE(Take(nullptr).ok());
  EXPECT_EQ(Ask().offer, "");
}

TEST_F(AuthorityFollowerTest, NoKeyIsDroppedThatMayBeTheOnlyOne) {
  const auto next = Made(10), other = Made(12);
  ASSERT_TRUE(Take(first.get(), next.get()).ok());
  EXPECT_EQ(Take(first.get()).code(), FsError::kBadRequest) << "the change would be lost";
  EXPECT_EQ(Holds(), NameOf(*first) + " " + NameOf(*next));
  EXPECT_TRUE(Take(first.get(), other.get()).value()) << "another change counts";
  ASSERT_TRUE(Take(other.get()).ok());
  EXPECT_EQ(Take(first.get()).code(), FsError::kBadRequest) << "it is older";
  EXPECT_EQ(Take(first.get(), next.get()).code(), FsError::kBadRequest);
  EXPECT_EQ(Holds(), NameOf(*other));
}

TEST_F(AuthorityFollowerTest, WhatIsNoGoodIsNotTaken) {
  const auto strange = Made(10, kOtherCluster), next = Made(10);
  EXPECT_EQ(Take(strange.get()).code(), FsError::kBadRequest);
  EXPECT_EQ(Take(first.get(), strange.get()).code(), FsError::kBadRequest);
  EXPECT_EQ(Take(first.get(), first.get()).code(), FsError::kBadRequest);
  FollowAuthorityReply reply;
  reply.authority = next->certificate().ToPem();  // without its key
  EXPECT_EQ(RunSim(ex, follower.Take(reply)).code(), FsError::kBadRequest);
  reply.authority = std::string(1 << 20, 'x');
  EXPECT_EQ(RunSim(ex, follower.Take(reply)).code(), FsError::kBadRequest);
  EXPECT_EQ(Holds(), NameOf(*first));
  // A file that others can read is not passed on.
  ASSERT_EQ(chmod((dir.path() + kAuthorityFile).c_str(), 0644), 0);
  EXPECT_EQ(RunSim(ex, follower.Ask()).code(), FsError::kAccess);
  EXPECT_EQ(Take(next.get()).code(), FsError::kAccess);
}

}  // namespace
}  // namespace stria
