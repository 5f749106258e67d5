#include "client/fuse/mount_table.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr char kTable[] =
    "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
    "30 22 0:44 / /data rw,nosuid master:3 shared:4 - fuse.stria stria:h:1 rw,user_id=0\n"
    "31 30 0:51 / /data rw,nosuid - fuse.stria stria:h:2 rw,user_id=0\n"
    "32 22 0:52 / /my\\040data\\134x rw - tmpfs none rw\n"
    "broken line\n"
    "33 22 0:53 / /short rw\n";

TEST(MountTable, TheTopmostMountCounts) {
  auto m = FindMount(std::string_view(kTable), "/data");
  ASSERT_TRUE(m);
  EXPECT_EQ(m->dev_major, 0u);
  EXPECT_EQ(m->dev_minor, 51u);
  EXPECT_EQ(m->type, "fuse.stria");
  EXPECT_EQ(m->source, "stria:h:2");
}

TEST(MountTable, OptionsThatARemountChanges) {
  constexpr char kRemounted[] =
      "30 22 0:44 / /data ro,nosuid,noatime shared:4 - fuse.stria h:1 rw,sync,user_id=0\n"
      "31 30 0:44 / /bound rw,nosuid,relatime - fuse.stria h:1 rw,sync,user_id=0\n"
      "32 30 0:51 / /data rw,relatime - tmpfs none rw\n"
      "33 22 0:52 / /plain rw - fuse.stria h:2\n";
  const MountEntry covered = *FindMount(std::string_view(kTable), "/data");
  EXPECT_FALSE(FindMount(std::string_view(kRemounted), "/data")->Has("noatime")) << "another is mounted over it";
  MountEntry own = covered;
  own.dev_minor = 44;
  const std::optional<MountEntry> there = FindSameMount(std::string_view(kRemounted), own, "/data");
  ASSERT_TRUE(there && there->Has("nosuid") && there->Has("user_id=0"));
  EXPECT_EQ(MountFlags::Of(*there), (MountFlags{true, true, true}));
  EXPECT_EQ(MountFlags::Of(*there).ToString(), "sync,noatime");
  EXPECT_EQ(MountFlags::Of(*FindSameMount(std::string_view(kRemounted), own, "/bound")).ToString(), "sync");
  EXPECT_EQ(MountFlags::Of(*FindMount(std::string_view(kRemounted), "/plain")).ToString(), "");
  own.dev_minor = 45;
  EXPECT_FALSE(FindSameMount(std::string_view(kRemounted), own, "/data"));
}

TEST(MountTable, EscapesAndBrokenLines) {
  EXPECT_EQ(FindMount(std::string_view(kTable), "/my data\\x")->type, "tmpfs");
  EXPECT_FALSE(FindMount(std::string_view(kTable), "/short"));
  EXPECT_FALSE(FindMount(std::string_view(kTable), "/none"));
}

TEST(MountTable, PrepareRefusesWhatIsNoDirectory) {
  auto file = PrepareMountpoint("/proc/self/exe");
  EXPECT_EQ(file.code(), FsError::kNotDir) << file.error();
  EXPECT_EQ(PrepareMountpoint("/no/such/dir").code(), FsError::kNoEnt);
  EXPECT_EQ(PrepareMountpoint("/tmp/../tmp/").value(), "/tmp");
}

}  // namespace
}  // namespace stria
