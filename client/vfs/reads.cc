#include "client/vfs/reads.h"

#include <algorithm>
#include <string>
#include <utility>

namespace stria {
namespace {
// Of the mapping, asked at once by who looks for data or holes.
constexpr uint64_t kMapAheadBytes = 256 * kMiB;
// A range is asked again when its shards are gone or its tokens are old, when the mapping changed
// while it was being asked, and once when too few of its columns can be read.
constexpr int kMaxReadAttempts = 8;
constexpr int64_t kTokenPauseNs = kSecond / 4;
// Of the mapping, asked together with the size of a file that has grown: what one write adds.
constexpr uint64_t kGrowthMapBytes = 1 * kMiB;

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

Reads::Reads(ReadsRooms rooms)
    : attrs_(rooms.attrs), nodes_(rooms.nodes), leases_(rooms.leases), mappings_(rooms.mappings), read_path_(rooms.read_path),
      atimes_(rooms.atimes), made_ahead_(rooms.made_ahead), commits_(rooms.commits), keeper_(rooms.keeper),
      come_back_(rooms.come_back), attr_calls_(rooms.attr_calls), kernel_view_(rooms.kernel_view), peers_(rooms.peers),
      session_(rooms.session), counters_(rooms.counters), calls_(rooms.calls) {}

Task<Result<BufferChain>> Reads::Read(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length, bool for_pages,
                                      std::shared_ptr<ReadTally> reader) {
  const CallList::Call under_way(&calls_, for_pages ? "read of pages of" : "read of", h->inode->ino);
  VfsInodePtr inode = h->inode;
  VfsInode& n = *inode;
  CO_RETURN_IF_ERROR(come_back_.CheckHandle(*h));
  // An open may wait for other clients, and they for these pages: without a lease these are read as of now, and nothing is
  // kept.
  const bool held = leases_.Holds(n.lease, false) && n.lease.for_read();
  if (!for_pages && !held) CO_RETURN_IF_ERROR(co_await keeper_.Acquire(who, inode, true, h->write, false, /*again=*/true));
  ++counters_.read_calls;
  if (length == 0) co_return BufferChain();
  auto bytes = co_await ReadRange(inode, h.get(), offset, std::min(length, kMaxReadBytes), for_pages, std::move(reader));
  if (bytes.ok()) {
    counters_.read_bytes += bytes->size();
    NoteRead(inode, h->noatime);
  }
  co_return bytes;
}

Task<Result<BufferChain>> Reads::ReadRange(VfsInodePtr inode, VfsHandle* h, uint64_t offset,
                                         uint64_t length, bool for_pages, std::shared_ptr<ReadTally> reader) {
  VfsInode& n = *inode;
  Error last;
  bool asked_again = false;
  for (int attempt = 0; attempt < kMaxReadAttempts; ++attempt) {
    if (attempt > 0 && h != nullptr) CO_RETURN_IF_ERROR(come_back_.CheckHandle(*h));
    ReadGuard guard = session_.BeginRead();
    const ReadHow how{.for_pages = for_pages, .any = attempt + 1 == kMaxReadAttempts, .tally = {n.tally, reader}};
    ReadParts now;
    // Columns may have left the disks that the mapping names: a server that is gone as well is then one too many, and waited
    // for in vain. So the mapping is asked for anew before anybody waits for servers to come back.
    now.patient = asked_again;
    CO_ASSIGN_OR_RETURN(const bool mapped, co_await MapRead(inode, h, offset, length, how, &now));
    if (!mapped) continue;
    const uint64_t epoch = n.mapping.epoch();
    Result<BufferChain> bytes = co_await ReadPath::Fetch(std::move(now));
    if (bytes.ok()) {
      n.mapping.Doubt(Executor::Current().NowNs());
      co_return bytes;
    }
    last = bytes.error();
    const bool first_failure = !std::exchange(asked_again, true);
    if (!ReadPath::MappingIsOld(last.code) && !first_failure) break;
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
Task<Result<bool>> Reads::MapRead(VfsInodePtr inode, VfsHandle* h, uint64_t offset, uint64_t length,
                                ReadHow how, ReadParts* out) {
  VfsInode& n = *inode;
  const bool any = how.any;
  const LeaseMode lease = n.lease.mode();
  // While a call of ours changes the size, only the server knows whether that has happened yet.
  const auto resizes = [&] { return nodes_.IsResizing(n.ino) && n.writes.clean(); };
  const bool resizing = resizes();
  if (lease == LeaseMode::kShared || lease == LeaseMode::kNone || resizing) {
    // Bytes that may turn out not to be the file's are shown to nobody who can wait. (Not to who holds pages locked: what
    // others forget for our commit may wait for those.)
    if (n.take_up.any() && !how.for_pages && !any) {
      (void)co_await commits_.FlushInode(inode, false);
      if (!n.take_up.any()) co_return false;  // begin again, if the handle still is one
    }
    // Size and mapping are the server's, and in one answer.
    const bool was_clean = n.writes.clean();
    const uint64_t epoch = n.mapping.epoch();
    uint64_t end = RangeEnd(offset, length);
    ExtentCache mapping;
    Attr seen;
    const uint64_t own_size = n.take_up.any() && n.attr_known ? n.attr.size : 0;
    const Mappings::AtOnceHow at_once{.for_pages = how.for_pages, .any = any, .own_size = own_size};
    CO_ASSIGN_OR_RETURN(const bool whole, co_await mappings_.AtOnce(MappingOf(inode), offset, at_once, &end, &mapping, &seen));
    if (seen.ino) co_await attrs_.ForgetOlder(seen);
    // What was committed meanwhile may be in neither; what is buffered under a new lease, or since the size has changed,
    // is of another moment.
    bool moved = n.lease.mode() != lease || (!was_clean && n.mapping.epoch() != epoch);
    if (resizing) moved = moved || n.mapping.epoch() != epoch || !n.writes.clean();
    if (!whole || (moved && !any)) co_return false;
    if (offset >= end) co_return true;
    co_return read_path_.Add(n.writes.Find(offset, end - offset), mapping, offset, end, false, how.tally, out);
  }
  if (!n.attr_known) {
    CO_RETURN_IF_ERROR(co_await keeper_.KnowAttr(inode, how.for_pages));
    if ((n.lease.mode() != lease || resizes()) && !any) co_return false;
  }
  if (offset >= n.attr.size) co_return true;
  uint64_t end = offset + std::min(length, n.attr.size - offset);
  const bool caches = !n.lease.shared();
  const bool sequential = h && read_path_.NextRead(&h->reader, MappingOf(inode), how.tally, offset, end - offset, n.attr.size, caches);
  if (!IsKnown(n, offset, end)) {
    CO_RETURN_IF_ERROR(co_await mappings_.Ensure(MappingOf(inode), offset, end - offset, how.for_pages));
    if ((n.lease.mode() != lease || !n.attr_known || resizes()) && !any) co_return false;
    if (offset >= n.attr.size) co_return true;
    if (n.attr.size - offset > end - offset && end - offset < length && !any) co_return false;  // it grew
    end = std::min(end, n.attr.size);
  }
  co_return read_path_.Add(n.writes.Find(offset, end - offset), n.mapping.known(), offset, end, sequential, how.tally, out);
}

Task<std::optional<ShardRead>> Reads::WholeShard(VfsHandlePtr h) {
  const VfsInodePtr inode = h->inode;
  const VfsInode& n = *inode;
  const auto steady = [&] { return h->page_cache && n.attr_known && n.writes.clean() && n.writers == 0 && !nodes_.IsResizing(n.ino); };
  const uint64_t size = n.attr.size;
  const uint64_t version = n.attr.data_version;
  if (!peers_.local_node() || !steady() || size == 0 || size > kMaxStripeBytes) co_return std::nullopt;
  std::optional<ShardRead> shard;
  // First as little of the mapping as says whether to ask for all of it.
  for (const uint64_t known : {uint64_t{1}, size}) {
    if (!(co_await mappings_.Ensure(MappingOf(inode), 0, known, false)).ok()) co_return std::nullopt;
    if (!steady() || n.attr.data_version != version || n.attr.size != size) co_return std::nullopt;
    shard = read_path_.LocalShard(n.mapping.known(), size, known);
    if (!shard) co_return std::nullopt;
  }
  NoteRead(inode, h->noatime);
  co_return shard;
}

// The kernel takes a size only with a byte. As for pages that it reads: this waits for no lease, nor for acknowledgements.
Task<Result<FileGrowth>> Reads::LookForGrowth(VfsInodePtr inode) {
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
  one.patient = false;
  CO_ASSIGN_OR_RETURN(const bool mapped,
                      read_path_.Add(n.writes.Find(size - 1, 1), *mapping, size - 1, size, false, n.tally, &one));
  if (!mapped) co_return g;
  CO_ASSIGN_OR_RETURN(const BufferChain bytes, co_await ReadPath::Fetch(std::move(one)));
  if (bytes.size() == 1) g.last = bytes.Flatten().data()[0];
  co_return g;
}

Task<Result<uint64_t>> Reads::Seek(Caller who, VfsHandlePtr h, uint64_t offset, bool hole) {
  const CallList::Call under_way(&calls_, "seek in", h->inode->ino);
  VfsInodePtr inode = h->inode;
  CO_RETURN_IF_ERROR(come_back_.CheckHandle(*h));
  // The mapping knows committed bytes only. Dirty bytes and stores into mappings are no holes either.
  if (inode->may_be_mapped_to_write()) co_await kernel_view_.ForgetPagesForOthers(InKernel(inode));
  if (!inode->writes.clean()) CO_RETURN_IF_ERROR(co_await commits_.FlushInode(inode, false));
  CO_ASSIGN_OR_RETURN(const EntryOut now, co_await attr_calls_.GetAttr(who, inode->ino));
  const uint64_t size = now.attr.size;
  if (offset >= size) co_return Error(FsError::kNxio);
  uint64_t at = offset;
  while (at < size) {
    ExtentCache asked;  // used once
    const ExtentCache* mapping = &inode->mapping.known();
    if (leases_.Holds(inode->lease, false) && !inode->lease.shared()) {
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

void Reads::NoteRead(const VfsInodePtr& inode, bool noatime) {
  if (inode->attr_known) atimes_.Note(AtimeOf(inode), inode->attr, noatime);
}

Task<bool> Reads::MayTellRead(VfsInodePtr inode) {
  if (!inode || !inode->attr_known || inode->lease.generation() != session_.generation()) co_return false;
  co_return !inode->made.file() || (co_await made_ahead_.Tell(MadeOf(inode), false)).ok();
}

Task<bool> Reads::TellRead(VfsInodePtr inode, std::optional<int64_t> read_ns) {
  if (!inode) co_return false;
  SetAttrRequest r;
  r.ino = inode->ino;
  r.header.opened = inode->lease.proof();
  r.read_ns = read_ns;
  r.read_version = inode->attr.version;
  const uint64_t since = nodes_.epoch();
  const auto reply = co_await session_.Mutate(&MetaService::SetAttr, std::move(r), Caller());
  if (reply.ok()) attrs_.RememberNode(*reply, nodes_.SinceChange(since));
  co_return reply.ok();
}

}  // namespace stria
