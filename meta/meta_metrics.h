// What a Prometheus server sees of the metadata server.
#pragma once

#include <string>

#include "meta/service/meta_server.h"

namespace stria {

// Prometheus' text form. Executor's thread.
std::string MetaMetricsText(MetaServer& server);

}  // namespace stria
