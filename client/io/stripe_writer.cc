#include "client/io/stripe_writer.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "client/io/backoff.h"
#include "client/io/encode.h"
#include "common/sabotage.h"
#include "stripe/checksum.h"
#include "stripe/layout.h"

namespace stria {

namespace {

// Bytes of one column in one request, and of all columns in one batch of rows, where the unit allows it.
constexpr uint64_t kColumnBatchBytes = 1 * kMiB;
constexpr uint64_t kRowsBatchBytes = 4 * kMiB;

// No disk is to blame, so a stripe on other disks would not help.
bool IsGeneral(FsError code) {
  return code == FsError::kFenced || code == FsError::kWrongCluster || code == FsError::kVersion ||
         code == FsError::kBadRequest || code == FsError::kTokenExpired || code == FsError::kBadToken ||
         code == FsError::kCancelled;
}
// A server answers this for a silent disk (server/disk_silence.h); for a whole request, the network is at fault.
template <class Rep>
bool IsSilentDisk(const Result<Rep>& reply, FsError of_item) {
  return reply.ok() && of_item == FsError::kUnavailable;
}
// Bytes that arrived damaged may be sent again.
bool WorthRepeating(FsError code) { return IsRetryable(code) || code == FsError::kChecksum; }

uint64_t ColumnBatchBytes(const StripeShape& shape) {
  const uint64_t step = std::lcm(uint64_t{shape.unit_bytes}, kChecksumBlockBytes);
  const uint64_t want = std::min(kColumnBatchBytes, kRowsBatchBytes / shape.data_columns());
  return std::max(step, AlignDown(want, step));
}

// Where in the payload each gathered data column ends.
std::vector<uint64_t> ColumnEnds(const Layout& layout, const StripeGrant& grant, const StripeWriterOptions& options) {
  if (layout.arrangement != Arrangement::kGathered) return {StripeCapacity(layout, grant)};
  const StripeShape& shape = grant.info.shape;
  CHECK(options.columns.size() <= shape.data_columns(), "more columns than the grant has");
  std::vector<uint64_t> ends;
  for (const uint64_t bytes : options.columns) ends.push_back((ends.empty() ? 0 : ends.back()) + bytes);
  const uint64_t each = StripeCapacity(layout, grant) / shape.data_columns();
  while (options.columns.empty() && ends.size() < shape.data_columns()) ends.push_back((ends.size() + 1) * each);
  return ends;
}

}  // namespace

uint64_t StripeCapacity(const Layout& layout, const StripeGrant& grant) {
  const uint64_t full = layout.stripe_bytes / layout.data_columns();
  const uint64_t column = grant.max_column_bytes == 0 ? full : std::min(full, grant.max_column_bytes);
  return column * grant.info.shape.data_columns();
}

class StripeWriter::Impl {
 public:
  Impl(StripeIo io, StripeGrant grant, const Layout& layout, StripeWriterOptions options)
      : io_(io),
        grant_(std::move(grant)),
        gathered_shape_(layout.arrangement == Arrangement::kGathered),
        gathered_(gathered_shape_ && grant_.info.shape.data_columns() > 1),
        ends_(ColumnEnds(layout, grant_, options)),
        capacity_(ends_.back()),
        options_(options),
        rng_(options.seed),
        inflight_(options.inflight_bytes),
        shape_(grant_.info.shape) {
    CHECK(grant_.info.columns.size() == shape_.columns() && grant_.tokens.size() == shape_.columns(),
          "a grant has a shard and a token for each column");
    for (const Column& c : grant_.info.columns) {
      checksums_.emplace_back(c.shard);
      const NodeId node = io_.peers.NodeOf(c.target);
      if (io_.peers.IsLost(node)) lost_before_.insert(node);
    }
    sent_.resize(shape_.columns());
    digests_.resize(shape_.columns());
    sealed_.resize(shape_.columns());
    shape_.column_bytes.clear();
    SetPayload(capacity_);
    // A unit of a gathered stripe may be as long as its columns: it is no step to send in.
    batch_column_bytes_ = gathered_        ? kColumnBatchBytes
                          : gathered_shape_ ? kRowsBatchBytes
                                            : ColumnBatchBytes(shape_);
    if (gathered_) kept_.resize(shape_.data_columns());
  }

  uint64_t capacity() const { return capacity_; }
  uint64_t appended() const { return appended_; }
  const std::vector<TargetId>& failed() const { return failed_list_; }

  Task<Result<void>> Append(BufferChain payload) {
    CHECK(!finished_ && payload.size() <= capacity_ - appended_, "more than the stripe can take");
    appended_ += payload.size();
    pending_.Append(payload);
    // A full batch stays until more comes: if it is the last, Finish can seal with it.
    while (error_.ok()) {
      const uint64_t n = NextBatchBytes();
      if (pending_.size() <= n) co_return Ok();
      co_await SendBatch(n, false);
    }
    co_return error_;
  }

  Task<Result<StripeInfo>> Finish() {
    CHECK(!finished_ && appended_ > 0, "Finish comes once, after some bytes");
    finished_ = true;
    SetPayload(appended_);
    while (error_.ok() && !pending_.empty()) {
      const uint64_t n = std::min<uint64_t>(NextBatchBytes(), pending_.size());
      co_await SendBatch(n, true);
    }
    if (gathered_ && shape_.m > 0 && error_.ok()) co_await SendGatheredParity();
    co_await Settle();
    if (error_.ok()) SealRest();
    co_await Settle();
    if (!error_.ok()) {
      failed_list_.assign(failed_.begin(), failed_.end());
      co_return error_;
    }
    co_return Info();
  }

 private:
  // A part of one column, ready to go.
  struct Part {
    uint16_t column = 0;
    uint64_t offset = 0;
    BufferChain bytes;
    std::vector<uint32_t> crcs;
    bool seal = false;
  };
  using Parts = std::vector<Part>;

  void SetPayload(uint64_t payload_bytes) {
    shape_.payload_bytes = payload_bytes;
    if (!gathered_shape_) return;
    shape_.column_bytes.assign(shape_.data_columns(), 0);
    uint64_t begin = 0;
    for (size_t c = 0; c < ends_.size() && begin < payload_bytes; begin = ends_[c++]) {
      shape_.column_bytes[c] = std::min(ends_[c], payload_bytes) - begin;
    }
  }

  // Spread: whole rows. Gathered: within one column.
  uint64_t NextBatchBytes() const {
    if (!gathered_) return batch_column_bytes_ * shape_.data_columns();
    const auto end = std::ranges::upper_bound(ends_, sent_payload_);
    return end == ends_.end() ? batch_column_bytes_ : std::min(batch_column_bytes_, *end - sent_payload_);
  }

  // Encodes and starts sending the next `n` bytes of payload; waits for room in flight.
  Task<void> SendBatch(uint64_t n, bool finishing) {
    BufferChain payload = pending_.Slice(0, n);
    pending_ = pending_.Slice(n, pending_.size() - n);
    std::vector<BufferChain> columns = CutIntoColumns(shape_, sent_payload_, payload);
    sent_payload_ += n;
    if (gathered_) {
      for (size_t c = 0; c < columns.size(); ++c) kept_[c].Append(columns[c]);
    }
    co_await Encode(std::move(columns), !gathered_, n, finishing);
  }

  // Parity of a gathered stripe, a slice of all columns at a time.
  Task<void> SendGatheredParity() {
    uint64_t longest = 0;
    for (uint32_t g = 0; g < shape_.groups; ++g) longest = std::max(longest, GroupBytes(shape_, g));
    for (uint64_t at = 0; at < longest && error_.ok(); at += batch_column_bytes_) {
      std::vector<BufferChain> columns(shape_.columns());
      for (uint32_t g = 0; g < shape_.groups; ++g) {
        std::vector<BufferChain> data;
        uint64_t length = 0;
        for (uint32_t i = 0; i < shape_.k; ++i) {
          const BufferChain& whole = kept_[ColumnOf(shape_, g, i).v];
          const uint64_t begin = std::min<uint64_t>(at, whole.size());
          data.push_back(whole.Slice(begin, std::min<uint64_t>(batch_column_bytes_, whole.size() - begin)));
          length = std::max<uint64_t>(length, data.back().size());
        }
        const ParityCodec* codec = &io_.codecs.For(shape_);
        std::vector<Buffer> parity =
            co_await RunOn(io_.pool, [codec, data = std::move(data), length] {
              return EncodeParity(*codec, data, length);
            });
        for (uint32_t j = 0; j < shape_.m; ++j) {
          columns[ColumnOf(shape_, g, shape_.k + j).v].Append(std::move(parity[j]));
        }
      }
      for (size_t c = 0; c < columns.size(); ++c) {
        for (const Buffer& b : columns[c].parts()) checksums_[c].Append(b.span());
      }
      co_await Launch(std::move(columns), true);
    }
  }

  Task<void> Encode(std::vector<BufferChain> columns, bool with_parity, uint64_t bytes, bool finishing) {
    EncodeJob job{shape_, &io_.codecs, std::move(columns), std::move(checksums_), with_parity};
    if (bytes <= kInlineComputeBytes) {
      job.Run();
    } else {
      job = co_await RunOn(io_.pool, [job = std::move(job)]() mutable {
        job.Run();
        return std::move(job);
      });
    }
    checksums_ = std::move(job.checksums);
    co_await Launch(std::move(job.columns), finishing);
  }

  // Cuts the batch into requests, per node, and lets them go.
  Task<void> Launch(std::vector<BufferChain> columns, bool finishing) {
    std::map<NodeId, std::vector<Parts>> by_node;
    std::map<NodeId, uint64_t> open_bytes;
    for (uint16_t c = 0; c < columns.size(); ++c) {
      for (Part& part : CutColumn(c, columns[c], finishing)) {
        const NodeId node = io_.peers.NodeOf(grant_.info.columns[c].target);
        std::vector<Parts>& requests = by_node[node];
        uint64_t& open = open_bytes[node];
        if (requests.empty() || open + part.bytes.size() > kMaxPayloadBytes) {
          requests.emplace_back();
          open = 0;
        }
        open += part.bytes.size();
        requests.back().push_back(std::move(part));
      }
    }
    for (auto& [node, requests] : by_node) {
      for (Parts& parts : requests) {
        int64_t bytes = 0;
        for (const Part& p : parts) bytes += static_cast<int64_t>(p.bytes.size());
        SemaphoreHold held = co_await Hold(inflight_, std::min(bytes, options_.inflight_bytes));
        if (!error_.ok()) co_return;
        sends_.Spawn(Send(node, std::move(parts), std::move(held)));
      }
    }
  }

  Parts CutColumn(uint16_t c, const BufferChain& bytes, bool finishing) {
    Parts parts;
    if (bytes.empty()) return parts;
    const std::vector<uint32_t> table = checksums_[c].Table();
    const uint64_t length = finishing ? ColumnBytes(shape_, ColumnIndex(c)) : 0;
    const bool whole = finishing && sent_[c] == 0 && bytes.size() == length && length <= kMaxPayloadBytes &&
                       !Sabotaged(Sabotage::kCommitBeforeSeal);
    if (finishing && sent_[c] + bytes.size() == length) digests_[c] = TableDigest(table, length);
    for (uint64_t at = 0; at < bytes.size();) {
      const uint64_t n = std::min<uint64_t>(bytes.size() - at, kMaxPayloadBytes);
      Part part{c, sent_[c], bytes.Slice(at, n), {}, whole};
      const auto first = table.begin() + static_cast<std::ptrdiff_t>(sent_[c] / kChecksumBlockBytes);
      part.crcs.assign(first, first + static_cast<std::ptrdiff_t>(ChecksumBlocks(n)));
      sent_[c] += n;
      at += n;
      parts.push_back(std::move(part));
    }
    return parts;
  }

  // Sends until every part is taken or its target has failed for good.
  Task<void> Send(NodeId node, Parts parts, SemaphoreHold held) {
    Backoff backoff(&rng_);
    const int64_t give_up_ns = Executor::Current().NowNs() + options_.retry_ns;
    for (const Part& p : parts) unanswered_.insert(p.column);
    while (true) {
      const Result<WriteReply> reply =
          IsLost(node) ? Result<WriteReply>(SaysNothing()) : co_await io_.peers.Write(node, MakeWrite(parts));
      Parts again;
      Error last;
      for (size_t i = 0; i < parts.size(); ++i) {
        Part& p = parts[i];
        Error e = !reply.ok() ? reply.error()
                  : i < reply->items.size()
                      ? reply->items[i].result.error()
                      : Error(FsError::kBadRequest, "the reply has fewer items than the request");
        const bool repeat = WorthRepeating(e.code) && !IsSilentDisk(reply, e.code);
        if (!repeat) Answered(p.column);
        if (e.ok()) {
          if (p.seal) Sealed(p.column, reply->items[i]);
        } else if (p.seal && e.code == FsError::kShardSealed) {
          // An earlier answer was lost. SealRest asks for it again, and compares.
        } else if (repeat) {
          last = std::move(e);
          again.push_back(std::move(p));
        } else {
          if (IsSilentDisk(reply, e.code)) io_.peers.TargetFailed(grant_.info.columns[p.column].target);
          Fail(p.column, e);
        }
      }
      if (again.empty()) break;
      const int64_t now_ns = Executor::Current().NowNs();
      const int64_t wait_ns = backoff.NextNs();
      if (now_ns + wait_ns >= give_up_ns || IsLost(node)) {
        for (const Part& p : again) Fail(p.column, last);
        break;
      }
      co_await Sleep(wait_ns);
      parts = std::move(again);
    }
  }

  WriteRequest MakeWrite(const Parts& parts) const {
    WriteRequest request;
    for (const Part& p : parts) {
      const Column& column = grant_.info.columns[p.column];
      request.items.push_back(ShardWrite{column.shard, column.target, grant_.tokens[p.column], p.offset,
                                         p.bytes.size(), p.crcs, p.seal});
      request.payload.Append(p.bytes);
    }
    return request;
  }

  // Columns that were not sealed together with their bytes; all bytes are acknowledged.
  void SealRest() {
    std::map<NodeId, std::vector<uint16_t>> by_node;
    for (uint16_t c = 0; c < sent_.size(); ++c) {
      if (sent_[c] == 0 || sealed_[c]) continue;
      digests_[c] = TableDigest(checksums_[c].Table(), sent_[c]);
      if (Sabotaged(Sabotage::kCommitBeforeSeal)) {
        sealed_[c] = true;
        continue;
      }
      by_node[io_.peers.NodeOf(grant_.info.columns[c].target)].push_back(c);
    }
    for (auto& [node, columns] : by_node) sends_.Spawn(Seal(node, std::move(columns)));
  }

  Task<void> Seal(NodeId node, std::vector<uint16_t> columns) {
    Backoff backoff(&rng_);
    const int64_t give_up_ns = Executor::Current().NowNs() + options_.retry_ns;
    for (uint16_t c : columns) unanswered_.insert(c);
    while (true) {
      SealRequest request;
      for (uint16_t c : columns) {
        const Column& column = grant_.info.columns[c];
        request.items.push_back(ShardSeal{column.shard, column.target, grant_.tokens[c], sent_[c]});
      }
      const Result<SealReply> reply =
          IsLost(node) ? Result<SealReply>(SaysNothing()) : co_await io_.peers.Seal(node, std::move(request));
      std::vector<uint16_t> again;
      Error last;
      for (size_t i = 0; i < columns.size(); ++i) {
        Error e = !reply.ok() ? reply.error()
                  : i < reply->items.size()
                      ? reply->items[i].result.error()
                      : Error(FsError::kBadRequest, "the reply has fewer items than the request");
        const bool repeat = IsRetryable(e.code) && !IsSilentDisk(reply, e.code);
        if (!repeat) Answered(columns[i]);
        if (e.ok()) {
          Sealed(columns[i], reply->items[i]);
        } else if (repeat) {
          last = std::move(e);
          again.push_back(columns[i]);
        } else {
          if (IsSilentDisk(reply, e.code)) io_.peers.TargetFailed(grant_.info.columns[columns[i]].target);
          Fail(columns[i], e);
        }
      }
      if (again.empty()) co_return;
      const int64_t now_ns = Executor::Current().NowNs();
      const int64_t wait_ns = backoff.NextNs();
      if (now_ns + wait_ns >= give_up_ns || IsLost(node)) {
        for (uint16_t c : again) Fail(c, last);
        co_return;
      }
      co_await Sleep(wait_ns);
      columns = std::move(again);
    }
  }

  // Compares what the server made durable with what was written.
  void Sealed(uint16_t c, const SealResult& r) {
    if (r.length != sent_[c] || r.digest != digests_[c]) {
      Fail(c, Error(FsError::kChecksum, "the server sealed other bytes than were written"));
      return;
    }
    sealed_[c] = true;
  }

  // It was there when this began. One that was lost before is in the stripe for want of others, and is tried.
  bool IsLost(NodeId node) const { return io_.peers.IsLost(node) && !lost_before_.contains(node); }
  static Error SaysNothing() { return Error(FsError::kUnavailable, "the data server says nothing"); }

  void Answered(uint16_t c) { unanswered_.erase(unanswered_.find(c)); }

  void Fail(uint16_t c, const Error& e) {
    const TargetId target = grant_.info.columns[c].target;
    if (!IsGeneral(e.code)) failed_.insert(target);
    if (e.code == FsError::kDiskFailed || e.code == FsError::kIo) io_.peers.TargetFailed(target);
    if (IsLost(io_.peers.NodeOf(target))) lost_.Set();
    // General reasons win: they say how to go on.
    if (!error_.ok() && (IsGeneral(error_.code) || !IsGeneral(e.code))) return;
    error_ = e.WithContext("writing stripe " + std::to_string(grant_.info.id.v) + " to " +
                           io_.peers.TargetName(target));
    failure_.Set();
  }

  // Waits until everything sent is answered. After a failure the other columns get retry_ns more, and are avoided if that is
  // not enough, so one failed stripe finds all bad targets. But if a node is lost, DataPeers knows about the others, and the
  // writer waits for none: they may only be slow.
  Task<void> Settle() {
    auto joined = [](TaskScope* scope) -> Task<bool> {
      co_await scope->Join();
      co_return true;
    };
    auto happened = [](Event* e) -> Task<bool> {
      co_await e->Wait();
      co_return true;
    };
    if (error_.ok()) {
      co_await FirstOf(joined(&sends_), happened(&failure_));
      if (error_.ok()) co_return;
    }
    if (!IsGeneral(error_.code)) {
      co_await WithTimeout(options_.retry_ns, FirstOf(joined(&sends_), happened(&lost_)));
    }
    sends_.CancelAll();
    if (IsGeneral(error_.code)) co_return;
    for (uint16_t c : unanswered_) {
      const TargetId target = grant_.info.columns[c].target;
      if (!lost_.is_set() || io_.peers.InDoubt(io_.peers.NodeOf(target))) failed_.insert(target);
    }
  }

  StripeInfo Info() const {
    StripeInfo info = grant_.info;
    info.shape = shape_;
    for (uint16_t c = 0; c < info.columns.size(); ++c) {
      CHECK(sent_[c] == ColumnBytes(shape_, ColumnIndex(c)) && (sent_[c] == 0 || sealed_[c]));
      Column& column = info.columns[c];
      if (sent_[c] == 0) {
        column = Column();
        continue;
      }
      column.length = sent_[c];
      column.digest = digests_[c];
    }
    const Error valid = ValidateStripe(info);
    CHECK(valid.ok(), valid.message);
    return info;
  }

  StripeIo io_;
  const StripeGrant grant_;
  const bool gathered_shape_;
  const bool gathered_;  // columns fill one after another
  const std::vector<uint64_t> ends_;  // of data columns in the payload; of a spread stripe only the last
  const uint64_t capacity_;
  const StripeWriterOptions options_;
  Random rng_;
  Semaphore inflight_;
  StripeShape shape_;  // as if full, until Finish
  uint64_t batch_column_bytes_ = 0;

  BufferChain pending_;  // appended, not encoded
  uint64_t appended_ = 0;
  uint64_t sent_payload_ = 0;
  bool finished_ = false;
  std::vector<ChecksumBuilder> checksums_;  // per column, of the sent bytes
  std::vector<uint64_t> sent_;              // per column, bytes
  std::vector<uint64_t> digests_;           // per column, once it is complete
  std::vector<bool> sealed_;                // per column, and compared
  std::vector<BufferChain> kept_;           // gathered: the data columns, for parity
  std::multiset<uint16_t> unanswered_;      // columns, one for each request on its way
  std::set<TargetId> failed_;
  std::vector<TargetId> failed_list_;
  Error error_;
  Event failure_;
  std::set<NodeId> lost_before_;
  Event lost_;  // a node that was not
  TaskScope sends_;
};

StripeWriter::StripeWriter(StripeIo io, StripeGrant grant, const Layout& layout, StripeWriterOptions options)
    : impl_(std::make_unique<Impl>(io, std::move(grant), layout, options)) {}
StripeWriter::~StripeWriter() = default;
uint64_t StripeWriter::capacity_bytes() const { return impl_->capacity(); }
uint64_t StripeWriter::appended_bytes() const { return impl_->appended(); }
Task<Result<void>> StripeWriter::Append(BufferChain payload) { return impl_->Append(std::move(payload)); }
Task<Result<StripeInfo>> StripeWriter::Finish() { return impl_->Finish(); }
const std::vector<TargetId>& StripeWriter::failed_targets() const { return impl_->failed(); }

Task<StripeWritten> WriteWholeStripe(StripeIo io, StripeGrant grant, Layout layout, BufferChain payload,
                                     StripeWriterOptions options) {
  StripeWriter writer(io, std::move(grant), layout, options);
  (void)co_await writer.Append(std::move(payload));  // an error shows again in Finish
  Result<StripeInfo> info = co_await writer.Finish();
  if (info.ok()) co_return StripeWritten{Error(), std::move(*info), {}};
  co_return StripeWritten{info.error(), StripeInfo(), writer.failed_targets()};
}

}  // namespace stria
