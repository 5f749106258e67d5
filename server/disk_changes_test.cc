#include "server/disk_changes.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

TEST(DiskChangesTest, DisksAreToldByTheirPaths) {
  const std::vector<DiskSpec> now = {{"/a", "d1", ""}, {"", "", ""}, {"/b", "d2", "sata0"}};
  EXPECT_EQ(CompareDisks(now, {{"/b", "d2", "sata0"}, {"/a", "d1", ""}}), DiskChanges()) << "their order says nothing";
  const DiskChanges more = CompareDisks(now, {{"/d", "d4", ""}, {"/a", "d1", ""}, {"/c", "d3", ""}, {"/b", "d2", "sata0"}});
  EXPECT_EQ(more.added, (std::vector<DiskSpec>{{"/d", "d4", ""}, {"/c", "d3", ""}}));
  EXPECT_TRUE(more.dropped.empty() && more.later.empty());
  const DiskChanges less = CompareDisks(now, {{"/a", "d1", ""}});
  EXPECT_EQ(less.dropped, std::vector<size_t>{2});
  EXPECT_TRUE(less.added.empty() && less.later.empty());
  EXPECT_EQ(CompareDisks(now, {}).dropped, (std::vector<size_t>{0, 2}));
}

TEST(DiskChangesTest, LabelAndChannelCountAfterARestart) {
  const DiskChanges c = CompareDisks({{"/a", "d1", ""}, {"/b", "d2", ""}}, {{"/a", "d9", ""}, {"/b", "d2", "sata0"}});
  EXPECT_EQ(c.later, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_TRUE(c.added.empty() && c.dropped.empty());
}

TEST(DiskChangesTest, ALabelThatMovesToAnotherPathIsAnotherDisk) {
  const DiskChanges c = CompareDisks({{"/a", "d1", ""}}, {{"/b", "d1", ""}});
  EXPECT_EQ(c.dropped, std::vector<size_t>{0});
  EXPECT_EQ(c.added, (std::vector<DiskSpec>{{"/b", "d1", ""}}));
}

}  // namespace
}  // namespace stria
