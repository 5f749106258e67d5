// Reading: newest bytes win. Dirty pieces over extents; extents lead to stripes; stripes are read
// through the block cache when the reader is sequential, else just the asked range.
#include <algorithm>
#include <string>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"
#include "stripe/layout.h"

namespace stria {
namespace {
constexpr uint64_t kBlock = BlockCache::kBlockBytes;
// Of the mapping, asked at once by who looks for data or holes.
constexpr uint64_t kMapAheadBytes = 256 * kMiB;
// A range is asked again when its shards are gone or its tokens are old, when the mapping changed
// while it was being asked, and once when too few of its columns can be read.
constexpr int kMaxReadAttempts = 8;
constexpr int64_t kTokenPauseNs = kSecond / 4;
// Of the mapping, asked together with the size of a file that has grown: what one write adds.
constexpr uint64_t kGrowthMapBytes = 1 * kMiB;

constexpr uint64_t kZeroBytes = 64 * kKiB;

// A hole's bytes; all of them are the same memory.
BufferChain Zeros(uint64_t length) {
  static const Buffer zeros = Buffer::FromString(std::string(kZeroBytes, '\0'));
  BufferChain out;
  for (; length > 0; length -= std::min(length, kZeroBytes)) out.Append(zeros.Slice(0, std::min(length, kZeroBytes)));
  return out;
}

bool MappingIsOld(FsError e) { return e == FsError::kNoSuchShard || e == FsError::kTokenExpired; }

// All that is not dirty is mapped.
bool IsKnown(const VfsInode& n, uint64_t offset, uint64_t end) {
  const int64_t now_ns = Executor::Current().NowNs();
  uint64_t at = offset;
  for (const DirtyPiece& p : n.writes.Find(offset, end - offset)) {
    if (p.offset > at && !n.mapping.known().Covers(at, p.offset - at, now_ns)) return false;
    at = p.end();
  }
  return at >= end || n.mapping.known().Covers(at, end - at, now_ns);
}

}  // namespace

Task<Result<BufferChain>> Vfs::Read(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length, bool for_pages) {
  const CallList::Call under_way(&calls_, for_pages ? "read of pages of" : "read of", h->inode->ino);
  std::shared_ptr<VfsInode> inode = h->inode;
  VfsInode& n = *inode;
  CO_RETURN_IF_ERROR(CheckHandle(*h));
  // An open may wait for other clients, and they for these pages: without a lease these are read as of now, and nothing is
  // kept.
  const bool held = HoldsFor(n, false) && n.for_read;
  if (!for_pages && !held) CO_RETURN_IF_ERROR(co_await Acquire(who, inode, true, h->write, false, /*again=*/true));
  ++counters_.read_calls;
  if (length == 0) co_return BufferChain();
  auto bytes = co_await ReadRange(inode, h.get(), offset, std::min(length, kMaxReadBytes), for_pages);
  if (bytes.ok()) {
    counters_.read_bytes += bytes->size();
    NoteRead(inode, h->noatime);
  }
  co_return bytes;
}

Task<Result<BufferChain>> Vfs::ReadRange(std::shared_ptr<VfsInode> inode, VfsHandle* h, uint64_t offset,
                                         uint64_t length, bool for_pages) {
  VfsInode& n = *inode;
  Error last;
  bool asked_again = false;
  for (int attempt = 0; attempt < kMaxReadAttempts; ++attempt) {
    if (attempt > 0 && h != nullptr) CO_RETURN_IF_ERROR(CheckHandle(*h));
    ReadGuard guard = session_.BeginRead();
    ReadParts now;
    now.for_pages = for_pages;
    now.any = attempt + 1 == kMaxReadAttempts;
    // Columns may have left the disks that the mapping names: a server that is gone as well is then one too many, and waited
    // for in vain. So the mapping is asked for anew before anybody waits for servers to come back.
    now.patient = asked_again;
    CO_ASSIGN_OR_RETURN(const bool mapped, co_await MapRead(inode, h, offset, length, &now));
    if (!mapped) continue;
    const uint64_t epoch = n.mapping.epoch();
    Result<BufferChain> bytes = co_await Fetch(std::move(now));
    if (bytes.ok()) {
      n.mapping.Doubt(Executor::Current().NowNs());
      co_return bytes;
    }
    last = bytes.error();
    const bool first_failure = !std::exchange(asked_again, true);
    if (!MappingIsOld(last.code) && !first_failure) break;
    // A data server that has not heard from a restarted metadata server judges its tokens by another clock.
    if (last.code == FsError::kTokenExpired) co_await Sleep(attempt * kTokenPauseNs);
    if (last.code == FsError::kNoSuchShard) ++counters_.lost_mappings;
    if (n.mapping.epoch() != epoch) continue;  // another reader has found that out before
    n.mapping.Forget();
  }
  co_return Error(FsError::kIo, "inode " + std::to_string(n.ino.v) + " at " + std::to_string(offset) + "+" +
                                    std::to_string(length) + ": " + last.ToString());
}

// Size, dirty bytes and mapping of one moment; stripes never change, so their bytes can be fetched later. False:
// something came between, try again.
Task<Result<bool>> Vfs::MapRead(std::shared_ptr<VfsInode> inode, VfsHandle* h, uint64_t offset, uint64_t length,
                                ReadParts* out) {
  VfsInode& n = *inode;
  const bool any = out->any;
  const LeaseMode lease = n.lease;
  // While a call of ours changes the size, only the server knows whether that has happened yet.
  const auto resizes = [&] { return nodes_.IsResizing(n.ino) && n.writes.clean(); };
  const bool resizing = resizes();
  if (lease == LeaseMode::kShared || lease == LeaseMode::kNone || resizing) {
    // Bytes that may turn out not to be the file's are shown to nobody who can wait. (Not to who holds pages locked: what
    // others forget for our commit may wait for those.)
    if (n.base_version && !out->for_pages && !any) {
      (void)co_await FlushInode(inode, false);
      if (!n.base_version) co_return false;  // begin again, if the handle still is one
    }
    // Size and mapping are the server's, and in one answer.
    const bool was_clean = n.writes.clean();
    const uint64_t epoch = n.mapping.epoch();
    uint64_t end = RangeEnd(offset, length);
    ExtentCache mapping;
    Attr seen;
    if (n.base_version && n.attr_known) out->own_size = n.attr.size;
    CO_ASSIGN_OR_RETURN(const bool whole, co_await mappings_.AtOnce(MappingOf(inode), offset, AtOnce(*out), &end, &mapping, &seen));
    if (seen.ino) co_await ForgetOlder(seen);
    // What was committed meanwhile may be in neither; what is buffered under a new lease, or since the size has changed,
    // is of another moment.
    bool moved = n.lease != lease || (!was_clean && n.mapping.epoch() != epoch);
    if (resizing) moved = moved || n.mapping.epoch() != epoch || !n.writes.clean();
    if (!whole || (moved && !any)) co_return false;
    if (offset >= end) co_return true;
    co_return AddParts(n.writes.Find(offset, end - offset), mapping, offset, end, false, n.tally, out);
  }
  if (!n.attr_known) {
    CO_RETURN_IF_ERROR(co_await KnowAttr(inode, out->for_pages));
    if ((n.lease != lease || resizes()) && !any) co_return false;
  }
  if (offset >= n.attr.size) co_return true;
  uint64_t end = offset + std::min(length, n.attr.size - offset);
  const bool sequential = NoteSequence(inode, h, offset, end - offset);
  if (!IsKnown(n, offset, end)) {
    CO_RETURN_IF_ERROR(co_await mappings_.Ensure(MappingOf(inode), offset, end - offset, out->for_pages));
    if ((n.lease != lease || !n.attr_known || resizes()) && !any) co_return false;
    if (offset >= n.attr.size) co_return true;
    if (n.attr.size - offset > end - offset && end - offset < length && !any) co_return false;  // it grew
    end = std::min(end, n.attr.size);
  }
  co_return AddParts(n.writes.Find(offset, end - offset), n.mapping.known(), offset, end, sequential, n.tally, out);
}

// How far a segment goes on behind the range that was looked up, up to a block.
uint64_t Vfs::RunBehind(const ExtentCache& extents, const Segment& s) {
  const uint64_t known = std::min(extents.CoveredTo(s.end()), s.end() + kBlock);
  if (known <= s.end()) return 0;
  const auto more = extents.Lookup(s.end(), known - s.end());
  if (!more || more->empty()) return 0;
  const Segment& next = more->front();
  const bool follows = next.kind == Segment::Kind::kStripe && next.stripe == s.stripe && next.stripe_offset == s.stripe_offset + s.length;
  return follows ? next.length : 0;
}

// Dirty bytes over the mapping. False if that does not cover what they do not.
Result<bool> Vfs::AddParts(const std::vector<DirtyPiece>& dirty, const ExtentCache& extents, uint64_t offset,
                           uint64_t end, bool sequential, const std::shared_ptr<ReadTally>& tally,
                           ReadParts* out) {
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

// The shard on a disk of this node that is as long as the file and begins with its first `known` bytes, which are mapped.
std::optional<ShardRead> Vfs::ShardOf(const VfsInode& n, uint64_t known) const {
  const uint64_t size = n.attr.size;
  const auto mapped = n.mapping.known().Lookup(0, known);
  if (!mapped || mapped->size() != 1 || mapped->front().kind != Segment::Kind::kStripe) return std::nullopt;
  const Segment& all = mapped->front();
  const SharedGrant grant = n.mapping.known().FindStripe(all.stripe);
  if (!grant || all.stripe_offset >= grant->info.shape.payload_bytes) return std::nullopt;
  const Location place = Locate(grant->info.shape, all.stripe_offset);
  if (place.shard_offset != 0 || place.run_bytes < size) return std::nullopt;
  for (size_t c = 0; c < grant->info.columns.size(); ++c) {
    const Column& column = grant->info.columns[c];
    const bool has_it = c == place.column.v || grant->info.shape.codec == Codec::kCopy;
    if (!has_it || column.length != size || io_.peers.NodeOf(column.target) != io_.peers.local_node()) continue;
    if (io_.peers.ReadinessOf(column.target) != Readiness::kGood) continue;  // who reads through us gets it decoded
    return ShardRead{column.shard, column.target, grant->tokens[c], 0, size, 0, 0};
  }
  return std::nullopt;
}

Task<std::optional<ShardRead>> Vfs::WholeShard(VfsHandlePtr h) {
  const std::shared_ptr<VfsInode> inode = h->inode;
  const VfsInode& n = *inode;
  const auto steady = [&] { return h->page_cache && n.attr_known && n.writes.clean() && n.writers == 0 && !nodes_.IsResizing(n.ino); };
  const uint64_t size = n.attr.size;
  const uint64_t version = n.attr.data_version;
  if (!io_.peers.local_node() || !steady() || size == 0 || size > kMaxStripeBytes) co_return std::nullopt;
  std::optional<ShardRead> shard;
  // First as little of the mapping as says whether to ask for all of it.
  for (const uint64_t known : {uint64_t{1}, size}) {
    if (!(co_await mappings_.Ensure(MappingOf(inode), 0, known, false)).ok()) co_return std::nullopt;
    if (!steady() || n.attr.data_version != version || n.attr.size != size) co_return std::nullopt;
    shard = ShardOf(n, known);
    if (!shard) co_return std::nullopt;
  }
  NoteRead(inode, h->noatime);
  co_return shard;
}

Task<Result<BufferChain>> Vfs::Fetch(ReadParts g) {
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

bool Vfs::NoteSequence(const std::shared_ptr<VfsInode>& inode, VfsHandle* h, uint64_t offset, uint64_t length) {
  if (!h) return false;
  if (!h->pattern.IsSequential(offset, length)) {
    h->window_bytes = 0;
    h->ahead_to = 0;
    return false;
  }
  const uint64_t end = offset + length;
  if (h->window_bytes == 0) {
    h->window_bytes = StripeBlocks::kLeastAheadBytes;
    h->ahead_to = end;
  }
  if (inode->lease == LeaseMode::kShared) return false;
  if (h->ahead_to < end + h->window_bytes / 2) {
    const uint64_t from = std::max(h->ahead_to, end);
    const uint64_t to = std::min({end + h->window_bytes, inode->attr.size, from + blocks_.RoomAhead(from == end)});
    if (to > from && blocks_.BeginAhead(to - from)) {
      scope_.Spawn(Prefetch(inode, from, to - from));
      h->ahead_to = to;
    }
    h->window_bytes = std::min(h->window_bytes * 2, options_.readahead_bytes);
  }
  return true;
}

// The byte is in a gathered column of this client's node. What is not known does not lie here.
bool Vfs::LiesHere(const VfsInode& n, uint64_t offset) const {
  const NodeId local = io_.peers.local_node();
  if (!local) return false;
  const auto mapped = n.mapping.known().Lookup(offset, 1);
  if (!mapped) return false;
  for (const Segment& s : *mapped) {
    const SharedGrant grant = s.kind == Segment::Kind::kStripe ? n.mapping.known().FindStripe(s.stripe) : nullptr;
    if (!grant || !grant->info.shape.gathered() || s.stripe_offset >= grant->info.shape.payload_bytes) return false;
    const Location at = Locate(grant->info.shape, s.stripe_offset);
    return io_.peers.NodeOf(grant->info.columns[at.column.v].target) == local;
  }
  return false;
}

Task<void> Vfs::Prefetch(std::shared_ptr<VfsInode> inode, uint64_t offset, uint64_t length) {
  auto known = co_await mappings_.Ensure(MappingOf(inode), offset, length, false);
  blocks_.EndAhead(length);  // what of it is fetched counts itself, from here on
  if (!known.ok()) co_return;
  // A reader of what lies here is likely to stop where that ends: others read the rest where it lies.
  const bool here = offset > 0 && LiesHere(*inode, offset - 1);
  const auto mapped = inode->mapping.known().Lookup(offset, length);
  if (!mapped) co_return;
  for (const Segment& s : *mapped) {
    if (here && !LiesHere(*inode, s.file_offset)) break;
    if (s.kind != Segment::Kind::kStripe) continue;
    const SharedGrant grant = inode->mapping.known().FindStripe(s.stripe);
    if (!grant || !StripeBlocks::WorthABlock(grant->info.shape, s.stripe_offset, s.length, s.length)) continue;
    uint64_t stripe_end = s.stripe_offset + s.length;
    if (here) stripe_end = std::min(stripe_end, s.stripe_offset + Locate(grant->info.shape, s.stripe_offset).run_bytes);
    blocks_.FetchAhead(grant, s.stripe_offset, stripe_end, inode->tally);
  }
}

// The kernel takes a size only with a byte. As for pages that it reads: this waits for no lease, nor for acknowledgements.
Task<Result<FileGrowth>> Vfs::LookForGrowth(std::shared_ptr<VfsInode> inode) {
  VfsInode& n = *inode;
  const ReadGuard guard = session_.BeginRead();
  const Mappings::AtOnceHow how{.for_pages = true};
  FileGrowth g;
  auto mapping = std::make_unique<ExtentCache>();
  const uint64_t from = n.in_kernel.size() > 0 ? n.in_kernel.size() - 1 : 0;
  uint64_t end = RangeEnd(from, kGrowthMapBytes);
  CO_ASSIGN_OR_RETURN(bool whole, co_await mappings_.AtOnce(MappingOf(inode), from, how, &end, mapping.get(), &g.seen));
  if (whole && g.seen.size > n.in_kernel.size() && g.seen.size > end) {
    mapping = std::make_unique<ExtentCache>();
    end = g.seen.size;
    CO_ASSIGN_OR_RETURN(whole, co_await mappings_.AtOnce(MappingOf(inode), end - 1, how, &end, mapping.get(), &g.seen));
  }
  const uint64_t size = g.seen.size;
  if (!whole || size <= n.in_kernel.size()) co_return g;
  ReadParts one;
  one.for_pages = true;
  one.patient = false;
  CO_ASSIGN_OR_RETURN(const bool mapped,
                      AddParts(n.writes.Find(size - 1, 1), *mapping, size - 1, size, false, n.tally, &one));
  if (!mapped) co_return g;
  CO_ASSIGN_OR_RETURN(const BufferChain bytes, co_await Fetch(std::move(one)));
  if (bytes.size() == 1) g.last = bytes.Flatten().data()[0];
  co_return g;
}

Task<Result<uint64_t>> Vfs::Seek(Caller who, VfsHandlePtr h, uint64_t offset, bool hole) {
  const CallList::Call under_way(&calls_, "seek in", h->inode->ino);
  std::shared_ptr<VfsInode> inode = h->inode;
  CO_RETURN_IF_ERROR(CheckHandle(*h));
  // The mapping knows only what is committed.
  if (!inode->writes.clean()) CO_RETURN_IF_ERROR(co_await FlushInode(inode, false));
  CO_ASSIGN_OR_RETURN(const EntryOut now, co_await GetAttr(who, inode->ino));
  const uint64_t size = now.attr.size;
  if (offset >= size) co_return Error(FsError::kNxio);
  uint64_t at = offset;
  while (at < size) {
    ExtentCache asked;  // used once
    const ExtentCache* mapping = &inode->mapping.known();
    if (HoldsFor(*inode, false) && inode->lease != LeaseMode::kShared) {
      CO_RETURN_IF_ERROR(co_await mappings_.Ensure(MappingOf(inode), at, 1, false));
    } else {
      uint64_t end = std::min(RangeEnd(at, kMapAheadBytes), size);
      Attr seen;
      CO_ASSIGN_OR_RETURN([[maybe_unused]] const bool whole, co_await mappings_.AtOnce(MappingOf(inode), at, {.any = true}, &end, &asked, &seen));
      mapping = &asked;
    }
    const uint64_t end = std::min(mapping->CoveredTo(at), size);
    if (end == at) break;  // it has become shorter meanwhile
    const std::vector<Segment> segments = mapping->Lookup(at, end - at).value();
    for (const Segment& s : segments) {
      if ((s.kind == Segment::Kind::kHole) == hole) co_return s.file_offset;
    }
    at = end;
  }
  if (hole) co_return size;
  co_return Error(FsError::kNxio);
}

}  // namespace stria
