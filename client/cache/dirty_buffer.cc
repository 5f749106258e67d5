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

PieceMap PieceMap::SplitFront() {
  CHECK(bytes_ >= 2);
  PieceMap front;
  const uint64_t want = bytes_ / 2;
  while (front.bytes_ < want) {
    auto first = pieces_.begin();
    const uint64_t offset = first->first;
    const Buffer bytes = std::move(first->second);
    pieces_.erase(first);
    const uint64_t n = std::min<uint64_t>(want - front.bytes_, bytes.size());
    bytes_ -= bytes.size();
    front.Insert(offset, bytes.Slice(0, n));
    if (n < bytes.size()) Insert(offset + n, bytes.Slice(n, bytes.size() - n));
  }
  return front;
}

void DirtyBuffer::Write(uint64_t offset, Buffer bytes, bool grows) {
  if (bytes.empty()) return;
  if (grows) fresh_grow_to_ = std::max(fresh_grow_to_, offset + bytes.size());
  fresh_.Insert(offset, std::move(bytes));
}

void DirtyBuffer::Truncate(uint64_t size) {
  Punch(size, UINT64_MAX - size);
  fresh_grow_to_ = fresh_.empty() ? 0 : std::min(fresh_grow_to_, size);
  for (Sealed& b : batches_) b.grow_to = std::min(b.grow_to, size);
}

void DirtyBuffer::Punch(uint64_t offset, uint64_t length) {
  fresh_.Punch(offset, length);
  for (Sealed& b : batches_) b.map.Punch(offset, length);
}

void DirtyBuffer::Seal() {
  if (fresh_.empty()) return;
  batches_.push_back({++last_id_, ++seals_, false, std::exchange(fresh_, PieceMap()),
                      std::exchange(fresh_grow_to_, 0)});
}

std::optional<DirtyBuffer::Batch> DirtyBuffer::Take() {
  for (Sealed& b : batches_) {
    if (b.taken) continue;
    b.taken = true;
    ++taken_;
    Batch out;
    out.id = b.id;
    out.bytes = b.map.bytes();
    out.grow_to = b.grow_to;
    for (const auto& [offset, bytes] : b.map.pieces()) out.pieces.push_back({offset, bytes});
    return out;
  }
  return std::nullopt;
}

void DirtyBuffer::PutBack(uint64_t id) {
  for (Sealed& b : batches_) {
    if (b.id != id) continue;
    CHECK(b.taken);
    b.taken = false;
    --taken_;
    return;
  }
  CHECK(false, "no such batch");
}

void DirtyBuffer::Committed(uint64_t id) {
  CHECK(head() == id && batches_.front().taken);
  batches_.pop_front();
  --taken_;
}

bool DirtyBuffer::SplitHead(uint64_t id) {
  CHECK(head() == id && batches_.front().taken);
  Sealed& whole = batches_.front();
  whole.taken = false;
  --taken_;
  if (whole.map.bytes() < 2) return false;
  Sealed front{++last_id_, whole.seal, false, whole.map.SplitFront(), 0};
  front.grow_to = std::min(whole.grow_to, front.map.end());
  whole.id = ++last_id_;
  batches_.push_front(std::move(front));
  return true;
}

size_t DirtyBuffer::pieces_count() const {
  size_t n = fresh_.pieces_count();
  for (const Sealed& b : batches_) n += b.map.pieces_count();
  return n;
}

uint64_t DirtyBuffer::bytes() const {
  uint64_t n = fresh_.bytes();
  for (const Sealed& b : batches_) n += b.map.bytes();
  return n;
}

std::vector<DirtyPiece> DirtyBuffer::Find(uint64_t offset, uint64_t length) const {
  if (batches_.empty()) return fresh_.Find(offset, length);
  PieceMap merged;
  for (const Sealed& b : batches_) {
    for (DirtyPiece& p : b.map.Find(offset, length)) merged.Insert(p.offset, std::move(p.bytes));
  }
  for (DirtyPiece& p : fresh_.Find(offset, length)) merged.Insert(p.offset, std::move(p.bytes));
  return merged.Find(offset, length);
}

}  // namespace stria
