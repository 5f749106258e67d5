#include "client/fuse/kernel_names.h"

#include <gtest/gtest.h>

#include <string>

namespace stria {
namespace {

constexpr InodeId kDir{7};

class KernelNamesTest : public testing::Test {
 protected:
  void Give(const std::string& name, uint64_t node) {
    names_.Given(kDir, name, node, inodes_);
    inodes_.Given(node);
  }
  bool MayHave(const std::string& name) { return names_.MayHave(kDir, name, inodes_); }

  KernelInodes inodes_;
  KernelNames names_;
};

TEST(LookupErrno, OnlyWhatSaysThatTheNameIsGoneTakesItAway) {
  for (const FsError gone : {FsError::kNoEnt, FsError::kStale, FsError::kNotDir, FsError::kNameTooLong}) {
    EXPECT_EQ(LookupErrno(gone, true, ToErrno(gone)), ToErrno(gone)) << gone;
  }
  for (const FsError other : {FsError::kTimedOut, FsError::kIo, FsError::kIntr, FsError::kAccess, FsError::kFenced,
                              FsError::kUnavailable, FsError::kRetryLater, FsError::kNotReady}) {
    EXPECT_EQ(LookupErrno(other, true, ToErrno(other)), ENOMEM) << other;
    EXPECT_EQ(LookupErrno(other, false, ToErrno(other)), ToErrno(other)) << other;
  }
}

TEST_F(KernelNamesTest, AreHadAsLongAsTheirInode) {
  EXPECT_FALSE(MayHave("a"));
  Give("a", 10);
  Give("b", 10);
  EXPECT_TRUE(MayHave("a"));
  EXPECT_FALSE(names_.MayHave(InodeId(8), "a", inodes_)) << "of another directory";
  inodes_.Forgotten(10, 1);
  EXPECT_TRUE(MayHave("a"));
  inodes_.Forgotten(10, 1);
  EXPECT_FALSE(MayHave("a"));
  EXPECT_FALSE(MayHave("b"));
}

TEST_F(KernelNamesTest, GoWithARename) {
  Give("a", 10);
  names_.Moved(kDir, "a", InodeId(8), "b");
  EXPECT_FALSE(MayHave("a"));
  EXPECT_TRUE(names_.MayHave(InodeId(8), "b", inodes_));
}

TEST_F(KernelNamesTest, AreBelievedForAMoment) {
  EXPECT_EQ(names_.Believe(kDir, "a", kSecond, 0), 0) << "it was not given";
  Give("a", 10);
  EXPECT_EQ(names_.Until(kDir, "a"), 0);
  EXPECT_EQ(names_.BelievedTo(kDir, "a"), 0);
  EXPECT_EQ(names_.Believe(kDir, "a", 0, kSecond), 0) << "there is no lease";
  EXPECT_EQ(names_.Until(kDir, "a"), 0);
  const int64_t at_ns = 2 * kSecond, until_ns = at_ns + KernelNames::kBelievedNs + KernelNames::kLateNs;
  EXPECT_EQ(names_.Believe(kDir, "a", 10 * kSecond, at_ns), KernelNames::kBelievedNs);
  EXPECT_EQ(names_.Until(kDir, "a"), until_ns);
  EXPECT_EQ(names_.Until(kDir, "b"), 0);
  EXPECT_EQ(names_.Until(InodeId(), ""), until_ns);
  EXPECT_EQ(names_.BelievedTo(kDir, "a"), at_ns + KernelNames::kBelievedNs - KernelNames::kJiffyNs);
  Give("a", 10);
  EXPECT_EQ(names_.Until(kDir, "a"), until_ns) << "given again";
  EXPECT_TRUE(names_.MayMove(kDir, "a", at_ns)) << "it is believed for long enough";
  EXPECT_FALSE(names_.MayMove(kDir, "a", at_ns + KernelNames::kBelievedNs - 1));
  EXPECT_FALSE(names_.MayMove(kDir, "a", at_ns + KernelNames::kBelievedNs)) << "who walks there will ask";
  EXPECT_TRUE(names_.MayMove(kDir, "a", at_ns + KernelNames::kBelievedNs + KernelNames::kQuietNs + 1)) << "nobody does";
  EXPECT_TRUE(names_.MayMove(kDir, "other", at_ns));
  names_.Moved(kDir, "a", kDir, "b");
  EXPECT_EQ(names_.Until(kDir, "b"), until_ns);
  EXPECT_EQ(names_.Find(kDir, "b"), 10u);
}

// The kernel goes by the answer that it has taken last: a shorter one before or after may end what a longer one allowed.
TEST_F(KernelNamesTest, AreSurelyBelievedOnlyAfterAnswersThatSayTheSame) {
  const auto believe = [&](int64_t ns, int64_t at_ns) { (void)names_.Believe(kDir, "a", ns, at_ns); };
  const auto is_sure = [&] { return names_.BelievedTo(kDir, "a") > 0; };
  int64_t at_ns = kSecond;
  Give("a", 10);
  believe(kSecond, at_ns);
  EXPECT_TRUE(is_sure());
  for (const int64_t less : {int64_t{0}, KernelNames::kBelievedNs - 1}) {
    believe(less, at_ns + 1);
    EXPECT_FALSE(is_sure());
    EXPECT_GE(names_.Until(kDir, "a"), at_ns + KernelNames::kBelievedNs) << "perhaps";
    EXPECT_FALSE(names_.MayMove(kDir, "a", at_ns + 1));
    believe(kSecond, at_ns + KernelNames::kLateNs);
    EXPECT_FALSE(is_sure()) << "the shorter answer may come after it";
    at_ns += KernelNames::kLateNs + 1;
    believe(kSecond, at_ns);
    EXPECT_TRUE(is_sure());
  }
  names_.Doubt(at_ns + 1);
  EXPECT_FALSE(is_sure());
  believe(kSecond, at_ns + 1 + KernelNames::kLateNs);
  EXPECT_TRUE(is_sure());
  Give("a", 11);
  EXPECT_FALSE(is_sure()) << "another entry";
}

TEST_F(KernelNamesTest, AreBounded) {
  for (uint64_t i = 1; i <= 2 * KernelNames::kMaxNames; ++i) {  // each is forgotten soon
    Give(std::to_string(i), i);
    if (i > 100) inodes_.Forgotten(i - 100, 1);
  }
  EXPECT_LE(names_.size(), KernelNames::kMaxNames);
  EXPECT_FALSE(MayHave("1"));
  EXPECT_FALSE(MayHave("other"));
  for (uint64_t i = 1; i <= 2 * KernelNames::kMaxNames; ++i) Give("n" + std::to_string(i), i);
  EXPECT_LE(names_.size(), KernelNames::kMaxNames);
  EXPECT_TRUE(MayHave("other")) << "nothing is sure any more";
}

}  // namespace
}  // namespace stria
