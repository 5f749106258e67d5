#include "meta/files/reply_codec.h"

#include <gtest/gtest.h>

#include "common/random.h"

namespace stria {
namespace {

Attr SomeAttr(uint64_t n) {
  Attr a;
  a.ino = InodeId(n);
  a.type = FileType::kSymlink;
  a.mode = 0640;
  a.nlink = 3;
  a.size = n * 1000;
  a.mtime_ns = -5;
  a.version = 77;
  return a;
}

template <class R>
R Back(const R& r) {
  R out;
  const std::string bytes = EncodeReply(r);
  EXPECT_TRUE(DecodeReply(bytes, &out).ok());
  for (size_t n = 0; n < bytes.size(); ++n) {
    R cut;
    EXPECT_FALSE(DecodeReply(bytes.substr(0, n), &cut).ok()) << n;
  }
  Random rng(3);
  for (int i = 0; i < 500; ++i) {
    std::string noise = bytes;
    noise[rng.Below(noise.size())] = static_cast<char>(rng.Next());
    R any;
    (void)DecodeReply(noise, &any);
  }
  return out;
}

TEST(ReplyCodec, RoundTrips) {
  NodeReply node;
  node.attr = SomeAttr(5);
  node.parent = SomeAttr(6);
  node.seq = CommitSeq(9);
  const NodeReply n = Back(node);
  EXPECT_EQ(n.attr, node.attr);
  EXPECT_EQ(n.parent, node.parent);
  EXPECT_FALSE(n.parent2);
  EXPECT_EQ(n.seq, node.seq);

  OpenReply open;
  open.node = node;
  open.created = true;
  open.layout.k = 7;
  open.layout.stripe_bytes = uint64_t{7} * open.layout.unit_bytes;
  EXPECT_EQ(Back(open).layout, open.layout);
  EXPECT_TRUE(Back(open).created);

  XattrReply xattr;
  xattr.seq = CommitSeq(4);
  xattr.names = {"a", "b"};
  EXPECT_EQ(Back(xattr).names, xattr.names);

  LayoutReply layout;
  layout.layout = open.layout;
  layout.inherited = true;
  EXPECT_EQ(Back(layout).layout, open.layout);

  AllocateReply alloc;
  StripeGrant g;
  g.info.id = StripeId(8);
  g.info.shape.k = 2;
  g.info.shape.m = 1;
  g.info.shape.codec = Codec::kXor;
  for (uint64_t i = 1; i <= 3; ++i) g.info.columns.push_back({ShardId(i), TargetId(static_cast<uint32_t>(i)), 0, 0});
  alloc.stripes = {g, g};
  alloc.stripes[1].max_column_bytes = 512 * kKiB;
  EXPECT_EQ(Back(alloc).stripes[1].info, g.info);
  EXPECT_EQ(Back(alloc).stripes[0].max_column_bytes, 0u);
  EXPECT_EQ(Back(alloc).stripes[1].max_column_bytes, 512 * kKiB);

  CommitReply commit;
  commit.attr = SomeAttr(1);
  commit.append_offset = 12;
  EXPECT_EQ(Back(commit).append_offset, 12u);

  CloneReply clone;
  clone.attr = SomeAttr(2);
  clone.cloned = 13;
  clone.seq = CommitSeq(5);
  EXPECT_EQ(Back(clone).cloned, 13u);
  EXPECT_EQ(Back(clone).seq, CommitSeq(5));
}

}  // namespace
}  // namespace stria
