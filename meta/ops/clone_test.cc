// Clones, and commits of pages that must not grow a file.
#include "meta/ops/data_testing.h"

namespace stria {
namespace {

TEST_P(DataTest, PagesOfMappingsDoNotGrowAFile) {
  const InodeId ino = MakeFile("f");
  Write(ino, 0, 100);
  StripeInfo info = Sealed(Allocate(ino, OneColumn()), 200);
  CommitRequest r;
  r.ino = ino;
  r.clip = true;
  r.stripes = {info};
  r.extents = {{.file_offset = 50, .length = 200, .stripe = info.id}};
  ASSERT_TRUE(Commit(r).ok());
  EXPECT_EQ(GetAttr(ino).size, 100u);
  // All of it beyond the end: its stripe is garbage at once.
  const uint64_t stripes = Count(Counter::kStripes);
  info = Sealed(Allocate(ino, OneColumn()), 10);
  r.stripes = {info};
  r.extents = {{.file_offset = 100, .length = 10, .stripe = info.id}};
  ASSERT_TRUE(Commit(r).ok());
  EXPECT_EQ(GetAttr(ino).size, 100u);
  EXPECT_EQ(Count(Counter::kStripes), stripes);
}

TEST_P(DataTest, ACloneSharesStripesAndOutlivesTheOriginal) {
  const InodeId a = MakeFile("a");
  const InodeId b = MakeFile("b");
  const StripeInfo s = Write(a, 0, 1000);
  Write(a, 3000, 500);
  CloneRequest r{.from = a, .from_offset = 100, .to = b, .to_offset = 7, .length = kMaxFileBytes};
  auto reply = Do([&](Txn& t) { return OpClone(t, ctx_, r); });
  ASSERT_TRUE(reply.ok()) << reply.error();
  EXPECT_EQ(reply->cloned, 3400u);
  EXPECT_EQ(reply->attr.size, 3407u);
  EXPECT_EQ(reply->attr.allocated_bytes, 1400u);
  EXPECT_EQ(Count(Counter::kStripes), 2u);
  EXPECT_EQ(Count(Counter::kLiveBytes), 1500u + 1400u);
  auto extents = Extents(b);
  ASSERT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents[0], (Extent{.file_offset = 7, .length = 900, .stripe = s.id, .stripe_offset = 100}));
  ASSERT_TRUE(Unlink("a").ok());
  TrimAll();
  EXPECT_EQ(Extents(b), extents);
  EXPECT_EQ(Count(Counter::kStripes), 2u);
  ASSERT_TRUE(Truncate(b, 0).ok());
  TrimAll();
  EXPECT_EQ(Count(Counter::kStripes), 0u);
  EXPECT_EQ(Count(Counter::kLiveBytes), 0u);
}

// Who was given half of a stripe by a clone has its number, and with that not the other half.
TEST_P(DataTest, AClonesOtherHalfStaysTheOthers) {
  const InodeId theirs = MakeFile("theirs");
  const InodeId mine = MakeFile("mine");
  const StripeInfo s = Write(theirs, 0, 1000);
  CloneRequest clone{.from = theirs, .from_offset = 0, .to = mine, .to_offset = 0, .length = 500};
  ASSERT_TRUE(Do([&](Txn& t) { return OpClone(t, ctx_, clone); }).ok());
  CommitRequest r;
  r.ino = mine;
  r.extents = {{.file_offset = 500, .length = 500, .stripe = s.id, .stripe_offset = 500}};
  EXPECT_EQ(Commit(r).code(), FsError::kBadRequest);
  r.extents = {{.file_offset = 400, .length = 200, .stripe = s.id, .stripe_offset = 400}};
  EXPECT_EQ(Commit(r).code(), FsError::kBadRequest) << "half of it is mapped";
  ASSERT_EQ(Extents(mine).size(), 1u);
  EXPECT_EQ(Extents(mine)[0].length, 500u);
  r.extents = {{.file_offset = 500, .length = 500, .stripe = s.id, .stripe_offset = 0}};
  EXPECT_TRUE(Commit(r).ok()) << "its own half, once more";
}

TEST_P(DataTest, ClonesOfManyPiecesTakeSeveralTransactions) {
  constexpr uint64_t kPieces = 3000;
  const InodeId a = MakeFile("a");
  const InodeId b = MakeFile("b");
  Fragment(a, kPieces);
  Fragment(b, kPieces);
  CloneRequest r{.from = a, .to = b, .length = kMaxFileBytes};
  int steps = 0;
  while (true) {
    auto reply = Do([&](Txn& t) { return OpClone(t, ctx_, r); });
    ASSERT_TRUE(reply.ok()) << reply.error();
    if (reply->cloned == 0) break;
    ++steps;
    r.from_offset += reply->cloned;
    r.to_offset += reply->cloned;
  }
  EXPECT_GT(steps, 2);
  EXPECT_EQ(r.from_offset, GetAttr(a).size);
  EXPECT_EQ(Extents(b), Extents(a));
}

TEST_P(DataTest, InlineBytesAreCopiedWhileTheTargetHasRoom) {
  const InodeId a = MakeFile("a");
  const InodeId b = MakeFile("b");
  for (uint64_t i = 0; i < kMaxInlinePerInode / kMaxInlineBytes; ++i) {
    CommitRequest r;
    r.ino = a;
    r.extents = {{.file_offset = i * kMaxInlineBytes,
                  .length = kMaxInlineBytes,
                  .inline_bytes = std::string(kMaxInlineBytes, static_cast<char>('a' + i % 26))}};
    ASSERT_TRUE(Commit(r).ok());
  }
  CloneRequest r{.from = a, .to = b, .length = kMaxFileBytes};
  while (r.from_offset < GetAttr(a).size) {
    auto reply = Do([&](Txn& t) { return OpClone(t, ctx_, r); });
    ASSERT_TRUE(reply.ok()) << reply.error();
    ASSERT_GT(reply->cloned, 0u);
    r.from_offset += reply->cloned;
    r.to_offset += reply->cloned;
  }
  EXPECT_EQ(Extents(b), Extents(a));
  r.from_offset = 0;
  EXPECT_EQ(Do([&](Txn& t) { return OpClone(t, ctx_, r); }).code(), FsError::kTooBig);
}

TEST_P(DataTest, WhatCannotBeCloned) {
  const InodeId a = MakeFile("a");
  const InodeId b = MakeFile("b");
  Write(a, 0, 1000);
  auto clone = [&](CloneRequest r) { return Do([&](Txn& t) { return OpClone(t, ctx_, r); }).code(); };
  EXPECT_EQ(clone({.from = a, .to = a, .to_offset = 999, .length = 1000}), FsError::kInval);
  EXPECT_EQ(clone({.from = a, .to = a, .to_offset = 1000, .length = 1000}), FsError::kOk);
  EXPECT_EQ(clone({.from = a, .to = b, .to_offset = kMaxFileBytes - 10, .length = 11}), FsError::kFBig);
  EXPECT_EQ(clone({.from = a, .to = kRootInode, .length = 1}), FsError::kIsDir);
  LayoutRequest layout;
  layout.ino = b;
  layout.layout = Layout();
  layout.layout->m = 2;
  layout.layout->codec = Codec::kVandermonde;
  ASSERT_TRUE(Do([&](Txn& t) { return OpSetLayout(t, ctx_, layout); }).ok());
  EXPECT_EQ(clone({.from = a, .to = b, .length = 1}), FsError::kNotSupported) << "raid6 promised, raid5 given";
}

STRIA_DATA_TEST_STORES;

}  // namespace
}  // namespace stria
