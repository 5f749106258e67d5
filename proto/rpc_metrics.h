// The calls that a program has answered, by method, for Prometheus.
#pragma once

#include <vector>

#include "common/metrics.h"
#include "proto/method_stats.h"

namespace stria {

// Of methods that were called once at least. Executor's thread.
void AddRpcMetrics(const std::vector<const MethodStatsSource*>& from, MetricFamilies* out);

}  // namespace stria
