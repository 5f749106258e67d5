#include "meta/backup/batch_tape.h"

#include <string_view>
#include <utility>
#include <vector>

#include "common/check.h"
#include "meta/backup/archive.h"

namespace stria {

void BatchTape::Begin(CommitSeq last) {
  Stop();
  recording_ = true;
  after_ = last;
}

void BatchTape::Stop() {
  recording_ = false;
  batches_.clear();
  bytes_ = 0;
}

void BatchTape::Add(CommitSeq seq, int64_t now_ns, int64_t wall_ns, const KvBatch& batch) {
  if (recording_) AddEncoded(seq, now_ns, EncodeArchivedBatch(seq, wall_ns, batch));
}

void BatchTape::AddEncoded(CommitSeq seq, int64_t now_ns, std::string encoded) {
  if (!recording_) return;
  CHECK(seq.v == last().v + 1, "a batch is missing between the store and its tape");
  Batch& b = batches_.emplace_back();
  b.now_ns = now_ns;
  b.encoded = std::move(encoded);
  bytes_ += b.encoded.size();
  if (bytes_ > max_bytes_) Stop();
}

std::optional<int64_t> BatchTape::oldest_ns() const {
  return batches_.empty() ? std::nullopt : std::optional(batches_.front().now_ns);
}

std::optional<BatchTape::Cut> BatchTape::CutAt(CommitSeq durable, size_t max_bytes) const {
  std::vector<std::string_view> batches;
  size_t bytes = 0;
  for (const Batch& b : batches_) {
    if (bytes >= max_bytes || after_.v + batches.size() >= durable.v) break;
    batches.push_back(b.encoded);
    bytes += b.encoded.size();
  }
  if (batches.empty()) return std::nullopt;
  Cut cut;
  cut.first = CommitSeq(after_.v + 1);
  cut.last = CommitSeq(after_.v + batches.size());
  cut.body = EncodeSegmentBody(batches);
  return cut;
}

void BatchTape::Drop(CommitSeq last) {
  while (!batches_.empty() && after_ < last) {
    bytes_ -= batches_.front().encoded.size();
    batches_.pop_front();
    ++after_.v;
  }
}

}  // namespace stria
