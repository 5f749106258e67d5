#include "server/segment_writer.h"

namespace stria {
namespace {

Buffer Zeros(uint64_t n) { return Buffer::FromString(std::string(n, '\0')); }

// Chooses the entries' offsets in a batch that begins at `at`; where it ends.
uint64_t LayOut(uint64_t at, std::vector<SegmentWriter::Item>* items) {
  for (SegmentWriter::Item& item : *items) {
    item.entry.offset = at;
    at += SegmentEntryBytes(item.entry.kind, item.entry.length);
  }
  return at;
}

}  // namespace

SegmentPlace SegmentWriter::End() const {
  return active_ == 0 ? SegmentPlace{index_->totals().next_segment, 0} : SegmentPlace{active_, end_};
}

void SegmentWriter::TellIndex() { index_->SetUnindexedFrom(unindexed_.empty() ? End() : *unindexed_.begin()); }

void SegmentWriter::Indexed(SegmentPlace begin) {
  unindexed_.erase(begin);
  TellIndex();
  indexed_.Pulse();
}

Task<void> SegmentWriter::AllIndexed() {
  const SegmentPlace end = End();
  while (!unindexed_.empty() && *unindexed_.begin() < end) co_await indexed_.Wait();
}

Task<Result<SegmentWriter::Appended>> SegmentWriter::Append(std::vector<Item> items, bool sync) {
  BufferChain chain;
  uint64_t start = AlignUp(end_, kSegmentBatchAlign);
  if (active_ == 0 || LayOut(start, &items) > kSegmentRollBytes) {
    active_ = index_->NewSegmentId();
    start = 0;
    chain.Append(Buffer::FromString(EncodeSegmentHeader(disk_uuid_, active_)));
  }
  const uint64_t end = LayOut(start + chain.size(), &items);
  Appended out;
  out.file = SegmentName(active_);
  out.pin = Pin(this, SegmentPlace{active_, start});
  const auto pad_to = [&](uint64_t at) {
    if (const uint64_t n = at - start - chain.size(); n > 0) chain.Append(Zeros(n));
  };
  for (const Item& item : items) {
    const SegmentEntry& e = item.entry;
    pad_to(e.offset);
    chain.Append(Buffer::FromString(EncodeSegmentHead(disk_uuid_, active_, e)));
    chain.Append(item.payload);
    out.places.push_back({active_, e.offset});
  }
  pad_to(end);
  end_ = end;
  sizes_[active_] = end;
  dirty_.insert(active_);
  const uint64_t segment = active_;
  Error written;
  if (sync) {
    DiskWritten done = co_await disk_->WriteAndSync(out.file, start, std::move(chain));
    written = std::move(done.write);
    out.sync = std::move(done.sync);
  } else {
    written = (co_await disk_->Write(out.file, start, std::move(chain))).error();
  }
  if (!written.ok()) {
    if (active_ == segment) active_ = 0;
    co_return written;
  }
  co_return std::move(out);
}

}  // namespace stria
