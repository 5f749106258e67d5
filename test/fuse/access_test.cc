// Who may do what, through the kernel: POSIX access control lists, umask, namespaces of extended attributes.
#include <sys/xattr.h>

#include <algorithm>
#include <cstdlib>

#include "test/fuse/two_mounts.h"

namespace stria {
namespace {

using AccessTest = TwoMounts;

constexpr char kAccess[] = "system.posix_acl_access";
constexpr char kDefault[] = "system.posix_acl_default";
constexpr uid_t kUser = 1234, kOther = 1235;

// owner rwx, `uid` with `rights`, group ---, mask rwx, others ---
std::string ListFor(uint32_t uid, uint16_t rights) {
  std::string s("\2\0\0\0", 4);
  const auto entry = [&s](uint16_t tag, uint16_t r, uint32_t id) {
    s.append(reinterpret_cast<const char*>(&tag), sizeof(tag));
    s.append(reinterpret_cast<const char*>(&r), sizeof(r));
    s.append(reinterpret_cast<const char*>(&id), sizeof(id));
  };
  entry(1, 7, UINT32_MAX);
  entry(2, rights, uid);
  entry(4, 0, UINT32_MAX);
  entry(0x10, 7, UINT32_MAX);
  entry(0x20, 0, UINT32_MAX);
  return s;
}
int Set(const std::string& path, const char* name, const std::string& value) {
  return setxattr(path.c_str(), name, value.data(), value.size(), 0) == 0 ? 0 : errno;
}
// "" and errno if there is none.
std::string Get(const std::string& path, const char* name) {
  char value[4096];
  const ssize_t n = getxattr(path.c_str(), name, value, sizeof(value));
  return n < 0 ? "" : std::string(value, static_cast<size_t>(n));
}
int OpenAs(uid_t uid, const std::string& path, int flags) {
  return As(uid, uid, {}, [&] {
    const int fd = open(path.c_str(), flags, 0600);
    return fd >= 0 ? 0 : errno;
  });
}

TEST_F(AccessTest, ListsLetNamedUsersIn) {
  WriteAll(A("f"), "x");
  ASSERT_EQ(chmod(A("f").c_str(), 0600), 0);
  EXPECT_EQ(OpenAs(kUser, B("f"), O_RDONLY), EACCES);
  ASSERT_EQ(Set(A("f"), kAccess, ListFor(kUser, 6)), 0);
  for (const std::string& f : {A("f"), B("f")}) {
    EXPECT_EQ(OpenAs(kUser, f, O_RDWR), 0) << f;
    EXPECT_EQ(OpenAs(kOther, f, O_RDONLY), EACCES) << f;
    EXPECT_EQ(Get(f, kAccess), ListFor(kUser, 6));
    EXPECT_EQ(Stat(f).st_mode & 07777, 0770u) << "the mask stands for the group";
  }
  ASSERT_EQ(chmod(B("f").c_str(), 0640), 0);
  EXPECT_EQ(OpenAs(kUser, A("f"), O_RDWR), EACCES) << "chmod on the other mount sets the mask";
  EXPECT_EQ(OpenAs(kUser, A("f"), O_RDONLY), 0);
  ASSERT_EQ(removexattr(A("f").c_str(), kAccess), 0);
  EXPECT_EQ(OpenAs(kUser, B("f"), O_RDONLY), EACCES);
  EXPECT_EQ(getxattr(B("f").c_str(), kAccess, nullptr, 0), -1);
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(As(kUser, kUser, {}, [&] { return Set(A("f"), kAccess, ListFor(kUser, 7)); }), EPERM);
  EXPECT_EQ(Set(A("f"), kAccess, "junk"), EOPNOTSUPP) << "another version";
  EXPECT_EQ(Set(A("f"), kAccess, ListFor(kUser, 9)), EINVAL);
}

TEST_F(AccessTest, DefaultsAreInheritedInsteadOfTheUmask) {
  const mode_t before = umask(027);
  WriteAll(A("plain"), "x", O_WRONLY | O_CREAT);
  EXPECT_EQ(mkdir(A("dir").c_str(), 0777), 0);
  EXPECT_EQ(mkfifo(A("fifo").c_str(), 0666), 0);
  EXPECT_EQ(Stat(B("plain")).st_mode & 07777, 0640u);
  EXPECT_EQ(Stat(B("dir")).st_mode & 07777, 0750u);
  EXPECT_EQ(Stat(B("fifo")).st_mode & 07777, 0640u);
  ASSERT_EQ(Set(A("dir"), kDefault, ListFor(kUser, 7)), 0);
  ASSERT_EQ(chmod(A("dir").c_str(), 0755), 0);
  { Fd fd(B("dir/f"), O_WRONLY | O_CREAT, 0666); }
  EXPECT_EQ(mkdir(B("dir/sub").c_str(), 0777), 0);
  umask(before);
  EXPECT_EQ(Stat(A("dir/f")).st_mode & 07777, 0660u);
  EXPECT_EQ(OpenAs(kUser, A("dir/f"), O_RDWR), 0);
  EXPECT_EQ(Get(A("dir/sub"), kDefault), ListFor(kUser, 7));
  EXPECT_EQ(OpenAs(kUser, A("dir/sub/made"), O_WRONLY | O_CREAT), 0);
  EXPECT_EQ(OpenAs(kOther, A("dir/sub/other"), O_WRONLY | O_CREAT), EACCES);
  EXPECT_EQ(Set(A("plain"), kDefault, ListFor(kUser, 7)), EACCES) << "a file";
}

TEST_F(AccessTest, ExtendedAttributesOfEachNamespace) {
  WriteAll(A("f"), "x");
  ASSERT_EQ(symlink("f", A("link").c_str()), 0);
  ASSERT_EQ(Set(A("f"), "trusted.t", "1"), 0);
  ASSERT_EQ(Set(A("f"), "security.s", "1"), 0);
  ASSERT_EQ(Set(A("f"), "user.u", "1"), 0);
  EXPECT_EQ(lsetxattr(A("link").c_str(), "user.u", "1", 1, 0), -1);
  EXPECT_EQ(errno, EPERM) << "only of files and directories";
  EXPECT_EQ(lsetxattr(A("link").c_str(), "trusted.t", "1", 1, 0), 0);
  ASSERT_EQ(chmod(A("f").c_str(), 0604), 0);
  const auto as_user = [&](const std::function<int()>& fn) { return As(kUser, kUser, {}, fn); };
  EXPECT_EQ(as_user([&] { return Get(B("f"), "user.u") == "1" ? 0 : errno; }), 0);
  EXPECT_EQ(as_user([&] { return Set(B("f"), "user.u", "2"); }), EACCES);
  EXPECT_EQ(as_user([&] { return Get(B("f"), "trusted.t").empty() ? errno : 0; }), ENODATA);
  EXPECT_EQ(as_user([&] { return Set(B("f"), "trusted.t", "2"); }), EPERM);
  EXPECT_EQ(as_user([&] { return Set(B("f"), "security.s", "2"); }), EPERM);
  EXPECT_EQ(Set(A("f"), "nothing.n", "1"), EOPNOTSUPP);
}

// The kernel asks us at once after setgroups(2), of the same thread as before.
TEST_F(AccessTest, GroupsCountAtOnce) {
  constexpr gid_t kGroup = 5678;
  WriteAll(A("f"), "x");
  ASSERT_EQ(chown(A("f").c_str(), 0, kGroup), 0);
  ASSERT_EQ(chmod(A("f").c_str(), 0640), 0);
  ASSERT_EQ(mkdir(A("d").c_str(), 0770), 0);
  ASSERT_EQ(chown(A("d").c_str(), 0, kGroup), 0);
  ASSERT_EQ(chmod(A("d").c_str(), 0770), 0);
  WriteAll(A("own"), "x");
  ASSERT_EQ(chown(A("own").c_str(), kUser, kGroup), 0);
  ASSERT_EQ(chmod(A("").c_str(), 0755), 0);
  InOtherProcess({a_, b_}, [this] {
    const auto become = [](std::vector<gid_t> groups) {
      ASSERT_EQ(seteuid(0), 0);
      ASSERT_EQ(setgroups(groups.size(), groups.data()), 0);
      ASSERT_EQ(setegid(kUser), 0);
      ASSERT_EQ(seteuid(kUser), 0);
    };
    const auto tried = [](int result) {
      const int error = result >= 0 ? 0 : errno;
      if (result > 0) close(result);
      return error;
    };
    for (int i = 0; i < 20; ++i) {
      const std::string made = A("d/") + std::to_string(i);
      become({});
      ASSERT_EQ(tried(open(A("f").c_str(), O_RDONLY)), EACCES) << i;
      ASSERT_EQ(tried(mkdir(made.c_str(), 0755)), EACCES) << i;
      ASSERT_EQ(tried(chmod(A("own").c_str(), 02755)), 0) << i;
      ASSERT_EQ(Stat(A("own")).st_mode & 07777, 0755u) << i << ": it is another group's";
      become({kGroup});
      ASSERT_EQ(tried(open(A("f").c_str(), O_RDONLY)), 0) << i;
      ASSERT_EQ(tried(mkdir(made.c_str(), 0755)), 0) << i;
      ASSERT_EQ(tried(rename(made.c_str(), (made + "a").c_str())), 0) << i;
      ASSERT_EQ(tried(chmod(A("own").c_str(), 02755)), 0) << i;
      ASSERT_EQ(Stat(A("own")).st_mode & 07777, 02755u) << i;
      become({});
      ASSERT_EQ(tried(rename((made + "a").c_str(), (made + "b").c_str())), EACCES) << i;
    }
  });
}

// The usual tools, where there are any.
TEST_F(AccessTest, GetfaclAndSetfacl) {
  if (system("command -v setfacl getfacl >/dev/null 2>&1") != 0) GTEST_SKIP() << "package acl is not there";
  ASSERT_EQ(mkdir(A("d").c_str(), 0750), 0);
  const std::string set = "setfacl -m u:1234:rwx -d -m u:1234:rw- '" + A("d") + "'";
  ASSERT_EQ(system(set.c_str()), 0);
  const std::string get = "getfacl -cn '" + B("d") + "' | grep -qx default:user:1234:rw-";
  EXPECT_EQ(system(get.c_str()), 0);
}

}  // namespace
}  // namespace stria
