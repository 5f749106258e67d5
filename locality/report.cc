#include "locality/report.h"

#include <algorithm>
#include <array>

#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kMarkerBytes = 32;  // "... OFFSET\n"

// One decimal, and none if it is 0: "62.5", "100".
std::string Percents(uint64_t part, uint64_t total) {
  if (total == 0) return "0";
  const auto permille = static_cast<uint64_t>((static_cast<unsigned __int128>(part) * 1000 + total / 2) / total);
  std::string text = std::to_string(permille / 10);
  if (permille % 10 != 0) text += "." + std::to_string(permille % 10);
  return text;
}

uint64_t TotalOf(const std::vector<HostShare>& hosts) {
  uint64_t total = 0;
  for (const HostShare& h : hosts) total += h.data_bytes;
  return total;
}

bool Readable(const ClusterMap& map, TargetId target) {
  const std::string_view health = TargetHealth(map, target);
  return health == "ok" || health == "suspect" || health == "draining";
}

}  // namespace

std::string LocationsText(const std::vector<WhereRow>& rows, size_t max_bytes, std::optional<uint64_t> more_from) {
  const size_t before_marker = max_bytes - std::min(max_bytes, kMarkerBytes);
  std::string text;
  size_t keep = 0;            // of text, if a marker must follow
  const WhereRow* next = nullptr;  // the row after that
  for (const WhereRow& r : rows) {
    if (more_from && IsRedundancy(r)) break;  // they follow all others
    text += std::to_string(r.offset) + "+" + std::to_string(r.length) + " " + r.node + ":" + r.disk + " " + r.role +
            " " + r.health + "\n";
    if (next == nullptr && text.size() <= before_marker) {
      keep = text.size();
    } else if (next == nullptr) {
      next = &r;
    }
    if (text.size() > (more_from ? before_marker : max_bytes)) {
      return text.substr(0, keep) + "... " + (IsRedundancy(*next) ? "redundancy" : std::to_string(next->offset)) + "\n";
    }
  }
  if (more_from) text += "... " + std::to_string(*more_from) + "\n";
  return text;
}

std::string HostsText(const std::vector<HostShare>& hosts) {
  const uint64_t total = TotalOf(hosts);
  std::string text;
  for (const HostShare& h : hosts) {
    if (h.data_bytes == 0) continue;
    text += (text.empty() ? "" : ",") + h.node + ":" + Percents(h.data_bytes, total) + "%";
  }
  return text;
}

std::string LocalText(const std::vector<HostShare>& hosts, std::string_view node) {
  uint64_t mine = 0;
  for (const HostShare& h : hosts) {
    if (h.node == node) mine = h.data_bytes;
  }
  return Percents(mine, TotalOf(hosts)) + "%";
}

void AddHosts(const std::vector<HostShare>& more, std::vector<HostShare>* hosts) {
  for (const HostShare& m : more) {
    auto it = std::ranges::find(*hosts, m.node, &HostShare::node);
    if (it == hosts->end()) {
      hosts->push_back(m);
      continue;
    }
    it->data_bytes += m.data_bytes;
    it->redundancy_ranges += m.redundancy_ranges;
    if (it->health == "ok") it->health = m.health;
  }
  std::ranges::stable_sort(*hosts, [](const HostShare& a, const HostShare& b) { return a.data_bytes > b.data_bytes; });
}

const char* DataHealthName(DataHealth h) {
  switch (h) {
    case DataHealth::kOk: return "ok";
    case DataHealth::kDegraded: return "degraded";
    case DataHealth::kLost: return "lost";
  }
  return "?";
}

DataHealth HealthOf(const std::vector<StripeGrant>& stripes, const ClusterMap& map) {
  DataHealth worst = DataHealth::kOk;
  for (const StripeGrant& g : stripes) {
    const StripeInfo& info = g.info;
    if (!ValidateStripe(info).ok()) return DataHealth::kLost;
    std::array<uint32_t, kMaxColumns> missing{};  // by group
    for (uint16_t c = 0; c < info.columns.size(); ++c) {
      if (!info.columns[c].shard || Readable(map, info.columns[c].target)) continue;
      worst = std::max(worst, DataHealth::kDegraded);
      if (++missing[GroupOf(info.shape, ColumnIndex(c))] > info.shape.m) return DataHealth::kLost;
    }
  }
  return worst;
}

}  // namespace stria
