#include "locality/report.h"

#include <gtest/gtest.h>

#include "locality/place.h"
#include "locality/read_tally.h"
#include "stripe/layout.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {

TEST(ReadTally, TextAndBack) {
  const ReadTally tally{123, 4'000'000'000'000, 5};
  EXPECT_EQ(ReadTallyText(tally), "local=123,network=4000000000000,reconstructed=5");
  EXPECT_EQ(*ParseReadTally(ReadTallyText(tally)), tally);
  EXPECT_EQ(*ParseReadTally("cached=9,local=1,network=2,reconstructed=3"), (ReadTally{1, 2, 3}));
  for (const char* bad : {"", "local=1,network=2", "local=1,network=2,reconstructed=", "local=1,network=2,reconstructed",
                          "local=x,network=2,reconstructed=3", "local=-1,network=2,reconstructed=3",
                          "local=1 ,network=2,reconstructed=3"}) {
    EXPECT_EQ(ParseReadTally(bad).code(), FsError::kCorrupt) << bad;
  }
}

TEST(Report, Hosts) {
  std::vector<HostShare> hosts = {{"n1", 300, 0, "ok"}, {"n2", 100, 1, "ok"}};
  EXPECT_EQ(HostsText(hosts), "n1:75%,n2:25%");
  EXPECT_EQ(LocalText(hosts, "n2"), "25%");
  EXPECT_EQ(LocalText(hosts, "n9"), "0%");
  AddHosts({{"n2", 400, 0, "down"}, {"n3", 0, 7, "ok"}}, &hosts);
  EXPECT_EQ(hosts[0], (HostShare{"n2", 500, 1, "down"}));
  EXPECT_EQ(HostsText(hosts), "n2:62.5%,n1:37.5%") << "a node without data is not named";
  EXPECT_EQ(HostsText({}), "");
  EXPECT_EQ(LocalText({}, "n1"), "0%");
}

TEST(Report, LocationsSayWhatTheyLeaveOut) {
  const std::vector<WhereRow> rows = {{0, 10, "data", "n1", "d1", "ok", StripeId(1)},
                                      {10, 10, "data", "n2", "d2", "down", StripeId(1)},
                                      {0, 20, "parity", "n3", "d1", "ok", StripeId(1)}};
  const std::string all = "0+10 n1:d1 data ok\n10+10 n2:d2 data down\n0+20 n3:d1 parity ok\n";
  EXPECT_EQ(LocationsText(rows, 65536), all);
  EXPECT_EQ(LocationsText(rows, all.size()), all);
  for (size_t room = 40; room < all.size(); ++room) {
    const std::string text = LocationsText(rows, room);
    EXPECT_LE(text.size(), room);
    const size_t marker = text.find("... ");
    ASSERT_NE(marker, text.npos) << room;
    EXPECT_EQ(all.substr(0, marker), text.substr(0, marker));
    const std::string next = text.substr(marker + 4);
    EXPECT_TRUE(next == "0\n" || next == "10\n" || next == "redundancy\n") << text;
  }
  EXPECT_EQ(LocationsText({}, 100), "");
  EXPECT_EQ(LocationsText(rows, 65536, 20), "0+10 n1:d1 data ok\n10+10 n2:d2 data down\n... 20\n");
  EXPECT_EQ(LocationsText(rows, 60, 20), "0+10 n1:d1 data ok\n... 10\n");
}

TEST(Place, NamesAndNumbers) {
  ClusterMap map;
  for (uint32_t i = 1; i <= 3; ++i) {
    NodeInfo n;
    n.id = NodeId(i);
    n.name = i == 3 ? "1" : "pc" + std::to_string(i);
    map.nodes.push_back(n);
  }
  EXPECT_EQ(*NodeNumberForName("linear,place=node:pc2,unit=1M", map), "linear,place=node:2,unit=1M");
  EXPECT_EQ(*NodeNumberForName("linear,place=node:2", map), "linear,place=node:2");
  EXPECT_EQ(*NodeNumberForName("linear,place=node:1", map), "linear,place=node:3") << "a name goes first";
  EXPECT_EQ(*NodeNumberForName("linear,place=local", map), "linear,place=local");
  EXPECT_EQ(*NodeNumberForName("linear,place=node:", map), "linear,place=node:") << "the parser's to refuse";
  EXPECT_EQ(NodeNumberForName("linear,place=node:pc9", map).code(), FsError::kNoEnt);
  EXPECT_EQ(NodeNameForNumber("linear,place=node:2", map), "linear,place=node:pc2");
  EXPECT_EQ(NodeNameForNumber("linear,place=node:7", map), "linear,place=node:7");
  EXPECT_EQ(NodeNameForNumber("linear", map), "linear");
}

// A stripe with column c on target c + 1, of node c + 1.
StripeGrant Stripe(const std::string& layout, uint64_t payload) {
  StripeGrant g;
  g.info.id = StripeId(1);
  g.info.shape = ShapeFor(*ParseLayout(layout), payload);
  for (uint16_t c = 0; c < g.info.shape.columns(); ++c) {
    Column column;
    column.length = ColumnBytes(g.info.shape, ColumnIndex(c));
    if (column.length > 0) column.shard = ShardId(c + 1), column.target = TargetId(c + 1);
    g.info.columns.push_back(column);
  }
  return g;
}

ClusterMap MapWithout(std::vector<uint32_t> down) {
  ClusterMap map;
  for (uint32_t i = 1; i <= 8; ++i) {
    NodeInfo n;
    n.id = NodeId(i);
    n.state = std::ranges::count(down, i) ? NodeState::kDown : NodeState::kUp;
    map.nodes.push_back(n);
    TargetInfo t;
    t.id = TargetId(i);
    t.node = n.id;
    map.targets.push_back(t);
  }
  return map;
}

TEST(Report, Health) {
  const StripeGrant wide = Stripe("raid6:4+2,unit=4K", 64 * kKiB);
  EXPECT_EQ(HealthOf({}, MapWithout({})), DataHealth::kOk);
  EXPECT_EQ(HealthOf({wide}, MapWithout({7})), DataHealth::kOk);
  EXPECT_EQ(HealthOf({wide}, MapWithout({1, 6})), DataHealth::kDegraded);
  EXPECT_EQ(HealthOf({wide}, MapWithout({1, 2, 3})), DataHealth::kLost);
  // One short column and its parity; the other columns are zeros and cannot be lost.
  const StripeGrant narrow = Stripe("raid5:4+1,arrange=gathered,unit=64K", 100);
  EXPECT_EQ(HealthOf({narrow}, MapWithout({2, 3, 4})), DataHealth::kOk);
  EXPECT_EQ(HealthOf({narrow}, MapWithout({5})), DataHealth::kDegraded);
  EXPECT_EQ(HealthOf({narrow}, MapWithout({1, 5})), DataHealth::kLost);
  // Each group of raid50 has its own parity.
  const StripeGrant pairs = Stripe("raid10:4", 2 * kMiB);
  EXPECT_EQ(HealthOf({pairs}, MapWithout({1, 2})), DataHealth::kDegraded);
  EXPECT_EQ(HealthOf({pairs}, MapWithout({1, 3})), DataHealth::kLost);
  EXPECT_EQ(HealthOf({wide, pairs}, MapWithout({1, 3})), DataHealth::kLost);
}

}  // namespace
}  // namespace stria
