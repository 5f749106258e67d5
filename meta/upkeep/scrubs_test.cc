// Orders to scrub, without a metadata server.
#include "meta/upkeep/scrubs.h"

#include "meta/upkeep/keeper_testing.h"

namespace stria {
namespace {

class ScrubsTest : public KeeperTest {
 protected:
  Result<std::string> Order(UpkeepVerb verb, bool dry_run = false) {
    UpkeepRequest r;
    r.verb = verb;
    r.dry_run = dry_run;
    r.number = 1000;
    return scrubs.Order(r);
  }
  Scrubs scrubs{Env()};
};

TEST_F(ScrubsTest, AnOrderIsAnsweredToTheNodesAlsoAfterARestart) {
  cluster.SetTargetState(TargetId(6), TargetState::kFailed);
  EXPECT_EQ(*Order(UpkeepVerb::kScrubStart, true), "every shard on 5 disks is read and checked");
  EXPECT_EQ(host.commits, 0);
  ASSERT_TRUE(Order(UpkeepVerb::kScrubStart).ok());
  EXPECT_EQ(host.commits, 1);
  Scrubs next(Env());
  {
    Txn txn(*store);
    ASSERT_TRUE(next.Load(txn).ok());
  }
  ScrubProgress p;
  p.target = TargetId(1);
  EXPECT_EQ(next.Take({p})->targets, (std::vector<TargetId>{TargetId(1)}));
  EXPECT_EQ(next.Take({p})->bytes_per_s, 1000u);
}

TEST_F(ScrubsTest, SaysWhatEachDiskHasReported) {
  ASSERT_TRUE(Order(UpkeepVerb::kScrubStart).ok());
  ScrubProgress p;
  p.target = TargetId(2);
  ASSERT_TRUE(scrubs.Take({p}).ok());
  UpkeepReply told;
  scrubs.Tell(&told);
  ASSERT_EQ(told.scrubs.size(), 1u);
  EXPECT_TRUE(told.scrubs[0].running);  // it owes a pass
  EXPECT_FALSE(told.scrub_paused);
  ASSERT_TRUE(Order(UpkeepVerb::kScrubPause).ok());
  scrubs.Forget(TargetId(2));
  UpkeepReply after;
  scrubs.Tell(&after);
  EXPECT_TRUE(after.scrub_paused);
  EXPECT_TRUE(after.scrubs.empty());
}

}  // namespace
}  // namespace stria
