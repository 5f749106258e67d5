#include "common/fenced_holders.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

// Those that are there at that time.
std::vector<uint64_t> Holders(FencedHolders* all, int64_t now_s) {
  std::vector<uint64_t> out;
  all->Forget(now_s);
  for (const FencedHolder& f : all->All()) out.push_back(f.holder);
  return out;
}

TEST(FencedHolders, AHolderIsListedUntilItsTokensAreOver) {
  FencedHolders all;
  all.Note({7, 100, 400});
  all.Note({5, 110, 200});
  EXPECT_EQ(Holders(&all, 0), (std::vector<uint64_t>{5, 7}));
  EXPECT_EQ(Holders(&all, 200), (std::vector<uint64_t>{5, 7})) << "a token is good up to and including its last second";
  EXPECT_EQ(Holders(&all, 201), (std::vector<uint64_t>{7}));
  EXPECT_EQ(Holders(&all, 401), std::vector<uint64_t>());
  EXPECT_TRUE(all.empty());
}

TEST(FencedHolders, TheLaterTimesCount) {
  FencedHolders all;
  all.Note({7, 100, 400});
  all.Note({7, 90, 500});
  all.Note({7, 120, 450});
  EXPECT_EQ(all.All(), (std::vector<FencedHolder>{{7, 120, 500}}));
}

TEST(FencedHolders, ATokenIsOfBeforeIfItEndsByThen) {
  FencedHolders all;
  all.Note({7, 100, 400});
  EXPECT_TRUE(all.Has(7, true, 100));
  EXPECT_FALSE(all.Has(7, true, 101));
  EXPECT_TRUE(all.Has(7, false, 400));
  EXPECT_FALSE(all.Has(7, false, 401));
  EXPECT_FALSE(all.Has(8, true, 100));
}

TEST(FencedHolders, NobodyIsNoHolder) {
  FencedHolders all;
  all.Note({0, 100, 400});
  EXPECT_TRUE(all.empty());
}

TEST(FencedHolders, TheOneThatIsOverFirstMakesRoom) {
  FencedHolders all(3);
  all.Note({9, 1, 30});
  all.Note({8, 1, 10});
  all.Note({7, 1, 20});
  all.Note({6, 1, 40});
  EXPECT_EQ(Holders(&all, 0), (std::vector<uint64_t>{6, 7, 9}));
  all.Note({7, 2, 21});  // is there already: nobody goes
  EXPECT_EQ(Holders(&all, 0), (std::vector<uint64_t>{6, 7, 9}));
}

}  // namespace
}  // namespace stria
