// The bytes of one inode that were written and are not committed yet. Pure; executor's thread only.
//
// Layers, oldest first: a queue of sealed batches, then `fresh`, which takes writes. Seal() turns fresh into the last batch. A
// batch is a window of time: all of it was written after the batches before it. Batches are stored side by side but committed
// from the head, so the committed bytes are always a prefix of the written ones. A batch whose storing or commit failed stays
// in its place and is taken again: no failure drops bytes.
//
// Reads see the newest layer that has a byte.
//
// Invariants: pieces of one layer are disjoint, sorted and not empty; each written byte is in the
// newest layer that covers it until that layer is committed, truncated or punched.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
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
  void Punch(uint64_t offset, uint64_t length);
  uint64_t bytes() const { return bytes_; }
  bool empty() const { return pieces_.empty(); }
  const std::map<uint64_t, Buffer>& pieces() const { return pieces_; }
  // Parts of [offset, offset+length) that are here, in order.
  std::vector<DirtyPiece> Find(uint64_t offset, uint64_t length) const;
  size_t pieces_count() const { return pieces_.size(); }
  // Moves the first half (by bytes, at least one piece or part of one) out. REQUIRES: bytes() >= 2.
  PieceMap SplitFront();
  uint64_t end() const { return pieces_.empty() ? 0 : pieces_.rbegin()->first + pieces_.rbegin()->second.size(); }

 private:
  std::map<uint64_t, Buffer> pieces_;
  uint64_t bytes_ = 0;
};

class DirtyBuffer {
 public:
  // `grows`: the file ends behind these bytes at least. Pages of mappings do not grow it.
  void Write(uint64_t offset, Buffer bytes, bool grows = true);
  // All layers: bytes at or beyond `size` are forgotten.
  void Truncate(uint64_t size);
  // All layers.
  void Punch(uint64_t offset, uint64_t length);

  // Fresh becomes the last batch; nothing happens if it is empty.
  void Seal();
  // Seals done so far; a flush waits until no batch of this number or below is left.
  uint64_t seals() const { return seals_; }

  struct Batch {
    uint64_t id = 0;
    std::vector<DirtyPiece> pieces;  // empty if all was truncated meanwhile
    uint64_t bytes = 0;
    uint64_t grow_to = 0;  // the file has at least this size after these writes
  };
  // The oldest batch that is not in work, marked as in work. nullopt if there is none.
  std::optional<Batch> Take();
  // The work failed: it can be taken again. REQUIRES: taken.
  void PutBack(uint64_t id);
  // REQUIRES: id == head().
  void Committed(uint64_t id);
  // The head was too big for one transaction: it becomes two, neither taken. False if it is down to one
  // byte. REQUIRES: id == head(), taken.
  bool SplitHead(uint64_t id);

  // Id of the oldest batch, 0 if there is none.
  uint64_t head() const { return batches_.empty() ? 0 : batches_.front().id; }
  // Seal number of the oldest batch, UINT64_MAX if there is none.
  uint64_t head_seal() const { return batches_.empty() ? UINT64_MAX : batches_.front().seal; }
  bool head_taken() const { return !batches_.empty() && batches_.front().taken; }
  bool has_untaken() const { return taken_ < batches_.size(); }
  size_t taken() const { return taken_; }
  size_t batches() const { return batches_.size(); }
  const PieceMap& fresh() const { return fresh_; }
  bool clean() const { return fresh_.empty() && batches_.empty(); }
  size_t pieces_count() const;  // of all layers
  uint64_t bytes() const;

  // Parts of the range that are dirty: newest bytes, in order, disjoint.
  std::vector<DirtyPiece> Find(uint64_t offset, uint64_t length) const;

 private:
  struct Sealed {
    uint64_t id = 0;
    uint64_t seal = 0;
    bool taken = false;
    PieceMap map;
    uint64_t grow_to = 0;
  };
  PieceMap fresh_;
  uint64_t fresh_grow_to_ = 0;
  std::list<Sealed> batches_;
  size_t taken_ = 0;
  uint64_t seals_ = 0;
  uint64_t last_id_ = 0;
};

}  // namespace stria
