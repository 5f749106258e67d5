#include "server/segment_writer.h"

namespace stria {
namespace {

Buffer Zeros(uint64_t n) { return Buffer::FromString(std::string(n, '\0')); }

}  // namespace

uint64_t SegmentWriter::BatchBytes(const std::vector<Item>& items) {
  uint64_t n = 0;
  for (const Item& item : items) n += SegmentEntryBytes(item.entry.kind, item.entry.length);
  return n;
}

Task<Result<SegmentWriter::Appended>> SegmentWriter::Append(std::vector<Item> items) {
  const uint64_t bytes = BatchBytes(items);
  BufferChain chain;
  uint64_t start = AlignUp(end_, kSegmentBatchAlign);
  if (active_ == 0 || start + bytes > kSegmentRollBytes) {
    active_ = index_->NewSegmentId();
    start = 0;
    chain.Append(Buffer::FromString(EncodeSegmentHeader(disk_uuid_, active_)));
  }
  Appended out;
  out.segment = active_;
  out.file = SegmentName(active_);
  out.pin = Pin(this, active_);
  uint64_t at = start + chain.size();
  for (Item& item : items) {
    SegmentEntry& e = item.entry;
    e.offset = at;
    chain.Append(Buffer::FromString(EncodeSegmentHead(disk_uuid_, active_, e)));
    chain.Append(item.payload);
    const uint64_t size = SegmentEntryBytes(e.kind, e.length);
    const uint64_t padding = at + size - start - chain.size();
    if (padding > 0) chain.Append(Zeros(padding));
    out.places.push_back({active_, at});
    at += size;
  }
  end_ = at;
  sizes_[active_] = at;
  dirty_.insert(active_);
  const uint64_t segment = active_;
  Result<void> written = co_await disk_->Write(out.file, start, std::move(chain));
  if (!written.ok()) {
    if (active_ == segment) active_ = 0;
    co_return written.error();
  }
  co_return std::move(out);
}

}  // namespace stria
