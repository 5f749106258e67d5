#include "meta/enrolment/member_authorities.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

using Far = MemberAuthorities::Far;

constexpr Uuid kStore2{2, 2}, kStore3{3, 3};

class MemberAuthoritiesTest : public testing::Test {
 protected:
  static MemberAuthorities::Said Has(std::vector<std::string> holds, std::vector<std::string> believes, std::string signed_by) {
    MemberAuthorities::Said said;
    said.holds = std::move(holds);
    said.believes = std::move(believes);
    said.signed_by = std::move(signed_by);
    return said;
  }
  std::vector<ListedMember> listed = {{"m2", kStore2, true}, {"m3", kStore3, false}};
  MemberAuthorities all{[this] { return listed; }};
};

TEST_F(MemberAuthoritiesTest, HowFarEachIs) {
  EXPECT_EQ(TextOf(all.Lacking("n", Far::kHolds)), "m2 has not been heard, m3 has not been heard");
  EXPECT_FALSE(all.InSyncAre("n", Far::kHolds));
  ASSERT_TRUE(all.Note("m2", kStore2, Has({"o"}, {"o"}, "o")).ok());
  EXPECT_EQ(TextOf(all.Lacking("n", Far::kHolds)), "m2 has not got it, m3 has not been heard");
  ASSERT_TRUE(all.Note("m2", kStore2, Has({"o", "n"}, {"o"}, "o")).ok());
  EXPECT_TRUE(all.InSyncAre("n", Far::kHolds)) << "m3 is not in sync";
  EXPECT_EQ(TextOf(all.Lacking("n", Far::kBelieves)), "m2 does not believe it yet, m3 has not been heard");
  ASSERT_TRUE(all.Note("m2", kStore2, Has({"o", "n"}, {"o", "n"}, "o")).ok());
  EXPECT_TRUE(all.InSyncAre("n", Far::kBelieves));
  EXPECT_EQ(TextOf(all.Lacking("n", Far::kProves)), "m2 has no certificate of it yet, m3 has not been heard");
  ASSERT_TRUE(all.Note("m2", kStore2, Has({"o", "n"}, {"o", "n"}, "n")).ok());
  EXPECT_TRUE(all.InSyncAre("n", Far::kProves));
  EXPECT_EQ(TextOf(all.Lacking("n", Far::kOnly)), "m2 has the former one still, m3 has not been heard");
  ASSERT_TRUE(all.Note("m2", kStore2, Has({"n"}, {"n"}, "n")).ok());
  EXPECT_TRUE(all.InSyncAre("n", Far::kOnly));
  listed[1].in_sync = true;
  EXPECT_FALSE(all.InSyncAre("n", Far::kHolds));
}

TEST_F(MemberAuthoritiesTest, OnlyThoseThatAreListed) {
  EXPECT_EQ(all.Note("m4", kStore2, {}).code(), FsError::kAccess);
  EXPECT_EQ(all.Note("m2", kStore3, {}).code(), FsError::kAccess) << "another directory under its name";
  EXPECT_TRUE(all.Note("m4", kStore2, {}).error().denies);
  ASSERT_TRUE(all.Note("m2", kStore2, Has({"n"}, {}, "")).ok());
  // Set up anew: what the former directory had is not there.
  listed[0].store = Uuid{4, 4};
  EXPECT_EQ(all.Lacking("n", Far::kHolds).size(), 2u);
  listed.clear();
  EXPECT_TRUE(all.Lacking("n", Far::kOnly).empty()) << "nobody is waited for who was removed";
}

TEST_F(MemberAuthoritiesTest, WhoseACertificateMayBe) {
  const Sha256Hash key{7}, other{8};
  EXPECT_NE(all.WhoMayUse(other, "pc9").find("m2 has not been heard"), std::string::npos);
  MemberAuthorities::Said said;
  said.key = key;
  said.serials = {"4abc"};
  ASSERT_TRUE(all.Note("m2", kStore2, said).ok());
  said.key = Sha256Hash{9};
  said.serials = {};
  ASSERT_TRUE(all.Note("m3", kStore3, said).ok());
  EXPECT_EQ(all.WhoMayUse(key, "pc9"), "it is that of the metadata server m2");
  EXPECT_EQ(all.WhoMayUse(other, "m3"), "it is that of the metadata server m3");
  EXPECT_EQ(all.WhoMayUse(other, "pc9"), "");
  EXPECT_TRUE(all.CheckListed(key).ok());
  EXPECT_EQ(all.CheckListed(other).code(), FsError::kAccess);
  listed.push_back({"m4", Uuid{4, 4}, false});
  EXPECT_EQ(all.CheckListed(other).code(), FsError::kRetryLater) << "it may be m4's";
  EXPECT_TRUE(all.CheckListed(key).ok());
  listed.pop_back();
  EXPECT_TRUE(all.Has(key, "4abc"));
  EXPECT_FALSE(all.Has(key, "4abd"));
  EXPECT_FALSE(all.Has(Sha256Hash{9}, "4abc")) << "that is in the directory of another";
}

}  // namespace
}  // namespace stria
