#include "test/sim/file_model.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

TEST(FileModel, TakesPrefixesAndNothingElse) {
  FileModel m;
  m.Write(0, "aaaa");
  m.Acknowledge();
  m.Write(2, "bbbb");
  m.Truncate(3);
  m.Write(5, "cc");
  EXPECT_EQ(m.now(), std::string("aab\0\0cc", 7));
  for (const std::string& ok : {std::string("aaaa"), std::string("aabb"), std::string("aabbb"), std::string("aabbbb"),
                                std::string("aab"), std::string("aab\0\0c", 6), std::string("aab\0\0cc", 7)}) {
    FileModel copy = m;
    EXPECT_EQ(copy.Recover(ok), std::nullopt) << ok;
    EXPECT_EQ(copy.now(), ok);
  }
  for (const std::string& bad : {std::string("aaa"), std::string(""), std::string("aaab"), std::string("aaaa\0cc", 7),
                                 std::string("aabbbc"), std::string("aab\0\0ccc", 8)}) {
    FileModel copy = m;
    EXPECT_TRUE(copy.Recover(bad).has_value()) << bad;
  }
}

TEST(FileModel, ATruncationOvertakesWritesThatFoundNoSpace) {
  FileModel m;
  m.Write(0, "aaaaaa");
  m.Acknowledge();
  m.Write(0, "bb");
  m.Write(2, "cccccc");
  m.Truncate(4);
  m.Write(4, "d");
  for (const std::string& ok : {std::string("aaaa"), std::string("bbaa"), std::string("bbcc"), std::string("bbccd")}) {
    FileModel copy = m;
    EXPECT_EQ(copy.Recover(ok, /*full=*/true), std::nullopt) << ok;
  }
  EXPECT_TRUE(FileModel(m).Recover("aaaa").has_value());
  for (const std::string& bad : {std::string("aaaad"), std::string("aacc"), std::string("bbaad"), std::string("aaa")}) {
    FileModel copy = m;
    EXPECT_TRUE(copy.Recover(bad, /*full=*/true).has_value()) << bad;
  }
}

TEST(FileModel, SeveralTruncationsOvertake) {
  FileModel m;
  m.Write(0, "aaaaaa");
  m.Acknowledge();
  m.Write(1, "bb");
  m.Truncate(5);
  m.Write(4, "cccc");
  m.Truncate(3);
  m.Write(3, "d");
  for (const std::string& ok : {std::string("aaaaa"), std::string("aaa"), std::string("abb"), std::string("abbd")}) {
    FileModel copy = m;
    EXPECT_EQ(copy.Recover(ok, /*full=*/true), std::nullopt) << ok;
  }
  for (const std::string& bad : {std::string("aaad"), std::string("aaaac"), std::string("aa")}) {
    FileModel copy = m;
    EXPECT_TRUE(copy.Recover(bad, /*full=*/true).has_value()) << bad;
  }
}

TEST(FileModel, AcknowledgedBytesMayNotBeLost) {
  FileModel m;
  m.Write(0, "old");
  m.Acknowledge();
  m.Write(0, "new");
  m.Acknowledge();
  EXPECT_TRUE(m.Recover("old").has_value());
  EXPECT_FALSE(m.Recover("new").has_value());
}

}  // namespace
}  // namespace stria
