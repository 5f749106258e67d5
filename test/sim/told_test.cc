// What a mount tells commands that have no credentials (client/vfs/file_teller.h): the same as the metadata server tells those who do,
// and to nobody more than he may read.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "locality/told.h"
#include "test/sim/small_files_testing.h"

namespace stria {
namespace {

const Caller kRoot;

class Told : public SmallFiles {
 protected:
  Result<std::string> Ask(size_t c, const Caller& who, InodeId ino, const std::string& name) { return Do(vfs(c).GetXattr(who, ino, name)); }
  Result<std::vector<WhereRow>> Rows(size_t c, const Caller& who, InodeId ino, uint64_t offset, uint64_t length) {
    std::vector<WhereRow> rows;
    for (uint64_t at = offset; at < offset + length;) {
      ASSIGN_OR_RETURN(const std::string text, Ask(c, who, ino, RowsName({at, offset, length})));
      ASSIGN_OR_RETURN(RowsPage page, ParseRows(text));
      if (page.covered_to <= at) return Error(FsError::kBusy, "nothing of " + std::to_string(at));
      rows.insert(rows.end(), page.rows.begin(), page.rows.end());
      at = page.covered_to;
    }
    return JoinRows(std::move(rows));
  }
  // As `stria where` does it with credentials.
  std::vector<WhereRow> ByServer(InodeId ino, uint64_t offset, uint64_t length) {
    MetaSession& session = cluster_.client(1).session();
    std::vector<Extent> extents;
    std::vector<StripeGrant> stripes;
    for (uint64_t at = offset; at < offset + length;) {
      GetExtentsRequest r;
      r.ino = ino;
      r.offset = at;
      r.length = offset + length - at;
      const Result<GetExtentsReply> reply = Do(session.Call(&MetaService::GetExtents, std::move(r), kRoot));
      EXPECT_TRUE(reply.ok()) << reply.error();
      if (!reply.ok() || reply->covered_to <= at) return {};
      for (const Extent& e : reply->extents) {
        if (extents.empty() || e.file_offset >= extents.back().end()) extents.push_back(e);
      }
      stripes.insert(stripes.end(), reply->stripes.begin(), reply->stripes.end());
      at = reply->covered_to;
    }
    return WhereRows(extents, stripes, *session.map(), offset, length);
  }
};

TEST_F(Told, TheSameAsTheServerTells) {
  const InodeId ino = Create(0, kRootInode, "f", "inline");
  Write(0, ino, 100'000, std::string(900'000, 'a'));
  Write(0, ino, 3'000'000, std::string(200'000, 'b'));
  Write(0, ino, 300'000, std::string(5'000, 'c'));
  constexpr uint64_t kSize = 3'200'000;
  for (const auto& [offset, length] : std::vector<std::pair<uint64_t, uint64_t>>{{0, kSize}, {150'001, 2'900'000}, {2'000'000, 10}}) {
    const std::vector<WhereRow> want = ByServer(ino, offset, length);
    ASSERT_FALSE(want.empty());
    for (const size_t c : {0, 1}) {
      const auto told = Rows(c, kRoot, ino, offset, length);
      ASSERT_TRUE(told.ok()) << told.error();
      EXPECT_EQ(*told, want) << "client " << c << ", from " << offset;
    }
  }
  EXPECT_EQ(ParseRows(Ask(1, kRoot, ino, RowsName({0, 0, 0})).value()).value().size, kSize);
  // Beyond the end there is nothing.
  const RowsPage last = ParseRows(Ask(1, kRoot, ino, RowsName({kSize - 1, 0, kSize + 500})).value()).value();
  EXPECT_EQ(last.covered_to, kSize);
}

// Bytes that are nowhere yet are committed first, also when the file is not known to the server at all.
TEST_F(Told, OfWhatIsNotCommitted) {
  const InodeId dir = MakeDir(0, "d");
  for (const char* name : {"a", "b"}) Create(0, dir, name, "x");
  VfsHandle flags;
  flags.write = true;
  const auto open = Do(vfs(0).Create(kRoot, dir, "c", 0600, true, false, flags));
  ASSERT_TRUE(open.ok());
  ASSERT_TRUE(Do(vfs(0).Write(kRoot, open->handle, 0, Buffer::FromString(std::string(300'000, 'x')))).ok());
  const auto told = Rows(0, kRoot, open->entry.attr.ino, 0, 300'000);
  ASSERT_TRUE(told.ok()) << told.error();
  EXPECT_EQ(*told, ByServer(open->entry.attr.ino, 0, 300'000));
  ASSERT_TRUE(Do(vfs(0).Release(kRoot, open->handle)).ok());
}

TEST_F(Told, NobodyMoreThanHeMayRead) {
  const InodeId ino = Create(0, kRootInode, "secret", std::string(200'000, 's'));
  SetAttrIn set;
  set.mode = 0600;
  ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, ino, set)).ok());
  Caller user;
  user.uid = user.gid = 1000;
  EXPECT_TRUE(Rows(1, kRoot, ino, 0, 200'000).ok());
  EXPECT_EQ(Rows(1, user, ino, 0, 200'000).code(), FsError::kAccess);
  set.mode = 0644;
  ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, ino, set)).ok());
  EXPECT_TRUE(Rows(1, user, ino, 0, 200'000).ok());
  // Nothing of it is a token, nor bytes of the file.
  const std::string text = Ask(1, user, ino, RowsName({0, 0, 200'000})).value();
  EXPECT_EQ(text.find("sss"), text.npos);
  EXPECT_LT(text.size(), 2'000u);
}

TEST_F(Told, LayoutsAndNodes) {
  const InodeId dir = MakeDir(0, "d");
  ToldLayout layout = ParseToldLayout(Ask(1, kRoot, dir, std::string(kToldLayout)).value()).value();
  EXPECT_TRUE(layout.inherited);
  EXPECT_EQ(layout.spec, "raid5:4+1,unit=64K,stripe=512K");
  ASSERT_TRUE(Do(vfs(0).SetXattr(kRoot, dir, "user.stria.layout", "raid1:2,place=node:n2", false, false)).ok());
  layout = ParseToldLayout(Ask(1, kRoot, dir, std::string(kToldLayout)).value()).value();
  EXPECT_FALSE(layout.inherited);
  EXPECT_NE(layout.spec.find(",place=node:"), std::string::npos) << layout.spec;
  EXPECT_EQ(layout.spec.find("n2"), std::string::npos) << layout.spec << " has the number";
  const NodesPage nodes = ParseNodes(Ask(1, kRoot, dir, NodesName(0)).value()).value();
  EXPECT_EQ(nodes.total, 6u);
  ASSERT_EQ(nodes.nodes.size(), 6u);
  for (const NodeInfo& n : nodes.nodes) {
    const NodeInfo* const want = cluster_.client(1).session().map()->FindNode(n.id);
    ASSERT_NE(want, nullptr);
    EXPECT_EQ(n.name, want->name);
    EXPECT_EQ(n.address, want->address);
    EXPECT_EQ(n.state, want->state);
  }
  EXPECT_EQ(ParseNodes(Ask(1, kRoot, dir, NodesName(4)).value()).value().nodes.size(), 2u);
  EXPECT_TRUE(ParseNodes(Ask(1, kRoot, dir, NodesName(6)).value()).value().nodes.empty());
}

// What listing directories would tell, and nothing of others: wherever it is asked.
TEST_F(Told, Paths) {
  const InodeId dir = MakeDir(0, "d"), other = MakeDir(0, "other");
  const InodeId ino = Create(0, dir, "f", "x");
  ASSERT_TRUE(Do(vfs(0).Link(kRoot, ino, other, "g")).ok());
  Caller user;
  user.uid = user.gid = 1000;
  const auto told = [&](const Caller& who) {
    const PathsPart part = ParsePathsPart(Ask(1, who, kRootInode, PathsName({ino.v, 0})).value()).value();
    EXPECT_EQ(part.bytes.size(), part.total_bytes);
    EXPECT_FALSE(part.more);
    std::vector<std::string> paths = ParsePaths(part.bytes).value();
    std::sort(paths.begin(), paths.end());
    return std::make_pair(paths, part.hidden);
  };
  using Paths = std::vector<std::string>;
  const auto mode = [&](InodeId of, uint32_t bits) {
    SetAttrIn set;
    set.mode = bits;
    ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, of, set)).ok());
  };
  mode(kRootInode, 0755);
  mode(dir, 0755);
  mode(other, 0755);
  EXPECT_EQ(told(user), std::make_pair(Paths({"/d/f", "/other/g"}), uint64_t{0}));
  mode(other, 0711);
  EXPECT_EQ(told(user), std::make_pair(Paths({"/d/f"}), uint64_t{1}));
  EXPECT_EQ(told(kRoot), std::make_pair(Paths({"/d/f", "/other/g"}), uint64_t{0}));
  EXPECT_EQ(Ask(1, user, kRootInode, PathsName({uint64_t{1} << 50, 0})).code(), FsError::kStale);
  EXPECT_EQ(Ask(1, user, kRootInode, std::string(kToldPaths) + "f,0").code(), FsError::kInval);
}

TEST_F(Told, WhatIsNoQuestion) {
  const InodeId dir = MakeDir(0, "d");
  const InodeId ino = Create(0, dir, "f", "x");
  for (const char* name : {"user.stria.told.", "user.stria.told.rows", "user.stria.told.layouts"}) {
    EXPECT_EQ(Ask(0, kRoot, ino, name).code(), FsError::kNoData) << name;
  }
  for (const char* name : {"user.stria.told.rows@", "user.stria.told.rows@5,0,1", "user.stria.told.nodes@x"}) {
    EXPECT_EQ(Ask(0, kRoot, ino, name).code(), FsError::kInval) << name;
  }
  EXPECT_EQ(Ask(0, kRoot, dir, RowsName({0, 0, 1})).code(), FsError::kNoData);
  EXPECT_TRUE(Do(vfs(0).ListXattr(kRoot, ino))->empty()) << "they are not listed";
}

}  // namespace
}  // namespace stria
