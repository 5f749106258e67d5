#include "client/fuse/find_node.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

ClusterMap Map() {
  ClusterMap map;
  for (const char* n : {"n1", "n2", "n3"}) {
    NodeInfo info;
    info.name = n;
    info.address = std::string(n) + ":7402";
    map.nodes.push_back(info);
  }
  return map;
}

TEST(FindOwnNode, IsTheOneThatIsHere) {
  const NodeFound one = FindOwnNode(Map(), [](const std::string& a) { return a == "n2:7402"; });
  EXPECT_EQ(one.name, "n2");
  EXPECT_NE(one.said.find("this machine is node n2"), std::string::npos);
  const NodeFound none = FindOwnNode(Map(), [](const std::string&) { return false; });
  EXPECT_EQ(none.name, "");
  EXPECT_NE(none.said.find("is no node"), std::string::npos);
  const NodeFound all = FindOwnNode(Map(), [](const std::string&) { return true; });
  EXPECT_EQ(all.name, "") << "which one it is nobody can tell";
  EXPECT_NE(all.said.find("n1, n2, n3"), std::string::npos) << all.said;
}

TEST(FindOwnNode, KnowsItsAddresses) {
  EXPECT_TRUE(IsOwnAddress("127.0.0.1:7402"));
  EXPECT_TRUE(IsOwnAddress("localhost:7402"));
  EXPECT_FALSE(IsOwnAddress("192.0.2.1:7402")) << "an address that nobody has";
}

}  // namespace
}  // namespace stria
