#include "locality/gather_plan.h"

#include <algorithm>
#include <numeric>

#include "common/check.h"

namespace stria {
namespace {

// A rest of less than this part of a column is no column of its own.
constexpr uint64_t kLittle = 4;

uint64_t ColumnEnd(uint64_t at, uint64_t end, const std::vector<uint64_t>& cuts, uint64_t column_bytes) {
  if (end - at <= column_bytes + column_bytes / kLittle) return end;
  const uint64_t want = at + column_bytes;
  if (cuts.empty()) return want;
  const auto after = std::ranges::upper_bound(cuts, want);
  if (after != cuts.begin() && *(after - 1) > at) return *(after - 1);
  return after != cuts.end() && *after < end && *after - at <= 2 * column_bytes ? *after : want;
}

}  // namespace

uint64_t GatherStripe::bytes() const { return std::accumulate(columns.begin(), columns.end(), uint64_t{0}); }

std::vector<GatherStripe> PlanGather(const std::vector<std::pair<uint64_t, uint64_t>>& ranges,
                                     const std::vector<uint64_t>& cuts, const GatherPlanOptions& options) {
  CHECK(options.columns > 0 && options.column_bytes > 0 && 2 * options.column_bytes <= options.max_stripe_bytes);
  std::vector<GatherStripe> stripes;
  for (const auto& [offset, length] : ranges) {
    const uint64_t end = offset + length;
    bool fresh = true;
    for (uint64_t at = offset; at < end;) {
      const uint64_t to = ColumnEnd(at, end, cuts, options.column_bytes);
      if (!fresh) {
        const GatherStripe& last = stripes.back();
        fresh = last.columns.size() == options.columns || last.bytes() + (to - at) > options.max_stripe_bytes;
      }
      if (fresh) stripes.push_back({at, {}});
      fresh = false;
      stripes.back().columns.push_back(to - at);
      at = to;
    }
  }
  return stripes;
}

std::vector<uint64_t> CutsBetween(std::vector<std::vector<std::pair<uint64_t, uint64_t>>> parts) {
  std::vector<std::pair<uint64_t, uint64_t>> spans;  // begin and end of each part
  for (const auto& part : parts) {
    if (part.empty()) continue;
    uint64_t begin = UINT64_MAX, end = 0;
    for (const auto& [offset, length] : part) {
      begin = std::min(begin, offset);
      end = std::max(end, offset + length);
    }
    spans.emplace_back(begin, end);
  }
  std::ranges::sort(spans);
  std::vector<uint64_t> cuts;
  uint64_t reached = 0;
  for (const auto& [begin, end] : spans) {
    if (begin >= reached && begin > 0) cuts.push_back(begin);
    reached = std::max(reached, end);
  }
  return cuts;
}

}  // namespace stria
