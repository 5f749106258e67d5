// Bytes on disk: golden values, and decoders that survive anything.
#include <gtest/gtest.h>

#include "common/random.h"
#include "server/segment.h"
#include "server/shard_testing.h"

namespace stria {
namespace {

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
    out += two;
  }
  return out;
}

constexpr Uuid kDisk{0x0102030405060708, 0x1112131415161718};

ShardRecord SampleRecord() {
  ShardRecord r;
  r.kind = ShardKind::kPacked;
  r.place = {3, 4096};
  r.length = 70'000;
  r.crcs = {0x11223344, 0x55667788};
  r.digest = TableDigest(r.crcs, r.length);
  return r;
}
SegmentEntry SampleEntry() {
  const ShardRecord r = SampleRecord();
  return {r.place.offset, ShardId(0xabcdef), r.kind, r.length, r.digest, r.crcs};
}

TEST(FormatsTest, Golden) {
  EXPECT_EQ(Hex(EncodeShardRecord(ShardId(0xabcdef), SampleRecord())),
            "0135000000020300000000000000001000000000000070110100000000008b9e"
            "12b6f22cdbe1020000004433221188776655e6a2b19b20e14614");
  EXPECT_EQ(Hex(EncodeUnindexedFrom({3, 4096})), "011800000003000000000000000010000000000000e585b0c54fc7b74d");
  EXPECT_EQ(DecodeUnindexedFrom(EncodeUnindexedFrom({3, 4096})), (SegmentPlace{3, 4096}));
  EXPECT_EQ(DecodeUnindexedFrom(EncodeUnindexedFrom({3, 4096}).substr(1)), SegmentPlace());
  EXPECT_EQ(Hex(EncodeSegmentHeader(kDisk, 3).substr(0, 48)),
            "5354524153454731010000000807060504030201181716151413121103000000"
            "00000000cf33001f5232634300000000");
  EXPECT_EQ(Hex(EncodeSegmentHead(kDisk, 3, SampleEntry())),
            "53454e5401020000efcdab000000000070110100000000008b9e12b6f22cdbe1"
            "020000000000000054ad40c40ee07d5d44332211887766550000000000000000");
  EXPECT_EQ(SegmentName(255), "segments/00000000000000ff.seg");
  EXPECT_EQ(RawShardName(ShardId(0x1234)), "shards/34/0000000000001234");
}

TEST(FormatsTest, Names) {
  uint64_t segment = 0;
  EXPECT_TRUE(ParseSegmentName(SegmentName(77), &segment));
  EXPECT_EQ(segment, 77u);
  ShardId shard;
  EXPECT_TRUE(ParseRawShardName(RawShardName(ShardId(UINT64_MAX)), &shard));
  EXPECT_EQ(shard.v, UINT64_MAX);
  for (const char* bad :
       {"", "shards/34/0000000000001235", "shards/34/000000000000123", "shards/34/000000000000123X",
        "shards/00/0000000000000000", "shards/34/00000000000012345"}) {
    EXPECT_FALSE(ParseRawShardName(bad, &shard)) << bad;
    EXPECT_FALSE(ParseSegmentName(bad, &segment)) << bad;
  }
}

TEST(FormatsTest, RoundTrips) {
  const ShardId id(0xabcdef);
  EXPECT_EQ(DecodeShardRecord(id, EncodeShardRecord(id, SampleRecord())).value(), SampleRecord());
  EXPECT_EQ(DecodeShardRecord(ShardId(1), EncodeShardRecord(id, SampleRecord())).code(), FsError::kCorrupt);
  const std::string head = EncodeSegmentHead(kDisk, 3, SampleEntry());
  EXPECT_EQ(DecodeSegmentHead(kDisk, 3, 4096, head).value().crcs, SampleRecord().crcs);
  EXPECT_EQ(DecodeSegmentHead(kDisk, 3, 4160, head).code(), FsError::kCorrupt);  // a copy elsewhere
  EXPECT_EQ(DecodeSegmentHead(kDisk, 4, 4096, head).code(), FsError::kCorrupt);
  EXPECT_EQ(DecodeSegmentHead(kDisk, 3, 4096, head.substr(0, 50)).code(), FsError::kNoData);
  EXPECT_TRUE(CheckSegmentHeader(kDisk, 3, EncodeSegmentHeader(kDisk, 3)).ok());
  EXPECT_FALSE(CheckSegmentHeader(kDisk, 4, EncodeSegmentHeader(kDisk, 3)).ok());
  EXPECT_FALSE(CheckSegmentHeader(kDisk, 3, "").ok());
}

TEST(FormatsTest, EveryFlippedBitIsFoundAndNothingCrashes) {
  const ShardId id(0xabcdef);
  const std::string record = EncodeShardRecord(id, SampleRecord());
  const std::string head = EncodeSegmentHead(kDisk, 3, SampleEntry());
  const size_t head_bytes = kSegmentHeadBytes + 4 * SampleEntry().crcs.size();
  for (size_t bit = 0; bit < 8 * record.size(); ++bit) {
    std::string bad = record;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeShardRecord(id, bad).ok()) << bit;
  }
  for (size_t bit = 0; bit < 8 * head_bytes; ++bit) {
    std::string bad = head;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    // Unused fields are covered by the hash as well.
    EXPECT_FALSE(DecodeSegmentHead(kDisk, 3, 4096, bad).ok()) << bit;
  }
  Random rng(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = rng.OneIn(2) ? record : head;
    bytes.resize(rng.Below(bytes.size() + 1));
    for (uint64_t n = rng.Below(8); n > 0 && !bytes.empty(); --n) {
      bytes[rng.Below(bytes.size())] = static_cast<char>(rng.Next());
    }
    if (bytes == record || bytes.starts_with(std::string_view(head).substr(0, head_bytes))) continue;
    EXPECT_FALSE(DecodeShardRecord(id, bytes).ok());
    EXPECT_FALSE(DecodeSegmentHead(kDisk, 3, 4096, bytes).ok());
    (void)CheckSegmentHeader(kDisk, 3, bytes);
  }
}

}  // namespace
}  // namespace stria
