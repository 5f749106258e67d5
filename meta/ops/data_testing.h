// For tests of the operations on data: files, stripes of one column, commits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "meta/ops/test_store.h"

namespace stria {

class OpenSet final : public OpenTable {
 public:
  bool IsInUse(SessionId, InodeId ino) const override { return open.contains(ino); }
  bool HasOpen(SessionId, InodeId, bool) const override { return true; }
  std::set<InodeId> open;
};

class DataTest : public testing::TestWithParam<StoreKind> {
 protected:
  DataTest() {
    ctx_.session = SessionId(7);
    ctx_.now_ns = 5000;
    ctx_.open = &open_;
    ctx_.touched = &touched_;
  }
  void TearDown() override {
    for (const std::string& problem : store_.Fsck()) ADD_FAILURE() << problem;
  }
  // Runs an operation in a transaction of its own; commits if it succeeds.
  template <class F>
  auto Do(F fn) {
    touched_ = Touched();
    Txn txn(store_.store());
    auto result = fn(txn);
    if (result.ok()) {
      auto seq = txn.Commit();
      if (!seq.ok()) return decltype(result)(seq.error());
    }
    return result;
  }
  InodeId MakeFile(const std::string& name) {
    MakeNodeRequest r;
    r.parent = kRootInode;
    r.name = name;
    r.mode = 0644;
    return Do([&](Txn& t) { return OpMakeNode(t, ctx_, r); }).value().node.attr.ino;
  }
  NewStripe OneColumn(uint8_t copies = 1) {
    NewStripe s;
    s.shape = {.k = 1, .m = copies, .codec = copies ? Codec::kCopy : Codec::kNone, .unit_bytes = 4096};
    for (uint32_t i = 0; i < s.shape.columns(); ++i) s.targets.push_back(TargetId(i + 1));
    return s;
  }
  StripeInfo Allocate(InodeId ino, NewStripe s) {
    return Do([&](Txn& t) { return OpAllocate(t, ctx_, ino, Layout(), {s}); }).value()[0];
  }
  static StripeInfo Sealed(StripeInfo info, uint64_t bytes) {
    info.shape.payload_bytes = bytes;
    for (Column& c : info.columns) {
      c.length = bytes;
      c.digest = c.shard.v * 3;
    }
    return info;
  }
  Result<CommitReply> Commit(const CommitRequest& r) {
    return Do([&](Txn& t) { return OpCommit(t, ctx_, r); });
  }
  // Writes [offset, offset+bytes) with a stripe of its own.
  StripeInfo Write(InodeId ino, uint64_t offset, uint64_t bytes) {
    StripeInfo info = Sealed(Allocate(ino, OneColumn()), bytes);
    CommitRequest r;
    r.ino = ino;
    r.stripes = {info};
    r.extents = {{.file_offset = offset, .length = bytes, .stripe = info.id}};
    auto reply = Commit(r);
    EXPECT_TRUE(reply.ok()) << reply.error();
    return info;
  }
  // `n` extents of one byte each with holes between, all in one stripe per 1000.
  void Fragment(InodeId ino, uint64_t n) {
    for (uint64_t done = 0; done < n;) {
      const uint64_t part = std::min<uint64_t>(n - done, 500);
      StripeInfo info = Sealed(Allocate(ino, OneColumn()), 4096);
      CommitRequest r;
      r.ino = ino;
      r.stripes = {info};
      for (uint64_t i = 0; i < part; ++i) {
        r.extents.push_back(
            {.file_offset = (done + i) * 3, .length = 2, .stripe = info.id, .stripe_offset = i * 4});
      }
      auto reply = Commit(r);
      ASSERT_TRUE(reply.ok()) << reply.error();
      done += part;
    }
  }
  std::vector<Extent> Extents(InodeId ino) {
    std::vector<Extent> all;
    GetExtentsRequest r;
    r.ino = ino;
    while (r.offset < kMaxFileBytes) {
      r.length = kMaxFileBytes;
      auto reply = Do([&](Txn& t) { return OpGetExtents(t, ctx_, r); });
      EXPECT_TRUE(reply.ok()) << reply.error();
      EXPECT_GT(reply->covered_to, r.offset);
      for (const Extent& e : reply->extents) {
        if (all.empty() || e.file_offset >= all.back().end()) all.push_back(e);
      }
      r.offset = reply->covered_to;
    }
    return all;
  }
  Attr GetAttr(InodeId ino) {
    InodeRequest r;
    r.ino = ino;
    return Do([&](Txn& t) { return OpGetAttr(t, ctx_, r); }).value().attr;
  }
  Result<NodeReply> Truncate(InodeId ino, uint64_t size) {
    SetAttrRequest r;
    r.ino = ino;
    r.size = size;
    return Do([&](Txn& t) { return OpSetAttr(t, ctx_, r); });
  }
  Result<NodeReply> Unlink(const std::string& name) {
    NameRequest r;
    r.parent = kRootInode;
    r.name = name;
    return Do([&](Txn& t) { return OpUnlink(t, ctx_, r); });
  }
  int TrimAll() {
    int steps = 0;
    while (true) {
      auto work = Do([&](Txn& t) { return ListTrims(t, InodeId(), 10); }).value();
      if (work.empty()) return steps;
      for (InodeId ino : work) {
        EXPECT_TRUE(Do([&](Txn& t) { return TrimStep(t, ino, &touched_); }).ok());
        ++steps;
      }
    }
  }
  uint64_t Count(Counter c) { return store_.store().Count(c); }
  std::vector<GarbageShard> Garbage(uint32_t target, uint64_t acked) {
    return Garbage(target, {CommitSeq(acked), CommitSeq(acked)});
  }
  std::vector<GarbageShard> Garbage(uint32_t target, GarbageUpTo upto) {
    return Do([&](Txn& t) { return ListGarbage(t, TargetId(target), ShardId(), upto, 1000); }).value().shards;
  }

  TestStore store_{GetParam()};
  OpenSet open_;
  Touched touched_;
  OpCtx ctx_;
};

#define STRIA_DATA_TEST_STORES                                                                               \
  INSTANTIATE_TEST_SUITE_P(Stores, DataTest, testing::Values(StoreKind::kMemory, StoreKind::kRocks),         \
                           [](const testing::TestParamInfo<StoreKind>& info) {                               \
                             return info.param == StoreKind::kMemory ? "Memory" : "Rocks";                   \
                           })

}  // namespace stria
