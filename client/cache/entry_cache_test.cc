#include "client/cache/entry_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/random.h"

namespace stria {
namespace {

constexpr uint64_t kGen = 3;
constexpr InodeId kDir{10};
constexpr InodeId kAbsent{0};
using Known = std::optional<InodeId>;

DirEntry Entry(const std::string& name, uint64_t ino, uint64_t cookie) {
  DirEntry e;
  e.name = name;
  e.ino = InodeId(ino);
  e.cookie = cookie;
  return e;
}

class Entries : public testing::Test {
 protected:
  Known Find(const std::string& name, InodeId dir = kDir) { return c.Find(dir, name, kGen); }
  EntryCache c{100};
};

TEST_F(Entries, NamesOneByOne) {
  EXPECT_EQ(Find("a"), std::nullopt);
  c.Remember(kDir, "a", InodeId(1), kGen);
  c.Remember(kDir, "b", kAbsent, kGen);
  EXPECT_EQ(Find("a"), Known(InodeId(1)));
  EXPECT_EQ(Find("b"), Known(kAbsent));
  EXPECT_EQ(Find("c"), std::nullopt);
  c.Forget(kDir, "a");
  c.Forget(kDir, "c");
  EXPECT_EQ(Find("a"), std::nullopt);
  EXPECT_EQ(Find("c"), std::nullopt);
  EXPECT_EQ(c.size(), 2u);
}

TEST_F(Entries, WhatWasMadeEmptyIsWhole) {
  c.MadeEmpty(kDir, kGen);
  EXPECT_TRUE(c.IsWhole(kDir, kGen));
  EXPECT_EQ(Find("a"), Known(kAbsent));
  EXPECT_EQ(Find("a", InodeId(11)), std::nullopt);
  EXPECT_EQ(Find("."), std::nullopt);
  EXPECT_EQ(Find(".."), std::nullopt);
  c.Remember(kDir, "a", InodeId(1), kGen);
  EXPECT_EQ(Find("a"), Known(InodeId(1)));
  EXPECT_EQ(Find("b"), Known(kAbsent));
  // Removed by us: nothing is kept of it.
  c.Remember(kDir, "a", kAbsent, kGen);
  EXPECT_EQ(Find("a"), Known(kAbsent));
  EXPECT_EQ(c.size(), 1u);
}

TEST_F(Entries, ANameInDoubtIsAskedForUntilItIsKnown) {
  c.MadeEmpty(kDir, kGen);
  c.Remember(kDir, "a", InodeId(1), kGen);
  c.Forget(kDir, "a");
  c.Forget(kDir, "b");
  EXPECT_EQ(Find("a"), std::nullopt);
  EXPECT_EQ(Find("b"), std::nullopt);
  EXPECT_EQ(c.LastKnown(kDir, "a"), std::nullopt);
  EXPECT_EQ(Find("c"), Known(kAbsent));
  EXPECT_TRUE(c.IsWhole(kDir, kGen));
  c.Remember(kDir, "a", kAbsent, kGen);
  c.Remember(kDir, "b", InodeId(2), kGen);
  EXPECT_EQ(Find("a"), Known(kAbsent));
  EXPECT_EQ(Find("b"), Known(InodeId(2)));
}

TEST_F(Entries, AnEventEndsIt) {
  c.MadeEmpty(kDir, kGen);
  c.Remember(kDir, "a", InodeId(1), kGen);
  c.Remember(kDir, "b", InodeId(2), kGen);
  c.Forget(kDir, "x");
  c.Revoked(kDir, "a");
  EXPECT_FALSE(c.IsWhole(kDir, kGen));
  EXPECT_EQ(Find("a"), std::nullopt);
  EXPECT_EQ(Find("b"), Known(InodeId(2)));  // the server tells of it
  EXPECT_EQ(Find("x"), std::nullopt);
  EXPECT_EQ(Find("y"), std::nullopt);
  EXPECT_EQ(c.size(), 2u);
  c.Revoked(kDir, "");  // also without a name
  EXPECT_EQ(Find("b"), Known(InodeId(2)));
}

TEST_F(Entries, AListingToItsEnd) {
  c.Listed(kDir, 0, {Entry("a", 1, 5), Entry("b", 2, 9)}, false, kGen);
  EXPECT_EQ(Find("a"), Known(InodeId(1)));
  EXPECT_EQ(Find("x"), std::nullopt);
  c.Listed(kDir, 9, {Entry("c", 3, 12)}, false, kGen);
  c.Listed(kDir, 5, {Entry("b", 2, 9)}, false, kGen);  // a part again
  c.Listed(kDir, 12, {}, true, kGen);
  EXPECT_TRUE(c.IsWhole(kDir, kGen));
  EXPECT_EQ(Find("c"), Known(InodeId(3)));
  EXPECT_EQ(Find("x"), Known(kAbsent));
}

TEST_F(Entries, AListingInOnePart) {
  c.Remember(kDir, "old", kAbsent, kGen);
  c.Listed(kDir, 0, {}, true, kGen);
  EXPECT_EQ(Find("x"), Known(kAbsent));
  c.Listed(kDir, 0, {Entry("a", 1, 5)}, false, kGen);  // one that follows takes nothing away
  EXPECT_TRUE(c.IsWhole(kDir, kGen));
}

TEST_F(Entries, AListingWithAGapOrAChangeDoesNotCount) {
  c.Listed(kDir, 0, {Entry("a", 1, 5)}, false, kGen);
  c.Listed(kDir, 7, {Entry("c", 3, 12)}, true, kGen);
  EXPECT_FALSE(c.IsWhole(kDir, kGen));
  c.Listed(kDir, 3, {Entry("c", 3, 12)}, true, InodeId(11).v);  // another generation: nothing is left of the first part
  EXPECT_FALSE(c.IsWhole(kDir, 11));

  c.Listed(kDir, 0, {Entry("a", 1, 5)}, false, kGen);
  c.Forget(kDir, "b");  // ours
  c.Listed(kDir, 5, {}, true, kGen);
  EXPECT_FALSE(c.IsWhole(kDir, kGen));

  c.Listed(kDir, 0, {Entry("a", 1, 5)}, false, kGen);
  c.Revoked(kDir, "b");  // another client's change
  c.Listed(kDir, 5, {}, true, kGen);
  EXPECT_FALSE(c.IsWhole(kDir, kGen));

  c.Listed(kDir, 5, {}, true, kGen);  // without a first part
  EXPECT_FALSE(c.IsWhole(kDir, kGen));
}

TEST_F(Entries, AGenerationKnowsNothingOfTheOneBefore) {
  c.MadeEmpty(kDir, kGen);
  c.Remember(kDir, "a", InodeId(1), kGen);
  EXPECT_EQ(c.Find(kDir, "a", kGen + 1), std::nullopt);
  EXPECT_EQ(c.Find(kDir, "b", kGen + 1), std::nullopt);
  EXPECT_EQ(c.LastKnown(kDir, "a"), Known(InodeId(1)));  // for listings when no server answers
  c.Remember(kDir, "c", InodeId(3), kGen + 1);
  EXPECT_EQ(c.Find(kDir, "a", kGen + 1), std::nullopt);
  EXPECT_EQ(Find("a"), std::nullopt);
  EXPECT_EQ(c.size(), 2u);
}

TEST_F(Entries, TheLeastUsedDirectoryGoes) {
  for (uint64_t d = 1; d <= 4; ++d) {
    c.MadeEmpty(InodeId(d), kGen);
    for (int i = 0; i < 23; ++i) c.Remember(InodeId(d), std::to_string(i), InodeId(1000), kGen);
  }
  EXPECT_EQ(c.size(), 96u);
  EXPECT_EQ(Find("x", InodeId(1)), Known(kAbsent));  // used
  for (int i = 0; i < 5; ++i) c.Remember(kDir, std::to_string(i), InodeId(1), kGen);
  EXPECT_EQ(Find("x", InodeId(1)), Known(kAbsent));
  EXPECT_EQ(Find("x", InodeId(2)), std::nullopt);
  EXPECT_EQ(Find("x", InodeId(3)), Known(kAbsent));
  // One that is larger than all that may be kept.
  std::vector<DirEntry> many;
  for (uint64_t i = 0; i < 200; ++i) many.push_back(Entry("n" + std::to_string(i), 1, i + 1));
  c.Listed(kDir, 0, many, true, kGen);
  EXPECT_FALSE(c.IsWhole(kDir, kGen));
  EXPECT_EQ(Find("x"), std::nullopt);
  EXPECT_EQ(c.size(), 0u);
  // Doubts count, too.
  c.MadeEmpty(kDir, kGen);
  for (int i = 0; i < 150; ++i) c.Forget(kDir, std::to_string(i));
  EXPECT_LE(c.size(), 100u);
  EXPECT_FALSE(c.IsWhole(kDir, kGen));
}

// A server's directories that change, with this client told or not; what the cache knows must be right.
TEST(EntriesRandom, WhatIsKnownIsTrue) {
  Random rng(5);
  EntryCache c(60);
  std::map<uint64_t, std::map<std::string, uint64_t>> truth;
  uint64_t next = 100;
  uint64_t known = 0;
  const auto cookie_of = [](const std::string& name) { return std::stoull(name) + 1; };
  for (int step = 0; step < 60'000; ++step) {
    const uint64_t d = rng.Below(4) + 1;
    const InodeId dir(d);
    const std::string name = std::to_string(rng.Below(16));
    auto& names = truth[d];
    switch (rng.Below(7)) {
      case 0:  // ours
        c.Forget(dir, name);
        names[name] = ++next;
        if (rng.OneIn(2)) c.Remember(dir, name, InodeId(next), kGen);
        break;
      case 1:
        c.Forget(dir, name);
        names.erase(name);
        if (rng.OneIn(2) && c.IsWhole(dir, kGen)) c.Remember(dir, name, kAbsent, kGen);
        break;
      case 2:  // theirs
        if (!rng.OneIn(8)) break;
        if (rng.OneIn(2)) names[name] = ++next;
        else names.erase(name);
        c.Revoked(dir, name);
        break;
      case 3: {  // a part of a listing
        const uint64_t after = rng.OneIn(2) ? 0 : rng.Below(17);
        std::map<uint64_t, std::string> order;
        for (const auto& [n, ino] : names) order[cookie_of(n)] = n;
        std::vector<DirEntry> part;
        bool end = true;
        for (auto it = order.upper_bound(after); it != order.end(); ++it) {
          if (part.size() == 6) {
            end = false;
            break;
          }
          part.push_back(Entry(it->second, names[it->second], it->first));
        }
        c.Listed(dir, after, part, end, kGen);
        break;
      }
      case 4:  // made anew
        if (!rng.OneIn(50)) break;
        names.clear();
        c.MadeEmpty(dir, kGen);
        break;
      default: {
        const Known k = c.Find(dir, name, kGen);
        auto it = names.find(name);
        if (!k) {
          c.Remember(dir, name, it == names.end() ? kAbsent : InodeId(it->second), kGen);
          break;
        }
        ++known;
        ASSERT_EQ(k->v, it == names.end() ? 0 : it->second) << "step " << step << " name " << name;
      }
    }
    ASSERT_LE(c.size(), 60u);
  }
  EXPECT_GT(known, 5000u);
}

}  // namespace
}  // namespace stria
