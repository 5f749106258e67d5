#include "trust/identity.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr char kUuid[] = "11112222-3333-4444-5555-666677778888";

std::string Uri(const std::string& rest) { return std::string("stria://") + kUuid + rest; }

TEST(Identity, EveryRoleGoesThereAndBack) {
  for (const Role role : kAllRoles) {
    const Identity id{{0x1111222233334444, 0x5555666677778888}, role, "wn7.example-1_a"};
    EXPECT_EQ(FormatIdentity(id), Uri("/" + std::string(RoleName(role)) + "/wn7.example-1_a"));
    EXPECT_EQ(ParseIdentity(FormatIdentity(id)).value(), id);
    EXPECT_EQ(ParseRole(RoleName(role)), role);
  }
}

TEST(Identity, ThereIsOneSpelling) {
  ASSERT_TRUE(ParseIdentity(Uri("/data/n6")).ok());
  const std::string bad[] = {
      "", "stria://", "http://x", "STRIA://" + std::string(kUuid) + "/data/n6", "stria:/" + std::string(kUuid) + "/data/n6",
      "stria://AAAA2222-3333-4444-5555-666677778888/data/n6", "stria://00000000-0000-0000-0000-000000000000/data/n6",
      "stria://11112222333344445555666677778888/data/n6", Uri(""), Uri("/"), Uri("/data"), Uri("/data/"), Uri("/Data/n6"),
      Uri("/root/n6"), Uri("//n6"), Uri("/data/n6/"), Uri("/data/n6/x"), Uri("/data/-n6"), Uri("/data/.n6"), Uri("/data/n%36"),
      Uri("/data/n6?x"), Uri("/data/n6#x"), Uri("/data/n 6"), Uri("/data/n6\n"), Uri(std::string("/data/n6\0", 9)),
      Uri(std::string("/data/n6\0.example", 17)), Uri("/data/" + std::string(kMaxPeerName + 1, 'a')), " " + Uri("/data/n6")};
  for (const std::string& uri : bad) {
    const Result<Identity> got = ParseIdentity(uri);
    EXPECT_EQ(got.code(), FsError::kBadRequest) << uri;
    EXPECT_NE(got.error().message.find("no identity of Stria"), std::string::npos) << got.error().message;
  }
  EXPECT_TRUE(ParseIdentity(Uri("/data/" + std::string(kMaxPeerName, 'a'))).ok());
}

TEST(Identity, HostileBytesAreNotPrintedAsTheyAre) {
  EXPECT_EQ(ParseIdentity("stria://\x1b[2J").error().message.find('\x1b'), std::string::npos);
}

TEST(Identity, RolesAreCompared) {
  const RoleSet set{Role::kClient, Role::kData};
  EXPECT_TRUE(set.Has(Role::kClient));
  EXPECT_FALSE(set.Has(Role::kAdmin));
  EXPECT_FALSE(RoleSet().Has(Role::kMeta));
  EXPECT_EQ(set.ToString(), "data, client");
}

TEST(Identity, HashesInText) {
  Sha256Hash h;
  for (size_t i = 0; i < h.size(); ++i) h[i] = static_cast<uint8_t>(7 * i);
  EXPECT_EQ(ParseSha256(HexOf(h)), h);
  EXPECT_FALSE(ParseSha256(HexOf(h).substr(1)).has_value());
  EXPECT_FALSE(ParseSha256("G" + HexOf(h).substr(1)).has_value());
  EXPECT_FALSE(ParseSha256("A" + HexOf(h).substr(1)).has_value());
}

TEST(Identity, APeerNamesItself) {
  Peer p;
  p.role = Role::kData;
  p.name = "n6";
  EXPECT_EQ(p.ToString(), "data n6");
  p.address = "10.0.0.6:5";
  EXPECT_EQ(p.ToString(), "data n6 at 10.0.0.6:5");
  p.key_hash[0] = 1, p.key_hash[7] = 2, p.key_hash[8] = 3;
  EXPECT_EQ(p.Holder(), 0x0200000000000001u);
}

}  // namespace
}  // namespace stria
