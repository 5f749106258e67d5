#include "common/address.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

TEST(Address, APortMayBeLeftOut) {
  EXPECT_EQ(WithPort("pc1", 5).value(), "pc1:5");
  EXPECT_EQ(WithPort("10.0.0.1", 5).value(), "10.0.0.1:5");
  EXPECT_EQ(WithPort("[fe80::1%eth0]", 5).value(), "[fe80::1%eth0]:5");
  EXPECT_EQ(WithPort("pc1.lab:7", 5).value(), "pc1.lab:7");
  EXPECT_EQ(WithPort("0.0.0.0:0", 5).value(), "0.0.0.0:0") << "any free port";
  EXPECT_EQ(WithPort("[::]:65535", 5).value(), "[::]:65535");
  EXPECT_EQ(WithPort("unix:/run/x", 5).value(), "unix:/run/x");
}

TEST(Address, MistakesAreNamed) {
  for (const char* bad : {"", ":", ":7", "pc1:", "pc1:x", "pc1:7x", "pc1:65536", "fe80::1", "fe80::1:7", "[fe80::1", "[]:7", "[::1]7", "a b",
                          "pc1:/data"}) {
    const auto r = WithPort(bad, 5);
    EXPECT_EQ(r.code(), FsError::kInval) << bad;
    EXPECT_NE(r.error().message.find("host:port"), std::string::npos);
  }
}

TEST(Address, OthersCanReachAHostAndItsPort) {
  for (const char* good : {"pc1:7", "pc1.lab:7425", "10.0.0.1:1", "[fe80::1%eth0]:65535", "a_b-c:9"}) EXPECT_TRUE(IsHostPort(good)) << good;
  for (const char* bad : {"", ":", ":7", "pc1", "pc1:", "pc1:0", "pc1:000", "pc1:x", "pc1:65536", "fe80::1", "[::1]", "unix:/run/x", "unix:7",
                          "pc1:7,pc2:7", "pc1 :7", "pc1\x1b:7", "pc1:7/x"}) {
    EXPECT_FALSE(IsHostPort(bad)) << bad;
  }
  EXPECT_TRUE(IsHostPort(std::string(253, 'a') + ":65535"));
  EXPECT_FALSE(IsHostPort(std::string(254, 'a') + ":7"));
}

TEST(Address, Several) {
  EXPECT_EQ(WithPorts({"a,b:2", "", "c"}, 5).value(), (std::vector<std::string>{"a:5", "b:2", "c:5"}));
  EXPECT_EQ(WithPorts({"a", "b:"}, 5).code(), FsError::kInval);
  EXPECT_EQ(HostOfAddress("[::1]:7"), "[::1]");
  EXPECT_EQ(PortOfAddress("[::1]:7"), "7");
}

}  // namespace
}  // namespace stria
