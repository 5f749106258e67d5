#include "server/widen.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "server/column_source.h"
#include "stripe/checksum.h"
#include "stripe/layout.h"
#include "stripe/relaid.h"

namespace stria {
namespace {

constexpr int64_t kWriteTimeoutNs = 30 * kSecond;

// Part of the payload, and where its bytes are in the columns that were read.
struct Window {
  uint64_t shard_offset = 0;  // in the new columns
  uint64_t payload_offset = 0;
  uint64_t length = 0;
  std::vector<ShardRange> ranges;  // of the old columns
  std::vector<uint64_t> begins;    // by old column: where its bytes begin in the shard
  std::vector<Buffer> columns;     // by old column
};
struct MadeColumn {
  Buffer bytes;
  std::vector<uint32_t> crcs;
};
struct MadeWindow {
  std::vector<MadeColumn> columns;
  std::vector<uint32_t> pieces;  // registers of the payload's pieces that it has
};

// The part of a column that a window of the new shape has.
uint64_t BytesInWindow(uint64_t column_bytes, uint64_t shard_offset, uint64_t window) {
  return column_bytes <= shard_offset ? 0 : std::min(window, column_bytes - shard_offset);
}

// `ends`: of the pieces of the window, which begins and ends where one does, as rows and blocks of the new form do.
std::vector<uint32_t> RegistersOf(const Window& w, std::span<const uint8_t> payload, std::span<const uint64_t> ends) {
  std::vector<uint32_t> out;
  uint64_t at = 0;
  for (const uint64_t end : ends) {
    out.push_back(BareRegister(payload.subspan(at, end - w.payload_offset - at)));
    at = end - w.payload_offset;
  }
  return out;
}

// All columns of the new stripe for one window.
MadeWindow MakeColumns(const StripeInfo& to, const ParityCodec* codec, const Window& w, uint64_t window_bytes,
                       std::span<const uint64_t> ends) {
  const StripeShape& shape = to.shape;
  MutableBuffer payload(w.length);
  for (const ShardRange& r : w.ranges) {
    const Buffer& from = w.columns[r.column.v];
    std::copy_n(from.data() + (r.shard_offset - w.begins[r.column.v]), r.length,
                payload.data() + (r.payload_offset - w.payload_offset));
  }
  std::vector<MutableBuffer> bytes;
  for (uint16_t c = 0; c < shape.columns(); ++c) {
    bytes.emplace_back(BytesInWindow(ColumnBytes(shape, ColumnIndex(c)), w.shard_offset, window_bytes));
  }
  for (const ShardRange& r : MapRange(shape, w.payload_offset, w.length)) {
    std::copy_n(payload.data() + (r.payload_offset - w.payload_offset), r.length,
                bytes[r.column.v].data() + (r.shard_offset - w.shard_offset));
  }
  for (uint32_t g = 0; g < shape.groups && shape.m > 0; ++g) {
    std::vector<std::span<const uint8_t>> data;
    std::vector<uint8_t*> parity;
    for (uint32_t i = 0; i < uint32_t{shape.k} + shape.m; ++i) {
      MutableBuffer& b = bytes[ColumnOf(shape, g, i).v];
      if (i < shape.k) data.emplace_back(b.data(), b.size());
      else parity.push_back(b.data());
    }
    const uint64_t length = BytesInWindow(GroupBytes(shape, g), w.shard_offset, window_bytes);
    if (length > 0) codec->EncodePadded(data, parity, length);
  }
  MadeWindow out;
  out.pieces = RegistersOf(w, {payload.data(), payload.size()}, ends);
  for (uint16_t c = 0; c < shape.columns(); ++c) {
    MadeColumn made;
    made.crcs = BlockCrcs(to.columns[c].shard, w.shard_offset / kChecksumBlockBytes, bytes[c].span());
    made.bytes = std::move(bytes[c]).Freeze();
    out.columns.push_back(std::move(made));
  }
  return out;
}

class Widen {
 public:
  Widen(WidenWork work, WidenEnv env) : work_(std::move(work)), env_(std::move(env)) {}

  Task<WidenResult> Run() {
    result_.task = work_.task;
    const Result<void> made = co_await Make();
    result_.result = ItemResult{made.code(), made.error().message};
    if (!made.ok()) result_.digests.clear(), result_.pieces.clear();
    std::sort(result_.bad_columns.begin(), result_.bad_columns.end());
    co_return std::move(result_);
  }

 private:
  const StripeInfo& from() const { return work_.from.info; }
  const StripeInfo& to() const { return work_.to.info; }

  Result<void> Prepare() {
    RETURN_IF_ERROR(Result<void>(ValidateStripe(from())));
    RETURN_IF_ERROR(Result<void>(ValidateStripe(to())));
    if (from().shape.payload_bytes != to().shape.payload_bytes || (to().shape.gathered() && to().shape.data_columns() > 1) ||
        work_.from.tokens.size() != from().columns.size() || work_.to.tokens.size() != to().columns.size()) {
      return Error(FsError::kBadRequest, "a stripe is to be laid out anew, and its new form does not fit its payload");
    }
    for (uint16_t c = 0; c < from().shape.data_columns(); ++c) {
      sources_.push_back(MakeColumnSource(work_.from, ColumnIndex(c), *env_.map));
      if (sources_.back().info.length > 0 && sources_.back().address.empty()) {
        return Error(FsError::kUnavailable, "a node of the stripe is not known");
      }
    }
    for (const Column& c : to().columns) {
      const TargetInfo* target = env_.map->FindTarget(c.target);
      const NodeInfo* node = target == nullptr ? nullptr : env_.map->FindNode(target->node);
      if (c.shard && node == nullptr) return Error(FsError::kUnavailable, "a node for a new column is not known");
      addresses_.push_back(node == nullptr ? "" : node->address);
      tables_.emplace_back();
    }
    const uint64_t step = std::lcm(uint64_t{to().shape.unit_bytes}, kChecksumBlockBytes);
    const uint64_t share = kWidenWindowBytes / to().shape.data_columns();
    window_bytes_ = step * std::max<uint64_t>(share / step, 1);
    ends_ = PiecesOf(from().shape, to().shape);
    return Ok();
  }

  Task<Result<void>> Make() {
    CO_RETURN_IF_ERROR(Prepare());
    const uint64_t payload = to().shape.payload_bytes;
    const uint64_t share = window_bytes_ * to().shape.data_columns();
    for (uint64_t at = 0; at < payload; at += share) {
      auto w = std::make_shared<Window>();
      w->shard_offset = at / to().shape.data_columns();
      w->payload_offset = at;
      w->length = std::min(share, payload - at);
      CO_RETURN_IF_ERROR(co_await Gather(w.get()));
      const ParityCodec* codec = &env_.codecs->For(to().shape);
      MadeWindow made = co_await RunOn(*env_.cpu_pool, [info = to(), codec, w, n = window_bytes_, ends = PiecesIn(*w)] {
        return MakeColumns(info, codec, *w, n, ends);
      });
      result_.pieces.insert(result_.pieces.end(), made.pieces.begin(), made.pieces.end());
      CO_RETURN_IF_ERROR(co_await StoreAll(w->shard_offset, std::move(made.columns)));
    }
    for (const ColumnSource& s : sources_) {
      if (!IsAsWritten(s)) result_.bad_columns.push_back(s.column.v);
    }
    if (!result_.bad_columns.empty()) {
      co_return Error(FsError::kChecksum, "stripe " + std::to_string(from().id.v) + " is not as it was written");
    }
    co_return co_await SealAll();
  }

  std::vector<uint64_t> PiecesIn(const Window& w) const {
    const auto begin = std::ranges::upper_bound(ends_, w.payload_offset);
    return {begin, std::ranges::upper_bound(begin, ends_.end(), w.payload_offset + w.length)};
  }

  Task<Result<void>> Gather(Window* w) {
    w->ranges = MapRange(from().shape, w->payload_offset, w->length);
    std::vector<uint64_t> ends(sources_.size(), 0);
    w->begins.assign(sources_.size(), UINT64_MAX);
    for (const ShardRange& r : w->ranges) {
      uint64_t& begin = w->begins[r.column.v];
      begin = std::min(begin, AlignDown(r.shard_offset, kChecksumBlockBytes));
      ends[r.column.v] = std::max(ends[r.column.v], r.shard_offset + r.length);
    }
    std::vector<Task<Result<Buffer>>> reads;
    for (size_t i = 0; i < sources_.size(); ++i) {
      const uint64_t end = std::min(AlignUp(ends[i], kChecksumBlockBytes), sources_[i].info.length);
      reads.push_back(Read(&sources_[i], w->begins[i], end));
    }
    Error failed;
    for (Result<Buffer>& r : co_await WhenAll(std::move(reads))) {
      if (!r.ok() && failed.ok()) failed = r.error();
      w->columns.push_back(r.ok() ? std::move(*r) : Buffer());
    }
    co_return Result<void>(failed);
  }

  Task<Result<Buffer>> Read(ColumnSource* s, uint64_t begin, uint64_t end) {
    BufferChain out;
    const ColumnReadEnv env{env_.map.get(), env_.connector, env_.cpu_pool, work_.task};
    for (uint64_t at = begin; at < end; at += kMaxPayloadBytes) {
      const uint64_t n = std::min(kMaxPayloadBytes, end - at);
      Result<Buffer> bytes = co_await ReadColumn(s, at, n, env);
      if (!bytes.ok() && IsColumnLoss(bytes.code())) result_.bad_columns.push_back(s->column.v);
      if (!bytes.ok()) co_return bytes.error();
      result_.bytes_read += n;
      out.Append(std::move(*bytes));
    }
    co_return out.Flatten();
  }

  DataHeader Header() const {
    DataHeader h;
    h.cluster = env_.map->cluster;
    h.incarnation = env_.map->incarnation;
    h.seen_term = env_.map->term;
    h.seen_proof = env_.map->term_proof;
    h.timeout_ns = kWriteTimeoutNs;
    h.trace_id = work_.task;
    h.background = true;
    return h;
  }

  Task<Result<void>> StoreAll(uint64_t offset, std::vector<MadeColumn> made) {
    std::vector<Task<Result<void>>> writes;
    for (size_t c = 0; c < made.size(); ++c) {
      tables_[c].insert(tables_[c].end(), made[c].crcs.begin(), made[c].crcs.end());
      if (!made[c].bytes.empty()) writes.push_back(Store(c, offset, std::move(made[c])));
    }
    for (const Result<void>& r : co_await WhenAll(std::move(writes))) CO_RETURN_IF_ERROR(Result<void>(r));
    co_return Ok();
  }

  Task<Result<void>> Store(size_t c, uint64_t offset, MadeColumn made) {
    const std::shared_ptr<DataService> peer = env_.connector->Connect(addresses_[c]);
    for (uint64_t at = 0; at < made.bytes.size(); at += kMaxPayloadBytes) {
      const uint64_t n = std::min(kMaxPayloadBytes, made.bytes.size() - at);
      const auto crcs = made.crcs.begin() + static_cast<ptrdiff_t>(at / kChecksumBlockBytes);
      WriteRequest request;
      request.header = Header();
      ShardWrite item;
      item.shard = to().columns[c].shard;
      item.target = to().columns[c].target;
      item.token = work_.to.tokens[c];
      item.offset = offset + at;
      item.length = n;
      item.crcs.assign(crcs, crcs + static_cast<ptrdiff_t>(ChecksumBlocks(n)));
      request.items.push_back(std::move(item));
      request.payload.Append(made.bytes.Slice(at, n));
      CO_ASSIGN_OR_RETURN(const WriteReply reply, co_await peer->Write(std::move(request)));
      if (reply.items.size() != 1) co_return Error(FsError::kBadRequest, addresses_[c] + " gave a malformed reply");
      if (reply.items[0].result.code != FsError::kOk) co_return reply.items[0].result.error();
    }
    co_return Ok();
  }

  Task<Result<void>> SealAll() {
    std::vector<Task<Result<uint64_t>>> seals;
    for (size_t c = 0; c < to().columns.size(); ++c) seals.push_back(Seal(c));
    for (const Result<uint64_t>& digest : co_await WhenAll(std::move(seals))) {
      if (!digest.ok()) co_return digest.error();
      result_.digests.push_back(*digest);
    }
    co_return Ok();
  }

  // 0 for a column without a shard.
  Task<Result<uint64_t>> Seal(size_t c) {
    const Column& column = to().columns[c];
    if (!column.shard) co_return uint64_t{0};
    SealRequest request;
    request.header = Header();
    request.items.push_back({column.shard, column.target, work_.to.tokens[c], column.length});
    const std::shared_ptr<DataService> peer = env_.connector->Connect(addresses_[c]);
    CO_ASSIGN_OR_RETURN(const SealReply reply, co_await peer->Seal(std::move(request)));
    if (reply.items.size() != 1) co_return Error(FsError::kBadRequest, addresses_[c] + " gave a malformed reply");
    const SealResult& sealed = reply.items[0];
    if (sealed.result.code != FsError::kOk) co_return sealed.result.error();
    const uint64_t digest = TableDigest(tables_[c], column.length);
    if (sealed.length != column.length || sealed.digest != digest) {
      co_return Error(FsError::kChecksum, "a new column was sealed with other checksums");
    }
    co_return digest;
  }

  const WidenWork work_;
  const WidenEnv env_;
  std::vector<ColumnSource> sources_;         // the old data columns
  std::vector<std::string> addresses_;        // of the new columns
  std::vector<std::vector<uint32_t>> tables_;  // of the new columns, as far as written
  std::vector<uint64_t> ends_;                 // of the payload's pieces
  uint64_t window_bytes_ = 0;                 // of a new column
  WidenResult result_;
};

}  // namespace

Task<WidenResult> RunWiden(WidenWork work, WidenEnv env) {
  Widen widen(std::move(work), std::move(env));
  co_return co_await widen.Run();
}

}  // namespace stria
