#include "meta/session/silent_owners.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr int64_t kLease = 15 * kSecond;

TEST(SilentOwners, EachTimeItStaysAwayForLonger) {
  SilentOwners s;
  EXPECT_FALSE(s.Has("a", 0));
  EXPECT_LE(s.OpensAt("a"), 0);
  int64_t now = 1000 * kSecond;
  s.Note("a", kLease, now);
  EXPECT_TRUE(s.Has("a", now));
  EXPECT_FALSE(s.Has("b", now));
  EXPECT_LE(s.OpensAt("a"), now) << "once is no harm";
  for (const int64_t away : {1, 2, 4}) {
    now += kLease;
    s.Note("a", kLease, now);
    EXPECT_EQ(s.OpensAt("a"), now + away * kLease);
  }
  for (int i = 0; i < 5; ++i) s.Note("a", kLease, now);
  EXPECT_EQ(s.OpensAt("a"), now + SilentOwners::kMostAwayNs) << "and no longer than that";
  EXPECT_TRUE(s.Has("a", s.OpensAt("a") + SilentOwners::kForgottenNs - 1));
  EXPECT_FALSE(s.Has("a", s.OpensAt("a") + SilentOwners::kForgottenNs));
  now = s.OpensAt("a") + SilentOwners::kForgottenNs;
  s.Note("a", kLease, now);
  EXPECT_LE(s.OpensAt("a"), now) << "it begins anew";
}

TEST(SilentOwners, IsBounded) {
  SilentOwners s;
  for (size_t i = 0; i < SilentOwners::kMaxOwners + 10; ++i) s.Note(std::to_string(i), kLease, static_cast<int64_t>(i));
  EXPECT_EQ(s.size(), SilentOwners::kMaxOwners);
  EXPECT_FALSE(s.Has("0", 1));
  EXPECT_TRUE(s.Has(std::to_string(SilentOwners::kMaxOwners), 1));
}

TEST(SilentOwners, WithoutProofItIsTheSession) {
  EXPECT_EQ(SilentOwners::KeyOf({}, SessionId(7)), "session 7");
  SessionOwner owner;
  owner.name = "session 7";
  EXPECT_EQ(SilentOwners::KeyOf(owner, SessionId(9)), "owner session 7") << "a name is not taken for a session";
}

}  // namespace
}  // namespace stria
