#include "locality/told.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/random.h"
#include "stripe/layout.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {

constexpr size_t kPage = 32 * kKiB;

ClusterMap FourNodes() {
  ClusterMap map;
  for (uint32_t n = 1; n <= 4; ++n) {
    NodeInfo node;
    node.id = NodeId(n);
    node.name = n == 4 ? "a b%\xff\n" : "n" + std::to_string(n);  // a name may be any bytes
    node.address = "[fd00::" + std::to_string(n) + "]:7425";
    node.state = n == 2 ? NodeState::kDown : NodeState::kUp;
    map.nodes.push_back(node);
    for (uint32_t d = 1; d <= 2; ++d) {
      TargetInfo t;
      t.id = TargetId(n * 10 + d);
      t.node = node.id;
      t.label = "d" + std::to_string(d);
      map.targets.push_back(t);
    }
  }
  return map;
}

struct Mapping {
  std::vector<Extent> extents;
  std::vector<StripeGrant> stripes;
  uint64_t size = 0;
};

// Stripes of several layouts, inline bytes, holes, a stripe that is not known.
Mapping MakeMapping(Random& rng, const std::vector<std::string>& layouts, int count) {
  Mapping m;
  for (int i = 0; i < count; ++i) {
    const uint64_t id = 100 + static_cast<uint64_t>(i);
    if (rng.OneIn(4)) m.size += 1 + rng.Below(300'000);
    Extent e;
    e.file_offset = m.size;
    if (rng.OneIn(6)) {
      e.length = 3;
      e.inline_bytes = "abc";
    } else {
      const uint64_t payload = 1 + rng.Below(600'000);
      e.stripe = StripeId(id);
      e.stripe_offset = rng.Below(payload);
      e.length = 1 + rng.Below(payload - e.stripe_offset);
      StripeGrant g;
      g.info.id = e.stripe;
      g.info.shape = ShapeFor(*ParseLayout(layouts[rng.Below(layouts.size())]), payload);
      for (uint32_t c = 0; c < g.info.shape.columns(); ++c) {
        Column column;
        column.length = ColumnBytes(g.info.shape, ColumnIndex(static_cast<uint16_t>(c)));
        if (column.length > 0) {
          column.shard = ShardId(id * 100 + c);
          column.target = TargetId(static_cast<uint32_t>(10 * (1 + rng.Below(4)) + 1 + rng.Below(2)));
        }
        g.info.columns.push_back(column);
      }
      if (!rng.OneIn(15)) m.stripes.push_back(std::move(g));
    }
    m.size += e.length;
    m.extents.push_back(std::move(e));
  }
  return m;
}

// As a mount does: some of the mapping is known at once, and of that as much as fits is told.
std::vector<WhereRow> InPages(const Mapping& m, const ClusterMap& map, uint64_t offset, uint64_t length, size_t at_once, size_t* pages) {
  std::vector<WhereRow> all;
  uint64_t from = offset;
  while (from < offset + length) {
    std::vector<Extent> known;
    for (const Extent& e : m.extents) {
      if (e.end() > from && known.size() < at_once) known.push_back(e);
    }
    const bool rest = known.size() < at_once;
    const std::string text = RowsText(m.size, known, m.stripes, map, {from, offset, length}, rest ? offset + length : known.back().end(), kPage);
    EXPECT_LE(text.size(), kPage);
    const Result<RowsPage> page = ParseRows(text);
    EXPECT_TRUE(page.ok()) << page.error();
    if (!page.ok() || page->covered_to <= from) {
      ADD_FAILURE() << "no page of " << from;
      return all;
    }
    EXPECT_EQ(page->size, m.size);
    all.insert(all.end(), page->rows.begin(), page->rows.end());
    from = page->covered_to;
    ++*pages;
  }
  EXPECT_EQ(from, offset + length);
  return JoinRows(std::move(all));
}

TEST(Told, PagesAreTheSameAsAllAtOnce) {
  Random rng(3);
  const ClusterMap map = FourNodes();
  const std::vector<std::string> layouts = {"raid5:2+1,unit=64K", "raid1:2", "raid6:4+2,unit=4K", "raid50:2x2+1,unit=4K", "linear", "raid10:2,unit=64K"};
  size_t pages = 0;
  for (int round = 0; round < 40; ++round) {
    const Mapping m = MakeMapping(rng, layouts, 1 + static_cast<int>(rng.Below(60)));
    const uint64_t offset = round % 2 == 0 ? 0 : rng.Below(m.size);
    const uint64_t length = round % 2 == 0 ? m.size : 1 + rng.Below(m.size - offset);
    const std::vector<WhereRow> want = WhereRows(m.extents, m.stripes, map, offset, length);
    for (const size_t at_once : {size_t{1}, size_t{7}, size_t{1000}}) {
      ASSERT_EQ(InPages(m, map, offset, length, at_once, &pages), want) << "round " << round << ", " << at_once << " at once";
    }
  }
  EXPECT_GT(pages, 500u) << "some of them had several";
}

// One stripe of small units alone is more than a page.
TEST(Told, AnExtentMayTakeSeveralPages) {
  Random rng(4);
  const ClusterMap map = FourNodes();
  Mapping m;
  Extent e;
  e.length = m.size = 16 * kMiB;
  e.stripe = StripeId(7);
  StripeGrant g;
  g.info.id = e.stripe;
  g.info.shape = ShapeFor(*ParseLayout("raid50:2x2+1,unit=4K"), e.length);
  for (uint32_t c = 0; c < g.info.shape.columns(); ++c) {
    Column column;
    column.length = ColumnBytes(g.info.shape, ColumnIndex(static_cast<uint16_t>(c)));
    column.shard = ShardId(c + 1);
    column.target = TargetId(10 * (1 + c % 4) + 1 + c / 4);
    g.info.columns.push_back(column);
  }
  m.extents = {e};
  m.stripes = {g};
  size_t pages = 0;
  EXPECT_EQ(InPages(m, map, 1000, 15 * kMiB, 100, &pages), WhereRows(m.extents, m.stripes, map, 1000, 15 * kMiB));
  EXPECT_GT(pages, 3u);
}

TEST(Told, NothingOfAnEmptyRange) {
  const Result<RowsPage> page = ParseRows(RowsText(5, {}, {}, ClusterMap(), {0, 0, 0}, 0, kPage));
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->size, 5u);
  EXPECT_EQ(page->covered_to, 0u);
  EXPECT_TRUE(page->rows.empty());
}

TEST(Told, NamesOfAttributes) {
  const RowsWanted wanted = {20, 10, 30};
  EXPECT_EQ(RowsName(wanted), "user.stria.told.rows@20,10,30");
  EXPECT_EQ(ParseRowsName(RowsName(wanted)).value(), wanted);
  for (const char* bad : {"", "1", "1,2", "1,2,3", "41,10,30", "10,10,18446744073709551615", "a,b,c", "1,1,1,1", " 10,10,30", "-1,0,1"}) {
    EXPECT_EQ(ParseRowsName(std::string(kToldRows) + bad).code(), FsError::kInval) << bad;
  }
  EXPECT_EQ(NodesName(7), "user.stria.told.nodes@7");
  EXPECT_EQ(ParseNodesName(NodesName(7)).value(), 7u);
  for (const char* bad : {"", "x", "-1", "1 "}) EXPECT_EQ(ParseNodesName(std::string(kToldNodes) + bad).code(), FsError::kInval) << bad;
}

TEST(Told, LayoutAndNodes) {
  for (const bool inherited : {false, true}) {
    const Result<ToldLayout> told = ParseToldLayout(LayoutText({"raid5:4+1,place=node:3", inherited}));
    ASSERT_TRUE(told.ok()) << told.error();
    EXPECT_EQ(told->spec, "raid5:4+1,place=node:3");
    EXPECT_EQ(told->inherited, inherited);
  }
  ClusterMap map = FourNodes();
  map.nodes[0].name.clear();
  std::vector<NodeInfo> got;
  size_t pages = 0;
  do {
    const std::string text = NodesText(map.nodes, got.size(), 100);
    EXPECT_LE(text.size(), 100u);
    const Result<NodesPage> page = ParseNodes(text);
    ASSERT_TRUE(page.ok()) << page.error();
    EXPECT_EQ(page->total, 4u);
    ASSERT_FALSE(page->nodes.empty());
    got.insert(got.end(), page->nodes.begin(), page->nodes.end());
    ++pages;
  } while (got.size() < 4);
  EXPECT_EQ(got, map.nodes);
  EXPECT_GT(pages, 1u);
}

// Whatever answers: another version's, or a file of another filesystem that has such an attribute.
// As a command puts the parts together.
std::vector<std::string> PathsInParts(const std::vector<std::string>& paths, size_t max_bytes, size_t* parts) {
  std::string list;
  *parts = 0;
  while (true) {
    const std::string text = PathsText(paths, 3, true, list.size(), max_bytes);
    EXPECT_LE(text.size(), max_bytes);
    const PathsPart part = ParsePathsPart(text).value();
    EXPECT_EQ(part.hidden, 3u);
    EXPECT_TRUE(part.more);
    ++*parts;
    list += part.bytes;
    if (list.size() >= part.total_bytes || part.bytes.empty()) break;
  }
  return ParsePaths(list).value();
}

TEST(Told, Paths) {
  EXPECT_EQ(ParsePathsName(PathsName({7, 65'000})).value(), (PathsWanted{7, 65'000}));
  EXPECT_EQ(ParsePathsName(PathsName({UINT64_MAX, 0})).value(), (PathsWanted{UINT64_MAX, 0}));
  const std::vector<std::string> paths = {"/a/b", "/with space\n\xff%", "/" + std::string(5'000, 'x'), "/" + std::string(5'000, ' ')};
  size_t parts = 0;
  EXPECT_EQ(PathsInParts(paths, 64 * kKiB, &parts), paths);
  EXPECT_EQ(parts, 1u);
  EXPECT_EQ(PathsInParts(paths, 1'000, &parts), paths) << "one is longer than a part";
  EXPECT_GT(parts, 20u);
  EXPECT_TRUE(PathsInParts({}, 1'000, &parts).empty());
  EXPECT_EQ(PathsText({}, 0, false, 0, 1'000), "0 0 0\n");
  EXPECT_EQ(ParsePathsPart(PathsText({"/a"}, 0, false, 99, 1'000)).value().bytes, "") << "beyond the end";
  for (const char* name : {"", "1", "1,", "x,0", "1,0,0", "-1,0"}) {
    EXPECT_EQ(ParsePathsName(std::string(kToldPaths) + name).code(), FsError::kInval) << name;
  }
  for (const char* text : {"", "1 2", "1 2\n", "1 2 2\n", "x 0 0\n", "1 0 0 0\n"}) EXPECT_EQ(ParsePathsPart(text).code(), FsError::kBadRequest) << text;
  for (const char* list : {"/a", "/a b\n", "/%zz\n", "\n/a"}) EXPECT_EQ(ParsePaths(list).code(), FsError::kBadRequest) << list;
}

TEST(Told, NonsenseIsRefused) {
  const std::string good = RowsText(9, {}, {}, FourNodes(), {0, 0, 9}, 9, kPage);
  EXPECT_TRUE(ParseRows(good).ok());
  for (size_t cut = 0; cut < good.size(); ++cut) EXPECT_EQ(ParseRows(good.substr(0, cut)).ok(), good[cut > 0 ? cut - 1 : 0] == '\n') << cut;
  for (const char* bad : {"", "\n", "1\n", "1 2 3\n", "x 1\n", "1 2\n0 1 data n1 d1 ok\n", "1 2\n0 1 data n1 %zz ok 5\n", "1 2\n0 1 data n1 %f ok 5\n",
                          "1 2\n0 -1 data n1 d1 ok 5\n"}) {
    EXPECT_EQ(ParseRows(bad).code(), FsError::kBadRequest) << bad;
  }
  for (const char* bad : {"", "raid5:4+1\n", "raid5:4+1 perhaps\n", "a own\nb own\n", "raid5:4+1 own"}) {
    EXPECT_EQ(ParseToldLayout(bad).code(), FsError::kBadRequest) << bad;
  }
  for (const char* bad : {"", "1", "1\n1 1 n1\n", "1\n1 9 n1 a\n", "1\n1 0 n1 a\n", "x\n"}) EXPECT_EQ(ParseNodes(bad).code(), FsError::kBadRequest) << bad;
  Random rng(5);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good + "0 9 data n1 d1 ok 5\n";
    for (uint64_t n = rng.Below(4); n < 4; ++n) text[rng.Below(text.size())] = static_cast<char>(rng.Next());
    (void)ParseRows(text);
    (void)ParseNodes(text);
    (void)ParseToldLayout(text);
  }
}

}  // namespace
}  // namespace stria
