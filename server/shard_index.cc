#include "server/shard_index.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "common/codec.h"
#include "server/segment.h"
#include "stripe/checksum.h"
#include "stripe/types.h"

namespace stria {
namespace {

constexpr uint8_t kRecordVersion = 1;
constexpr size_t kListChunk = 1000;
constexpr uint64_t kLoadsAtOnce = 32;

// The value for `key`: a record whose body ends with a hash of both.
std::string SealValue(std::string_view key, ByteWriter body) {
  const uint64_t seed = XXH3_64bits(key.data(), key.size());
  body.U64(XXH3_64bits_withSeed(body.str().data(), body.size(), seed));
  return SealRecord(kRecordVersion, body.str());
}

// The body without its hash; nullopt if damaged.
std::optional<std::string_view> OpenValue(std::string_view key, std::string_view value) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(value, kRecordVersion, &version, &body) || body.size() < 8) return std::nullopt;
  const uint64_t seed = XXH3_64bits(key.data(), key.size());
  ByteReader hash(body.substr(body.size() - 8));
  body.remove_suffix(8);
  if (hash.U64() != XXH3_64bits_withSeed(body.data(), body.size(), seed)) return std::nullopt;
  return body;
}

std::string StateKey(char tag, uint64_t id) {
  ByteWriter w;
  w.U8(static_cast<uint8_t>(tag));
  if (id != 0) w.Key64(id);
  return w.Take();
}

Error Damaged(const std::string& what) {
  return Error(FsError::kCorrupt, "the index record of " + what + " is damaged");
}

std::string EncodeTotals(const IndexTotals& t) {
  ByteWriter w;
  w.U64(t.shards);
  w.U64(t.used_bytes);
  w.U64(t.next_segment);
  return SealValue(StateKey('T', 0), std::move(w));
}

}  // namespace

std::string ShardKey(ShardId shard) {
  ByteWriter w;
  w.Key64(shard.v);
  return w.Take();
}

std::string EncodeShardRecord(ShardId shard, const ShardRecord& record) {
  ByteWriter w;
  w.U8(static_cast<uint8_t>(record.kind));
  w.U64(record.place.segment);
  w.U64(record.place.offset);
  w.U64(record.length);
  w.U64(record.digest);
  w.U32(static_cast<uint32_t>(record.crcs.size()));
  for (const uint32_t crc : record.crcs) w.U32(crc);
  return SealValue(ShardKey(shard), std::move(w));
}

Result<ShardRecord> DecodeShardRecord(ShardId shard, std::string_view value) {
  const Error damaged = Damaged("shard " + std::to_string(shard.v));
  const std::optional<std::string_view> body = OpenValue(ShardKey(shard), value);
  if (!body) return damaged;
  ByteReader r(*body);
  ShardRecord out;
  const uint8_t kind = r.U8();
  out.kind = static_cast<ShardKind>(kind);
  out.place.segment = r.U64();
  out.place.offset = r.U64();
  out.length = r.U64();
  out.digest = r.U64();
  uint32_t blocks = 0;
  if (!r.Count(&blocks, 4)) return damaged;
  out.crcs.resize(blocks);
  for (uint32_t& crc : out.crcs) crc = r.U32();
  const bool packed = out.kind == ShardKind::kPacked;
  if (!r.ok() || (kind != 1 && kind != 2) || out.length == 0 || blocks != ChecksumBlocks(out.length) ||
      out.length > (packed ? kMaxPackedShardBytes : kMaxStripeBytes) || (packed && out.place.segment == 0) ||
      TableDigest(out.crcs, out.length) != out.digest) {
    return damaged;
  }
  return out;
}

std::string EncodeUnindexedFrom(SegmentPlace place) {
  ByteWriter w;
  w.U64(place.segment);
  w.U64(place.offset);
  return SealValue(kUnindexedFromKey, std::move(w));
}

SegmentPlace DecodeUnindexedFrom(std::string_view value) {
  const std::optional<std::string_view> body = OpenValue(kUnindexedFromKey, value);
  if (!body) return SegmentPlace();
  ByteReader r(*body);
  SegmentPlace place;
  place.segment = r.U64();
  place.offset = r.U64();
  return r.ok() ? place : SegmentPlace();
}

Task<Result<void>> ShardIndex::Open() {
  CO_RETURN_IF_ERROR(co_await LoadUnindexedFrom());
  Result<void> loaded = co_await LoadCounts();
  if (loaded.code() == FsError::kCorrupt) co_return co_await Recount();
  if (!loaded.ok()) co_return loaded;
  // The last records of a killed process can be read, but may not be durable yet; and a readable record is taken as proof that
  // the shard is sealed.
  co_return co_await kv_->Sync();
}

Task<Result<void>> ShardIndex::LoadUnindexedFrom() {
  CO_ASSIGN_OR_RETURN(const std::optional<std::string> value, co_await Load(kIndexState, kUnindexedFromKey));
  if (value) unindexed_from_ = DecodeUnindexedFrom(*value);
  co_return Ok();
}

Task<Result<void>> ShardIndex::StoreUnindexedFrom(SegmentPlace place) {
  uint64_t number = 0;
  {
    SemaphoreHold lock = co_await write_mutex_.Lock();
    unindexed_from_ = place;
    KvBatch batch;
    AppendTotals({}, &batch);
    number = ++written_;
    CO_RETURN_IF_ERROR(co_await WriteBatch(std::move(batch)));
  }
  co_return co_await SyncUpTo(number);
}

Task<Result<void>> ShardIndex::LoadCounts() {
  using State = Result<std::vector<KvEntry>>;
  KvStore* kv = kv_;
  CO_ASSIGN_OR_RETURN(const std::optional<std::string> totals, co_await Load(kIndexState, StateKey('T', 0)));
  if (totals) {
    const std::optional<std::string_view> body = OpenValue(StateKey('T', 0), *totals);
    if (!body) co_return Damaged("the disk's totals");
    ByteReader r(*body);
    totals_.shards = r.U64();
    totals_.used_bytes = r.U64();
    totals_.next_segment = r.U64();
    if (!r.ok() || totals_.next_segment == 0) co_return Damaged("the disk's totals");
  }
  std::string begin = "S";
  while (true) {
    CO_ASSIGN_OR_RETURN(const std::vector<KvEntry> entries, co_await RunOn(*pool_, [kv, begin]() -> State {
                          return kv->Scan(kIndexState, begin, "T", kListChunk);
                        }));
    for (const auto& [key, value] : entries) {
      const std::optional<std::string_view> body = OpenValue(key, value);
      if (!body || key.size() != 9) co_return Damaged("a segment");
      ByteReader r(*body), k(std::string_view(key).substr(1));
      const uint64_t segment = k.Key64();
      live_[segment] = r.U64();
      if (!r.ok()) co_return Damaged("a segment");
      NoteSegment(segment);
    }
    if (entries.size() < kListChunk) break;
    begin = entries.back().first + std::string(1, '\0');
  }
  co_return Ok();
}

Task<Result<void>> ShardIndex::Recount() {
  const uint64_t next_segment = totals_.next_segment;
  totals_ = IndexTotals();
  NoteSegment(next_segment);
  std::map<uint64_t, bool> touched;
  for (const auto& [segment, _] : std::exchange(live_, {})) touched[segment] = true;
  ShardId after;
  while (true) {
    CO_ASSIGN_OR_RETURN(const std::vector<Listed> chunk, co_await List(after, kListChunk));
    for (const Listed& item : chunk) {
      after = item.shard;
      ++totals_.shards;
      if (!item.record.ok()) continue;
      totals_.used_bytes += item.record->length;
      NoteSegment(item.record->place.segment);
      Count(item.record->place, *item.record, true, &touched);
    }
    if (chunk.size() < kListChunk) break;
  }
  KvBatch batch;
  AppendTotals(touched, &batch);
  CO_RETURN_IF_ERROR(co_await WriteBatch(std::move(batch)));
  co_return co_await kv_->Sync();
}

Task<Result<std::optional<std::string>>> ShardIndex::Load(KvFamily family, std::string key) {
  KvStore* kv = kv_;
  // Too short for another thread; but with very many shards other tasks run in between.
  if (++loads_ % kLoadsAtOnce != 0) {
    if (auto cached = kv->GetIfCached(family, key)) co_return *std::move(cached);
  }
  co_return co_await RunOn(*pool_, [kv, family, key] { return kv->Get(family, key); });
}

ShardRecordPtr ShardIndex::FindCached(ShardId shard) {
  auto it = cache_.find(shard.v);
  if (it == cache_.end()) return nullptr;
  lru_.splice(lru_.begin(), lru_, it->second.place);
  return it->second.record;
}

void ShardIndex::Remember(ShardId shard, ShardRecordPtr record) {
  Forget(shard);
  lru_.push_front(shard.v);
  cache_bytes_ += Weight(*record);
  cache_[shard.v] = Cached{std::move(record), lru_.begin()};
  while (cache_bytes_ > cache_limit_bytes_ && !lru_.empty()) Forget(ShardId(lru_.back()));
}

void ShardIndex::Forget(ShardId shard) {
  auto it = cache_.find(shard.v);
  if (it == cache_.end()) return;
  cache_bytes_ -= Weight(*it->second.record);
  lru_.erase(it->second.place);
  cache_.erase(it);
}

Task<Result<ShardRecordPtr>> ShardIndex::Get(ShardId shard, bool keep_in_cache) {
  if (ShardRecordPtr hit = FindCached(shard)) co_return hit;
  const uint64_t generation = generation_;
  CO_ASSIGN_OR_RETURN(const std::optional<std::string> value, co_await Load(kIndexShards, ShardKey(shard)));
  if (!value) co_return ShardRecordPtr();
  CO_ASSIGN_OR_RETURN(ShardRecord record, DecodeShardRecord(shard, *value));
  auto shared = std::make_shared<const ShardRecord>(std::move(record));
  if (keep_in_cache && generation == generation_) Remember(shard, shared);
  co_return ShardRecordPtr(std::move(shared));
}

void ShardIndex::Count(const SegmentPlace& place, const ShardRecord& r, bool add,
                       std::map<uint64_t, bool>* touched) {
  if (place.segment == 0) return;
  const uint64_t bytes = SegmentEntryBytes(r.kind, r.length);
  uint64_t& live = live_[place.segment];
  // A damaged record is removed without being counted, so that the sum may come out too high, never
  // below zero.
  live = add ? live + bytes : live > bytes ? live - bytes : 0;
  if (live == 0) live_.erase(place.segment);
  (*touched)[place.segment] = true;
}

void ShardIndex::AppendTotals(const std::map<uint64_t, bool>& touched, KvBatch* batch) const {
  for (const auto& [segment, _] : touched) {
    const std::string key = StateKey('S', segment);
    auto it = live_.find(segment);
    if (it == live_.end()) {
      batch->Delete(kIndexState, key);
    } else {
      ByteWriter w;
      w.U64(it->second);
      batch->Put(kIndexState, key, SealValue(key, std::move(w)));
    }
  }
  batch->Put(kIndexState, StateKey('T', 0), EncodeTotals(totals_));
  if (unindexed_from_) batch->Put(kIndexState, kUnindexedFromKey, EncodeUnindexedFrom(*unindexed_from_));
}

Task<Result<void>> ShardIndex::WriteBatch(KvBatch batch) {
  KvStore* kv = kv_;
  auto shared = std::make_shared<const KvBatch>(std::move(batch));
  Result<void> written = co_await RunOn(*pool_, [kv, shared] { return kv->Write(*shared); });
  found_no_room_ = found_no_room_ || written.code() == FsError::kNoSpace;
  co_return written;
}

// `number` and all before it are written.
Task<Result<void>> ShardIndex::SyncUpTo(uint64_t number) {
  CO_RETURN_IF_ERROR(co_await kv_->Sync());
  durable_ = std::max(durable_, number);
  std::erase_if(changed_, [this](const auto& segment) { return segment.second <= durable_; });
  co_return Ok();
}

Task<Result<void>> ShardIndex::Sync() {
  uint64_t number = 0;
  {
    const SemaphoreHold lock = co_await write_mutex_.Lock();  // waits for writes under way
    number = written_;
  }
  if (number <= durable_) co_return Ok();
  co_return co_await SyncUpTo(number);
}

Task<Result<std::vector<AppliedChange>>> ShardIndex::Apply(std::vector<IndexChange> changes, Durable durable) {
  std::vector<AppliedChange> out(changes.size());
  SemaphoreHold lock = co_await write_mutex_.Lock();
  std::vector<bool> damaged(changes.size());
  for (size_t i = 0; i < changes.size(); ++i) {
    if (changes[i].kind == IndexChange::Kind::kPut) continue;
    Result<ShardRecordPtr> old = co_await Get(changes[i].shard, false);
    damaged[i] = old.code() == FsError::kCorrupt;
    if (!old.ok() && !damaged[i]) co_return old.error();
    if (old.ok()) out[i].old = *old;
  }
  // From here to the write nothing is awaited: records, totals and cache change as one.
  KvBatch batch;
  std::map<uint64_t, bool> touched;
  for (size_t i = 0; i < changes.size(); ++i) {
    IndexChange& c = changes[i];
    const ShardRecordPtr& old = out[i].old;
    switch (c.kind) {
      case IndexChange::Kind::kPut:
        out[i].done = true;
        ++totals_.shards;
        totals_.used_bytes += c.record.length;
        Count(c.record.place, c.record, true, &touched);
        batch.Put(kIndexShards, ShardKey(c.shard), EncodeShardRecord(c.shard, c.record));
        Remember(c.shard, std::make_shared<const ShardRecord>(std::move(c.record)));
        break;
      case IndexChange::Kind::kRemove:
        if (!old && !damaged[i]) break;
        out[i].done = true;
        if (totals_.shards > 0) --totals_.shards;
        if (old) {
          totals_.used_bytes -= std::min(totals_.used_bytes, old->length);
          Count(old->place, *old, false, &touched);
        }
        batch.Delete(kIndexShards, ShardKey(c.shard));
        batch.Delete(kIndexState, StateKey('Q', c.shard.v));
        Forget(c.shard);
        break;
      case IndexChange::Kind::kMove: {
        if (!old || !(old->place == c.from)) break;
        out[i].done = true;
        ShardRecord moved = *old;
        moved.place = c.to;
        Count(old->place, *old, false, &touched);
        Count(moved.place, moved, true, &touched);
        batch.Put(kIndexShards, ShardKey(c.shard), EncodeShardRecord(c.shard, moved));
        Remember(c.shard, std::make_shared<const ShardRecord>(std::move(moved)));
        break;
      }
    }
  }
  if (batch.empty()) co_return out;
  ++generation_;
  AppendTotals(touched, &batch);
  const uint64_t number = ++written_;
  for (const auto& [segment, _] : touched) changed_[segment] = number;
  CO_RETURN_IF_ERROR(co_await WriteBatch(std::move(batch)));
  ++generation_;  // a Get that began before the write was done may hold the old value
  lock.Release();
  if (durable == Durable::kNow) CO_RETURN_IF_ERROR(co_await SyncUpTo(number));
  co_return out;
}

Task<Result<std::vector<ShardIndex::Listed>>> ShardIndex::List(ShardId after, size_t limit) {
  using Out = Result<std::vector<Listed>>;
  KvStore* kv = kv_;
  co_return co_await RunOn(*pool_, [kv, after, limit]() -> Out {
    if (after.v == UINT64_MAX) return std::vector<Listed>();
    ASSIGN_OR_RETURN(const std::vector<KvEntry> entries,
                     kv->Scan(kIndexShards, ShardKey(ShardId(after.v + 1)), "", limit));
    std::vector<Listed> out;
    out.reserve(entries.size());
    for (const auto& [key, value] : entries) {
      ByteReader r(key);
      const ShardId shard(r.Key64());
      out.push_back(Listed{shard, DecodeShardRecord(shard, value)});
    }
    return out;
  });
}

Task<Result<std::map<ShardId, QuarantineMark>>> ShardIndex::Marks(ShardId after, ShardId last) {
  using Out = Result<std::map<ShardId, QuarantineMark>>;
  KvStore* kv = kv_;
  co_return co_await RunOn(*pool_, [kv, after, last]() -> Out {
    std::map<ShardId, QuarantineMark> out;
    // A key's successor is the key and a zero byte.
    std::string begin = StateKey('Q', after.v) + std::string(1, '\0');
    const std::string end = StateKey('Q', last.v) + std::string(1, '\0');
    while (true) {
      ASSIGN_OR_RETURN(const std::vector<KvEntry> entries, kv->Scan(kIndexState, begin, end, kListChunk));
      for (const auto& [key, value] : entries) {
        const std::optional<std::string_view> body = OpenValue(key, value);
        if (!body || key.size() != 9) continue;  // damaged: the quarantine begins anew
        ByteReader k(std::string_view(key).substr(1)), r(*body);
        QuarantineMark mark;
        mark.since_wall_ns = r.I64();
        mark.incarnation = r.U64();
        if (r.ok()) out[ShardId(k.Key64())] = mark;
      }
      if (entries.size() < kListChunk) return out;
      begin = entries.back().first + std::string(1, '\0');
    }
  });
}

Task<Result<void>> ShardIndex::SetMarks(
    std::vector<std::pair<ShardId, std::optional<QuarantineMark>>> marks) {
  SemaphoreHold lock = co_await write_mutex_.Lock();
  KvBatch batch;
  for (const auto& [shard, mark] : marks) {
    const std::string key = StateKey('Q', shard.v);
    if (mark) {
      ByteWriter w;
      w.I64(mark->since_wall_ns);
      w.U64(mark->incarnation);
      batch.Put(kIndexState, key, SealValue(key, std::move(w)));
    } else {
      batch.Delete(kIndexState, key);
    }
  }
  if (batch.empty()) co_return Ok();
  co_return co_await WriteBatch(std::move(batch));
}

}  // namespace stria
