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
