#include "proto/rpc_metrics.h"

#include <string>

namespace stria {
namespace {

// "/stria.v1.Data/Write": service Data, method Write.
MetricFamilies::Labels LabelsOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const size_t dot = path.rfind('.', slash);
  return {{"service", path.substr(dot + 1, slash - dot - 1)}, {"method", path.substr(slash + 1)}};
}

}  // namespace

void AddRpcMetrics(const std::vector<const MethodStatsSource*>& from, MetricFamilies* out) {
  for (const MethodStatsSource* source : from) {
    source->EachMethod([out](const std::string& method, const MethodStats& stats) {
      if (stats.took.count() == 0) return;
      const MetricFamilies::Labels labels = LabelsOf(method);
      out->Histogram("stria_rpc_duration_seconds", "How long calls took here, from their arrival until the reply was ready. Poll waits for events on purpose.",
                     stats.took, labels);
      out->Counter("stria_rpc_failures_total", "Calls that were answered with an error.", static_cast<double>(stats.failed), labels);
      out->Counter("stria_rpc_slow_total", "Calls that took longer than slow_request, each with a line in the log.",
                   static_cast<double>(stats.slow), labels);
    });
  }
}

}  // namespace stria
