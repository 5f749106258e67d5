#include "locality/where.h"

#include <algorithm>
#include <map>

#include "stripe/layout.h"

namespace stria {
namespace {

WhereRow RowOn(const ClusterMap& map, TargetId id, uint64_t offset, uint64_t length, std::string role) {
  WhereRow row{.offset = offset, .length = length, .role = std::move(role)};
  const TargetInfo* t = map.FindTarget(id);
  const NodeInfo* n = t ? map.FindNode(t->node) : nullptr;
  row.node = n ? n->name : "?";
  row.disk = t ? t->label : "?";
  row.health = TargetHealth(map, id);
  return row;
}

void Append(std::vector<WhereRow>* rows, WhereRow row) {
  if (row.length == 0) return;
  if (!rows->empty()) {
    WhereRow& last = rows->back();
    if (last.offset + last.length == row.offset && last.role == row.role && last.node == row.node &&
        last.disk == row.disk && last.health == row.health) {
      last.length += row.length;
      return;
    }
  }
  rows->push_back(std::move(row));
}

// Data and redundancy of one extent's part [from, to) of the file.
void AddStripe(const Extent& e, const StripeInfo& info, const ClusterMap& map, uint64_t from, uint64_t to,
               std::vector<WhereRow>* data, std::vector<WhereRow>* redundancy) {
  const StripeShape& shape = info.shape;
  const uint64_t payload = e.stripe_offset + (from - e.file_offset);
  std::vector<bool> groups(shape.groups, false);
  for (const ShardRange& r : MapRange(shape, payload, to - from)) {
    WhereRow row =
        RowOn(map, info.columns[r.column.v].target, from + (r.payload_offset - payload), r.length, "data");
    row.stripe = info.id;
    Append(data, std::move(row));
    groups[GroupOf(shape, r.column)] = true;
  }
  for (uint32_t c = shape.data_columns(); c < shape.columns(); ++c) {
    const ColumnIndex column(static_cast<uint16_t>(c));
    if (!groups[GroupOf(shape, column)] || !info.columns[c].shard) continue;
    WhereRow row =
        RowOn(map, info.columns[c].target, from, to - from, shape.codec == Codec::kCopy ? "copy" : "parity");
    row.stripe = info.id;
    redundancy->push_back(std::move(row));
  }
}

bool Fits(const Extent& e, const StripeInfo& info) {
  return ValidateStripe(info).ok() && e.stripe_offset <= info.shape.payload_bytes &&
         e.length <= info.shape.payload_bytes - e.stripe_offset;
}

// Redundancy of stripes that follow each other is merged per target, so that a file of many stripes on
// few targets stays readable; order is by range, then by target.
std::vector<WhereRow> MergeRedundancy(std::vector<WhereRow> rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const WhereRow& a, const WhereRow& b) {
    return std::tie(a.node, a.disk, a.offset) < std::tie(b.node, b.disk, b.offset);
  });
  std::vector<WhereRow> merged;
  for (WhereRow& row : rows) Append(&merged, std::move(row));
  std::stable_sort(merged.begin(), merged.end(),
                   [](const WhereRow& a, const WhereRow& b) { return a.offset < b.offset; });
  return merged;
}

int Badness(const std::string& health) {
  static const std::map<std::string, int> kOrder = {
      {"ok", 0}, {"draining", 1}, {"suspect", 2}, {"down", 3}, {"failed", 4}, {"out", 5}, {"gone", 6}};
  const auto it = kOrder.find(health);
  return it == kOrder.end() ? 0 : it->second;
}

}  // namespace

const char* TargetHealth(const ClusterMap& map, TargetId id) {
  const TargetInfo* t = map.FindTarget(id);
  const NodeInfo* n = t ? map.FindNode(t->node) : nullptr;
  if (n == nullptr || t->state == TargetState::kRemoved) return "gone";
  if (t->state == TargetState::kOut || n->state == NodeState::kOut) return "out";
  if (t->state == TargetState::kFailed) return "failed";
  if (n->state == NodeState::kDown) return "down";
  if (n->state == NodeState::kSuspect) return "suspect";
  if (t->state == TargetState::kDraining) return "draining";
  return t->problem.empty() ? "ok" : "absent";
}

std::vector<WhereRow> WhereRows(const std::vector<Extent>& extents, const std::vector<StripeGrant>& stripes,
                                const ClusterMap& map, uint64_t offset, uint64_t length) {
  std::map<StripeId, const StripeInfo*> by_id;
  for (const StripeGrant& g : stripes) by_id[g.info.id] = &g.info;
  std::vector<WhereRow> data, redundancy;
  const uint64_t end = offset + length;
  uint64_t at = offset;
  const auto hole_to = [&](uint64_t to) {
    if (to > at)
      Append(&data,
             {.offset = at, .length = to - at, .role = "hole", .node = "-", .disk = "-", .health = "ok"});
  };
  for (const Extent& e : extents) {
    const uint64_t from = std::max(e.file_offset, at), to = std::min(e.end(), end);
    if (from >= to) continue;
    hole_to(from);
    if (e.is_inline()) {
      Append(
          &data,
          {.offset = from, .length = to - from, .role = "meta", .node = "meta", .disk = "-", .health = "ok"});
    } else if (const auto it = by_id.find(e.stripe); it != by_id.end() && Fits(e, *it->second)) {
      AddStripe(e, *it->second, map, from, to, &data, &redundancy);
    } else {
      Append(&data, {.offset = from,
                     .length = to - from,
                     .role = "data",
                     .node = "?",
                     .disk = "?",
                     .health = "gone",
                     .stripe = e.stripe});
    }
    at = to;
  }
  hole_to(end);
  for (WhereRow& row : MergeRedundancy(std::move(redundancy))) data.push_back(std::move(row));
  return data;
}

std::vector<WhereRow> JoinRows(std::vector<WhereRow> parts) {
  std::vector<WhereRow> data, redundancy;
  for (WhereRow& row : parts) {
    if (IsRedundancy(row)) redundancy.push_back(std::move(row));
    else Append(&data, std::move(row));
  }
  for (WhereRow& row : MergeRedundancy(std::move(redundancy))) data.push_back(std::move(row));
  return data;
}

bool IsRedundancy(const WhereRow& row) { return row.role == "parity" || row.role == "copy"; }

bool IsReadable(const WhereRow& row) {
  return row.health == "ok" || row.health == "draining";
}

std::vector<HostShare> ByHost(const std::vector<WhereRow>& rows) {
  std::map<std::string, HostShare> hosts;
  for (const WhereRow& row : rows) {
    if (row.role == "hole") continue;
    HostShare& h = hosts[row.node];
    if (h.node.empty() || Badness(row.health) > Badness(h.health)) h.health = row.health;
    h.node = row.node;
    (row.role == "data" || row.role == "meta") ? h.data_bytes += row.length : ++h.redundancy_ranges;
  }
  std::vector<HostShare> out;
  for (auto& [name, share] : hosts) out.push_back(std::move(share));
  std::stable_sort(out.begin(), out.end(),
                   [](const HostShare& a, const HostShare& b) { return a.data_bytes > b.data_bytes; });
  return out;
}

Result<uint64_t> ParseBytes(const std::string& text) {
  const Error bad(FsError::kInval, "'" + text + "' is not a size: use bytes, or a number with K, M, G or T");
  uint64_t value = 0;
  size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    if (__builtin_mul_overflow(value, uint64_t{10}, &value)) return bad;
    if (__builtin_add_overflow(value, static_cast<uint64_t>(text[i] - '0'), &value)) return bad;
  }
  if (i == 0) return bad;
  if (i == text.size()) return value;
  if (i + 1 != text.size()) return bad;
  uint64_t unit = 0;
  switch (text[i] & ~0x20) {
    case 'K': unit = kKiB; break;
    case 'M': unit = kMiB; break;
    case 'G': unit = kGiB; break;
    case 'T': unit = kTiB; break;
    default: return bad;
  }
  if (__builtin_mul_overflow(value, unit, &value)) return bad;
  return value;
}

Result<std::pair<uint64_t, uint64_t>> ParseRange(const std::string& text, uint64_t file_bytes) {
  const size_t plus = text.find('+');
  if (plus == std::string::npos) {
    return Error(FsError::kInval, "'" + text + "' is not a range: write OFFSET+LENGTH, for example 1M+64K");
  }
  ASSIGN_OR_RETURN(const uint64_t offset, ParseBytes(text.substr(0, plus)));
  uint64_t length = UINT64_MAX;
  if (plus + 1 < text.size()) {
    ASSIGN_OR_RETURN(length, ParseBytes(text.substr(plus + 1)));
  }
  if (offset >= file_bytes) return std::pair<uint64_t, uint64_t>(file_bytes, 0);
  return std::pair<uint64_t, uint64_t>(offset, std::min(length, file_bytes - offset));
}

}  // namespace stria
