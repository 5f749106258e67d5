#include "meta/session/replays.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

const SessionId kS1{1}, kS2{2};

TEST(Replays, HaveTheirTimeAndTheirPlace) {
  Replays r;
  r.Announce(kS1, 5);
  EXPECT_FALSE(r.MayRepeat(kS1, 5, 150)) << "its window has not begun";
  r.Begin(kS1, 300);
  EXPECT_TRUE(r.MayRepeat(kS1, 5, 200));
  EXPECT_TRUE(r.MayRepeat(kS1, UINT64_MAX, 200));
  EXPECT_FALSE(r.MayRepeat(kS1, 4, 200));
  EXPECT_FALSE(r.MayRepeat(kS2, 5, 200));
  r.IsAt(kS1, 8);
  EXPECT_FALSE(r.MayRepeat(kS1, 5, 200));
  EXPECT_FALSE(r.MayRepeat(kS1, 8, 300));
  r.AllBegin(500);
  EXPECT_TRUE(r.MayRepeat(kS1, 8, 400));
  r.IsAt(kS1, 0);
  EXPECT_FALSE(r.MayRepeat(kS1, 8, 400));
  EXPECT_TRUE(r.MayRepeat(kS1, UINT64_MAX, 400));
  r.End(kS1);
  r.AllBegin(500);
  EXPECT_FALSE(r.MayRepeat(kS1, UINT64_MAX, 400)) << "it has said that it was all";
}

TEST(Replays, OthersWaitForThem) {
  Replays r;
  r.Announce(kS1, 5);
  r.Begin(kS1, 300);
  EXPECT_TRUE(r.AwaitsOthers(SessionId(), 200));
  EXPECT_FALSE(r.AwaitsOthers(kS1, 200));
  EXPECT_FALSE(r.AwaitsOthers(kS2, 300));
  EXPECT_TRUE(r.AwaitsOthersBefore(kS2, 6, 200));
  EXPECT_FALSE(r.AwaitsOthersBefore(kS2, 5, 200));
  r.IsAt(kS1, 0);
  EXPECT_FALSE(r.AwaitsOthersBefore(kS2, UINT64_MAX, 200));
  EXPECT_TRUE(r.AwaitsOthers(kS2, 200));
}

}  // namespace
}  // namespace stria
