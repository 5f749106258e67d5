// Prints what the three programs tell Prometheus, with made-up numbers and everything that can be there: render DIRECTORY writes
// DIRECTORY/stria-meta.prom and the like. For monitoring.py.
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "client/client_metrics.h"
#include "common/exec/sim_executor.h"
#include "common/metrics.h"
#include "common/metrics_server.h"
#include "meta/member_metrics.h"
#include "meta/meta_metrics.h"
#include "proto/method_stats.h"
#include "proto/rpc_metrics.h"
#include "server/data_metrics.h"

namespace stria {
namespace {

class OneMethod final : public MethodStatsSource {
 public:
  explicit OneMethod(std::string method) : method_(std::move(method)) { stats_.took.Add(3 * kMillisecond); }
  void EachMethod(const std::function<void(const std::string&, const MethodStats&)>& fn) const override { fn(method_, stats_); }

 private:
  const std::string method_;
  MethodStats stats_;
};

void AddMeta(MetricFamilies* out) {
  MetaFigures f;
  f.disk_bytes = 1;
  f.certificate_end_s = 1;
  NodeInfo node;
  node.id = NodeId(1);
  node.name = "n1";
  TargetInfo disk;
  disk.id = TargetId(1);
  disk.node = NodeId(1);
  disk.label = "d1";
  f.map.nodes = {node};
  f.map.targets = {disk};
  f.status.emplace();
  f.status->map = f.map;
  f.status->repairs.emplace_back();
  f.status->repairs.back().target = TargetId(1);
  f.upkeep.emplace();
  f.upkeep->scrubs.emplace_back();
  f.upkeep->scrubs.back().target = TargetId(1);
  f.upkeep->scrubs.back().finished_s = 1;
  f.upkeep->backup.on = true;
  f.upkeep->backup.checkpoint_s = 1;
  AddMetaMetrics(f, out);
  MemberStatusReply members;
  members.self = "pc1";
  members.members.resize(1);
  members.members[0].name = "pc1";
  AddMemberMetrics(members, out);
  AddBeatMetrics(BeatFigures(), out);
  const OneMethod open("/stria.v1.Meta/Open");
  AddRpcMetrics({&open}, out);
}

void AddData(MetricFamilies* out) {
  const DiskTimes times;
  DataFigures f;
  f.clock_ahead_ns = 1;
  f.certificate_end_s = 1;
  f.disks.push_back({"d1", DiskUsage(), 1, &times});
  AddDataMetrics(f, out);
  const OneMethod read("/stria.v1.Data/Read");
  AddRpcMetrics({&read}, out);
}

void AddMount(MetricFamilies* out) {
  LatencyHistogram took;
  took.Add(kMillisecond);
  ClientFigures f;
  f.requests = {{"read", &took}};
  f.jobs = {{"other", {}}};
  f.certificate_end_s = 1;
  AddClientMetrics(f, out);
}

int Main(const std::string& directory) {
  SimExecutor executor(1);
  const MetricsSource sources[] = {
      {"stria-meta", {}, AddMeta}, {"stria-data", {}, AddData}, {"stria-mount", {{"mount", "/data"}}, AddMount}};
  for (const MetricsSource& source : sources) {
    const ExecutorMetrics metrics(&executor, source);
    const Result<void> written = WriteMetricsFile(directory + "/" + source.program + ".prom", MetricsText(metrics.CollectHere()));
    if (!written.ok()) {
      std::fprintf(stderr, "render: %s\n", written.error().message.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) {
  if (argc == 2) return stria::Main(argv[1]);
  std::fprintf(stderr, "render DIRECTORY\n");
  return 2;
}
