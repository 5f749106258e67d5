#include "common/superblock.h"

#include <gtest/gtest.h>

#include "common/random.h"

namespace stria {
namespace {

Superblock Example() {
  Superblock sb;
  sb.kind = StoreKind::kDataDisk;
  sb.cluster = {0x1122334455667788, 0x99aabbccddeeff00};
  sb.own = {1, 2};
  sb.incarnation = 3;
  sb.compat = 4;
  sb.ro_compat = 5;
  sb.created_s = 1'700'000'000;
  sb.label = "rack 1, bay 2";
  return sb;
}

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    out += "0123456789abcdef"[c & 15];
  }
  return out;
}

TEST(Superblock, RoundTrip) {
  Random rng(1);
  for (int i = 0; i < 100; ++i) {
    Superblock sb;
    sb.kind = rng.OneIn(2) ? StoreKind::kDataDisk : StoreKind::kMetadata;
    sb.cluster = {rng.Next(), rng.Next()};
    sb.own = {rng.Next(), rng.Next()};
    sb.incarnation = rng.Next();
    sb.compat = rng.Next();
    sb.ro_compat = rng.OneIn(2) ? rng.Next() : 0;
    sb.created_s = static_cast<int64_t>(rng.Next());
    sb.label = std::string(rng.Below(kMaxSuperblockLabelBytes + 1), 'l');
    const std::string block = EncodeSuperblock(sb);
    ASSERT_EQ(block.size(), kSuperblockBytes);
    const auto back = DecodeSuperblock(block, "disk");
    ASSERT_TRUE(back.ok()) << back.error();
    EXPECT_EQ(*back, sb);
    EXPECT_EQ(back->must_be_read_only(), sb.ro_compat != 0);
  }
}

// Written by release 0.1. May never change.
TEST(Superblock, GoldenBytes) {
  EXPECT_EQ(Hex(EncodeSuperblock(Example()).substr(0, 128)),
            "535452494153420a010000005a00000001887766554433221100ffeeddccbbaa9901000000000000"
            "00020000000000000003000000000000000400000000000000050000000000000000000000000000"
            "0000f15365000000000d0000007261636b20312c2062617920329123a4bd3ac2abdf000000000000"
            "0000000000000000");
}

TEST(Superblock, ErrorsSaySo) {
  const std::string good = EncodeSuperblock(Example());
  EXPECT_EQ(DecodeSuperblock("", "disk /d").error().message, "disk /d has no Stria superblock");
  EXPECT_EQ(DecodeSuperblock(std::string(kSuperblockBytes, '\0'), "disk /d").code(), FsError::kCorrupt);
  EXPECT_EQ(DecodeSuperblock(good.substr(0, 4095), "disk /d").code(), FsError::kCorrupt);
  std::string bad = good;
  bad[20] ^= 1;
  EXPECT_EQ(DecodeSuperblock(bad, "disk /d").error().message,
            "the superblock of disk /d is damaged: its checksum is wrong");
  Superblock future = Example();
  future.incompat = 0x10;
  const auto refused = DecodeSuperblock(EncodeSuperblock(future), "disk /d");
  EXPECT_EQ(refused.code(), FsError::kVersion);
  EXPECT_NE(refused.error().message.find("0x10"), std::string::npos);
  const Superblock sb = Example();
  EXPECT_TRUE(CheckSuperblock(sb, StoreKind::kDataDisk, sb.cluster, "disk /d").ok());
  EXPECT_EQ(CheckSuperblock(sb, StoreKind::kDataDisk, Uuid{7, 7}, "disk /d").code(), FsError::kWrongCluster);
  EXPECT_EQ(CheckSuperblock(sb, StoreKind::kMetadata, sb.cluster, "disk /d").error().message,
            "disk /d is a data disk, not a metadata store");
}

TEST(Superblock, EveryDamageIsFound) {
  const std::string good = EncodeSuperblock(Example());
  const size_t used = good.find_last_not_of('\0') + 1;
  for (size_t bit = 0; bit < used * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_FALSE(DecodeSuperblock(bad, "x").ok()) << bit;
  }
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random rng(seed);
    std::string bad = good;
    for (uint64_t n = rng.Between(1, 20); n > 0; --n)
      bad[rng.Below(used)] = static_cast<char>(rng.Below(256));
    const auto r = DecodeSuperblock(bad, "x");
    EXPECT_TRUE(!r.ok() || bad == good);
  }
}

}  // namespace
}  // namespace stria
