#include "meta/model/records.h"

#include <gtest/gtest.h>

#include <fstream>

#include "common/random.h"

namespace stria {
namespace {

std::string Hex(const std::string& bytes) {
  std::string out;
  for (char c : bytes) {
    static constexpr char kHex[] = "0123456789abcdef";
    out += kHex[static_cast<uint8_t>(c) >> 4];
    out += kHex[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

InodeRecord SomeFile() {
  InodeRecord r;
  r.attr = {InodeId(7), FileType::kFile, 0644, 1, 10, 20, 0, 5000, 4096, 1, 2, 3, 9, 8};
  r.inline_bytes = 4;
  r.extent_count = 5;
  r.xattr_count = 1;
  r.xattr_bytes = 6;
  r.masks = {{100, 200}, {300, 400}};
  return r;
}

StripeRecord SomeStripe() {
  StripeRecord r;
  r.info.id = StripeId(9);
  r.info.shape = {.k = 1, .m = 1, .codec = Codec::kCopy, .unit_bytes = 4096, .payload_bytes = 10};
  r.info.columns = {{ShardId(1), TargetId(2), 10, 3}, {ShardId(4), TargetId(5), 10, 3}};
  r.info.narrow = true;
  r.state = StripeState::kLive;
  r.ino = InodeId(7);
  r.live_since = CommitSeq(11);
  return r;
}

std::string Golden(const std::string& name) {
  std::ifstream in("meta/model/testdata/records_v1.txt");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(name + " ", 0) == 0) return line.substr(name.size() + 1);
  }
  return "no line " + name;
}

// Encodes, compares with the golden bytes, decodes, and feeds damaged bytes to the decoder.
template <class R>
void Check(const R& record, const std::string& key, const std::string& golden) {
  SCOPED_TRACE(golden);
  const std::string bytes = record.Encode();
  EXPECT_EQ(Hex(bytes), Golden(golden));
  Result<R> back = R::Decode(key, bytes);
  ASSERT_TRUE(back.ok()) << back.error();
  EXPECT_EQ(*back, record);
  // A newer release may append fields; an unknown version is refused.
  std::string longer = bytes + "new field";
  longer[1] = static_cast<char>(longer[1] + 9);
  EXPECT_TRUE(R::Decode(key, longer).ok());
  std::string newer = bytes;
  newer[0] = 2;
  Result<R> refused = R::Decode(key, newer);
  ASSERT_EQ(refused.code(), FsError::kCorrupt);
  EXPECT_NE(refused.error().message.find(FamilyName(R::kFamily)), std::string::npos);
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(R::Decode(key, bytes.substr(0, n)).ok()) << n;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random rng(seed);
    for (int i = 0; i < 3000; ++i) {
      std::string bad = bytes;
      for (uint64_t flips = rng.Between(1, 4); flips > 0; --flips) {
        bad[rng.Below(bad.size())] = static_cast<char>(rng.Below(256));
      }
      Result<R> r = R::Decode(key, bad);
      // A decoded record is valid: it encodes to bytes that decode to the same.
      if (r.ok()) {
        Result<R> again = R::Decode(key, r->Encode());
        ASSERT_TRUE(again.ok());
        ASSERT_EQ(*again, *r);
      } else {
        ASSERT_EQ(r.code(), FsError::kCorrupt);
      }
    }
  }
}

TEST(Records, Inode) {
  Check(SomeFile(), InodeKey(InodeId(7)), "inode");
  InodeRecord dir;
  dir.attr = {InodeId(2), FileType::kDirectory, 01777, 2};
  dir.parent = kRootInode;
  dir.layout_inherited = false;
  Check(dir, InodeKey(InodeId(2)), "dir");
  InodeRecord link;
  link.attr = {InodeId(3), FileType::kSymlink, 0777, 1};
  link.symlink_target = "to";
  Check(link, InodeKey(InodeId(3)), "link");
}

TEST(Records, Names) {
  Check(DentryRecord{InodeId(7), FileType::kFifo, 2}, DentryKey(kRootInode, "x"), "dentry");
  Check(ParentRecord(), ParentKey(InodeId(7), kRootInode, "x"), "parent");
  Check(XattrRecord{"value"}, XattrKey(InodeId(7), "user.x"), "xattr");
  Check(OrphanRecord(), InodeKey(InodeId(7)), "parent");
}

TEST(Records, Extents) {
  Check(ExtentRecord{{4096, 10, StripeId(9), 20, {}}}, ExtentKey(InodeId(7), 4096), "extent");
  Check(ExtentRecord{{4096, 3, StripeId(), 0, "abc"}}, ExtentKey(InodeId(7), 4096), "inline");
  Check(RefBytesRecord{77}, StripeKey(StripeId(9)), "refbytes");
}

TEST(Records, Stripes) {
  Check(SomeStripe(), StripeKey(StripeId(9)), "stripe");
  StripeRecord filling = SomeStripe();
  filling.state = StripeState::kAllocated;
  filling.session = SessionId(3);
  filling.info.shape.payload_bytes = 0;
  for (Column& c : filling.info.columns) c.length = c.digest = 0;
  Check(filling, StripeKey(StripeId(9)), "filling");
  Check(TargetStripeRecord{StripeId(9), 1, true}, TargetShardKey(TargetId(2), ShardId(1)), "target");
  Check(GarbageRecord{StripeId(9), CommitSeq(12)}, TargetShardKey(TargetId(2), ShardId(1)), "garbage");
  const GarbageRecord never_live{StripeId(9), CommitSeq(12), CommitSeq(11)};
  EXPECT_EQ(GarbageRecord::Decode(TargetShardKey(TargetId(2), ShardId(1)), never_live.Encode()).value(), never_live);
}

TEST(Records, Store) {
  Check(ReplyRecord{3, FsError::kNoEnt, "gone", "xy", CommitSeq(5)}, ReplyKey(SessionId(1), OpSeq(2)),
        "reply");
  const ReplyRecord with_digest{3, FsError::kOk, "", "xy", CommitSeq(5), 0x1234567890abcdef};
  EXPECT_EQ(ReplyRecord::Decode(ReplyKey(SessionId(1), OpSeq(2)), with_digest.Encode()).value(), with_digest);
  SuperRecord super{Uuid{1, 2}, Uuid{3, 4}, 5, 6, 7, 8, 9};
  Check(super, SuperKey(), "super");
  StateRecord state;
  state.seq = CommitSeq(3);
  for (size_t i = 0; i < kIdKinds; ++i) state.id_limits[i] = 100 + i;
  for (size_t i = 0; i < kCounters; ++i) state.counters[i] = i;
  Check(state, StateKey(), "state");
}

// The fewest copies are kept beside m: unchanged where a layout does not say it, and refused where it cannot be.
TEST(Records, LayoutsWithFewerCopies) {
  const auto encoded = [](const Layout& l) {
    ByteWriter w;
    EncodeLayout(l, &w);
    return w.str();
  };
  Layout layout;
  layout.k = 1;
  layout.m = 2;
  layout.codec = Codec::kCopy;
  EXPECT_EQ(encoded(layout)[2], 2);
  for (const uint8_t copies : {0, 1, 2}) {
    layout.min_copies = copies;
    const std::string bytes = encoded(layout);
    EXPECT_EQ(bytes[2], 2 + 16 * copies) << "golden";
    ByteReader r(bytes);
    EXPECT_EQ(DecodeLayout(&r), layout);
    EXPECT_TRUE(r.ok());
  }
  layout.min_copies = 3;
  const std::string bad = encoded(layout);
  ByteReader r(bad);
  (void)DecodeLayout(&r);
  EXPECT_FALSE(r.ok());
}

TEST(Records, LiveStripesValidate) {
  StripeRecord bad = SomeStripe();
  bad.info.columns[1].length = 9;
  EXPECT_EQ(StripeRecord::Decode(StripeKey(StripeId(9)), bad.Encode()).code(), FsError::kCorrupt);
  EXPECT_EQ(StripeRecord::Decode(StripeKey(StripeId(8)), SomeStripe().Encode()).code(), FsError::kCorrupt);
}

TEST(Records, NodesAndTargets) {
  NodeInfo node{NodeId(1), Uuid{1, 2}, "n1", "host:1", NodeState::kDown, 5};
  ByteWriter w;
  EncodeNode(node, &w);
  TargetInfo target{TargetId(3), NodeId(1), Uuid{5, 6}, "d1", "sata", TargetState::kDraining,
                    1,           2,         3,          4,    5,      6,    "",    false};
  EncodeTarget(target, &w);
  ByteReader r(w.str());
  EXPECT_EQ(DecodeNode(&r), node);
  EXPECT_EQ(DecodeTarget(&r), target);
  TargetInfo away = target;
  away.given_up = true;
  ByteWriter more;
  EncodeTarget(away, &more);
  ByteReader more_reader(more.str());
  EXPECT_EQ(DecodeTarget(&more_reader), away);
  const std::string first_release = more.str().substr(0, more.size() - 1);
  ByteReader old_reader(first_release);
  EXPECT_EQ(DecodeTarget(&old_reader), target);
  EXPECT_TRUE(r.ok());
  EXPECT_EQ(r.left(), 0u);
}

TEST(Keys, SortAndReadBack) {
  EXPECT_LT(ExtentKey(InodeId(1), 255), ExtentKey(InodeId(1), 256));
  EXPECT_LT(ExtentKey(InodeId(1), UINT64_MAX), ExtentKey(InodeId(2), 0));
  DentryKeyParts d;
  ASSERT_TRUE(ParseDentryKey(DentryKey(InodeId(5), "name"), &d));
  EXPECT_EQ(d.parent, InodeId(5));
  EXPECT_EQ(d.hash, NameHash("name"));
  EXPECT_EQ(d.name, "name");
  StripeRefKeyParts s;
  ASSERT_TRUE(ParseStripeRefKey(StripeRefKey(StripeId(1), InodeId(2), 3), &s));
  EXPECT_EQ(s.file_offset, 3u);
  EXPECT_FALSE(ParseStripeRefKey("short", &s));
  EXPECT_FALSE(ParseDentryKey(InodeKey(InodeId(1)), &d));
  EXPECT_EQ(PrefixEnd(std::string("a\xff\xff", 3)), "b");
  EXPECT_EQ(PrefixEnd("\xff\xff"), "");
  EXPECT_EQ(KeyToString(Family::kDentries, DentryKey(InodeId(1), "x")).substr(0, 16), "0000000000000001");
  for (size_t f = 0; f < kFamilies; ++f) EXPECT_FALSE(FamilyName(static_cast<Family>(f)).empty());
}

TEST(Keys, HashesLeaveRoomForSlots) {
  for (int i = 0; i < 1000; ++i) {
    const uint64_t h = NameHash("name" + std::to_string(i));
    EXPECT_EQ(h & 0xff, 0u);
    EXPECT_GE(h | 1, kFirstCookie);
    EXPECT_LT(h | 0xff, uint64_t{1} << 63);
  }
  EXPECT_EQ(NameHash("stria"), 3844091734053903872u) << "golden: directories on disk are ordered by it";
}

}  // namespace
}  // namespace stria
