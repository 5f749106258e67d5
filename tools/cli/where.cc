#include "tools/cli/where.h"

#include "tools/cli/render.h"

namespace stria::cli {

std::string RenderWhere(const std::vector<WhereRow>& rows) {
  Table t;
  t.header = {"RANGE", "SIZE", "NODE", "DISK", "ROLE", "HEALTH"};
  t.right = {false, true};
  for (const WhereRow& r : rows) {
    t.rows.push_back({std::to_string(r.offset) + "+" + std::to_string(r.length), HumanBytes(r.length), r.node,
                      r.disk, r.role, r.health});
  }
  return rows.empty() ? "the range is empty\n" : RenderTable(t, 0);
}

std::string RenderByHost(const std::vector<HostShare>& hosts) {
  uint64_t total = 0;
  for (const HostShare& h : hosts) total += h.data_bytes;
  Table t;
  t.header = {"NODE", "BYTES", "SHARE", "PARITY RANGES", "HEALTH"};
  t.right = {false, true, true, true};
  for (const HostShare& h : hosts) {
    const int percent = total == 0 ? 0 : Percent(h.data_bytes, total);
    t.rows.push_back({h.node, HumanBytes(h.data_bytes), std::to_string(percent) + " %",
                      std::to_string(h.redundancy_ranges), h.health});
  }
  return hosts.empty() ? "the range is empty\n" : RenderTable(t, 0);
}

std::string RenderReads(const ReadTally& tally) {
  const uint64_t total = tally.fetched_bytes();
  const auto share = [total](uint64_t part) {
    return total == 0 ? std::string("-") : std::to_string(Percent(part, total)) + " %";
  };
  Table t;
  t.header = {"READ FROM", "BYTES", "SHARE"};
  t.right = {false, true, true};
  t.rows = {{"this node", HumanBytes(tally.local_bytes), share(tally.local_bytes)},
            {"the network", HumanBytes(tally.network_bytes), share(tally.network_bytes)},
            {"reconstructed", HumanBytes(tally.reconstructed_bytes), ""}};
  return RenderTable(t, 0);
}

}  // namespace stria::cli
