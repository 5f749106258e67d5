// Access control lists of inodes: kept, inherited, changed by chmod, and heeded by the operations.
#include <gtest/gtest.h>

#include "meta/ops/nodes.h"
#include "meta/ops/test_store.h"

namespace stria {
namespace {

using Tag = AclEntry::Tag;

// owner rwx, one user, group r-x, mask rwx, others ---
std::string ListFor(uint32_t uid, uint16_t rights) {
  std::string s("\2\0\0\0", 4);
  const auto entry = [&](Tag tag, uint16_t r, uint32_t id) {
    s.push_back(static_cast<char>(tag)), s.push_back(0);
    s.push_back(static_cast<char>(r)), s.push_back(0);
    for (int i = 0; i < 4; ++i) s.push_back(static_cast<char>(id >> (8 * i)));
  };
  entry(Tag::kOwner, 7, UINT32_MAX);
  entry(Tag::kUser, rights, uid);
  entry(Tag::kGroupOwner, 5, UINT32_MAX);
  entry(Tag::kMask, 7, UINT32_MAX);
  entry(Tag::kOther, 0, UINT32_MAX);
  return s;
}

class AclOpsTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& problem : store_.Fsck()) ADD_FAILURE() << problem;
  }
  template <class F>
  auto As(uint32_t uid, F fn) {
    touched_ = Touched();
    OpCtx ctx;
    ctx.uid = uid;
    ctx.gid = 100;
    ctx.touched = &touched_;
    ctx.open = &open_;
    Txn txn(store_.store());
    auto result = fn(txn, ctx);
    if (result.ok()) EXPECT_TRUE(txn.Commit().ok());
    return result;
  }
  Attr Make(uint32_t uid, InodeId parent, const std::string& name, FileType type, uint32_t mode) {
    MakeNodeRequest r;
    r.parent = parent;
    r.name = name;
    r.type = type;
    r.mode = mode;
    r.umask = 022;
    auto made = As(uid, [&](Txn& t, const OpCtx& c) { return OpMakeNode(t, c, r); });
    EXPECT_TRUE(made.ok()) << made.error();
    return made->node.attr;
  }
  FsError Set(uint32_t uid, InodeId ino, std::string_view name, std::string value) {
    XattrRequest r;
    r.ino = ino;
    r.name = name;
    r.value = std::move(value);
    return As(uid, [&](Txn& t, const OpCtx& c) { return OpSetXattr(t, c, r); }).code();
  }
  Result<XattrReply> Get(InodeId ino, std::string_view name) {
    XattrRequest r;
    r.ino = ino;
    r.name = name;
    return As(0, [&](Txn& t, const OpCtx& c) { return OpGetXattr(t, c, r); });
  }
  Attr GetAttr(InodeId ino) {
    InodeRequest r;
    r.ino = ino;
    return As(0, [&](Txn& t, const OpCtx& c) { return OpGetAttr(t, c, r); })->attr;
  }
  FsError Open(uint32_t uid, InodeId ino, bool write, bool again = false) {
    OpenRequest r;
    r.check_access = !again;
    r.ino = ino;
    r.for_write = write;
    r.for_read = !write;
    return As(uid, [&](Txn& t, const OpCtx& c) { return OpOpen(t, c, r); }).code();
  }

  struct Opens final : OpenTable {
    bool IsInUse(SessionId, InodeId) const override { return reading; }
    bool HasOpen(SessionId, InodeId, bool for_write) const override { return for_write ? writing : reading; }
    bool reading = false, writing = false;
  };
  TestStore store_;
  Touched touched_;
  Opens open_;
};

TEST_F(AclOpsTest, ANamedUserMayWhatItsEntryAndTheMaskSay) {
  const InodeId f = Make(0, kRootInode, "f", FileType::kFile, 0600).ino;
  EXPECT_EQ(Open(7, f, false), FsError::kAccess);
  ASSERT_EQ(Set(0, f, kAccessAclXattr, ListFor(7, 6)), FsError::kOk);
  EXPECT_EQ(GetAttr(f).mode, 0770u) << "the mask is the group's bits";
  EXPECT_EQ(GetAttr(f).acls, kAccessAcl);
  EXPECT_EQ(Open(7, f, true), FsError::kOk);
  EXPECT_EQ(Open(8, f, false), FsError::kOk) << "in the group 100";
  EXPECT_EQ(Open(8, f, true), FsError::kAccess);
  SetAttrRequest chmod;
  chmod.ino = f;
  chmod.mode = 0640;
  ASSERT_TRUE(As(0, [&](Txn& t, const OpCtx& c) { return OpSetAttr(t, c, chmod); }).ok());
  EXPECT_EQ(Open(7, f, true), FsError::kAccess) << "chmod g-w takes it from the mask";
  EXPECT_EQ(Open(7, f, false), FsError::kOk);
  EXPECT_EQ((*Acl::Parse(Get(f, kAccessAclXattr)->value))->Mode(), 0640u);
  // No list any more: the mode remains.
  ASSERT_EQ(Set(0, f, kAccessAclXattr, ""), FsError::kOk);
  EXPECT_EQ(Get(f, kAccessAclXattr).code(), FsError::kNoData);
  EXPECT_EQ(GetAttr(f).acls, 0);
  EXPECT_EQ(Open(7, f, false), FsError::kOk) << "as one of the group";
  ASSERT_EQ(Set(0, f, kAccessAclXattr, Acl::FromMode(0604).Encode()), FsError::kOk);
  EXPECT_EQ(GetAttr(f).mode, 0604u);
  EXPECT_EQ(GetAttr(f).acls, 0) << "says no more than the mode";
}

// As a client does after its lease has lapsed.
TEST_F(AclOpsTest, WhatIsOpenMayBeOpenedAgainWhateverItsPermissions) {
  const InodeId f = Make(0, kRootInode, "f", FileType::kFile, 0).ino;
  EXPECT_EQ(Open(7, f, false, true), FsError::kAccess) << "it is not open";
  open_.reading = true;
  EXPECT_EQ(Open(7, f, false), FsError::kAccess) << "another handle";
  EXPECT_EQ(Open(7, f, false, true), FsError::kOk);
  EXPECT_EQ(Open(7, f, true, true), FsError::kAccess) << "it is open for reading only";
  open_.writing = true;
  EXPECT_EQ(Open(7, f, true, true), FsError::kOk);
}

TEST_F(AclOpsTest, FsckComparesListsAndAttributes) {
  const InodeId d = Make(0, kRootInode, "d", FileType::kDirectory, 0755).ino;
  ASSERT_EQ(Set(0, d, kDefaultAclXattr, ListFor(7, 7)), FsError::kOk);
  const auto write_acls = [&](uint8_t acls) {
    Txn txn(store_.store());
    InodeRecord rec = GetInode(txn, d).value();
    rec.attr.acls = acls;
    txn.Write(InodeKey(d), rec);
    ASSERT_TRUE(txn.Commit().ok());
  };
  ASSERT_TRUE(store_.Fsck().empty());
  for (uint8_t wrong : {uint8_t{0}, kAccessAcl, static_cast<uint8_t>(kAccessAcl | kDefaultAcl)}) {
    write_acls(wrong);
    EXPECT_EQ(store_.Fsck().size(), 1u);
  }
  write_acls(kDefaultAcl);
}

TEST_F(AclOpsTest, DefaultsAreInherited) {
  const InodeId d = Make(0, kRootInode, "d", FileType::kDirectory, 0777).ino;
  EXPECT_EQ(GetAttr(d).mode, 0755u) << "the umask";
  ASSERT_EQ(Set(0, d, kDefaultAclXattr, ListFor(7, 7)), FsError::kOk);
  EXPECT_EQ(GetAttr(d).mode, 0755u);
  EXPECT_EQ(Open(9, d, false), FsError::kOk);
  const Attr f = Make(0, d, "f", FileType::kFile, 0666);
  EXPECT_EQ(f.mode, 0660u) << "no umask, but what was asked for and the list";
  EXPECT_EQ(f.acls, kAccessAcl);
  EXPECT_EQ(Open(7, f.ino, true), FsError::kOk);
  const Attr sub = Make(0, d, "sub", FileType::kDirectory, 0700);
  EXPECT_EQ(sub.mode, 0700u);
  EXPECT_EQ(sub.acls, kAccessAcl | kDefaultAcl);
  EXPECT_EQ(Get(sub.ino, kDefaultAclXattr)->value, ListFor(7, 7));
  EXPECT_EQ(Make(0, sub.ino, "ff", FileType::kFile, 0600).acls, kAccessAcl);
  MakeNodeRequest link;
  link.parent = d;
  link.name = "link";
  link.type = FileType::kSymlink;
  link.target = "x";
  EXPECT_EQ(As(0, [&](Txn& t, const OpCtx& c) { return OpMakeNode(t, c, link); })->node.attr.mode, 0777u);
}

TEST_F(AclOpsTest, WhoMaySetWhat) {
  const InodeId f = Make(0, kRootInode, "f", FileType::kFile, 0666).ino;
  EXPECT_EQ(Set(7, f, kAccessAclXattr, ListFor(7, 7)), FsError::kPerm);
  EXPECT_EQ(Set(0, f, kDefaultAclXattr, ListFor(7, 7)), FsError::kAccess) << "not a directory";
  EXPECT_EQ(Set(0, f, kDefaultAclXattr, ""), FsError::kOk);
  EXPECT_EQ(Set(0, f, kAccessAclXattr, "junk"), FsError::kNotSupported) << "another version";
  EXPECT_EQ(Set(0, f, kAccessAclXattr, ListFor(7, 9)), FsError::kInval);
  EXPECT_EQ(Get(f, kAccessAclXattr).code(), FsError::kNoData);
  XattrRequest list;
  list.ino = f;
  ASSERT_EQ(Set(0, f, kAccessAclXattr, ListFor(7, 7)), FsError::kOk);
  EXPECT_EQ(As(9, [&](Txn& t, const OpCtx& c) { return OpListXattr(t, c, list); })->names,
            std::vector<std::string>{std::string(kAccessAclXattr)});
}

TEST_F(AclOpsTest, DirectoriesAreSearchedAndChangedByTheirLists) {
  const InodeId d = Make(0, kRootInode, "d", FileType::kDirectory, 0700).ino;
  ASSERT_EQ(Set(0, d, kAccessAclXattr, ListFor(7, 7)), FsError::kOk);
  EXPECT_TRUE(Make(7, d, "mine", FileType::kFile, 0600).ino);
  MakeNodeRequest r;
  r.parent = d;
  r.name = "not mine";
  EXPECT_EQ(As(8, [&](Txn& t, const OpCtx& c) { return OpMakeNode(t, c, r); }).code(), FsError::kAccess);
  NameRequest name{{}, d, "mine"};
  EXPECT_EQ(As(8, [&](Txn& t, const OpCtx& c) { return OpUnlink(t, c, name); }).code(), FsError::kAccess);
  EXPECT_EQ(As(7, [&](Txn& t, const OpCtx& c) { return OpUnlink(t, c, name); }).code(), FsError::kOk);
}

}  // namespace
}  // namespace stria
