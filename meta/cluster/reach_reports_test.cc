#include "meta/cluster/reach_reports.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

ReachReports::Who Mount(uint64_t session, const std::string& owner, const std::string& text = "m") { return {SessionId(session), owner, text}; }

TEST(ReachReports, WhatIsToldIsKeptOnceAndForgotten) {
  ReachReports r;
  r.Report(Mount(1, "client pc1"), std::vector<NodeId>(65'536, NodeId(7)), 0);
  EXPECT_EQ(r.nodes(), 1u);
  r.Report(Mount(2, "client pc2"), {NodeId(9), NodeId(7), NodeId(9)}, 0);
  EXPECT_EQ(r.nodes(), 3u);
  EXPECT_EQ(r.WhoCannotReach(NodeId(7), 0).size(), 2u);
  EXPECT_EQ(r.WhoCannotReach(NodeId(9), 0).size(), 1u);
  EXPECT_TRUE(r.WhoCannotReach(NodeId(7), kReportHoldsNs + 1).empty());
  r.Report(Mount(3, "client pc3"), {NodeId(1)}, kReportHoldsNs + 1);
  EXPECT_EQ(r.size(), 1u) << "what is over goes whenever something is told";
  r.Report(Mount(3, "client pc3"), {}, kReportHoldsNs + 2);
  EXPECT_EQ(r.size(), 0u);
}

TEST(ReachReports, ANameDoesNotMakeAReporter) {
  ReachReports r;
  for (int i = 0; i < 1000; ++i) r.Report(Mount(1, "client pc1", std::string(4096, 'x') + std::to_string(i)), {NodeId(7)}, 0);
  EXPECT_EQ(r.size(), 1u);
  r.Report(Mount(2, "client pc1", "another mount of it"), {NodeId(7)}, 0);
  ASSERT_EQ(r.WhoCannotReach(NodeId(7), 0).size(), 1u) << "one owner counts once";
  EXPECT_EQ(r.WhoCannotReach(NodeId(7), 0)[0].size(), kMaxReporterTextBytes);
  r.Report(Mount(2, "client pc1"), {}, 0);
  EXPECT_EQ(r.WhoCannotReach(NodeId(7), 0).size(), 1u) << "its other mount still says so";
  r.Report(Mount(3, ""), {NodeId(7)}, 0);
  r.Report(Mount(4, ""), {NodeId(7)}, 0);
  r.Report({SessionId(), "node n1", "node n1"}, {NodeId(7)}, 0);
  r.Report({SessionId(), "node n2", "node n2"}, {NodeId(7)}, 0);
  EXPECT_EQ(r.WhoCannotReach(NodeId(7), 0).size(), 5u);
  for (uint64_t s = 1; s <= 4; ++s) r.Drop(SessionId(s));
  EXPECT_EQ(r.size(), 2u);
}

}  // namespace
}  // namespace stria
