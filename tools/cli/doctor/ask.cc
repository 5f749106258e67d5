#include "tools/cli/doctor/ask.h"

#include <utility>

#include "common/exec/loop_executor.h"
#include "tools/cli/render.h"

namespace stria::cli::doctor {

Result<ClusterMap> AskCluster(ClusterClient& client, Facts* facts) {
  const int64_t before_ns = WallclockNs();
  Result<ClusterMap> map = client.Call<ClusterMap>("cluster map", [](MetaService& meta, OpHeader header) {
    InodeRequest r;
    r.header = std::move(header);
    return meta.GetMap(std::move(r));
  });
  const int64_t after_ns = WallclockNs();
  if (!map.ok()) return map;
  facts->server_version = map->server_version;
  facts->clock.known = map->wall_ns != 0;
  facts->clock.round_trip_ns = after_ns - before_ns;
  facts->clock.offset_ns = before_ns + (after_ns - before_ns) / 2 - map->wall_ns;
  return InOrder(std::move(*map));
}

}  // namespace stria::cli::doctor
