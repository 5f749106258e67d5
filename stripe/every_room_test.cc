// Every layout in every room, from all of it to a single disk: nodes and disks up, away, given up, being emptied, full. The
// right answers are worked out here by trying all ways, without placement's code.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/random.h"
#include "stripe/layout.h"
#include "stripe/layout_spec.h"
#include "stripe/placement.h"
#include "stripe/stripe_form.h"

namespace stria {
namespace {

constexpr uint64_t kShard = 8 * kMiB;

const char* const kSpellings[] = {"linear",    "raid0:3",      "raid1:2",      "raid1:3",       "raid1:5",
                                  "raid4:3+1", "raid5:2+1",    "raid5:4+1",    "raid6:2+2",     "raid6:4+2",
                                  "rs:3+3",    "raid10:4",     "raid10:7",     "raid50:2x2+1",  "raid1:2,min=1",
                                  "raid1:4,min=2", "raid6:3+2,min=1", "raid6:3+2,min=2", "raid10:4,min=1"};

enum class Disk { kUp, kAway, kGivenUp, kEmptied, kFull };

TargetView MakeDisk(uint32_t node, uint32_t disk, Disk state) {
  return {.target = TargetId(node * 100 + disk),
          .node = NodeId(node),
          .channel = (disk - 1) / 2,
          .capacity_bytes = kTiB,
          .free_bytes = state == Disk::kFull ? kShard - 1 : kTiB / 2 + node * kGiB,
          .usable_for_new = state == Disk::kUp || state == Disk::kFull,
          .configured = state != Disk::kGivenUp,
          .readable = state != Disk::kAway && state != Disk::kGivenUp};
}

uint64_t DomainNumber(const TargetView& t, Domain domain) {
  switch (domain) {
    case Domain::kNode: return t.node.v;
    case Domain::kChannel: return t.node.v * 1000 + t.channel;
    case Domain::kDisk: return t.target.v;
  }
  return 0;
}

// True if `groups` groups of `width` columns can be put on so many disks per domain with at most `most` columns of a
// group in a domain: by dealing out columns, the fullest domains first, to the groups that still need most.
bool CanDeal(std::vector<uint32_t> disks, uint32_t groups, uint32_t width, uint32_t most) {
  std::vector<uint32_t> need(groups, width);
  std::sort(disks.rbegin(), disks.rend());
  for (uint32_t n : disks) {
    std::vector<uint32_t> here(groups, 0);
    for (; n > 0; --n) {
      int best = -1;
      for (uint32_t g = 0; g < groups; ++g) {
        if (need[g] == 0 || here[g] == most) continue;
        if (best < 0 || need[g] > need[static_cast<uint32_t>(best)]) best = static_cast<int>(g);
      }
      if (best < 0) break;
      --need[static_cast<uint32_t>(best)];
      ++here[static_cast<uint32_t>(best)];
    }
  }
  return std::ranges::all_of(need, [](uint32_t n) { return n == 0; });
}

struct Expected {
  uint32_t lacking = 0;  // copies
  uint32_t manner = 0;   // 0: no domain twice; 1: none more than m times; 2: otherwise
  uint32_t data = 0;     // columns
};

// All ways there are; the best is: most copies, best manner, most columns of data.
std::optional<Expected> Best(const std::vector<uint32_t>& disks, const Layout& layout) {
  const uint32_t least = layout.min_copies == 0 ? layout.m : layout.min_copies - 1u;
  for (uint32_t m = layout.m;; --m) {
    for (uint32_t manner = 0; manner < 3; ++manner) {
      const uint32_t most = manner == 0 ? 1 : manner == 1 ? std::max(m, 1u) : 1000;
      uint32_t data = 0;
      const bool thin = m < layout.m;
      for (uint32_t k = 1; k <= (thin ? 1u : layout.k); ++k) {
        for (uint32_t g = 1; g <= (thin ? 1u : layout.groups); ++g) {
          if (CanDeal(disks, g, k + m, most)) data = std::max(data, g * k);
        }
      }
      if (data > 0) return Expected{layout.m - m, manner, data};
    }
    if (m == least) return std::nullopt;
  }
}

std::map<std::string, int> seen;

void CheckRoom(const ClusterView& view, const Layout& layout, uint64_t seed) {
  std::map<uint64_t, uint32_t> up_by_domain, space_by_domain;
  uint32_t up = 0, space = 0;
  for (const TargetView& t : view.targets) {
    if (!t.configured || !t.usable_for_new) continue;
    ++up, ++up_by_domain[DomainNumber(t, layout.domain)];
    if (t.free_bytes >= kShard) ++space, ++space_by_domain[DomainNumber(t, layout.domain)];
  }
  const auto counts = [](const std::map<uint64_t, uint32_t>& by) {
    std::vector<uint32_t> out;
    for (const auto& [_, n] : by) out.push_back(n);
    return out;
  };
  const uint32_t least = layout.min_copies == 0 ? layout.m + 1u : layout.min_copies;
  const auto placed = PlaceStripe(view, layout, {.seed = seed, .shard_bytes = kShard});
  ASSERT_EQ(placed.ok(), space >= least) << "placed if and only if so many disks are left with space";
  if (!placed.ok()) {
    ASSERT_EQ(placed.code(), up >= least ? FsError::kNoSpace : FsError::kTooFewDomains) << placed.error();
    const std::string& text = placed.error().message;
    ASSERT_TRUE(text.starts_with("layout ")) << text;
    ASSERT_NE(text.find(std::to_string(least) + (least == 1 ? " disk" : " disks")), std::string::npos) << text;
    ASSERT_NE(text.find("add "), std::string::npos) << "what to do: " << text;
    ++seen[placed.code() == FsError::kNoSpace ? "no space" : "too few"];
    return;
  }
  const auto best = Best(counts(space_by_domain), layout);
  ASSERT_TRUE(best.has_value());
  ASSERT_EQ(layout.m - placed->m, best->lacking);
  ASSERT_EQ(uint32_t{placed->groups} * placed->k, best->data) << "as wide as can be";
  ASSERT_LE(placed->k, layout.k);
  ASSERT_LE(placed->groups, layout.groups);
  ASSERT_EQ(placed->narrow, placed->k < layout.k || placed->groups < layout.groups || placed->m < layout.m);
  StripeShape shape;
  shape.groups = placed->groups;
  shape.k = placed->k;
  shape.m = placed->m;
  shape.codec = DefaultCodec(placed->k, placed->m);
  ASSERT_EQ(placed->targets.size(), shape.columns());
  std::set<TargetId> disks;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> in_domain;
  uint32_t most = 0;
  for (uint16_t c = 0; c < placed->targets.size(); ++c) {
    const TargetView* t = view.Find(placed->targets[c]);
    ASSERT_NE(t, nullptr);
    ASSERT_TRUE(t->configured && t->usable_for_new && t->free_bytes >= kShard);
    ASSERT_TRUE(disks.insert(t->target).second) << "a disk twice";
    most = std::max(most, ++in_domain[{GroupOf(shape, ColumnIndex(c)), DomainNumber(*t, layout.domain)}]);
  }
  const uint32_t manner = most <= 1 ? 0 : most <= placed->m ? 1 : 2;
  ASSERT_EQ(manner, best->manner) << "domains are respected as far as can be";
  ASSERT_EQ(IsCrowded(view, shape, placed->targets, layout.domain), manner > 0);
  ASSERT_EQ(RankOf(view, shape, placed->targets, layout), 3 * best->lacking + manner);
  ++seen[best->lacking > 0 ? "thin" : manner > 0 ? "crowded" : placed->narrow ? "narrow" : "whole"];

  // Status tells the same of it, without regard to space.
  if (space != up) return;
  const LayoutRoom room = RoomFor(view, layout, false);
  ASSERT_FALSE(room.none);
  ASSERT_EQ(room.thin, best->lacking > 0);
  ASSERT_EQ(room.crowded, manner > 0);
  ASSERT_EQ(room.narrow, best->lacking == 0 && placed->narrow);
  ASSERT_EQ(room.whole(), room.until.empty()) << ToldOf(room, "are");
}

// Rooms of up to four nodes with up to three disks each: every state of every node.
TEST(EveryRoom, EveryLayoutEveryStateOfEveryNode) {
  seen.clear();
  constexpr Disk kStates[] = {Disk::kUp, Disk::kAway, Disk::kGivenUp, Disk::kEmptied, Disk::kFull};
  for (const char* text : kSpellings) {
    for (Domain domain : {Domain::kNode, Domain::kChannel, Domain::kDisk}) {
      Layout layout = *ParseLayout(text);
      layout.domain = domain;
      for (uint32_t nodes = 1; nodes <= 4; ++nodes) {
        for (uint32_t disks = 1; disks <= 3; ++disks) {
          uint32_t rooms = 1;
          for (uint32_t n = 0; n < nodes; ++n) rooms *= std::size(kStates);
          for (uint32_t number = 0; number < rooms; ++number) {
            ClusterView view;
            uint32_t rest = number;
            for (uint32_t n = 1; n <= nodes; ++n, rest /= std::size(kStates)) {
              for (uint32_t d = 1; d <= disks; ++d) {
                view.targets.push_back(MakeDisk(n, d, kStates[rest % std::size(kStates)]));
              }
            }
            SCOPED_TRACE(testing::Message() << text << " domain " << static_cast<int>(domain) << ", " << nodes << "x"
                                            << disks << ", room " << number);
            CheckRoom(view, layout, number);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
  for (const char* what : {"whole", "narrow", "crowded", "thin", "too few", "no space"}) EXPECT_GT(seen[what], 1000) << what;
}

// Larger rooms, of nodes of different sizes: every disk in a state of its own.
TEST(EveryRoom, EveryLayoutWithDisksGoneAtRandom) {
  seen.clear();
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    Random rng(seed);
    const char* text = kSpellings[rng.Below(std::size(kSpellings))];
    Layout layout = *ParseLayout(text);
    layout.domain = static_cast<Domain>(rng.Between(1, 3));
    ClusterView view;
    const uint64_t nodes = rng.Between(1, 9), well = rng.Below(101);
    for (uint32_t n = 1; n <= nodes; ++n) {
      const uint64_t disks = rng.Between(1, 5);
      const bool gone = !rng.Percent(static_cast<uint32_t>(well));
      for (uint32_t d = 1; d <= disks; ++d) {
        view.targets.push_back(
            MakeDisk(n, d, gone && !rng.OneIn(6) ? static_cast<Disk>(rng.Between(1, 4)) : Disk::kUp));
        view.targets.back().channel = static_cast<uint32_t>(rng.Below(3));
      }
    }
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << text);
    CheckRoom(view, layout, rng.Next());
    if (HasFatalFailure()) return;
  }
  for (const char* what : {"whole", "narrow", "crowded", "thin", "too few", "no space"}) EXPECT_GT(seen[what], 50) << what;
}

// One node after the other is given up, and one disk after the other of the last.
TEST(EveryRoom, FromAllToOne) {
  struct Step {
    uint32_t nodes, disks;
    const char *layout, *now;
  };
  const Step steps[] = {
      {5, 2, "raid5:4+1", "new stripes of layout raid5:4+1 are 4+1"},
      {4, 2, "raid5:4+1", "new stripes of layout raid5:4+1 are 3+1 until another node joins"},
      {2, 2, "raid5:4+1", "new stripes of layout raid5:4+1 are 2 copies until 3 more nodes join"},
      {1, 2, "raid5:4+1",
       "new stripes of layout raid5:4+1 are 2 copies, crowded onto disks that fail together until 4 more nodes join"},
      {1, 1, "raid5:4+1", "nothing can be written with layout raid5:4+1 until 4 more nodes join"},
      {2, 2, "raid1:2", "new stripes of layout raid1:2 are 2 copies"},
      {1, 2, "raid1:2",
       "new stripes of layout raid1:2 are 2 copies, crowded onto disks that fail together until another node joins"},
      {1, 1, "raid1:2", "nothing can be written with layout raid1:2 until another node joins"},
      {1, 1, "raid1:2,min=1",
       "new stripes of layout raid1:2,min=1 are 1 copy, fewer than the layout asks for until another node joins"},
      {3, 1, "raid0:4", "new stripes of layout raid0:4 are 3 columns until another node joins"},
      {1, 3, "raid5:4+1,domain=disk", "new stripes of layout raid5:4+1,domain=disk are 2+1 until 2 more disks join"},
      {2, 1, "raid10:4", "new stripes of layout raid10:4 are 2 copies until 2 more disks join"},
  };
  for (const Step& s : steps) {
    ClusterView view;
    for (uint32_t n = 1; n <= s.nodes; ++n) {
      for (uint32_t d = 1; d <= s.disks; ++d) view.targets.push_back(MakeDisk(n, d, Disk::kUp));
    }
    const LayoutRoom room = RoomFor(view, *ParseLayout(s.layout), false);
    EXPECT_EQ(ToldOf(room, "are"), s.now);
    const auto placed = PlaceStripe(view, *ParseLayout(s.layout), {.seed = 3});
    EXPECT_EQ(placed.ok(), !room.none);
    if (!placed.ok()) EXPECT_EQ(placed.code(), FsError::kTooFewDomains);
  }
  // Nodes that are away may be back; disks that are being emptied are not expected.
  ClusterView view;
  for (uint32_t n = 1; n <= 5; ++n) view.targets.push_back(MakeDisk(n, 1, n == 2 ? Disk::kAway : Disk::kUp));
  EXPECT_EQ(ToldOf(RoomFor(view, *ParseLayout("raid5:4+1"), false), "are"),
            "new stripes of layout raid5:4+1 are 3+1 until what is down is back");
  EXPECT_TRUE(RoomFor(view, *ParseLayout("raid5:4+1"), true).whole());
  view.targets[3] = MakeDisk(4, 1, Disk::kEmptied);
  EXPECT_EQ(ToldOf(RoomFor(view, *ParseLayout("raid5:4+1"), false), "are"),
            "new stripes of layout raid5:4+1 are 2+1 until what is down is back and another node joins");
  EXPECT_EQ(ToldOf(RoomFor(view, *ParseLayout("raid5:4+1"), true), "will be"),
            "new stripes of layout raid5:4+1 will be 3+1 until another node joins");
}

TEST(EveryRoom, RefusalsSayWhatIsMissing) {
  ClusterView view;
  view.targets = {MakeDisk(1, 1, Disk::kUp), MakeDisk(2, 1, Disk::kAway)};
  const auto refused = [&](const char* layout) {
    return PlaceStripe(view, *ParseLayout(layout), {.shard_bytes = kShard}).error().message;
  };
  EXPECT_EQ(refused("raid1:2"),
            "layout raid1:2 needs 2 disks at least, and 1 can be written: bring back nodes and disks that are down, or add 1 disk, or let "
            "the layout do with fewer copies for the time being: raid1:2,min=1");
  view.targets[1] = MakeDisk(2, 1, Disk::kGivenUp);
  EXPECT_EQ(refused("raid6:4+2"),
            "layout raid6:4+2 needs 3 disks at least, and 1 can be written: add 2 disks, or let the layout do with fewer "
            "copies for the time being: raid6:4+2,min=1");
  view.targets[0] = MakeDisk(1, 1, Disk::kFull);
  EXPECT_EQ(refused("linear"),
            "layout linear needs space on 1 disk at least, and 0 of the 1 that can be written have it: delete files or "
            "add disks");
}

TEST(EveryRoom, WhatMayBeSet) {
  ClusterView view;
  for (uint32_t n = 1; n <= 2; ++n) view.targets.push_back(MakeDisk(n, 1, n == 1 ? Disk::kUp : Disk::kAway));
  EXPECT_TRUE(CheckLayoutFits(view, *ParseLayout("raid1:2")).ok()) << "it is only away";
  EXPECT_EQ(CheckLayoutFits(view, *ParseLayout("raid1:3")).code(), FsError::kTooFewDomains);
  view.targets[1] = MakeDisk(2, 1, Disk::kGivenUp);
  EXPECT_EQ(CheckLayoutFits(view, *ParseLayout("raid1:2")).code(), FsError::kTooFewDomains);
  EXPECT_TRUE(CheckLayoutFits(view, *ParseLayout("raid1:2,min=1")).ok());
  EXPECT_EQ(CheckLayoutFits(view, *ParseLayout("raid1:3,min=2")).code(), FsError::kTooFewDomains);
}

// Copies of a crowded stripe are on different channels while there are any, and spread evenly over what nodes there are.
TEST(EveryRoom, CrowdedIsAsSpreadAsCanBe) {
  ClusterView view;
  for (uint32_t n = 1; n <= 2; ++n) {
    for (uint32_t d = 1; d <= 4; ++d) view.targets.push_back(MakeDisk(n, d, Disk::kUp));
  }
  std::set<TargetId> used;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const auto placed = PlaceStripe(view, *ParseLayout("rs:1+3"), {.seed = seed});
    ASSERT_TRUE(placed.ok());
    std::map<uint32_t, int> nodes;
    std::map<std::pair<uint32_t, uint32_t>, int> channels;
    for (TargetId id : placed->targets) {
      const TargetView* t = view.Find(id);
      ++nodes[t->node.v], ++channels[{t->node.v, t->channel}];
      used.insert(id);
    }
    for (const auto& [_, n] : nodes) ASSERT_EQ(n, 2);
    ASSERT_EQ(channels.size(), 4u);
  }
  EXPECT_EQ(used.size(), 8u) << "and all disks take turns";
}

}  // namespace
}  // namespace stria
