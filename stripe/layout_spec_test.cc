#include "stripe/layout_spec.h"

#include <gtest/gtest.h>

#include "common/random.h"
#include "stripe/layout.h"

namespace stria {
namespace {

struct Widths {
  int groups, k, m;
  Codec codec;
};

TEST(LayoutSpec, SpellingsGiveColumnsAndCodecs) {
  const std::pair<const char*, Widths> cases[] = {
      {"linear", {1, 1, 0, Codec::kNone}},
      {"raid0:1", {1, 1, 0, Codec::kNone}},
      {"raid0:32", {1, 32, 0, Codec::kNone}},
      {"raid1:2", {1, 1, 1, Codec::kCopy}},
      {"raid1:5", {1, 1, 4, Codec::kCopy}},
      {"raid4:4+1", {1, 4, 1, Codec::kXor}},
      {"raid5:4+1", {1, 4, 1, Codec::kXor}},
      {"raid5:1+1", {1, 1, 1, Codec::kCopy}},
      {"raid6:8+2", {1, 8, 2, Codec::kVandermonde}},
      {"rs:6+3", {1, 6, 3, Codec::kVandermonde}},
      {"rs:32+4", {1, 32, 4, Codec::kCauchy}},
      {"rs:1+2", {1, 1, 2, Codec::kCopy}},
      {"rs:4+1", {1, 4, 1, Codec::kXor}},
      {"raid10:2", {1, 1, 1, Codec::kCopy}},
      {"raid10:3", {1, 1, 1, Codec::kCopy}},
      {"raid10:7", {3, 1, 1, Codec::kCopy}},
      {"raid10:64", {32, 1, 1, Codec::kCopy}},
      {"raid50:2x4+1", {2, 4, 1, Codec::kXor}},
      {"raid50:12x4+1", {12, 4, 1, Codec::kXor}},
  };
  for (const auto& [text, want] : cases) {
    SCOPED_TRACE(text);
    const auto layout = ParseLayout(text);
    ASSERT_TRUE(layout.ok()) << layout.error();
    EXPECT_EQ(layout->groups, want.groups);
    EXPECT_EQ(layout->k, want.k);
    EXPECT_EQ(layout->m, want.m);
    EXPECT_EQ(layout->codec, want.codec);
    EXPECT_EQ(layout->rotate, std::string_view(text).substr(0, 5) != "raid4");
  }
}

TEST(LayoutSpec, DefaultsAndOptions) {
  EXPECT_EQ(*ParseLayout("raid5:4+1"), Layout());
  EXPECT_EQ(ParseLayout("raid5:3+1")->stripe_bytes, 42 * 3 * 256 * kKiB);  // <= 32M in whole rows
  EXPECT_EQ(ParseLayout("raid0:32,unit=4M")->stripe_bytes, 128 * kMiB);    // one row at least
  const auto layout = ParseLayout("rs:8+3,unit=64k,stripe=1G,arrange=gathered,domain=disk,place=node:12");
  ASSERT_TRUE(layout.ok()) << layout.error();
  EXPECT_EQ(layout->unit_bytes, 64 * kKiB);
  EXPECT_EQ(layout->stripe_bytes, kGiB);
  EXPECT_EQ(layout->arrangement, Arrangement::kGathered);
  EXPECT_EQ(layout->domain, Domain::kDisk);
  EXPECT_EQ(layout->place, Place::kNode);
  EXPECT_EQ(layout->place_node, NodeId(12));
  EXPECT_EQ(ParseLayout("linear,place=local,unit=8192,domain=channel")->unit_bytes, 8192u);
}

TEST(LayoutSpec, PrintsTheShortestSpelling) {
  const std::pair<const char*, const char*> cases[] = {
      {"raid0:1", "linear"},
      {"raid5:1+1", "raid1:2"},
      {"raid4:1+1", "raid4:1+1"},
      {"rs:4+2", "raid6:4+2"},
      {"rs:4+1", "raid5:4+1"},
      {"raid10:5", "raid10:4"},
      {"raid10:3", "raid1:2"},
      {"raid50:1x4+1", "raid5:4+1"},
      {"raid50:3x1+1", "raid10:6"},
      {"raid5:4+1,unit=256K,stripe=32M,arrange=spread,domain=node,place=spread", "raid5:4+1"},
      {"raid5:3+1,stripe=32256K", "raid5:3+1"},
      {"raid1:3,min=1", "raid1:3,min=1"},
      {"raid1:3,min=3", "raid1:3"},
      {"raid6:4+2,min=2,domain=disk", "raid6:4+2,domain=disk,min=2"},
      {"raid10:4,min=1", "raid10:4,min=1"},
      {"raid5:4+1,place=node:3,stripe=16384K,domain=disk,unit=1024K,arrange=gathered",
       "raid5:4+1,unit=1M,stripe=16M,arrange=gathered,domain=disk,place=node:3"},
  };
  for (const auto& [text, want] : cases) {
    SCOPED_TRACE(text);
    const auto layout = ParseLayout(text);
    ASSERT_TRUE(layout.ok()) << layout.error();
    EXPECT_EQ(LayoutToString(*layout), want);
  }
}

TEST(LayoutSpec, RefusalsNameTheSpellingAndWhatIsAllowed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "raid0:k"},
      {"raid7:4+1", "\"raid7\" is no layout: it is one of linear, raid0:k"},
      {"RAID5:4+1", "one of linear"},
      {"linear:2", "raid0:k"},
      {"linear:", "nothing follows the colon"},
      {"raid0", "raid0:k with k from 1 to 32"},
      {"raid0:", "raid0:k with k from 1 to 32"},
      {"raid0:0", "k from 1 to 32"},
      {"raid0:33", "k from 1 to 32"},
      {"raid0:-1", "k from 1 to 32"},
      {"raid0: 4", "k from 1 to 32"},
      {"raid0:4+1", "k from 1 to 32"},
      {"raid0:99999999999999999999", "k from 1 to 32"},
      {"raid1:1", "2 to 5 copies"},
      {"raid1:6", "2 to 5 copies"},
      {"raid4:4+2", "\"raid4:4+2\" is no layout: write raid4:k+1"},
      {"raid5:4", "raid5:k+1"},
      {"raid5:+1", "raid5:k+1"},
      {"raid5:4+1+1", "raid5:k+1"},
      {"raid6:4+1", "raid6:k+2"},
      {"rs:4+0", "m from 1 to 4"},
      {"rs:4+5", "m from 1 to 4"},
      {"raid10:1", "2 to 64 disks"},
      {"raid10:65", "2 to 64 disks"},
      {"raid50:2x4", "raid50:GxK+1"},
      {"raid50:4+1", "raid50:GxK+1"},
      {"raid50:0x4+1", "raid50:GxK+1"},
      {"raid50:13x4+1", "64 columns in all"},
      {"raid50:4294967295x4+1", "64 columns in all"},
      {"raid5:4+1,unit=5000", "multiple of 4K"},
      {"raid5:4+1,unit=0", "multiple of 4K"},
      {"raid5:4+1,unit=2G", "multiple of 4K up to 1G"},
      {"raid5:4+1,unit=64KB", "multiple of 4K"},
      {"raid5:4+1,stripe=2G", "up to 1G"},
      {"raid5:4+1,stripe=0", "up to 1G"},
      {"raid5:3+1,stripe=32M", "write stripe=32256K"},
      {"raid5:4+1,stripe=4K", "write stripe=1M"},
      {"raid0:3,stripe=1G", "write stripe=1048320K"},
      {"raid0:32,unit=64M", "choose a smaller unit"},
      {"raid5:4+1,arrange=near", "spread or gathered"},
      {"raid5:4+1,domain=rack", "node, channel or disk"},
      {"raid5:4+1,place=node", "node:N"},
      {"raid5:4+1,place=node:0", "node:N"},
      {"raid5:4+1,place=node:x", "node:N"},
      {"raid1:2,min=0", "from 1 to 2"},
      {"raid1:2,min=3", "from 1 to 2"},
      {"raid5:4+1,min=x", "copies"},
      {"raid0:4,min=2", "from 1 to 1"},
      {"raid5:4+1,color=red", "they are unit="},
      {"raid5:4+1,", "they are unit="},
      {"raid5:4+1,unit=64K,unit=64K", "repeats an option"},
  };
  for (const auto& [text, want] : cases) {
    SCOPED_TRACE(text);
    const auto layout = ParseLayout(text);
    ASSERT_FALSE(layout.ok());
    EXPECT_EQ(layout.code(), FsError::kInval);
    EXPECT_NE(layout.error().message.find(want), std::string::npos) << layout.error();
  }
}

TEST(LayoutSpec, EveryValidLayoutRoundTripsAndHasValidShapes) {
  int valid = 0;
  for (uint64_t seed = 1; seed <= 20000; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    Layout layout;
    layout.groups = static_cast<uint8_t>(rng.OneIn(2) ? 1 : rng.Below(34));
    layout.k = static_cast<uint8_t>(rng.OneIn(4) ? 1 : rng.Below(34));
    layout.m = static_cast<uint8_t>(rng.OneIn(2) ? 1 : rng.Below(6));
    layout.codec = rng.OneIn(8) ? static_cast<Codec>(rng.Below(6)) : DefaultCodec(layout.k, layout.m);
    layout.rotate = !rng.OneIn(4);
    layout.arrangement = static_cast<Arrangement>(rng.OneIn(20) ? rng.Below(4) : rng.Between(1, 2));
    layout.domain = static_cast<Domain>(rng.OneIn(20) ? rng.Below(5) : rng.Between(1, 3));
    layout.place = static_cast<Place>(rng.OneIn(20) ? rng.Below(5) : rng.Between(1, 3));
    if (layout.place == Place::kNode || rng.OneIn(20))
      layout.place_node = NodeId(static_cast<uint32_t>(rng.Next()));
    layout.unit_bytes = static_cast<uint32_t>(rng.OneIn(20) ? rng.Next() : 4096 * rng.Between(1, 200));
    const uint64_t row_bytes = std::max<uint64_t>(1, uint64_t{layout.data_columns()} * layout.unit_bytes);
    layout.stripe_bytes = rng.OneIn(8) ? rng.Below(2 * kGiB)
                          : rng.OneIn(2)
                              ? DefaultStripeBytes(std::max(1u, layout.data_columns()), layout.unit_bytes | 1)
                              : row_bytes * rng.Between(1, 5);
    const Error e = ValidateLayout(layout);
    if (!e.ok()) {
      EXPECT_EQ(e.code, FsError::kInval);
      EXPECT_FALSE(e.message.empty());
      continue;
    }
    ++valid;
    const auto parsed = ParseLayout(LayoutToString(layout));
    ASSERT_TRUE(parsed.ok()) << LayoutToString(layout) << ": " << parsed.error();
    ASSERT_EQ(*parsed, layout) << LayoutToString(layout);
    const StripeShape shape = ShapeFor(layout, rng.Between(1, layout.stripe_bytes));
    ASSERT_TRUE(ValidateShape(shape).ok()) << ValidateShape(shape);
  }
  EXPECT_GT(valid, 1000);
}

TEST(LayoutSpec, RandomTextIsNeverMoreThanRefused) {
  const std::string_view alphabet = "raid0145610linear:,=+xunitKMG0123456789";
  for (uint64_t seed = 1; seed <= 20000; ++seed) {
    Random rng(seed);
    std::string text = rng.OneIn(2) ? "raid50:2x4+1,unit=64K,stripe=2M" : "";
    for (uint64_t n = rng.Below(6); n > 0; --n) {
      text.insert(rng.Below(text.size() + 1), 1, alphabet[rng.Below(alphabet.size())]);
    }
    if (!text.empty() && rng.OneIn(2)) text.erase(rng.Below(text.size()), rng.Below(4));
    const auto layout = ParseLayout(text);
    if (layout.ok()) {
      ASSERT_EQ(*ParseLayout(LayoutToString(*layout)), *layout) << text;
    }
  }
}

}  // namespace
}  // namespace stria
