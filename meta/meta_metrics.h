// The metrics of the metadata server for Prometheus.
#pragma once

#include <string>

#include "meta/service/meta_server.h"

namespace stria {

// Prometheus' text form. Executor's thread.
std::string MetaMetricsText(MetaServer& server);

}  // namespace stria
