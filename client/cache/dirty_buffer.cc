#include "client/cache/dirty_buffer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stria {

void PieceMap::Punch(uint64_t offset, uint64_t length) {
  if (length == 0 || pieces_.empty()) return;
  const uint64_t end = offset + length;
  auto it = pieces_.upper_bound(offset);
  if (it != pieces_.begin() && std::prev(it)->first + std::prev(it)->second.size() > offset) --it;
  while (it != pieces_.end() && it->first < end) {
    const uint64_t piece_offset = it->first;
    const Buffer piece = it->second;
    const uint64_t piece_end = piece_offset + piece.size();
    bytes_ -= piece.size();
    it = pieces_.erase(it);
    if (piece_offset < offset) {
      pieces_.emplace(piece_offset, piece.Slice(0, offset - piece_offset));
      bytes_ += offset - piece_offset;
    }
    if (piece_end > end) {
      it = pieces_.emplace(end, piece.Slice(end - piece_offset, piece_end - end)).first;
      bytes_ += piece_end - end;
      break;
    }
  }
}

void PieceMap::Insert(uint64_t offset, Buffer bytes) {
  if (bytes.empty()) return;
  Punch(offset, bytes.size());
  bytes_ += bytes.size();
  pieces_.emplace(offset, std::move(bytes));
}

void PieceMap::InsertBelow(uint64_t offset, const Buffer& bytes) {
  uint64_t at = offset;
  const uint64_t end = offset + bytes.size();
  for (const DirtyPiece& have : Find(offset, bytes.size())) {
    if (have.offset > at) {
      pieces_.emplace(at, bytes.Slice(at - offset, have.offset - at));
      bytes_ += have.offset - at;
    }
    at = have.end();
  }
  if (at < end) {
    pieces_.emplace(at, bytes.Slice(at - offset, end - at));
    bytes_ += end - at;
  }
}

std::vector<DirtyPiece> PieceMap::Find(uint64_t offset, uint64_t length) const {
  std::vector<DirtyPiece> out;
  const uint64_t end = offset + length;
  auto it = pieces_.upper_bound(offset);
  if (it != pieces_.begin()) --it;
  for (; it != pieces_.end() && it->first < end; ++it) {
    const uint64_t from = std::max(offset, it->first);
    const uint64_t to = std::min(end, it->first + it->second.size());
    if (from < to) out.push_back({from, it->second.Slice(from - it->first, to - from)});
  }
  return out;
}

uint64_t PieceMap::FirstRun() const {
  uint64_t run = 0;
  uint64_t at = pieces_.empty() ? 0 : pieces_.begin()->first;
  for (const auto& [offset, bytes] : pieces_) {
    if (offset != at) break;
    at += bytes.size();
    run += bytes.size();
  }
  return run;
}

std::vector<DirtyPiece> PieceMap::TakeFront(uint64_t limit_bytes, size_t max_runs) {
  std::vector<DirtyPiece> out;
  size_t runs = 0;
  while (!pieces_.empty() && limit_bytes > 0) {
    auto first = pieces_.begin();
    const uint64_t offset = first->first;
    if ((out.empty() || out.back().end() != offset) && ++runs > max_runs) break;
    Buffer bytes = std::move(first->second);
    pieces_.erase(first);
    const uint64_t n = std::min<uint64_t>(limit_bytes, bytes.size());
    bytes_ -= bytes.size();
    out.push_back({offset, bytes.Slice(0, n)});
    limit_bytes -= n;
    if (n < bytes.size()) {
      bytes_ += bytes.size() - n;
      pieces_.emplace(offset + n, bytes.Slice(n, bytes.size() - n));
    }
  }
  return out;
}

void DirtyBuffer::Truncate(uint64_t size) { Punch(size, UINT64_MAX - size); }

void DirtyBuffer::Punch(uint64_t offset, uint64_t length) {
  fresh_.Punch(offset, length);
  for (auto& [number, map] : batches_) map.Punch(offset, length);
}

DirtyBuffer::Batch DirtyBuffer::TakeBatch(uint64_t limit_bytes, size_t max_runs) {
  CHECK(!fresh_.empty());
  Batch batch;
  batch.number = next_batch_++;
  batch.pieces = fresh_.TakeFront(limit_bytes, max_runs);
  PieceMap& map = batches_[batch.number];
  for (const DirtyPiece& p : batch.pieces) {
    map.Insert(p.offset, p.bytes);
    batch.bytes += p.bytes.size();
  }
  return batch;
}

void DirtyBuffer::Committed(uint64_t number) { CHECK(batches_.erase(number) == 1); }

void DirtyBuffer::Failed(uint64_t number) {
  auto node = batches_.extract(number);
  CHECK(!node.empty());
  // Under fresh, and under every newer batch: those will be committed after us or fail into fresh
  // themselves, and must win then.
  PieceMap mine = std::move(node.mapped());
  for (auto it = batches_.upper_bound(number); it != batches_.end(); ++it) {
    for (const auto& [offset, bytes] : it->second.pieces()) mine.Punch(offset, bytes.size());
  }
  for (const auto& [offset, bytes] : mine.pieces()) fresh_.InsertBelow(offset, bytes);
}

uint64_t DirtyBuffer::bytes() const {
  uint64_t n = fresh_.bytes();
  for (const auto& [number, map] : batches_) n += map.bytes();
  return n;
}

uint64_t DirtyBuffer::end() const {
  uint64_t e = fresh_.end();
  for (const auto& [number, map] : batches_) e = std::max(e, map.end());
  return e;
}

std::vector<DirtyPiece> DirtyBuffer::Find(uint64_t offset, uint64_t length) const {
  if (batches_.empty()) return fresh_.Find(offset, length);
  PieceMap merged;
  for (const auto& [number, map] : batches_) {
    for (DirtyPiece& p : map.Find(offset, length)) merged.Insert(p.offset, std::move(p.bytes));
  }
  for (DirtyPiece& p : fresh_.Find(offset, length)) merged.Insert(p.offset, std::move(p.bytes));
  return merged.Find(offset, length);
}

}  // namespace stria
