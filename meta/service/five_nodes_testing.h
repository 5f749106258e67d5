// A cluster of five nodes with two disks each and a client, for tests of what the service has them do.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "meta/service/meta_testing.h"

namespace stria {

class FiveNodesTest : public testing::Test {
 protected:
  static MetaServerOptions Options() {
    MetaServerOptions o;
    o.cluster.out_ns = 60 * kSecond;
    return o;
  }
  explicit FiveNodesTest(MetaServerOptions options = Options()) : h(7, options) {
    for (uint64_t n = 1; n <= 5; ++n) {
      nodes.push_back(std::make_unique<TestNode>(&h, n, 2));
      nodes.back()->Start();
    }
    a.Open();
    h.ex.RunFor(5 * kSecond);
  }
  ~FiveNodesTest() override { nodes.clear(), a.Stop(); }

  InodeId FileOf(int stripes, const std::string& name = "f") {
    auto made = a.Make(kRootInode, name);
    EXPECT_TRUE(made.ok()) << made.error();
    for (int i = 0; i < stripes; ++i) {
      auto c = a.WriteStripe(made->node.attr.ino, static_cast<uint64_t>(i) * kMiB, kMiB);
      EXPECT_TRUE(c.ok()) << c.error();
    }
    return made->node.attr.ino;
  }
  StatusReply Status() {
    auto s = a.Run(h.server->Status(a.Ino(InodeId())));
    EXPECT_TRUE(s.ok()) << s.error();
    return *s;
  }
  Result<AdminReply> Admin(AdminVerb verb, NodeId node, TargetId target = TargetId(), bool force = false,
                           uint64_t number = 0) {
    AdminRequest r;
    r.header.cluster = h.cluster;
    r.verb = verb;
    r.node = node;
    r.target = target;
    r.force = force;
    r.number = number;
    return a.Run(h.server->Admin(r));
  }
  void RestartMeta(bool lose) {
    EXPECT_TRUE(a.Run(h.server->Sync(a.Ino(InodeId()))).ok());
    for (auto& n : nodes) n->Stop();
    a.Stop();
    h.Crash(lose);
    for (auto& n : nodes) if (!dead.count(n.get())) n->Start();
    EXPECT_TRUE(a.Reclaim());
  }
  size_t Deleted() {
    size_t n = 0;
    for (auto& node : nodes) n += node->deleted.size();
    return n;
  }

  MetaHarness h;
  TestClient a{&h, 1, "n3"};
  std::vector<std::unique_ptr<TestNode>> nodes;
  std::set<TestNode*> dead;  // RestartMeta leaves them so
};

}  // namespace stria
