#include "meta/local_admins.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace stria {
namespace {

TEST(LocalAdminsTest, RootTheServersUserAndTheGroup) {
  LocalAdmins admins;
  admins.own_uid = 998;
  admins.group = 500;
  admins.members = {1001};
  EXPECT_TRUE(admins.PeerOf(0, 0, 1));
  EXPECT_TRUE(admins.PeerOf(998, 998, 1));
  EXPECT_TRUE(admins.PeerOf(1001, 1001, 1)) << "a member";
  EXPECT_TRUE(admins.PeerOf(1002, 500, 1)) << "its own group";
  EXPECT_FALSE(admins.PeerOf(1002, 1002, 1));
  EXPECT_FALSE(admins.PeerOf(65534, 0, 1)) << "root's group is not root";
  admins.group.reset();
  EXPECT_FALSE(admins.PeerOf(1001, 500, 1)) << "there is no such group";
  const std::optional<Peer> peer = admins.PeerOf(998, 998, 77);
  EXPECT_EQ(peer->role, Role::kAdmin);
  EXPECT_EQ(peer->name, "uid-998");
  EXPECT_TRUE(IsPeerName(peer->name));
  EXPECT_NE(peer->address.find("77"), std::string::npos);
}

TEST(LocalAdminsTest, LooksAtThisMachine) {
  const LocalAdmins admins = LocalAdmins::Look();
  EXPECT_EQ(admins.own_uid, geteuid());
  EXPECT_TRUE(admins.PeerOf(geteuid(), getegid(), getpid()));
}

}  // namespace
}  // namespace stria
