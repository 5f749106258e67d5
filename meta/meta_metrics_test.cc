#include "meta/meta_metrics.h"

#include <gtest/gtest.h>

#include <string>

#include "common/metrics.h"

namespace stria {
namespace {

std::string TextOf(const MetaFigures& figures) {
  MetricFamilies out;
  AddMetaMetrics(figures, &out);
  return "\n" + MetricsText(out.Take());
}

bool Has(const std::string& text, const std::string& line) { return text.find("\n" + line + "\n") != std::string::npos; }

NodeInfo Node(uint64_t id, const std::string& name, NodeState state) {
  NodeInfo n;
  n.id = NodeId(id);
  n.name = name;
  n.state = state;
  return n;
}

TargetInfo Disk(uint64_t id, uint64_t node, const std::string& label, TargetState state) {
  TargetInfo t;
  t.id = TargetId(id);
  t.node = NodeId(node);
  t.label = label;
  t.state = state;
  t.capacity_bytes = 1000 * id;
  t.read_us = 1500;
  return t;
}

MetaFigures Room() {
  MetaFigures f;
  f.map.nodes = {Node(1, "n1", NodeState::kUp), Node(2, "n2", NodeState::kDown), Node(3, "n3", NodeState::kOut), Node(4, "n4", NodeState::kSuspect)};
  f.map.targets = {Disk(1, 1, "d1", TargetState::kUp), Disk(2, 1, "d2", TargetState::kFailed), Disk(3, 2, "d1", TargetState::kRemoved),
                   Disk(4, 3, "d1", TargetState::kOut), Disk(5, 4, "d1", TargetState::kUp)};
  f.map.targets[4].problem = "disk /srv/d1 has no index";
  return f;
}

TEST(MetaMetrics, NodesAndDisksByState) {
  const std::string text = TextOf(Room());
  EXPECT_TRUE(Has(text, "stria_cluster_node_up{node=\"n1\"} 1")) << text;
  EXPECT_TRUE(Has(text, "stria_cluster_node_up{node=\"n2\"} 0")) << text;
  EXPECT_TRUE(Has(text, "stria_cluster_node_up{node=\"n4\"} 1")) << text;
  EXPECT_EQ(text.find("stria_cluster_node_up{node=\"n3\"}"), std::string::npos) << "an alert about a node that was given up would never end";
  EXPECT_TRUE(Has(text, "stria_cluster_nodes{state=\"down\"} 1")) << text;
  EXPECT_TRUE(Has(text, "stria_cluster_nodes{state=\"out\"} 1")) << text;
  EXPECT_TRUE(Has(text, "stria_cluster_disk_failed{node=\"n1\",disk=\"d1\"} 0")) << text;
  EXPECT_TRUE(Has(text, "stria_cluster_disk_failed{node=\"n1\",disk=\"d2\"} 1")) << text;
  EXPECT_TRUE(Has(text, "stria_cluster_disk_failed{node=\"n4\",disk=\"d1\"} 1")) << "its node cannot use it";
  EXPECT_EQ(text.find("node=\"n2\",disk"), std::string::npos) << "a removed disk is told";
  EXPECT_TRUE(Has(text, "stria_cluster_disks{state=\"failed\"} 1")) << text;
  EXPECT_TRUE(Has(text, "stria_cluster_disks{state=\"draining\"} 0")) << text;
  EXPECT_TRUE(Has(text, "stria_cluster_disk_read_median_seconds{node=\"n1\",disk=\"d1\"} 0.0015")) << text;
}

TEST(MetaMetrics, StripesAndUpkeep) {
  MetaFigures f = Room();
  EXPECT_EQ(TextOf(f).find("stria_cluster_degraded_stripes"), std::string::npos) << "nobody has looked yet";
  f.status.emplace();
  f.status->map = f.map;
  f.status->degraded_stripes = 12;
  f.status->node_loss.nodes = {{NodeId(1), 9, 0, 2}, {NodeId(4), 1, 0, 0}};
  RepairProgress repair;
  repair.target = TargetId(2);
  repair.bytes_total = 100;
  repair.bytes_done = 40;
  f.status->repairs = {repair};
  f.upkeep.emplace();
  f.upkeep->backup.on = true;
  f.upkeep->backup.behind_ns = 90 * kSecond;
  ScrubProgress scrub;
  scrub.target = TargetId(1);
  scrub.running = true;
  scrub.bytes_total = 10;
  ScrubProgress gone = scrub;
  gone.target = TargetId(3);
  f.upkeep->scrubs = {scrub, gone};
  const std::string text = TextOf(f);
  EXPECT_TRUE(Has(text, "stria_cluster_degraded_stripes 12")) << text;
  EXPECT_TRUE(Has(text, "stria_cluster_exposed_stripes 8")) << text;
  EXPECT_TRUE(Has(text, "stria_rebuild_planned_bytes{node=\"n1\",disk=\"d2\"} 100")) << text;
  EXPECT_TRUE(Has(text, "stria_rebuild_done_bytes{node=\"n1\",disk=\"d2\"} 40")) << text;
  EXPECT_TRUE(Has(text, "stria_scrub_running{node=\"n1\",disk=\"d1\"} 1")) << text;
  EXPECT_EQ(text.find("stria_scrub_running{node=\"n2\""), std::string::npos) << text;
  EXPECT_EQ(text.find("stria_scrub_last_pass"), std::string::npos) << "none has ended";
  EXPECT_TRUE(Has(text, "stria_meta_backup_behind_seconds 90")) << text;
  f.upkeep->backup.on = false;
  EXPECT_EQ(TextOf(f).find("stria_meta_backup"), std::string::npos);
}

TEST(MetaMetrics, Clients) {
  MetaFigures f;
  f.recalls = 3;
  f.fenced = 1;
  f.longest_wait_ns = 1500 * kMillisecond;
  f.certificate_end_s = 1'900'000'000;
  const std::string text = TextOf(f);
  EXPECT_TRUE(Has(text, "stria_meta_lease_demands_total{kind=\"recall\"} 3")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_lease_demands_total{kind=\"flush\"} 0")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_sessions_fenced_total 1")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_longest_wait_seconds 1.5")) << text;
  EXPECT_TRUE(Has(text, "stria_certificate_expiry_timestamp_seconds 1900000000")) << text;
}

TEST(MetaMetrics, AStandbyTellsNothingOfTheCluster) {
  MetaFigures f;
  f.disk_bytes = 1000;
  f.disk_free_bytes = 10;
  f.running_calls = 3;
  f.certificate_end_s = 77;
  MetricFamilies out;
  AddStandbyMetrics(f, &out);
  const std::string text = "\n" + MetricsText(out.Take());
  EXPECT_TRUE(Has(text, "stria_meta_store_filesystem_free_bytes 10")) << text;
  EXPECT_TRUE(Has(text, "stria_rpc_running_calls 3")) << text;
  EXPECT_EQ(text.find("stria_meta_files"), std::string::npos) << text;
  EXPECT_EQ(text.find("stria_cluster"), std::string::npos) << text;
}

}  // namespace
}  // namespace stria
