// The values of the virtual attributes user.stria.*, one format for people and programs: pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locality/where.h"

namespace stria {

// "OFFSET+LENGTH NODE:DISK ROLE HEALTH", a line per row, as long as they fit. If some do not, the last line is "... OFFSET":
// the first left-out row of the file's bytes, or "... redundancy" if only such rows were left out. `more_from`: the rows end
// before this offset; then redundancy is left out.
std::string LocationsText(const std::vector<WhereRow>& rows, size_t max_bytes,
                          std::optional<uint64_t> more_from = std::nullopt);

// "n1:62.5%,n2:37.5%", the largest first; "" of a file without bytes.
std::string HostsText(const std::vector<HostShare>& hosts);
// "62.5%": `node`'s share of them.
std::string LocalText(const std::vector<HostShare>& hosts, std::string_view node);

// Adds up the parts of a file.
void AddHosts(const std::vector<HostShare>& more, std::vector<HostShare>* hosts);

enum class DataHealth : uint8_t {
  kOk = 0,
  kDegraded = 1,  // some shards cannot be read now; all bytes can
  kLost = 2,      // some bytes cannot be read now
};
const char* DataHealthName(DataHealth h);  // "ok", "degraded", "lost"
// The worst of the stripes.
DataHealth HealthOf(const std::vector<StripeGrant>& stripes, const ClusterMap& map);

}  // namespace stria
