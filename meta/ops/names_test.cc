// Truth tables of permissions and renames, directory cookies, limits. random_test.cc has the cases that depend on many things
// at once.
#include <gtest/gtest.h>

#include "common/random.h"
#include "meta/ops/nodes.h"
#include "meta/ops/test_store.h"

namespace stria {
namespace {

OpCtx As(uint32_t uid, uint32_t gid, std::vector<uint32_t> groups = {}) {
  OpCtx ctx;
  ctx.uid = uid;
  ctx.gid = gid;
  ctx.groups = std::move(groups);
  return ctx;
}

TEST(Access, OneClassDecides) {
  Attr a;
  a.uid = 10;
  a.gid = 20;
  for (uint32_t mode = 0; mode < 01000; ++mode) {
    a.mode = mode;
    for (uint32_t want = 0; want < 8; ++want) {
      EXPECT_EQ(MayAccess(As(10, 20), a, want), ((mode >> 6) & want) == want);
      EXPECT_EQ(MayAccess(As(11, 20), a, want), ((mode >> 3) & want) == want);
      EXPECT_EQ(MayAccess(As(11, 1, {5, 20}), a, want), ((mode >> 3) & want) == want);
      EXPECT_EQ(MayAccess(As(11, 1), a, want), (mode & want) == want);
      EXPECT_EQ(MayAccess(As(0, 0), a, want), !(want & kMayExec) || (mode & 0111));
    }
  }
}

TEST(Access, Removal) {
  struct Row {
    uint32_t uid, dir_mode, dir_uid, victim_uid;
    FileType type;
    bool as_dir;
    FsError expected;
  };
  constexpr auto kF = FileType::kFile;
  constexpr auto kD = FileType::kDirectory;
  const Row rows[] = {
      {10, 0777, 1, 1, kF, false, FsError::kOk},      {10, 0775, 1, 10, kF, false, FsError::kAccess},
      {10, 0776, 1, 10, kF, false, FsError::kAccess}, {10, 01777, 1, 1, kF, false, FsError::kPerm},
      {10, 01777, 1, 10, kF, false, FsError::kOk},    {10, 01777, 10, 1, kF, false, FsError::kOk},
      {0, 01000, 1, 1, kF, false, FsError::kOk},      {0, 0777, 1, 1, kD, false, FsError::kIsDir},
      {0, 0777, 1, 1, kF, true, FsError::kNotDir},    {10, 01777, 1, 1, kD, false, FsError::kPerm},
      {0, 0777, 1, 1, kD, true, FsError::kOk},
  };
  for (const Row& row : rows) {
    Attr dir;
    dir.type = FileType::kDirectory;
    dir.mode = row.dir_mode;
    dir.uid = row.dir_uid;
    Attr victim;
    victim.uid = row.victim_uid;
    victim.type = row.type;
    EXPECT_EQ(MayDelete(As(row.uid, 5), dir, victim, row.as_dir).code, row.expected) << &row - rows;
  }
}

TEST(Access, SetgidAndPrivileges) {
  Attr dir;
  dir.mode = 02775;
  dir.gid = 50;
  Creation c = NewInodeRights(As(10, 20), dir, FileType::kDirectory, 06755);
  EXPECT_EQ(c.gid, 50u);
  EXPECT_EQ(c.mode, 02755u);
  EXPECT_EQ(NewInodeRights(As(10, 20), dir, FileType::kFile, 02770).mode, 0770u);
  EXPECT_EQ(NewInodeRights(As(10, 20, {50}), dir, FileType::kFile, 02770).mode, 02770u);
  EXPECT_EQ(NewInodeRights(As(10, 20), dir, FileType::kFile, 02760).mode, 02760u) << "no group execution";
  EXPECT_EQ(NewInodeRights(As(10, 20), dir, FileType::kSymlink, 0).mode, 0777u);
  dir.mode = 0775;
  EXPECT_EQ(NewInodeRights(As(10, 20), dir, FileType::kFile, 06770).gid, 20u);
  OpCtx member, stranger;
  member.uid = stranger.uid = 1000;
  member.gid = 100;
  stranger.gid = 101;
  Attr f;
  f.gid = 100;
  f.mode = 06755;
  EXPECT_EQ(DropPrivileges(member, f), 0755u);
  f.mode = 06745;
  EXPECT_EQ(DropPrivileges(member, f), 02745u);
  EXPECT_EQ(DropPrivileges(OpCtx(), f), 02745u);
  EXPECT_EQ(DropPrivileges(stranger, f), 0745u);
}

class NamesTest : public testing::TestWithParam<StoreKind> {
 protected:
  NamesTest() { ctx_.touched = &touched_; }
  void TearDown() override {
    for (const std::string& problem : store_.Fsck()) ADD_FAILURE() << problem;
  }
  template <class F>
  auto Do(F fn) {
    touched_ = Touched();
    Txn txn(store_.store());
    auto result = fn(txn);
    if (result.ok()) EXPECT_TRUE(txn.Commit().ok());
    return result;
  }
  InodeId Make(InodeId parent, const std::string& name, FileType type = FileType::kFile) {
    MakeNodeRequest r;
    r.parent = parent;
    r.name = name;
    r.type = type;
    r.mode = 0777;
    return Do([&](Txn& t) { return OpMakeNode(t, ctx_, r); }).value().node.attr.ino;
  }
  FsError Rename(InodeId from, const std::string& a, InodeId to, const std::string& b,
                 bool exchange = false) {
    RenameRequest r{{}, from, a, to, b, false, exchange};
    return Do([&](Txn& t) { return OpRename(t, ctx_, r); }).code();
  }
  ReadDirReply ReadDir(InodeId dir, uint64_t cookie, uint32_t limit, bool attrs = false) {
    ReadDirRequest r{{}, dir, cookie, limit, attrs};
    return Do([&](Txn& t) { return OpReadDir(t, ctx_, r); }).value();
  }

  TestStore store_{GetParam()};
  Touched touched_;
  OpCtx ctx_;
};

// A caller that creates a file may find that another one was there before, and made something else.
TEST_P(NamesTest, CreationOpensFilesOnly) {
  MakeNodeRequest r;
  r.parent = kRootInode;
  r.type = FileType::kFile;
  r.mode = 0644;
  r.open = true;
  const auto create = [&](const std::string& name) {
    r.name = name;
    return Do([&](Txn& t) { return OpMakeNode(t, ctx_, r); });
  };
  int n = 0;
  for (const FileType type : {FileType::kFifo, FileType::kSocket, FileType::kCharDevice, FileType::kBlockDevice}) {
    const std::string name = "n" + std::to_string(++n);
    Make(kRootInode, name, type);
    EXPECT_EQ(create(name).code(), FsError::kLoop) << n;
  }
  Make(kRootInode, "d", FileType::kDirectory);
  EXPECT_EQ(create("d").code(), FsError::kIsDir);
  const InodeId file = Make(kRootInode, "f");
  const auto opened = create("f");
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->node.attr.ino == file && !opened->created);
}

TEST_P(NamesTest, RenameTable) {
  constexpr auto kDir = FileType::kDirectory;
  const InodeId a = Make(kRootInode, "a", kDir);
  const InodeId b = Make(a, "b", kDir);
  const InodeId c = Make(b, "c", kDir);
  const InodeId empty = Make(kRootInode, "empty", kDir);
  Make(kRootInode, "file");
  Make(c, "file");
  EXPECT_EQ(Rename(kRootInode, "a", c, "x"), FsError::kInval);
  EXPECT_EQ(Rename(kRootInode, "a", a, "x"), FsError::kInval);
  EXPECT_EQ(Rename(b, "c", kRootInode, "a"), FsError::kNotEmpty);
  EXPECT_EQ(Rename(b, "c", kRootInode, "a", true), FsError::kInval);
  EXPECT_EQ(Rename(c, "file", kRootInode, "a"), FsError::kNotEmpty);
  EXPECT_EQ(Rename(c, "file", kRootInode, "empty"), FsError::kIsDir);
  EXPECT_EQ(Rename(b, "c", kRootInode, "file"), FsError::kNotDir);
  EXPECT_EQ(Rename(kRootInode, "empty", a, "b"), FsError::kNotEmpty);
  EXPECT_EQ(Rename(kRootInode, "none", a, "b"), FsError::kNoEnt);
  EXPECT_EQ(Rename(kRootInode, ".", a, "b"), FsError::kBusy);
  EXPECT_EQ(Rename(kRootInode, "file", kRootInode, "file"), FsError::kOk);
  EXPECT_EQ(Rename(b, "c", kRootInode, "empty"), FsError::kOk);
  InodeRequest gone;
  gone.ino = empty;
  EXPECT_EQ(Do([&](Txn& t) { return OpGetAttr(t, ctx_, gone); }).code(), FsError::kStale);
  EXPECT_EQ(Rename(kRootInode, "empty", a, "b", true), FsError::kOk);
  EXPECT_EQ(Do([&](Txn& t) { return OpPaths(t, ctx_, b); })->paths[0], "/empty");
  EXPECT_EQ(Do([&](Txn& t) { return OpPaths(t, ctx_, c); })->paths[0], "/a/b");
  EXPECT_EQ(Rename(a, "b", kRootInode, "file", true), FsError::kOk);
  EXPECT_EQ(touched_.entries, (std::set<std::pair<InodeId, std::string>>{{kRootInode, "file"}, {a, "b"}}));
}

// Page by page, none is left out or comes twice.
TEST_P(NamesTest, PathsOfManyLinks) {
  const InodeId a = Make(kRootInode, "a", FileType::kDirectory), b = Make(kRootInode, "b", FileType::kDirectory);
  const InodeId ino = Make(a, "f");
  std::set<std::string> made = {"/a/f"};
  for (int i = 0; i < 1250; ++i) {
    const std::string name = "link" + std::to_string(i);
    LinkRequest r;
    r.ino = ino;
    r.new_parent = i % 2 == 0 ? a : b;
    r.new_name = name;
    ASSERT_TRUE(Do([&](Txn& t) { return OpLink(t, ctx_, r); }).ok());
    made.insert((i % 2 == 0 ? "/a/" : "/b/") + name);
  }
  for (const size_t limit : {size_t{1}, size_t{100}, kMaxPathsPerReply}) {
    std::set<std::string> found;
    std::string after;
    do {
      const PathsPage page = Do([&](Txn& t) { return OpPaths(t, ctx_, ino, after, limit); }).value();
      EXPECT_LE(page.paths.size(), limit);
      for (const std::string& path : page.paths) EXPECT_TRUE(found.insert(path).second) << path;
      after = page.next;
    } while (!after.empty());
    EXPECT_EQ(found, made);
  }
  EXPECT_EQ(Do([&](Txn& t) { return OpPaths(t, ctx_, ino, ParentKey(a, kRootInode, "x")); }).code(), FsError::kBadRequest);
}

TEST_P(NamesTest, PathsThroughDirectoriesOfOthers) {
  const InodeId home = Make(kRootInode, "home", FileType::kDirectory), below = Make(home, "below", FileType::kDirectory);
  const InodeId ino = Make(below, "secret");
  LinkRequest link;
  link.ino = ino;
  link.new_parent = kRootInode;
  link.new_name = "open";
  ASSERT_TRUE(Do([&](Txn& t) { return OpLink(t, ctx_, link); }).ok());
  OpCtx user = ctx_;
  user.uid = user.gid = 1000;
  const auto seen = [&](uint32_t mode) {
    Txn txn(store_.store());
    InodeRecord rec = GetInode(txn, home).value();
    rec.attr.mode = mode;
    rec.attr.uid = rec.attr.gid = 1;
    txn.Write(InodeKey(home), rec);
    EXPECT_TRUE(txn.Commit().ok());
    return Do([&](Txn& t) { return OpPaths(t, user, ino); }).value();
  };
  EXPECT_EQ(seen(0755).paths.size(), 2u);
  for (const uint32_t mode : {0700u, 0711u, 0744u}) {
    const PathsPage page = seen(mode);
    EXPECT_EQ(page.paths, std::vector<std::string>{"/open"}) << mode;
    EXPECT_EQ(page.hidden, 1u);
  }
  EXPECT_EQ(Do([&](Txn& t) { return OpPaths(t, ctx_, ino); })->paths.size(), 2u) << "root sees all";
  // What is above the root of his export says nothing of what he may find below it.
  user.confined_to = below;
  EXPECT_EQ(seen(0700).paths.size(), 2u);
  user.confined_to = home;
  EXPECT_EQ(seen(0700).paths, std::vector<std::string>{"/open"}) << "the root itself is his business";
  EXPECT_EQ(seen(0755).paths.size(), 2u);
  user.confined_to = Make(kRootInode, "other", FileType::kDirectory);
  EXPECT_EQ(seen(0700).paths, std::vector<std::string>{"/open"}) << "it does not lie below";
}

TEST_P(NamesTest, LinkBound) {
  const InodeId ino = Make(kRootInode, "f");
  {
    Txn txn(store_.store());
    InodeRecord rec = GetInode(txn, ino).value();
    rec.attr.nlink = kMaxLinks;
    txn.Write(InodeKey(ino), rec);
    LinkRequest r{{}, ino, kRootInode, "g"};
    EXPECT_EQ(OpLink(txn, ctx_, r).code(), FsError::kMLink);
    InodeRecord root = GetInode(txn, kRootInode).value();
    root.attr.nlink = kMaxDirLinks;
    txn.Write(InodeKey(kRootInode), root);
    MakeNodeRequest m;
    m.parent = kRootInode;
    m.name = "d";
    m.type = FileType::kDirectory;
    EXPECT_EQ(OpMakeNode(txn, ctx_, m).code(), FsError::kMLink);
    root.attr.nlink = kMaxLinks;  // it is the bound of files: ext4 and XFS take more subdirectories
    txn.Write(InodeKey(kRootInode), root);
    EXPECT_TRUE(OpMakeNode(txn, ctx_, m).ok());
    EXPECT_EQ(GetInode(txn, kRootInode)->attr.nlink, kMaxLinks + 1);
  }
}

// While entries come and go, those that stay are listed exactly once.
TEST_P(NamesTest, CookiesAreStable) {
  Random rng(5);
  const InodeId dir = Make(kRootInode, "dir", FileType::kDirectory);
  std::set<std::string> stay;
  for (int i = 0; i < 200; ++i) {
    Make(dir, "stay" + std::to_string(i));
    stay.insert("stay" + std::to_string(i));
  }
  std::vector<std::string> come;
  std::map<std::string, int> seen;
  uint64_t cookie = 0;
  for (bool end = false; !end;) {
    ReadDirReply page = ReadDir(dir, cookie, 1 + static_cast<uint32_t>(rng.Below(20)), rng.OneIn(2));
    EXPECT_EQ(page.parent, kRootInode);
    for (const DirEntry& e : page.entries) {
      EXPECT_GE(e.cookie, kFirstCookie);
      EXPECT_GT(e.cookie, cookie);
      cookie = e.cookie;
      ++seen[e.name];
    }
    end = page.end;
    if (!come.empty() && rng.OneIn(2)) {
      NameRequest r{{}, dir, come.back()};
      ASSERT_TRUE(Do([&](Txn& t) { return OpUnlink(t, ctx_, r); }).ok());
      come.pop_back();
    } else {
      come.push_back("come" + std::to_string(cookie));
      Make(dir, come.back());
    }
  }
  for (const std::string& name : stay) EXPECT_EQ(seen[name], 1) << name;
  for (const auto& [name, n] : seen) EXPECT_EQ(n, 1) << name;
}

// Names of one hash: two have never been seen, so they are put there by hand.
TEST_P(NamesTest, NamesOfOneHash) {
  const InodeId dir = Make(kRootInode, "dir", FileType::kDirectory);
  const uint64_t hash = NameHash("real");
  std::vector<std::string> names;
  Txn txn(store_.store());
  for (uint32_t slot = 1; slot <= kMaxSlots; ++slot) {
    if (slot == 77) continue;
    const std::string name = "other" + std::to_string(slot);
    // Slots fall while names rise: the order of cookies is not that of keys.
    DentryRecord rec{InodeId(1000 + slot), FileType::kFile, static_cast<uint8_t>(kMaxSlots + 1 - slot)};
    txn.Write(DentryHashKey(dir, hash) + name, rec);
    InodeRecord inode;
    inode.attr.ino = rec.ino;
    inode.attr.nlink = 1;
    txn.Write(InodeKey(rec.ino), inode);
  }
  MakeNodeRequest r;
  r.parent = dir;
  r.name = "real";
  ASSERT_TRUE(OpMakeNode(txn, ctx_, r).ok());
  EXPECT_EQ(txn.Read<DentryRecord>(DentryKey(dir, "real")).value()->slot, kMaxSlots + 1 - 77);
  for (uint32_t limit : {1u, 3u, 100u, 1000u}) {
    uint64_t cookie = 0;
    size_t n = 0;
    for (bool end = false; !end;) {
      ReadDirRequest page{{}, dir, cookie, limit, true};
      auto reply = OpReadDir(txn, ctx_, page);
      ASSERT_TRUE(reply.ok()) << reply.error();
      ASSERT_TRUE(reply->end || !reply->entries.empty());
      for (const DirEntry& e : reply->entries) {
        EXPECT_EQ(e.cookie, hash + ++n);
        cookie = e.cookie;
      }
      end = reply->end;
    }
    EXPECT_EQ(n, kMaxSlots);
  }
  NameRequest gone{{}, dir, "real"};
  ASSERT_TRUE(OpUnlink(txn, ctx_, gone).ok());
  txn.Write(DentryHashKey(dir, hash) + "one more",
            DentryRecord{InodeId(1001), FileType::kFile, static_cast<uint8_t>(kMaxSlots + 1 - 77)});
  EXPECT_EQ(OpMakeNode(txn, ctx_, r).code(), FsError::kNoSpace);
}

TEST_P(NamesTest, XattrLimits) {
  const InodeId ino = Make(kRootInode, "f");
  auto set = [&](const std::string& name, size_t bytes) {
    XattrRequest r;
    r.ino = ino;
    r.name = name;
    r.value = std::string(bytes, 'x');
    return Do([&](Txn& t) { return OpSetXattr(t, ctx_, r); }).code();
  };
  EXPECT_EQ(set("user.a", kMaxXattrValueBytes), FsError::kOk);
  EXPECT_EQ(set("user.a", kMaxXattrValueBytes), FsError::kOk) << "replaced, not added";
  EXPECT_EQ(set("user.b", kMaxXattrValueBytes + 1), FsError::kTooBig);
  EXPECT_EQ(set("user.b", kMaxXattrValueBytes), FsError::kNoSpace);
  EXPECT_EQ(set("user.b", kMaxXattrValueBytes - 20), FsError::kOk);
  EXPECT_EQ(set("user.", 1), FsError::kInval);
  EXPECT_EQ(set("user.stria.where", 1), FsError::kPerm);
  EXPECT_EQ(set("user." + std::string(251, 'n'), 1), FsError::kRange);
}

TEST_P(NamesTest, XattrsOfAFileAreBounded) {
  const InodeId ino = Make(kRootInode, "f");
  Txn txn(store_.store());
  const auto set = [&](const std::string& name) {
    XattrRequest r;
    r.ino = ino;
    r.name = name;
    r.value = "v";
    return OpSetXattr(txn, ctx_, r).code();
  };
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(set("user." + std::to_string(i)), FsError::kOk) << i;  // docs/posix.md says how many
  EXPECT_EQ(set("user.more"), FsError::kNoSpace);
  EXPECT_EQ(set("user.7"), FsError::kOk) << "replaced, not added";
}

TEST_P(NamesTest, TruncateOfWhatIsOpenNeedsNoPermission) {
  class Open final : public OpenTable {
   public:
    bool IsInUse(SessionId, InodeId) const override { return true; }
    bool HasOpen(SessionId, InodeId, bool for_write) const override { return for_write && writing; }
    bool writing = false;
  } open;
  MakeNodeRequest m;
  m.parent = kRootInode;
  m.name = "f";
  m.mode = 0400;
  SetAttrRequest r;
  r.ino = Do([&](Txn& t) { return OpMakeNode(t, ctx_, m); }).value().node.attr.ino;
  SetAttrRequest chown;
  chown.ino = r.ino;
  chown.uid = 10;
  ASSERT_TRUE(Do([&](Txn& t) { return OpSetAttr(t, ctx_, chown); }).ok());
  ctx_.uid = 10;
  ctx_.open = &open;
  r.size = 5;
  EXPECT_EQ(Do([&](Txn& t) { return OpSetAttr(t, ctx_, r); }).code(), FsError::kAccess);
  open.writing = true;
  EXPECT_EQ(Do([&](Txn& t) { return OpSetAttr(t, ctx_, r); }).code(), FsError::kOk);
  r.size = kMaxFileBytes + 1;
  EXPECT_EQ(Do([&](Txn& t) { return OpSetAttr(t, ctx_, r); }).code(), FsError::kFBig);
}

INSTANTIATE_TEST_SUITE_P(Stores, NamesTest, testing::Values(StoreKind::kMemory, StoreKind::kRocks),
                         [](const testing::TestParamInfo<StoreKind>& info) {
                           return info.param == StoreKind::kMemory ? "Memory" : "Rocks";
                         });

}  // namespace
}  // namespace stria
