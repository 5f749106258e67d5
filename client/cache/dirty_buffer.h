// The bytes of one inode that were written and are not committed yet. Pure; executor's thread only.
//
// Two layers: `fresh` takes writes; TakeBatch moves a part of fresh into a numbered batch that a
// flusher writes out. Reads see fresh over batches (newest first) over what is committed. A batch
// leaves by Committed(); Failed() puts its bytes back under newer ones, so nothing is ever dropped
// by a failure.
//
// Invariants: pieces of one layer are disjoint, sorted and not empty; bytes() is their total; each
// written byte is in the newest layer that covers it until that layer is committed.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/buffer.h"

namespace stria {

struct DirtyPiece {
  uint64_t offset = 0;
  Buffer bytes;
  uint64_t end() const { return offset + bytes.size(); }
};

// Sorted disjoint pieces of a file.
class PieceMap {
 public:
  // Newer bytes win.
  void Insert(uint64_t offset, Buffer bytes);
  // Inserts only where nothing is there yet.
  void InsertBelow(uint64_t offset, const Buffer& bytes);
  void Punch(uint64_t offset, uint64_t length);
  uint64_t bytes() const { return bytes_; }
  bool empty() const { return pieces_.empty(); }
  const std::map<uint64_t, Buffer>& pieces() const { return pieces_; }
  // Parts of [offset, offset+length) that are here, in order.
  std::vector<DirtyPiece> Find(uint64_t offset, uint64_t length) const;
  // Length of the contiguous run that starts with the first piece.
  uint64_t FirstRun() const;
  // Removes and returns the first `limit_bytes` bytes (in file order) of the first `max_runs` contiguous
  // runs, splitting a piece if need be.
  std::vector<DirtyPiece> TakeFront(uint64_t limit_bytes, size_t max_runs);
  uint64_t end() const { return pieces_.empty() ? 0 : pieces_.rbegin()->first + pieces_.rbegin()->second.size(); }

 private:
  std::map<uint64_t, Buffer> pieces_;
  uint64_t bytes_ = 0;
};

class DirtyBuffer {
 public:
  void Write(uint64_t offset, Buffer bytes) { fresh_.Insert(offset, std::move(bytes)); }
  // All layers: bytes at or beyond `size` are forgotten.
  void Truncate(uint64_t size);
  // All layers.
  void Punch(uint64_t offset, uint64_t length);

  struct Batch {
    uint64_t number = 0;  // dense, from 1: batches commit in this order
    std::vector<DirtyPiece> pieces;
    uint64_t bytes = 0;
  };
  // The first up to `limit_bytes` of the first `max_runs` runs of fresh as a batch.
  // REQUIRES: !fresh_empty(), limits > 0.
  Batch TakeBatch(uint64_t limit_bytes, size_t max_runs = SIZE_MAX);
  void Committed(uint64_t number);
  // The batch's bytes are fresh again (where nothing newer is), except what was truncated or punched
  // meanwhile.
  void Failed(uint64_t number);

  bool fresh_empty() const { return fresh_.empty(); }
  uint64_t fresh_bytes() const { return fresh_.bytes(); }
  const PieceMap& fresh() const { return fresh_; }
  bool clean() const { return fresh_.empty() && batches_.empty(); }
  uint64_t bytes() const;
  size_t batches_in_flight() const { return batches_.size(); }
  uint64_t last_batch() const { return next_batch_ - 1; }
  // Highest dirty byte + 1, 0 if clean.
  uint64_t end() const;

  // Parts of the range that are dirty: newest bytes, in order, disjoint.
  std::vector<DirtyPiece> Find(uint64_t offset, uint64_t length) const;

 private:
  PieceMap fresh_;
  std::map<uint64_t, PieceMap> batches_;  // number -> its bytes as reads see them
  uint64_t next_batch_ = 1;
};

}  // namespace stria
