#include "stripe/read_plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <tuple>

#include "common/check.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kMaxLostRangesNamed = 4;  // in an error's sentence

// [begin, end) of a shard.
struct Positions {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool empty() const { return begin >= end; }
  bool Covers(uint64_t a, uint64_t b) const { return begin <= a && b <= end; }
};

// The input of one plan.
struct Planner {
  const StripeShape& shape;
  const ReadOptions& options;
  std::array<bool, kMaxColumns> available{};
  std::array<uint64_t, kMaxColumns> bytes{};       // shard lengths
  std::array<Positions, kMaxColumns> direct{};     // read as they are (one run per column, see MapRange)
  std::array<Positions, kMaxColumns> to_decode{};  // wanted of columns that are not available
  std::vector<FetchRange> lost;
  ReadPlan* plan;

  uint32_t Cost(ColumnIndex column) const { return options.cost.empty() ? 0 : options.cost[column.v]; }
  // The column whose bytes serve for `column`: itself, or the cheapest of its copies.
  std::optional<ColumnIndex> Stand(ColumnIndex column, bool prefer_itself) const;
  void Want(ColumnIndex column, uint64_t shard_offset, uint64_t length, uint64_t out_offset,
            bool prefer_itself);
  std::optional<std::vector<DecodeSource>> Sources(uint32_t group, uint64_t begin, uint64_t end) const;
  std::vector<uint64_t> Cuts(uint32_t group) const;
  void PlanGroup(uint32_t group);
  void Finish();
};

Planner MakePlanner(const StripeInfo& info, const ReadOptions& options, ReadPlan* plan) {
  CHECK(info.columns.size() == info.shape.columns(), "the stripe has been validated");
  CHECK(options.cost.empty() || options.cost.size() == info.columns.size());
  plan->stripe = info.id;
  plan->shape = info.shape;
  Planner p{info.shape, options, {}, {}, {}, {}, {}, plan};
  for (uint16_t c = 0; c < info.columns.size(); ++c) {
    p.available[c] = true;
    p.bytes[c] = info.columns[c].length;
  }
  for (const ColumnIndex c : options.unavailable) {
    CHECK(c.v < info.columns.size());
    p.available[c.v] = false;
  }
  return p;
}

std::optional<ColumnIndex> Planner::Stand(ColumnIndex column, bool prefer_itself) const {
  const bool itself = available[column.v];
  if (shape.codec != Codec::kCopy || (itself && prefer_itself)) {
    return itself ? std::optional(column) : std::nullopt;
  }
  std::optional<ColumnIndex> best = itself ? std::optional(column) : std::nullopt;
  const uint32_t group = GroupOf(shape, column);
  for (uint32_t i = 0; i <= shape.m; ++i) {
    const ColumnIndex copy = ColumnOf(shape, group, i);
    if (available[copy.v] && (!best || Cost(copy) < Cost(*best))) best = copy;
  }
  return best;
}

void Planner::Want(ColumnIndex column, uint64_t shard_offset, uint64_t length, uint64_t out_offset,
                   bool prefer_itself) {
  const std::optional<ColumnIndex> from = Stand(column, prefer_itself);
  Positions& run = from ? direct[from->v] : to_decode[column.v];
  if (run.empty()) run = {shard_offset, shard_offset};
  CHECK(run.end == shard_offset, "the parts of a read that lie in one column are one run");
  run.end += length;
  if (!from) return;
  plan->direct.push_back({*from, shard_offset, length, out_offset});
  plan->fetch.push_back({*from, shard_offset, length});
}

// The cheapest k columns from which positions [begin, end) of others can be decoded; no column starts
// or stops being wanted or ends in between.
std::optional<std::vector<DecodeSource>> Planner::Sources(uint32_t group, uint64_t begin,
                                                          uint64_t end) const {
  struct Candidate {
    int effort;  // 0: zeros, 1: read anyway, 2: to be fetched
    uint32_t cost;
    ColumnIndex column;  // data before parity
    auto operator<=>(const Candidate&) const = default;
  };
  std::vector<Candidate> candidates;
  for (uint32_t i = 0; i < uint32_t{shape.k} + shape.m; ++i) {
    const ColumnIndex c = ColumnOf(shape, group, i);
    if (bytes[c.v] <= begin) {
      candidates.push_back({0, 0, c});
    } else if (available[c.v]) {
      candidates.push_back({direct[c.v].Covers(begin, end) ? 1 : 2, Cost(c), c});
    }
  }
  if (candidates.size() < shape.k) return std::nullopt;
  std::sort(candidates.begin(), candidates.end());
  std::vector<DecodeSource> sources;
  for (uint32_t i = 0; i < shape.k; ++i) sources.push_back({candidates[i].column, candidates[i].effort == 0});
  std::sort(sources.begin(), sources.end(), [](const auto& a, const auto& b) { return a.column < b.column; });
  return sources;
}

// The positions at which the wanted, read or available parts of the group's columns change.
std::vector<uint64_t> Planner::Cuts(uint32_t group) const {
  std::vector<uint64_t> cuts;
  for (uint32_t i = 0; i < uint32_t{shape.k} + shape.m; ++i) {
    const uint16_t c = ColumnOf(shape, group, i).v;
    cuts.insert(cuts.end(), {bytes[c], direct[c].begin, direct[c].end, to_decode[c].begin, to_decode[c].end});
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

void Planner::PlanGroup(uint32_t group) {
  const uint32_t width = uint32_t{shape.k} + shape.m;
  bool needed = false;
  for (uint32_t i = 0; i < width; ++i) needed |= !to_decode[ColumnOf(shape, group, i).v].empty();
  if (!needed) return;
  const std::vector<uint64_t> cuts = Cuts(group);
  const size_t first_of_group = plan->decode.size();
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const uint64_t begin = cuts[i], end = cuts[i + 1];
    std::vector<ColumnIndex> wanted;
    for (uint32_t j = 0; j < width; ++j) {
      const ColumnIndex c = ColumnOf(shape, group, j);
      if (to_decode[c.v].Covers(begin, end)) wanted.push_back(c);
    }
    if (wanted.empty()) continue;
    std::optional<std::vector<DecodeSource>> sources = Sources(group, begin, end);
    if (!sources) {
      for (const ColumnIndex c : wanted) lost.push_back({c, begin, end - begin});
      continue;
    }
    for (const DecodeSource& s : *sources) {
      if (!s.zeros) plan->fetch.push_back({s.column, begin, end - begin});
    }
    DecodeGroup* last = plan->decode.size() > first_of_group ? &plan->decode.back() : nullptr;
    if (last && last->shard_offset + last->length == begin && last->sources == *sources &&
        last->wanted == wanted) {
      last->length += end - begin;
    } else {
      plan->decode.push_back({group, begin, end - begin, std::move(*sources), std::move(wanted)});
    }
  }
}

// Where byte `shard_offset` of a column belongs, in terms of plan.offset, and for how many bytes on.
std::pair<uint64_t, uint64_t> PlaceOf(const ReadPlan& plan, ColumnIndex column, uint64_t shard_offset) {
  if (plan.column) return {shard_offset, plan.offset + plan.length - shard_offset};
  const uint64_t at = PayloadOffset(plan.shape, column, shard_offset);
  return {at, Locate(plan.shape, at).run_bytes};
}

void Planner::Finish() {
  for (uint32_t g = 0; g < shape.groups; ++g) PlanGroup(g);
  plan->fetch = options.whole_blocks ? AlignToBlocks(shape, std::move(plan->fetch))
                                     : MergeRanges(std::move(plan->fetch));
  std::vector<ByteRange> pieces;
  for (FetchRange r : lost) {
    while (r.length > 0) {
      const auto [at, run] = PlaceOf(*plan, r.column, r.shard_offset);
      const uint64_t n = std::min(run, r.length);
      pieces.push_back({at, n});
      r.shard_offset += n;
      r.length -= n;
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  for (const ByteRange& piece : pieces) {
    if (!plan->lost.empty() && plan->lost.back().end() == piece.offset) {
      plan->lost.back().length += piece.length;
    } else {
      plan->lost.push_back(piece);
    }
  }
}

Error OutOfRange(const StripeInfo& info, const std::string& what, uint64_t offset, uint64_t length,
                 uint64_t size) {
  return Error(FsError::kCorrupt, "stripe " + std::to_string(info.id.v) + " was asked for " +
                                      std::to_string(length) + " bytes at " + std::to_string(offset) +
                                      " of its " + what + ", which has " + std::to_string(size));
}

// The fetched pieces, by column.
class Fetched {
 public:
  Fetched(const ReadPlan& plan, std::span<const FetchedBytes> pieces) : by_column_(plan.shape.columns()) {
    for (const FetchedBytes& piece : pieces) {
      if (piece.column.v < by_column_.size()) by_column_[piece.column.v].push_back(&piece);
    }
  }

  // The longest run of bytes that a piece has from `shard_offset` on; empty if there is none.
  std::span<const uint8_t> At(ColumnIndex column, uint64_t shard_offset) const {
    std::span<const uint8_t> best;
    for (const FetchedBytes* piece : by_column_[column.v]) {
      if (shard_offset < piece->shard_offset || shard_offset - piece->shard_offset >= piece->bytes.size())
        continue;
      const auto run = piece->bytes.subspan(shard_offset - piece->shard_offset);
      if (run.size() > best.size()) best = run;
    }
    return best;
  }

 private:
  std::vector<std::vector<const FetchedBytes*>> by_column_;
};

Error NotFetched(const ReadPlan& plan, ColumnIndex column, uint64_t shard_offset) {
  return Error(FsError::kIo, "stripe " + std::to_string(plan.stripe.v) + " column " +
                                 std::to_string(column.v) + " gave no bytes from " +
                                 std::to_string(shard_offset) + " on");
}

Error CopyDirect(const ReadPlan& plan, DirectRange range, const Fetched& fetched, std::span<uint8_t> out) {
  while (range.length > 0) {
    const std::span<const uint8_t> run = fetched.At(range.column, range.shard_offset);
    if (run.empty()) return NotFetched(plan, range.column, range.shard_offset);
    const uint64_t n = std::min<uint64_t>(run.size(), range.length);
    uint8_t* to = out.data() + range.out_offset;
    if (to != run.data()) std::memcpy(to, run.data(), n);
    range.shard_offset += n;
    range.out_offset += n;
    range.length -= n;
  }
  return Error();
}

Error Decode(const ReadPlan& plan, const DecodeGroup& group, const Fetched& fetched, std::span<uint8_t> out,
             const ParityCodec& codec) {
  std::array<uint32_t, kMaxDataColumns> available;
  std::array<uint32_t, kMaxParity> wanted;
  const size_t k = group.sources.size(), n = group.wanted.size();
  CHECK(k == plan.shape.k && n <= plan.shape.m);
  for (size_t i = 0; i < k; ++i) available[i] = IndexInGroup(plan.shape, group.sources[i].column);
  for (size_t i = 0; i < n; ++i) wanted[i] = IndexInGroup(plan.shape, group.wanted[i]);

  // One step goes as far as every source and every output is one run of memory.
  const uint64_t end = group.shard_offset + group.length;
  for (uint64_t at = group.shard_offset; at < end;) {
    uint64_t step = end - at;
    std::array<const uint8_t*, kMaxDataColumns> sources;
    std::array<uint8_t*, kMaxParity> outputs;
    for (size_t i = 0; i < k; ++i) {
      sources[i] = nullptr;
      if (group.sources[i].zeros) continue;
      const std::span<const uint8_t> run = fetched.At(group.sources[i].column, at);
      if (run.empty()) return NotFetched(plan, group.sources[i].column, at);
      sources[i] = run.data();
      step = std::min<uint64_t>(step, run.size());
    }
    for (size_t i = 0; i < n; ++i) {
      const auto [place, run] = PlaceOf(plan, group.wanted[i], at);
      outputs[i] = out.data() + (place - plan.offset);
      step = std::min(step, run);
    }
    codec.Reconstruct({available.data(), k}, {sources.data(), k}, {wanted.data(), n}, {outputs.data(), n},
                      step);
    at += step;
  }
  return Error();
}

}  // namespace

uint64_t ReadPlan::fetch_bytes() const {
  uint64_t sum = 0;
  for (const FetchRange& r : fetch) sum += r.length;
  return sum;
}

Result<ReadPlan> PlanRead(const StripeInfo& info, uint64_t offset, uint64_t length,
                          const ReadOptions& options) {
  const uint64_t size = info.shape.payload_bytes;
  if (offset > size || length > size - offset) return OutOfRange(info, "payload", offset, length, size);
  ReadPlan plan;
  plan.offset = offset;
  plan.length = length;
  Planner planner = MakePlanner(info, options, &plan);
  for (const ShardRange& r : MapRange(info.shape, offset, length)) {
    planner.Want(r.column, r.shard_offset, r.length, r.payload_offset - offset, /*prefer_itself=*/false);
  }
  planner.Finish();
  return plan;
}

Result<ReadPlan> PlanColumnRead(const StripeInfo& info, ColumnIndex column, uint64_t shard_offset,
                                uint64_t length, const ReadOptions& options) {
  CHECK(column.v < info.shape.columns());
  const uint64_t size = ColumnBytes(info.shape, column);
  if (shard_offset > size || length > size - shard_offset) {
    return OutOfRange(info, "column " + std::to_string(column.v), shard_offset, length, size);
  }
  ReadPlan plan;
  plan.column = column;
  plan.offset = shard_offset;
  plan.length = length;
  Planner planner = MakePlanner(info, options, &plan);
  if (length > 0) planner.Want(column, shard_offset, length, 0, /*prefer_itself=*/true);
  planner.Finish();
  return plan;
}

Error LostBytes(const ReadPlan& plan) {
  if (plan.lost.empty()) return Error();
  std::string ranges;
  for (size_t i = 0; i < std::min(plan.lost.size(), kMaxLostRangesNamed); ++i) {
    if (i > 0) ranges += ", ";
    ranges += std::to_string(plan.lost[i].offset) + "-" + std::to_string(plan.lost[i].end() - 1);
  }
  if (plan.lost.size() > kMaxLostRangesNamed) {
    ranges += " and " + std::to_string(plan.lost.size() - kMaxLostRangesNamed) + " more ranges";
  }
  return Error(FsError::kIo, "stripe " + std::to_string(plan.stripe.v) + " cannot give bytes " + ranges +
                                 " of its " +
                                 (plan.column ? "column " + std::to_string(plan.column->v) : "payload") +
                                 ": more columns are unavailable than its parity makes up for");
}

std::vector<FetchRange> MergeRanges(std::vector<FetchRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const FetchRange& a, const FetchRange& b) {
    return std::tie(a.column, a.shard_offset) < std::tie(b.column, b.shard_offset);
  });
  size_t merged = 0;  // ranges at the front are
  for (const FetchRange r : ranges) {
    if (r.length == 0) continue;
    FetchRange* last = merged > 0 ? &ranges[merged - 1] : nullptr;
    if (last && last->column == r.column && r.shard_offset <= last->end()) {
      last->length = std::max(last->end(), r.end()) - last->shard_offset;
    } else {
      ranges[merged++] = r;
    }
  }
  ranges.resize(merged);
  return ranges;
}

std::vector<FetchRange> AlignToBlocks(const StripeShape& shape, std::vector<FetchRange> ranges) {
  for (FetchRange& r : ranges) {
    if (r.length == 0) continue;
    const uint64_t end = std::min(AlignUp(r.end(), kChecksumBlockBytes), ColumnBytes(shape, r.column));
    r.shard_offset = AlignDown(r.shard_offset, kChecksumBlockBytes);
    r.length = end - r.shard_offset;
  }
  return MergeRanges(std::move(ranges));
}

std::vector<FetchRange> MissingRanges(std::vector<FetchRange> need, std::vector<FetchRange> have) {
  have = MergeRanges(std::move(have));
  std::vector<FetchRange> missing;
  for (FetchRange left : MergeRanges(std::move(need))) {
    for (const FetchRange& h : have) {
      if (h.column != left.column || h.end() <= left.shard_offset) continue;
      if (h.shard_offset >= left.end()) break;
      if (h.shard_offset > left.shard_offset) {
        missing.push_back({left.column, left.shard_offset, h.shard_offset - left.shard_offset});
      }
      const uint64_t end = left.end();
      left.shard_offset = std::min(h.end(), end);
      left.length = end - left.shard_offset;
    }
    if (left.length > 0) missing.push_back(left);
  }
  return missing;
}

Error AssembleRead(const ReadPlan& plan, std::span<const FetchedBytes> pieces, std::span<uint8_t> out,
                   CodecSet* codecs) {
  CHECK(out.size() == plan.length);
  const Fetched fetched(plan, pieces);
  for (const DirectRange& range : plan.direct) {
    if (Error e = CopyDirect(plan, range, fetched, out); !e.ok()) return e;
  }
  if (plan.decode.empty()) return Error();
  const ParityCodec& codec = codecs->For(plan.shape);
  for (const DecodeGroup& group : plan.decode) {
    if (Error e = Decode(plan, group, fetched, out, codec); !e.ok()) return e;
  }
  return Error();
}

}  // namespace stria
