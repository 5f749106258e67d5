#include "server/shard_store.h"

#include <algorithm>
#include <utility>

#include "common/sabotage.h"
#include "common/superblock.h"
#include "stripe/checksum.h"

namespace stria {
namespace {

constexpr uint64_t kVerifyChunkBytes = 1 * kMiB;

Buffer Copied(const BufferChain& data) {
  MutableBuffer out(data.size());
  data.CopyTo(0, data.size(), out.data());
  return std::move(out).Freeze();
}

// The first block that is wrong, by its number in the shard.
std::optional<uint64_t> FirstBadInChain(ShardId shard, uint64_t first_block, const BufferChain& data, const LeftOut& left_out,
                                        const std::vector<uint32_t>& crcs) {
  if (data.parts().size() == 1 || left_out.any()) {
    return FirstBadBlock(shard, first_block, data.Flatten().span(), left_out, crcs);
  }
  for (size_t i = 0; i < crcs.size(); ++i) {
    const uint64_t at = i * kChecksumBlockBytes;
    const uint64_t n = std::min<uint64_t>(kChecksumBlockBytes, data.size() - at);
    const Buffer block = data.Slice(at, n).Flatten();
    if (BlockCrc(shard, first_block + i, block.span()) != crcs[i]) return first_block + i;
  }
  return std::nullopt;
}

}  // namespace

ShardStore::ShardStore(Disk* disk, KvStore* kv, Pool* index_pool, Pool* cpu_pool, ShardStoreOptions options)
    : disk_(disk),
      cpu_pool_(cpu_pool),
      options_(std::move(options)),
      index_(kv, index_pool),
      segments_(disk, &index_, options_.disk),
      silence_(options_.name, [this] { return AskDisk(); }) {}

// ---- Errors ---------------------------------------------------------------------------------------

Error ShardStore::NoSuchShard(ShardId shard) const {
  return Error(FsError::kNoSuchShard, options_.name + " has no shard " + std::to_string(shard.v));
}

void ShardStore::MarkBad(ShardId shard) {
  if (bad_.size() < kMaxRememberedBadShards) bad_.insert(shard);
}

std::vector<ShardId> ShardStore::TakeBadShards(size_t limit) {
  std::vector<ShardId> out;
  while (!bad_.empty() && out.size() < limit) {
    out.push_back(*bad_.begin());
    bad_.erase(bad_.begin());
  }
  return out;
}

Error ShardStore::Damaged(ShardId shard, const std::string& how) {
  ++checksum_errors_;
  MarkBad(shard);
  return Error(FsError::kChecksum, options_.name + ": shard " + std::to_string(shard.v) + " " + how);
}

void ShardStore::Fence(const Error& e) {
  if (!failure_.ok()) return;
  out_of_room_ = e.code == FsError::kNoSpace && index_.found_no_room();
  failure_ = Error(FsError::kDiskFailed,
                   options_.name + (out_of_room_ ? " is filled by something else, and can only be read until there is room for its index: " : " has failed: ") +
                       e.message);
}

uint64_t ShardStore::room_for_index() const { return std::min(space_.capacity_bytes / 100, kMaxHardReserveBytes); }

Error ShardStore::CountRead(Error e) {
  if (e.code == FsError::kIo) e.code = FsError::kDiskFailed;
  if (e.code == FsError::kDiskFailed && ++read_errors_ + write_errors_ >= kMaxDiskErrors) Fence(e);
  return e.WithContext(options_.name);
}

Error ShardStore::CountWrite(Error e) {
  if (e.code == FsError::kIo) e.code = FsError::kDiskFailed;
  if (e.code == FsError::kDiskFailed && ++write_errors_ + read_errors_ >= kMaxDiskErrors) Fence(e);
  return e.WithContext(options_.name);
}

Task<Result<void>> ShardStore::CheckCrcs(ShardId shard, uint64_t first_block, BufferChain data, LeftOut left_out,
                                         std::vector<uint32_t> crcs) {
  std::optional<uint64_t> bad;
  if (data.size() <= kCheckInlineBytes) {
    bad = FirstBadInChain(shard, first_block, data, left_out, crcs);
  } else {
    bad = co_await RunOn(*cpu_pool_, [shard, first_block, data, left_out, crcs = std::move(crcs)] {
      return FirstBadInChain(shard, first_block, data, left_out, crcs);
    });
  }
  if (!bad) co_return Ok();
  co_return Error(FsError::kChecksum, "block " + std::to_string(*bad) + " of shard " +
                                          std::to_string(shard.v) + " does not have its checksum");
}

// ---- Space ----------------------------------------------------------------------------------------

bool ShardStore::hung() const {
  return asking_space_ && Executor::Current().NowNs() - asked_space_ns_ > kDiskHungNs;
}

Error ShardStore::Usable() const {
  if (failed()) return failure_;
  if (hung()) return Error(FsError::kDiskFailed, options_.name + " does not answer");
  if (silence_.silent()) return silence_.error();
  return {};
}

// For bytes from the disk itself, not from a cache.
Task<void> ShardStore::AskDisk() {
  const auto answer = co_await disk_->ReadStored(std::string(kSuperblockFile), 0, kSuperblockBytes);
  (void)answer;
}

// Asks the disk, or waits for the answer to a question under way. The only question that is asked
// without end: it tells whether the disk still answers.
Task<Result<void>> ShardStore::RefreshSpace() {
  if (!asking_space_) {
    asking_space_ = true;
    asked_space_ns_ = Executor::Current().NowNs();
    scope_.Spawn([](ShardStore* s) -> Task<void> {
      s->written_since_space_ = 0;
      Result<DiskSpace> space = co_await s->disk_->Space();
      s->space_error_ = space.ok() ? Error() : s->CountRead(space.error());
      if (space.ok()) s->space_ = *space;
      s->asking_space_ = false;
      s->space_answered_.Pulse();
    }(this));
  }
  co_await space_answered_.Wait();
  co_return space_error_;
}

Task<void> ShardStore::SpaceLoop() {
  while (true) {
    co_await Sleep(kSpacePeriodNs);
    Result<void> asked = co_await RefreshSpace();
    (void)asked;  // kept in space_error_, counted
  }
}

Error ShardStore::HasRoom(uint64_t bytes, bool repair) const {
  const uint64_t reserve = repair ? room_for_index() : space_.capacity_bytes * kRepairReservePercent / 100;
  if (space_.free_bytes >= written_since_space_ + bytes + reserve) return {};
  return Error(FsError::kNoSpace, options_.name + " is full" + (repair ? "" : " (the rest is for repairs)"));
}

Task<Result<void>> ShardStore::CheckSpace(uint64_t bytes, bool repair) {
  if (!HasRoom(bytes, repair).ok()) {  // as last known; perhaps there is more by now
    CO_RETURN_IF_ERROR(co_await RefreshSpace());
    CO_RETURN_IF_ERROR(Result<void>(HasRoom(bytes, repair)));
  }
  written_since_space_ += bytes;
  co_return Ok();
}

DiskUsage ShardStore::Usage() const {
  DiskUsage out;
  out.capacity_bytes = space_.capacity_bytes;
  out.filesystem = space_.filesystem;
  const uint64_t reserve = space_.capacity_bytes * kRepairReservePercent / 100 + written_since_space_;
  out.free_bytes = space_.free_bytes > reserve && !out_of_room() ? space_.free_bytes - reserve : 0;
  out.used_bytes = index_.totals().used_bytes;
  out.shards = index_.totals().shards;
  out.read_errors = read_errors_;
  out.write_errors = write_errors_;
  out.checksum_errors = checksum_errors_;
  out.failed = (failed() && !out_of_room()) || hung();
  // 0 is "too few to say".
  out.read_us = DivCeil(static_cast<uint64_t>(read_times_.Median()), static_cast<uint64_t>(kMicrosecond));
  return out;
}

// ---- Writing --------------------------------------------------------------------------------------

Error ShardStore::CheckWrite(ShardId shard, uint64_t offset, uint64_t length, size_t crcs) const {
  if (!shard || offset % kChecksumBlockBytes != 0 || length == 0 || offset > kMaxStripeBytes ||
      length > kMaxStripeBytes - offset || crcs != ChecksumBlocks(length)) {
    return Error(FsError::kBadRequest, "a write to shard " + std::to_string(shard.v) + " is malformed");
  }
  return {};
}

Task<Result<ShardStore::OpenPtr>> ShardStore::FindOrOpen(ShardId shard, uint64_t offset, uint64_t length,
                                                         const std::vector<uint32_t>& crcs) {
  while (blocked_.contains(shard)) co_await unblocked_.Wait();
  if (auto it = open_.find(shard); it != open_.end()) co_return it->second;
  // Else another write could open it, and seal it, while this one learns that it has no record.
  Blocks looks(this);
  CHECK(looks.Add(shard), "it was not blocked");
  Result<ShardRecordPtr> record = co_await index_.Get(shard, false);
  if (record.code() == FsError::kCorrupt) co_return Damaged(shard, "has a damaged index record");
  if (!record.ok()) co_return CountRead(record.error());
  if (const ShardRecordPtr& r = *record) {
    const uint64_t first = offset / kChecksumBlockBytes;
    const bool inside =
        offset + length == r->length || (offset + length < r->length && length % kChecksumBlockBytes == 0);
    if (inside && std::equal(crcs.begin(), crcs.end(), r->crcs.begin() + static_cast<ptrdiff_t>(first))) {
      co_return OpenPtr();
    }
    co_return Error(FsError::kShardSealed, "shard " + std::to_string(shard.v) + " is sealed");
  }
  if (open_.size() >= kMaxOpenShards) {
    co_return Error(FsError::kRetryLater, options_.name + " has too many unsealed shards");
  }
  auto fresh = std::make_shared<OpenShard>(shard);
  open_[shard] = fresh;
  co_return fresh;
}

Task<Result<void>> ShardStore::Write(ShardId shard, uint64_t offset, BufferChain data,
                                     std::vector<uint32_t> crcs, bool repair, bool keep) {
  const uint64_t length = data.size();
  CO_RETURN_IF_ERROR(Result<void>(CheckWrite(shard, offset, length, crcs.size())));
  CO_RETURN_IF_ERROR(Result<void>(Usable()));
  if (!write_bytes_.TryAcquire(static_cast<int64_t>(length))) {
    co_return Error(FsError::kRetryLater, options_.name + " has too much to write");
  }
  const SemaphoreHold hold(&write_bytes_, static_cast<int64_t>(length));
  const uint64_t first_block = offset / kChecksumBlockBytes;
  CO_RETURN_IF_ERROR(co_await CheckCrcs(shard, first_block, data, LeftOut(), crcs));
  while (true) {
    CO_ASSIGN_OR_RETURN(const OpenPtr open, co_await FindOrOpen(shard, offset, length, crcs));
    if (!open) co_return Ok();
    open->touched_ns = Executor::Current().NowNs();
    if (open->dead) co_return NoSuchShard(shard);
    switch (open->Compare(first_block, length, crcs)) {
      case OpenShard::Overlap::kInFlight:
        co_await open->changed.Wait();
        continue;
      case OpenShard::Overlap::kRepeat:
        co_return Ok();
      case OpenShard::Overlap::kDiffers:
        co_return Error(FsError::kConflict, "shard " + std::to_string(shard.v) +
                                                " has other bytes at offset " + std::to_string(offset));
      case OpenShard::Overlap::kFresh:
        break;
    }
    if (open->sealing)
      co_return Error(FsError::kShardSealed, "shard " + std::to_string(shard.v) + " is being sealed");
    open->Begin(first_block, crcs.size());
    Result<void> written = co_await WriteBlocks(open, offset, std::move(data), repair, keep);
    open->End(first_block, length, crcs, written.ok());
    open->touched_ns = Executor::Current().NowNs();
    co_return written;
  }
}

void ShardStore::Buffer64(OpenShard* shard, uint64_t first_block, const BufferChain& data, bool keep) {
  // Copied unless `keep`: a slice would keep the whole message that it came in.
  for (uint64_t at = 0; at < data.size(); at += kChecksumBlockBytes) {
    const uint64_t n = std::min<uint64_t>(kChecksumBlockBytes, data.size() - at);
    const BufferChain block = data.Slice(at, n);
    Buffer& slot = shard->small[first_block + at / kChecksumBlockBytes];
    shard->buffered_bytes += n - slot.size();
    buffered_bytes_ += n - slot.size();
    slot = keep ? block.Flatten() : Copied(block);
  }
}

Task<Result<void>> ShardStore::WriteBlocks(OpenPtr shard, uint64_t offset, BufferChain data, bool repair, bool keep) {
  CO_RETURN_IF_ERROR(co_await CheckSpace(data.size(), repair));
  const bool small = offset + data.size() <= kMaxPackedShardBytes;
  if (small && !shard->raw && !shard->spill.locked() && buffered_bytes_ + data.size() <= kMaxBufferedBytes) {
    Buffer64(shard.get(), offset / kChecksumBlockBytes, data, keep);
    co_return Ok();
  }
  CO_RETURN_IF_ERROR(co_await Spill(shard));
  Result<void> written = co_await disk_->Write(RawShardName(shard->id), offset, std::move(data));
  if (!written.ok()) co_return CountWrite(written.error());
  co_return Ok();
}

// Makes it a raw file with the bytes buffered so far. A file of that name can only be a leftover.
Task<Result<void>> ShardStore::Spill(OpenPtr shard) {
  SemaphoreHold lock = co_await shard->spill.Lock();
  if (shard->raw) co_return Ok();
  const std::string name = RawShardName(shard->id);
  Result<void> removed = co_await disk_->Remove(name);
  if (!removed.ok() && removed.code() != FsError::kNoEnt) co_return CountWrite(removed.error());
  for (auto it = shard->small.begin(); it != shard->small.end();) {
    const uint64_t first = it->first;
    BufferChain run;
    for (uint64_t next = first; it != shard->small.end() && it->first == next; ++it, ++next)
      run.Append(it->second);
    Result<void> written = co_await disk_->Write(name, first * kChecksumBlockBytes, std::move(run));
    if (!written.ok()) co_return CountWrite(written.error());
  }
  buffered_bytes_ -= shard->buffered_bytes;
  shard->buffered_bytes = 0;
  shard->small.clear();
  shard->raw = true;
  co_return Ok();
}

Task<Result<Sealed>> ShardStore::Seal(ShardId shard, uint64_t length) {
  if (!shard || length == 0 || length > kMaxStripeBytes)
    co_return Error(FsError::kBadRequest, "malformed seal");
  while (true) {
    auto it = open_.find(shard);
    if (it == open_.end()) break;
    const OpenPtr open = it->second;
    if (open->dead) co_return NoSuchShard(shard);
    if (open->sealing) {
      const std::shared_ptr<SealAttempt> attempt = open->sealing;
      if (attempt->length != length) {
        co_return Error(FsError::kConflict,
                        "shard " + std::to_string(shard.v) + " is being sealed at another length");
      }
      co_await attempt->done.Wait();
      co_return *attempt->outcome;
    }
    if (open->calls_in_flight > 0) {
      co_await open->changed.Wait();
      continue;
    }
    CO_RETURN_IF_ERROR(Result<void>(Usable()));
    if (const std::optional<uint64_t> hole = open->FirstHole(length)) {
      co_return Error(FsError::kNoSuchShard, options_.name + ": shard " + std::to_string(shard.v) +
                                                 " was not written as sealed, see offset " +
                                                 std::to_string(*hole));
    }
    open->sealing = std::make_shared<SealAttempt>();
    open->sealing->length = length;
    waiting_seals_.push_back(open);
    seal_waits_.Set();
  }
  Result<ShardRecordPtr> record = co_await index_.Get(shard, false);
  if (record.code() == FsError::kCorrupt) co_return Damaged(shard, "has a damaged index record");
  if (!record.ok()) co_return CountRead(record.error());
  if (!*record) co_return NoSuchShard(shard);
  if ((*record)->length != length) {
    co_return Error(FsError::kConflict, "shard " + std::to_string(shard.v) + " is sealed at another length");
  }
  co_return Sealed{length, (*record)->digest};
}

// ---- Reading --------------------------------------------------------------------------------------

Task<Result<ShardBytes>> ShardStore::Read(ShardId shard, uint64_t offset, uint64_t length, bool once, Omit omit) {
  const bool often = !once && (length < kHistoryPieceBytes || history_.Note(shard.v, offset, length));
  return ReadBlocks(shard, offset, length, often ? ReadKind::kOften : ReadKind::kOnce, omit);
}

Task<Result<Buffer>> ShardStore::ReadFile(std::string name, uint64_t offset, uint64_t length, ReadKind kind) {
  switch (kind) {
    case ReadKind::kOften:
      return disk_->Read(std::move(name), offset, length);
    case ReadKind::kOnce:
      return disk_->ReadOnce(std::move(name), offset, length);
    case ReadKind::kStored:
      return disk_->ReadStored(std::move(name), offset, length);
  }
  CHECK(false, "unknown kind of read");
}

Task<Result<ShardBytes>> ShardStore::ReadBlocks(ShardId shard, uint64_t offset, uint64_t length, ReadKind kind, Omit omit) {
  if (hung() || silence_.silent()) co_return Usable();
  bool trust_grains = omit.any();
  // Compaction may move a packed shard between the look at the index and the read, once.
  bool moved = false;
  while (true) {
    Result<ShardRecordPtr> found = co_await index_.Get(shard);
    if (found.code() == FsError::kCorrupt) co_return Damaged(shard, "has a damaged index record");
    if (!found.ok()) co_return CountRead(found.error());
    const ShardRecordPtr record = *found;
    if (!record) co_return NoSuchShard(shard);
    const uint64_t end = offset + length;
    if (offset % kChecksumBlockBytes != 0 || length == 0 || end < offset || end > record->length ||
        (end != record->length && length % kChecksumBlockBytes != 0)) {
      co_return Error(FsError::kBadRequest,
                      "a read of shard " + std::to_string(shard.v) + " is not in whole blocks of it");
    }
    const bool packed = record->kind == ShardKind::kPacked;
    const std::string name = packed ? SegmentName(record->place.segment) : RawShardName(shard);
    const uint64_t base = packed ? SegmentPayloadOffset(record->place, record->length) : 0;
    const std::optional<LeftOut> known =
        trust_grains ? grains_.Find(shard, offset, length, omit.head_bytes, omit.tail_bytes) : std::nullopt;
    const LeftOut outside = known.value_or(LeftOut());
    const uint64_t wanted = length - outside.head_bytes - outside.tail_bytes;
    std::optional<ReadTimes::Timer> timer(std::in_place, &read_times_);
    Result<Buffer> bytes = co_await ReadFile(name, base + offset + outside.head_bytes, wanted, kind);
    timer.reset();
    if (bytes.code() == FsError::kNoEnt) {
      if (!std::exchange(moved, true)) continue;
      co_return Damaged(shard, "has lost its file");
    }
    if (!bytes.ok()) co_return CountRead(bytes.error());
    if (bytes->size() != wanted) co_return Damaged(shard, "has lost bytes");
    ShardBytes out;
    const auto first = record->crcs.begin() + static_cast<ptrdiff_t>(offset / kChecksumBlockBytes);
    out.crcs.assign(first, first + static_cast<ptrdiff_t>(ChecksumBlocks(length)));
    out.bytes = BufferChain(std::move(*bytes));
    Result<void> good = co_await CheckCrcs(shard, offset / kChecksumBlockBytes, out.bytes, outside, out.crcs);
    if (!good.ok() && !Sabotaged(Sabotage::kSkipChecksum)) {
      // Memory can be wrong, too: only the whole blocks tell.
      if (std::exchange(trust_grains, false) && known) continue;
      co_return Damaged(shard, "is damaged: " + good.error().message);
    }
    if (omit.any()) {
      if (!known) grains_.Learn(shard, offset, out.bytes, omit.head_bytes, omit.tail_bytes, out.crcs);
      out.left_out = CutEnds(&out.bytes, omit.head_bytes, omit.tail_bytes, outside);
    }
    co_return out;
  }
}

Task<Result<void>> ShardStore::Verify(ShardId shard) {
  CO_ASSIGN_OR_RETURN(const ShardRecordPtr record, co_await index_.Get(shard, false));
  if (!record) co_return NoSuchShard(shard);
  for (uint64_t at = 0; at < record->length; at += kVerifyChunkBytes) {
    CO_RETURN_IF_ERROR(co_await ReadBlocks(shard, at, std::min(kVerifyChunkBytes, record->length - at), ReadKind::kStored));
  }
  co_return Ok();
}

Task<Result<ShardStore::Page>> ShardStore::Inventory(ShardId after, size_t limit) {
  using List = std::vector<ShardIndex::Listed>;
  Result<List> sealed = co_await index_.List(after, limit + 1);
  if (!sealed.ok()) co_return CountRead(sealed.error());
  std::map<ShardId, StoredShard> all;
  const bool more_sealed = sealed->size() > limit;
  for (const ShardIndex::Listed& item : *sealed) {
    StoredShard s{item.shard, 0, 0, true, !item.record.ok()};
    if (item.record.ok()) {
      s.length = item.record->length;
      s.digest = item.record->digest;
    }
    all[item.shard] = s;
  }
  const ShardId last = more_sealed ? sealed->back().shard : ShardId(UINT64_MAX);
  for (auto it = open_.upper_bound(after); it != open_.end() && it->first < last; ++it) {
    all.try_emplace(it->first, StoredShard{it->first, it->second->WrittenBytes(), 0, false, false});
  }
  Page out;
  for (auto& [_, s] : all) {
    if (out.shards.size() == limit) break;
    out.shards.push_back(s);
  }
  out.more = out.shards.size() < all.size();
  co_return out;
}

// ---- Deleting -------------------------------------------------------------------------------------

// Forgets an open shard and removes its file. REQUIRES: no call in flight, not being sealed.
Task<void> ShardStore::Drop(OpenPtr shard) {
  shard->dead = true;
  shard->changed.Pulse();
  open_.erase(shard->id);
  buffered_bytes_ -= shard->buffered_bytes;
  shard->small.clear();
  shard->buffered_bytes = 0;
  Block(shard->id);
  Result<void> removed = co_await disk_->Remove(RawShardName(shard->id));
  if (!removed.ok() && removed.code() != FsError::kNoEnt) CountWrite(removed.error());
  Unblock(shard->id);
}

Task<void> ShardStore::DropOpen(ShardId shard) {
  while (true) {
    auto it = open_.find(shard);
    if (it == open_.end()) co_return;
    const OpenPtr open = it->second;
    if (open->sealing) {
      co_await std::shared_ptr<SealAttempt>(open->sealing)->done.Wait();
      continue;
    }
    open->dead = true;
    if (open->calls_in_flight > 0) {
      co_await open->changed.Wait();
      continue;
    }
    co_await Drop(open);
  }
}

Task<Result<void>> ShardStore::Delete(std::vector<ShardId> shards) {
  CO_RETURN_IF_ERROR(Result<void>(Usable()));
  // Until its file is gone the shard may not begin anew. In order of ids, so that two deletes do not wait for each other.
  std::sort(shards.begin(), shards.end());
  std::vector<IndexChange> changes;
  for (const ShardId shard : shards) {
    while (blocked_.contains(shard) || open_.contains(shard)) {
      while (blocked_.contains(shard)) co_await unblocked_.Wait();
      co_await DropOpen(shard);
    }
    Block(shard);
    IndexChange c;
    c.kind = IndexChange::Kind::kRemove;
    c.shard = shard;
    changes.push_back(std::move(c));
  }
  // Else the next Open would find them again in their segment.
  co_await segments_.AllIndexed();
  // 1. the records
  Result<std::vector<AppliedChange>> applied = co_await index_.Apply(std::move(changes));
  // 2. the files
  std::set<uint64_t> segments;
  for (size_t i = 0; applied.ok() && i < shards.size(); ++i) {
    const AppliedChange& a = (*applied)[i];
    if (!a.done) continue;
    if (a.old) segments.insert(a.old->place.segment);
    if (a.old && a.old->kind == ShardKind::kPacked) continue;
    Result<void> removed = co_await disk_->Remove(RawShardName(shards[i]));
    if (!removed.ok() && removed.code() != FsError::kNoEnt) CountWrite(removed.error());
  }
  for (const ShardId shard : shards) Unblock(shard);
  if (!applied.ok()) {
    Fence(applied.error());
    co_return failure_;
  }
  for (const uint64_t segment : segments) {
    if (!index_.segment_live_bytes().contains(segment)) co_await RemoveSegment(segment);
  }
  for (const ShardId shard : shards) bad_.erase(shard);
  co_return Ok();
}

}  // namespace stria
