#include "client/fuse/looked_up.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

EntryOut File(uint64_t ino) {
  EntryOut out;
  out.attr.ino = InodeId(ino);
  out.attr.nlink = 1;
  out.attr.size = 10 * ino;
  out.attr_valid_ns = kSecond;
  return out;
}

TEST(LookedUp, IsKnownForAWhile) {
  LookedUp known;
  EXPECT_FALSE(known.WithoutName(InodeId(7), 0));
  known.Add(File(7), 5);
  const auto gone = known.WithoutName(InodeId(7), 5 + LookedUp::kKeepNs);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->attr.size, 70u);
  EXPECT_EQ(gone->attr.nlink, 0u);
  EXPECT_EQ(gone->attr_valid_ns, 0);
  EXPECT_FALSE(known.WithoutName(InodeId(7), 6 + LookedUp::kKeepNs));
  EXPECT_FALSE(known.WithoutName(InodeId(7 + LookedUp::kSlots), 5));
}

TEST(LookedUp, WhoMissedIsKnownForAWhile) {
  LookedUp known;
  EXPECT_FALSE(known.HasMissed(7, 1));
  EXPECT_FALSE(known.HasMissed(0, 1));
  known.Missed(7, 5);
  EXPECT_TRUE(known.HasMissed(7, 5 + LookedUp::kKeepNs));
  EXPECT_FALSE(known.HasMissed(7, 6 + LookedUp::kKeepNs));
  EXPECT_FALSE(known.HasMissed(8, 5));
  known.Missed(7 + LookedUp::kSlots, 6);
  EXPECT_FALSE(known.HasMissed(7, 6));
}

TEST(LookedUp, ALaterOneTakesTheSlot) {
  LookedUp known;
  known.Add(File(7), 5);
  known.Add(File(7 + LookedUp::kSlots), 6);
  EXPECT_FALSE(known.WithoutName(InodeId(7), 6));
  EXPECT_TRUE(known.WithoutName(InodeId(7 + LookedUp::kSlots), 6));
}

}  // namespace
}  // namespace stria
