#include "meta/trust_start.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/temp_dir.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

TEST(TrustStart, TheServersOwnAndTheFirstAdmins) {
  const TempDir dir;
  const TestCluster cluster;
  const auto own = cluster.Give(Role::kMeta, "m1");
  EXPECT_EQ(OwnCertificates(*own, dir.path()), std::vector<Certificate>{own->certificate});
  std::filesystem::create_directory(dir.path() + "/admin");
  const auto admin = cluster.Give(Role::kAdmin, "pc1");
  ASSERT_TRUE(CredentialFiles::SaveNode(dir.path() + "/admin", admin->key, admin->certificate).ok());
  EXPECT_EQ(OwnCertificates(*own, dir.path()), (std::vector<Certificate>{own->certificate, admin->certificate}));
  const Peer self = PeerOfOwn(*own);
  EXPECT_EQ(self.role, Role::kMeta);
  EXPECT_EQ(self.name, "m1");
  EXPECT_EQ(self.serial, own->certificate.serial());
  EXPECT_EQ(self.key_hash, own->certificate.key_hash());
}

TEST(TrustStart, AnAddressThatOthersReach) {
  EXPECT_EQ(AddressForOthers("0.0.0.0:7424", "pc1"), "pc1:7424");
  EXPECT_EQ(AddressForOthers("[::]:7424", "pc1"), "pc1:7424");
  EXPECT_EQ(AddressForOthers("10.0.0.7:7000", "pc1"), "10.0.0.7:7000");
}

}  // namespace
}  // namespace stria
