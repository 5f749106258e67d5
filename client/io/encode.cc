#include "client/io/encode.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/check.h"
#include "stripe/layout.h"

namespace stria {

namespace {

// One column at a time, so that the bytes behind the parity are still in the core's own cache for the checksums.
constexpr uint64_t kWarmBytes = 32 * kKiB;

// Walks over a chain from its start.
class Cursor {
 public:
  explicit Cursor(const BufferChain& chain) : parts_(chain.parts()) {}
  bool done() const { return part_ == parts_.size(); }
  // REQUIRES: !done(). The bytes up to the end of this part.
  const uint8_t* data() const { return parts_[part_].data() + offset_; }
  uint64_t run() const { return parts_[part_].size() - offset_; }
  void Skip(uint64_t n) {
    offset_ += n;
    if (offset_ == parts_[part_].size()) {
      ++part_;
      offset_ = 0;
    }
  }
  // REQUIRES: n bytes are left.
  void Take(uint64_t n, BufferChain* to) {
    while (n > 0) {
      const uint64_t step = std::min(n, run());
      to->Append(parts_[part_].Slice(offset_, step));
      Skip(step);
      n -= step;
    }
  }

 private:
  const std::span<const Buffer> parts_;
  size_t part_ = 0;
  uint64_t offset_ = 0;
};

}  // namespace

std::vector<BufferChain> CutIntoColumns(const StripeShape& shape, uint64_t payload_offset,
                                        const BufferChain& payload) {
  std::vector<BufferChain> columns(shape.data_columns());
  Cursor cursor(payload);
  uint64_t at = payload_offset;
  const uint64_t end = payload_offset + payload.size();
  while (at < end) {
    const Location where = Locate(shape, at);
    const uint64_t n = std::min(where.run_bytes, end - at);
    cursor.Take(n, &columns[where.column.v]);
    at += n;
  }
  return columns;
}

std::vector<Buffer> EncodeParity(const ParityCodec& codec, const std::vector<BufferChain>& data, uint64_t length,
                                 std::span<ChecksumBuilder* const> sums) {
  CHECK(data.size() == codec.k() && (sums.empty() || sums.size() == codec.k() + codec.m()));
  std::vector<MutableBuffer> out;
  for (uint32_t j = 0; j < codec.m(); ++j) out.emplace_back(length);
  std::vector<Cursor> cursors;
  for (const BufferChain& c : data) cursors.emplace_back(c);
  std::array<const uint8_t*, kMaxDataColumns> sources{};
  std::array<uint8_t*, kMaxParity> parity{};
  // One step goes as far as every column is one run of memory.
  for (uint64_t at = 0; at < length;) {
    uint64_t step = std::min(length - at, sums.empty() ? length : kWarmBytes);
    for (size_t i = 0; i < cursors.size(); ++i) {
      sources[i] = cursors[i].done() ? nullptr : cursors[i].data();
      if (!cursors[i].done()) step = std::min(step, cursors[i].run());
    }
    for (size_t j = 0; j < out.size(); ++j) parity[j] = out[j].data() + at;
    codec.Encode({sources.data(), cursors.size()}, {parity.data(), out.size()}, step);
    for (size_t c = 0; c < sums.size(); ++c) {
      const uint8_t* const bytes = c < data.size() ? sources[c] : parity[c - data.size()];
      if (bytes != nullptr) sums[c]->Append({bytes, step});
    }
    for (Cursor& c : cursors) {
      if (!c.done()) c.Skip(step);
    }
    at += step;
  }
  std::vector<Buffer> frozen;
  for (MutableBuffer& b : out) frozen.push_back(std::move(b).Freeze());
  return frozen;
}

void EncodeJob::Run() {
  CHECK(columns.size() == shape.data_columns() && checksums.size() == shape.columns());
  columns.resize(shape.columns());
  if (!with_parity || shape.m == 0) {
    for (size_t c = 0; c < columns.size(); ++c) {
      for (const Buffer& b : columns[c].parts()) checksums[c].Append(b.span());
    }
    return;
  }
  for (uint32_t g = 0; g < shape.groups; ++g) {
    std::vector<BufferChain> data;
    std::vector<ChecksumBuilder*> sums;
    uint64_t length = 0;
    for (uint32_t i = 0; i < shape.k + shape.m; ++i) {
      const size_t column = ColumnOf(shape, g, i).v;
      sums.push_back(&checksums[column]);
      if (i >= shape.k) continue;
      data.push_back(columns[column]);
      length = std::max<uint64_t>(length, data.back().size());
    }
    std::vector<Buffer> parity = EncodeParity(codecs->For(shape), data, length, sums);
    for (uint32_t j = 0; j < shape.m; ++j) columns[ColumnOf(shape, g, shape.k + j).v].Append(std::move(parity[j]));
  }
}

}  // namespace stria
