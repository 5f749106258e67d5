// The metrics of a mount for Prometheus. The program adds the label that tells its mounts apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/vfs/io_counters.h"
#include "common/latency_histogram.h"
#include "common/metrics.h"
#include "locality/job_io.h"

namespace stria {

struct ClientFigures {
  IoCounters io;
  StripeReaderStats reads;
  uint64_t dirty_bytes = 0, dirty_limit_bytes = 0;
  uint64_t running_calls = 0;  // of the filesystem
  int64_t oldest_call_ns = 0;  // for how long it has been under way; 0: there is none
  // The session
  int64_t lease_left_ns = 0;  // 0: the caches cannot be used without asking
  uint64_t lapses = 0, losses = 0;
  uint64_t lost_nodes = 0;  // that should answer, and do not
  // Of the kernel's requests
  uint64_t running_requests = 0;
  std::vector<std::pair<const char*, const LatencyHistogram*>> requests;  // by kind; live as long as this
  std::vector<std::pair<std::string, JobIo>> jobs;  // by label (batch_job, as Prometheus has its own "job"), few
  // Read from files of the own node, past its server
  uint64_t local_opened = 0, local_direct_bytes = 0;
  std::optional<int64_t> certificate_end_s;  // none: it has no certificate
};

// What a client knows; the rest is the program's. Executor's thread.
ClientFigures GatherClientFigures(Client& client);

void AddClientMetrics(const ClientFigures& figures, MetricFamilies* out);

}  // namespace stria
