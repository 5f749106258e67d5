#include "meta/ops/acl.h"

#include <gtest/gtest.h>

#include "common/random.h"

namespace stria {
namespace {

using Tag = AclEntry::Tag;

std::string Entry(Tag tag, uint16_t rights, uint32_t id = UINT32_MAX) {
  std::string s;
  for (uint32_t v : {static_cast<uint32_t>(tag), uint32_t{rights}}) {
    s.push_back(static_cast<char>(v));
    s.push_back(static_cast<char>(v >> 8));
  }
  for (int i = 0; i < 4; ++i) s.push_back(static_cast<char>(id >> (8 * i)));
  return s;
}
const std::string kHead("\2\0\0\0", 4);

// owner rwx, user 7 rw-, group r-x, group 30 rwx, mask r-x, others ---
std::string Example() {
  return kHead + Entry(Tag::kOwner, 7) + Entry(Tag::kUser, 6, 7) + Entry(Tag::kGroupOwner, 5) +
         Entry(Tag::kGroup, 7, 30) + Entry(Tag::kMask, 5) + Entry(Tag::kOther, 0);
}

TEST(Acl, ParsesWhatTheKernelWrites) {
  const auto a = Acl::Parse(Example());
  ASSERT_TRUE(a.ok() && *a);
  EXPECT_EQ((*a)->Encode(), Example());
  EXPECT_EQ((*a)->Mode(), 0750u);
  EXPECT_FALSE((*a)->IsMinimal());
  EXPECT_EQ(*Acl::Parse(""), std::nullopt);
  EXPECT_EQ(*Acl::Parse(kHead), std::nullopt);
  EXPECT_EQ(**Acl::Parse(Acl::FromMode(0640).Encode()), Acl::FromMode(0640));
}

TEST(Acl, RefusesWhatIsNone) {
  const auto code = [](std::string s) { return Acl::Parse(s).code(); };
  const std::string owner = Entry(Tag::kOwner, 7), group = Entry(Tag::kGroupOwner, 7), other = Entry(Tag::kOther, 7),
                    mask = Entry(Tag::kMask, 7);
  EXPECT_EQ(code(kHead + owner + group + other), FsError::kOk);
  EXPECT_EQ(code(std::string("\3\0\0\0", 4)), FsError::kNotSupported);
  EXPECT_EQ(code(kHead + owner + group), FsError::kInval);
  EXPECT_EQ(code(kHead + owner + group + other + "x"), FsError::kInval);
  EXPECT_EQ(code(kHead + group + owner + other), FsError::kInval) << "order";
  EXPECT_EQ(code(kHead + owner + owner + group + other), FsError::kInval);
  EXPECT_EQ(code(kHead + owner + Entry(Tag::kUser, 7, 5) + group + other), FsError::kInval) << "no mask";
  EXPECT_EQ(code(kHead + owner + Entry(Tag::kUser, 7, 5) + Entry(Tag::kUser, 6, 5) + group + mask + other),
            FsError::kInval);
  EXPECT_EQ(code(kHead + Entry(Tag::kOwner, 8) + group + other), FsError::kInval);
  EXPECT_EQ(code(kHead + owner + group + other + Entry(static_cast<Tag>(0x40), 7)), FsError::kInval);
}

TEST(Acl, ChmodChangesTheMask) {
  Acl a = **Acl::Parse(Example());
  a.SetMode(0621);
  EXPECT_EQ(a.Mode(), 0621u);
  EXPECT_EQ(a.entries()[2].rights, 5) << "the group's own entry stays";
  EXPECT_EQ(a.entries()[4].rights, 2);
  Acl minimal = Acl::FromMode(0777);
  minimal.SetMode(0640);
  EXPECT_EQ(minimal, Acl::FromMode(0640));
}

TEST(Acl, ANewInodeGetsNoMoreThanItsCreatorAskedFor) {
  Acl a = **Acl::Parse(Example());
  EXPECT_EQ(a.Restrict(02666), 02640u);
  EXPECT_EQ(a.Mode(), 0640u);
  EXPECT_EQ(a.entries()[1].rights, 6) << "entries of named users are kept under the mask";
}

TEST(Acl, Allows) {
  const Acl a = **Acl::Parse(Example());
  Attr attr;
  attr.uid = 1, attr.gid = 10;
  const auto allows = [&](uint32_t uid, std::vector<uint32_t> groups, uint32_t want) {
    OpCtx ctx;
    ctx.uid = uid, ctx.gid = groups.at(0), ctx.groups = groups;
    return a.Allows(ctx, attr, want);
  };
  EXPECT_TRUE(allows(1, {99}, kMayWrite));
  EXPECT_TRUE(allows(7, {99}, kMayRead));
  EXPECT_FALSE(allows(7, {99}, kMayWrite)) << "the mask";
  EXPECT_FALSE(allows(7, {30}, kMayExec)) << "a named user's groups do not count";
  EXPECT_TRUE(allows(8, {10}, kMayExec | kMayRead));
  EXPECT_FALSE(allows(8, {10}, kMayWrite));
  EXPECT_TRUE(allows(8, {99, 30}, kMayExec));
  EXPECT_FALSE(allows(8, {99}, kMayRead));
}

TEST(Acl, OfAModeAllowsWhatTheModeAllows) {
  Random rng(5);
  for (int i = 0; i < 2000; ++i) {
    Attr attr;
    attr.mode = static_cast<uint32_t>(rng.Below(01000));
    attr.uid = static_cast<uint32_t>(rng.Below(3));
    attr.gid = static_cast<uint32_t>(rng.Below(3));
    OpCtx ctx;
    ctx.uid = static_cast<uint32_t>(rng.Between(1, 3));
    ctx.gid = static_cast<uint32_t>(rng.Below(3));
    ctx.groups = {static_cast<uint32_t>(rng.Below(3))};
    const auto want = static_cast<uint32_t>(rng.Below(8));
    ASSERT_EQ(Acl::FromMode(attr.mode).Allows(ctx, attr, want), MayAccess(ctx, attr, want)) << i;
  }
}

}  // namespace
}  // namespace stria
