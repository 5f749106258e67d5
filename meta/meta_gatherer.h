// Collects what the metadata server tells Prometheus. Most is counted anyway and is looked at for each scrape. What must be looked
// for (degraded stripes, progress of upkeep) is asked for every kLookNs, and only if somebody wants metrics at all.
// Executor's thread.
#pragma once

#include <optional>

#include "meta/meta_metrics.h"
#include "meta/service/meta_server.h"

namespace stria {

class MetaGatherer {
 public:
  static constexpr int64_t kLookNs = 10 * kSecond;

  // `server` outlives this.
  explicit MetaGatherer(MetaServer* server) : server_(server) {}
  // Until it is destroyed.
  Task<void> Keep();
  // Without what only the program knows: calls under way, the store's filesystem, the certificate.
  MetaFigures Now() const;

 private:
  MetaServer* const server_;
  std::optional<StatusReply> status_;
  std::optional<UpkeepReply> upkeep_;
};

}  // namespace stria
