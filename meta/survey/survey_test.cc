// The survey on a store and a cluster, without a metadata server.
#include "meta/survey/survey.h"

#include "meta/upkeep/keeper_testing.h"

namespace stria {
namespace {

class SurveyTest : public KeeperTest, public BadShards {
 protected:
  bool IsBad(StripeId stripe, uint16_t column, ShardId) const override { return bad.count({stripe, column}) > 0; }
  std::set<StripeId> BadStripes() const override {
    std::set<StripeId> out;
    for (const auto& [stripe, _] : bad) out.insert(stripe);
    return out;
  }
  Damage Now() { return RunSim(ex, survey.DamageNow()).value(); }
  NodeLoss Loss() { return RunSim(ex, survey.NodeLossNow()); }

  std::set<std::pair<StripeId, uint16_t>> bad;
  Survey survey{SurveyEnv{&ex, store.get(), &cluster, this}, 100};
};

TEST_F(SurveyTest, TellsWhatIsDegradedFromWhatIsLost) {
  const StripeInfo a = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  const StripeInfo b = WriteStripe(Raid(2, 1), 2, 1, {1, 4, 5}, kMiB);
  EXPECT_EQ(Now().degraded, 0u);
  bad = {{a.id, 0}};
  cluster.SetTargetState(TargetId(6), TargetState::kDraining);  // the map is another: it looks again
  EXPECT_EQ(Now().degraded, 1u);
  EXPECT_TRUE(Now().lost.empty());
  bad.insert({a.id, 1});
  cluster.SetTargetState(TargetId(6), TargetState::kUp);
  const Damage damage = Now();
  EXPECT_EQ(damage.lost, std::set<StripeId>{a.id});
  EXPECT_EQ(damage.gone.at(a.id), (std::vector<bool>{true, true, false}));
  const Damage without = RunSim(ex, survey.DamageWithout({TargetId(4), TargetId(5)})).value();
  EXPECT_EQ(without.lost, (std::set<StripeId>{a.id, b.id}));
  EXPECT_EQ(without.hit, 0u);  // b is lost
  const Damage less = RunSim(ex, survey.DamageWithout({TargetId(4)})).value();
  EXPECT_EQ(less.hit, 1u);
  EXPECT_EQ(less.some_hit, std::set<StripeId>{b.id});
  EXPECT_EQ(RunSim(ex, survey.LostWithout({TargetId(4), TargetId(5)})).value(), 1u);
  EXPECT_EQ(RunSim(ex, survey.LostWithout({TargetId(4)})).value(), 0u);
}

TEST_F(SurveyTest, RemovingDisksIsToldWithTheFilesThatItWouldHit) {
  WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  const InodeId a = ino;
  WriteStripe(Raid(2, 1), 2, 1, {2, 3, 4}, kMiB);
  const InodeId b = ino;
  const CanRemoveReply reply = RunSim(ex, survey.CanRemove({TargetId(1), TargetId(2)})).value();
  EXPECT_EQ(reply.lost_stripes, 1u);
  EXPECT_EQ(reply.degraded_stripes, 1u);
  ASSERT_EQ(reply.files.size(), 2u);
  EXPECT_EQ(reply.files[0].ino, a);
  EXPECT_TRUE(reply.files[0].lost);
  EXPECT_EQ(reply.files[0].path, "/f1");
  EXPECT_EQ(reply.files[1].ino, b);
  EXPECT_FALSE(reply.files[1].lost);

  FilesRequest r;
  r.kind = FilesKind::kWouldDegrade;
  r.targets = {TargetId(1)};
  const FilesReply files = RunSim(ex, survey.Files(r, {})).value();
  ASSERT_EQ(files.files.size(), 1u);
  EXPECT_EQ(files.files[0].ino, a);
}

TEST_F(SurveyTest, AllStripesThatRemovingDisksWouldHitAreCountedAlsoWhenNotAllAreNamed) {
  for (int i = 0; i < 3; ++i) WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  Survey names_one{SurveyEnv{&ex, store.get(), &cluster, this}, 100, 1};
  const CanRemoveReply reply = RunSim(ex, names_one.CanRemove({TargetId(1)})).value();
  EXPECT_EQ(reply.degraded_stripes, 3u);
  EXPECT_EQ(reply.files.size(), 1u);
  EXPECT_TRUE(reply.more);
  FilesRequest r;
  r.kind = FilesKind::kWouldDegrade;
  r.targets = {TargetId(1)};
  EXPECT_TRUE(RunSim(ex, names_one.Files(r, {})).value().cut);
}

TEST_F(SurveyTest, ANodeWithMoreColumnsThanParityIsWhatItsLossWouldCost) {
  EXPECT_TRUE(Loss().nodes.empty());
  WriteStripe(Raid(2, 1), 2, 1, {1, 1, 2}, kMiB, false, true);
  const NodeLoss loss = Loss();
  EXPECT_TRUE(loss.counted);
  EXPECT_EQ(loss.age_ns, 0);
  ASSERT_EQ(loss.nodes.size(), 1u);
  EXPECT_EQ(loss.nodes[0].node, NodeId(1));
  EXPECT_EQ(loss.nodes[0].stripes, 1u);
  EXPECT_EQ(loss.nodes[0].bytes, kMiB);
}

TEST_F(SurveyTest, ManyStripesAreCountedBeforehandAndTheCountSaysItsAge) {
  Survey slow(SurveyEnv{&ex, store.get(), &cluster, this}, 0);
  WriteStripe(Raid(2, 1), 2, 1, {1, 1, 2}, kMiB, false, true);
  EXPECT_FALSE(RunSim(ex, slow.NodeLossNow()).counted);
  ex.RunFor(kSecond);
  slow.CountAhead();
  ex.RunFor(10 * kSecond);
  EXPECT_EQ(RunSim(ex, slow.NodeLossNow()).nodes.size(), 1u);
  EXPECT_EQ(RunSim(ex, slow.NodeLossNow()).age_ns, 0);
  WriteStripe(Raid(2, 1), 2, 1, {2, 2, 3}, kMiB, false, true);
  const NodeLoss old = RunSim(ex, slow.NodeLossNow());
  EXPECT_EQ(old.nodes.size(), 1u);
  EXPECT_GT(old.age_ns, 0);
}

TEST_F(SurveyTest, SaysWhatNewStripesWouldBeWithFewerDisks) {
  survey.NoteAsked(Raid(4, 1));
  EXPECT_TRUE(survey.LackingRooms().value().empty());
  const std::string text = survey.RoomsWithout({TargetId(5), TargetId(6)}).value();
  EXPECT_NE(text.find("new stripes of"), std::string::npos) << text;
  EXPECT_EQ(survey.RoomsWithout({}).value(), "");
}

}  // namespace
}  // namespace stria
