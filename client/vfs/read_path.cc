#include "client/vfs/read_path.h"

#include <algorithm>
#include <string>
#include <utility>

#include "stripe/layout.h"

namespace stria {
namespace {
constexpr uint64_t kZeroBytes = 64 * kKiB;

// A hole's bytes; all of them are the same memory.
BufferChain Zeros(uint64_t length) {
  static const Buffer zeros = Buffer::FromString(std::string(kZeroBytes, '\0'));
  BufferChain out;
  for (; length > 0; length -= std::min(length, kZeroBytes)) out.Append(zeros.Slice(0, std::min(length, kZeroBytes)));
  return out;
}
}  // namespace

// How far a segment goes on behind the range that was looked up, up to a block.
uint64_t ReadPath::RunBehind(const ExtentCache& extents, const Segment& s) {
  const uint64_t known = std::min(extents.CoveredTo(s.end()), s.end() + StripeBlocks::kBlock);
  if (known <= s.end()) return 0;
  const auto more = extents.Lookup(s.end(), known - s.end());
  if (!more || more->empty()) return 0;
  const Segment& next = more->front();
  const bool follows = next.kind == Segment::Kind::kStripe && next.stripe == s.stripe && next.stripe_offset == s.stripe_offset + s.length;
  return follows ? next.length : 0;
}

Result<bool> ReadPath::Add(const std::vector<DirtyPiece>& dirty, const ExtentCache& extents, uint64_t offset, uint64_t end,
                           bool sequential, const Tallies& tally, ReadParts* out) {
  uint64_t at = offset;
  for (size_t i = 0; i <= dirty.size(); ++i) {
    const uint64_t next = i < dirty.size() ? dirty[i].offset : end;
    const auto mapped = next > at ? extents.Lookup(at, next - at) : std::vector<Segment>();
    if (!mapped) return false;
    for (const Segment& s : *mapped) {
      BufferChain& piece = out->pieces.emplace_back();
      switch (s.kind) {
        case Segment::Kind::kHole: piece = Zeros(s.length); break;
        case Segment::Kind::kInline: piece.Append(Buffer::FromString(s.inline_bytes)); break;
        case Segment::Kind::kStripe: {
          const SharedGrant grant = extents.FindStripe(s.stripe);
          if (!grant) return Error(FsError::kIo, "the mapping names a stripe without saying where it is");
          out->read_into.push_back(out->pieces.size() - 1);
          bool via_cache = sequential;
          if (sequential) {
            const uint64_t run = s.length + (s.end() == next ? RunBehind(extents, s) : 0);
            via_cache = StripeBlocks::WorthABlock(grant->info.shape, s.stripe_offset, run, s.length);
          }
          out->parts.push_back(blocks_.Read(grant, s.stripe_offset, s.length,
                                            {.via_cache = via_cache, .passes = sequential, .patient = out->patient}, tally));
          break;
        }
      }
    }
    if (i == dirty.size()) break;
    out->pieces.emplace_back().Append(dirty[i].bytes);
    at = dirty[i].end();
  }
  return true;
}

Task<Result<BufferChain>> ReadPath::Fetch(ReadParts g) {
  Error first;
  std::vector<Result<BufferChain>> all;
  if (g.parts.size() == 1) all.push_back(co_await std::move(g.parts[0]));
  else if (!g.parts.empty()) all = co_await WhenAll(std::move(g.parts));
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].ok()) g.pieces[g.read_into[i]] = std::move(*all[i]);
    else if (first.ok() || MappingIsOld(first.code)) first = all[i].error();
  }
  if (!first.ok()) co_return first;
  BufferChain out;
  for (const BufferChain& piece : g.pieces) out.Append(piece);
  co_return out;
}

bool ReadPath::NextRead(FileReader* reader, const InodeMappingPtr& mapping, const Tallies& tally,
                        uint64_t offset, uint64_t length, uint64_t size, bool caches) {
  FileReader& r = *reader;
  if (!r.pattern_.IsSequential(offset, length)) {
    r.window_bytes_ = 0;
    r.ahead_to_ = 0;
    return false;
  }
  const uint64_t end = offset + length;
  if (r.window_bytes_ == 0) {
    r.window_bytes_ = StripeBlocks::kLeastAheadBytes;
    r.ahead_to_ = end;
  }
  if (!caches) return false;
  if (r.ahead_to_ < end + r.window_bytes_ / 2) {
    const uint64_t from = std::max(r.ahead_to_, end);
    const uint64_t to = std::min({end + r.window_bytes_, size, from + blocks_.RoomAhead(from == end)});
    if (to > from && blocks_.BeginAhead(to - from)) {
      scope_.Spawn(Prefetch(mapping, tally, from, to - from));
      r.ahead_to_ = to;
    }
    r.window_bytes_ = std::min(r.window_bytes_ * 2, most_ahead_);
  }
  return true;
}

// The byte is in a gathered column of this client's node. What is not known does not lie here.
bool ReadPath::LiesHere(const ExtentCache& extents, uint64_t offset) const {
  const NodeId local = peers_.local_node();
  if (!local) return false;
  const auto mapped = extents.Lookup(offset, 1);
  if (!mapped) return false;
  for (const Segment& s : *mapped) {
    const SharedGrant grant = s.kind == Segment::Kind::kStripe ? extents.FindStripe(s.stripe) : nullptr;
    if (!grant || !grant->info.shape.gathered() || s.stripe_offset >= grant->info.shape.payload_bytes) return false;
    const Location at = Locate(grant->info.shape, s.stripe_offset);
    return peers_.NodeOf(grant->info.columns[at.column.v].target) == local;
  }
  return false;
}

Task<void> ReadPath::Prefetch(InodeMappingPtr mapping, Tallies tally, uint64_t offset, uint64_t length) {
  auto known = co_await mappings_.Ensure(mapping, offset, length, false);
  blocks_.EndAhead(length);  // what of it is fetched counts itself, from here on
  if (!known.ok()) co_return;
  const ExtentCache& extents = mapping->known();
  // A reader of what lies here is likely to stop where that ends: others read the rest where it lies.
  const bool here = offset > 0 && LiesHere(extents, offset - 1);
  const auto mapped = extents.Lookup(offset, length);
  if (!mapped) co_return;
  for (const Segment& s : *mapped) {
    if (here && !LiesHere(extents, s.file_offset)) break;
    if (s.kind != Segment::Kind::kStripe) continue;
    const SharedGrant grant = extents.FindStripe(s.stripe);
    if (!grant || !StripeBlocks::WorthABlock(grant->info.shape, s.stripe_offset, s.length, s.length)) continue;
    uint64_t stripe_end = s.stripe_offset + s.length;
    if (here) stripe_end = std::min(stripe_end, s.stripe_offset + Locate(grant->info.shape, s.stripe_offset).run_bytes);
    blocks_.FetchAhead(grant, s.stripe_offset, stripe_end, tally);
  }
}

std::optional<ShardRead> ReadPath::LocalShard(const ExtentCache& extents, uint64_t size, uint64_t known) const {
  const auto mapped = extents.Lookup(0, known);
  if (!mapped || mapped->size() != 1 || mapped->front().kind != Segment::Kind::kStripe) return std::nullopt;
  const Segment& all = mapped->front();
  const SharedGrant grant = extents.FindStripe(all.stripe);
  if (!grant || all.stripe_offset >= grant->info.shape.payload_bytes) return std::nullopt;
  const Location place = Locate(grant->info.shape, all.stripe_offset);
  if (place.shard_offset != 0 || place.run_bytes < size) return std::nullopt;
  for (size_t c = 0; c < grant->info.columns.size(); ++c) {
    const Column& column = grant->info.columns[c];
    const bool has_it = c == place.column.v || grant->info.shape.codec == Codec::kCopy;
    if (!has_it || column.length != size || peers_.NodeOf(column.target) != peers_.local_node()) continue;
    if (peers_.ReadinessOf(column.target) != Readiness::kGood) continue;  // who reads through us gets it decoded
    return ShardRead{column.shard, column.target, grant->tokens[c], 0, size, 0, 0};
  }
  return std::nullopt;
}

}  // namespace stria
