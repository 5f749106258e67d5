// What status says of the loss of a node, against counting it stripe by stripe.
#include <gtest/gtest.h>

#include "meta/service/meta_testing.h"
#include "stripe/layout.h"

namespace stria {
namespace {

class ExposureTest : public testing::Test {
 protected:
  explicit ExposureTest(MetaServerOptions options = {}) : h(7, std::move(options)) {
    for (uint64_t n = 1; n <= 3; ++n) {
      nodes.push_back(std::make_unique<TestNode>(&h, n, 4));
      nodes.back()->Start();
    }
    a.Open();
    h.ex.RunFor(5 * kSecond);
  }
  ~ExposureTest() override { nodes.clear(), a.Stop(); }

  std::vector<NodeExposure> Exposed() { return Status().node_loss.nodes; }
  StatusReply Status() { return a.Run(h.server->Status(a.Ino(InodeId()))).value(); }
  // A file of `stripes` stripes of 1 MiB, of this layout.
  void Write(const std::string& name, uint8_t k, uint8_t m, Domain domain, uint64_t stripes, uint8_t groups = 1) {
    LayoutRequest set;
    set.header = a.Mutation();
    set.ino = kRootInode;
    Layout& l = set.layout.emplace();
    l.groups = groups;
    l.k = k;
    l.m = m;
    l.codec = DefaultCodec(k, m);
    l.domain = domain;
    l.stripe_bytes = uint64_t{groups} * k * kMiB;
    const auto done = a.Run(h.server->SetLayout(set));
    ASSERT_TRUE(done.ok()) << done.error();
    const auto made = a.Make(kRootInode, name);
    ASSERT_TRUE(made.ok()) << made.error();
    files[name] = made->node.attr.ino;
    for (uint64_t i = 0; i < stripes; ++i) {
      const auto wrote = a.WriteStripe(made->node.attr.ino, i * kMiB, kMiB);
      ASSERT_TRUE(wrote.ok()) << wrote.error();
    }
  }
  void Remove(const std::string& name) {
    a.Release(files[name]);
    ASSERT_TRUE(a.Unlink(name).ok());
    files.erase(name);
    h.ex.RunFor(5 * kSecond);
  }
  // What cannot be decoded without a node, in stripes, by node.
  std::map<NodeId, uint64_t> Oracle() {
    const ClusterMap map = Status().map;
    std::map<NodeId, uint64_t> out;
    for (const auto& [name, ino] : files) {
      GetExtentsRequest r;
      r.header = a.Header();
      r.ino = ino;
      r.length = kGiB;
      const GetExtentsReply reply = a.Run(h.server->GetExtents(r)).value();
      for (const StripeGrant& g : reply.stripes) {
        for (const NodeInfo& n : map.nodes) {
          bool lost = false;
          for (uint32_t group = 0; group < g.info.shape.groups; ++group) {
            uint32_t gone = 0;
            for (uint16_t c = 0; c < g.info.columns.size(); ++c) {
              const Column& column = g.info.columns[c];
              if (!column.shard || GroupOf(g.info.shape, ColumnIndex(c)) != group) continue;
              if (map.FindTarget(column.target)->node == n.id) ++gone;
            }
            lost = lost || gone > g.info.shape.m;
          }
          if (lost) ++out[n.id];
        }
      }
    }
    return out;
  }
  std::map<NodeId, uint64_t> Said() {
    const NodeLoss loss = Status().node_loss;
    EXPECT_TRUE(loss.counted);
    EXPECT_EQ(loss.age_ns, 0);
    std::map<NodeId, uint64_t> out;
    for (const NodeExposure& e : loss.nodes) {
      out[e.node] = e.stripes;
      EXPECT_EQ(e.bytes, e.stripes * kMiB);
    }
    return out;
  }
  uint64_t SaidInAll() {
    uint64_t n = 0;
    for (const auto& [node, stripes] : Said()) n += stripes;
    return n;
  }

  MetaHarness h;
  TestClient a{&h, 1, "n3"};
  std::vector<std::unique_ptr<TestNode>> nodes;
  std::map<std::string, InodeId> files;
};

TEST_F(ExposureTest, WithDomainDiskItIsCounted) {
  EXPECT_EQ(SaidInAll(), 0u);
  Write("node", 2, 1, Domain::kNode, 12);
  EXPECT_EQ(SaidInAll(), 0u) << "each node has one column";
  Write("raid6", 4, 2, Domain::kDisk, 12);
  EXPECT_EQ(Said(), Oracle());
  Write("raid5", 4, 1, Domain::kDisk, 40);
  EXPECT_EQ(Said(), Oracle());
  EXPECT_GE(SaidInAll(), 40u) << "five columns on three nodes";
  Write("groups", 2, 1, Domain::kDisk, 20, 3);
  EXPECT_EQ(Said(), Oracle());
  for (const NodeExposure& e : Exposed()) EXPECT_EQ(e.unprotected, 0u);
  Remove("raid5");
  EXPECT_EQ(Said(), Oracle());
  Remove("groups");
  Remove("raid6");
  EXPECT_EQ(SaidInAll(), 0u);
}

TEST_F(ExposureTest, WhatHasNoRedundancyIsToldApart) {
  Write("raid0", 3, 0, Domain::kNode, 10);
  EXPECT_EQ(Said(), Oracle());
  EXPECT_EQ(SaidInAll(), 30u);
  for (const NodeExposure& e : Exposed()) EXPECT_EQ(e.unprotected, e.stripes);
}

TEST_F(ExposureTest, ADiskThatIsCarriedToAnotherNodeCounts) {
  Write("f", 2, 1, Domain::kNode, 12);
  EXPECT_EQ(SaidInAll(), 0u);
  for (auto& n : nodes) n->slots = 0;
  nodes[0]->Stop();
  h.ex.RunFor(11 * kSecond);  // while it is heard, it has them
  for (const DiskHello& d : nodes[0]->disks()) {
    nodes[1]->disks().push_back(d);
    nodes[1]->disks().back().label = "from-n1-" + d.label;
  }
  nodes[1]->Start();
  h.ex.RunFor(5 * kSecond);
  EXPECT_EQ(Said(), Oracle());
  EXPECT_EQ(Said(), (std::map<NodeId, uint64_t>{{nodes[1]->id, 12}}));
}

class ManyStripesTest : public ExposureTest {
 protected:
  static MetaServerOptions Options() {
    MetaServerOptions o;
    o.count_at_once = 0;
    return o;
  }
  ManyStripesTest() : ExposureTest(Options()) {}
  // Until the count is of now.
  bool Settles() {
    for (int i = 0; i < 60; ++i) {
      h.ex.RunFor(kSecond);
      const NodeLoss loss = Status().node_loss;
      if (loss.counted && loss.age_ns == 0) return true;
    }
    return false;
  }
};

TEST_F(ManyStripesTest, AreCountedBeforehand) {
  Write("f", 4, 1, Domain::kDisk, 600);
  EXPECT_FALSE(Status().node_loss.counted) << "status does not walk";
  ASSERT_TRUE(Settles());
  EXPECT_EQ(Said(), Oracle());
  EXPECT_GE(SaidInAll(), 600u);
  Write("g", 4, 1, Domain::kDisk, 8);
  EXPECT_GT(Status().node_loss.age_ns, 0);
  ASSERT_TRUE(Settles());
  EXPECT_EQ(Said(), Oracle());
  a.Release(files["f"]);
  ASSERT_TRUE(a.Unlink("f").ok());
  files.erase("f");
  ASSERT_TRUE(Settles());
  EXPECT_EQ(Said(), Oracle());
}

}  // namespace
}  // namespace stria
