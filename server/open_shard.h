// A shard that is being written: which of its blocks have arrived, and the bytes of a small one. Lives
// in memory only; a restart forgets it. For the executor's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/buffer.h"
#include "common/error.h"
#include "common/exec/task.h"
#include "common/ids.h"
#include "stripe/types.h"

namespace stria {

struct Sealed {
  uint64_t length = 0;
  uint64_t digest = 0;
};

// One attempt to seal; all callers for the same shard wait for it.
struct SealAttempt {
  uint64_t length = 0;
  Event done;
  std::optional<Result<Sealed>> outcome;
};

struct OpenShard {
  explicit OpenShard(ShardId shard) : id(shard) {}

  struct Block {
    uint32_t crc = 0;
    uint32_t length = 0;  // 0: not written
    bool in_flight = false;
  };
  // How the blocks of an arriving write compare with the blocks that are there.
  enum class Overlap : uint8_t {
    kFresh,     // at least one is new; none differs
    kRepeat,    // all are there with the same checksums
    kInFlight,  // some are being written by another call
    kDiffers,   // some are there with other bytes
  };

  const ShardId id;
  std::vector<Block> blocks;
  std::map<uint64_t, Buffer> small;  // by block number: bytes of a shard without a file
  uint64_t buffered_bytes = 0;       // in `small`
  bool raw = false;                  // its file exists and has all bytes that were written
  AsyncMutex spill;                  // held while it becomes a file
  size_t calls_in_flight = 0;        // writes that have passed the checks and are not done
  bool dead = false;                 // deleted or given up: nothing more may be done with it
  int64_t touched_ns = 0;
  Event changed;  // pulsed when a call ends
  std::shared_ptr<SealAttempt> sealing;

  Overlap Compare(uint64_t first_block, uint64_t length, const std::vector<uint32_t>& crcs) const {
    bool fresh = false;
    for (size_t i = 0; i < crcs.size(); ++i) {
      const size_t n = first_block + i;
      if (n >= blocks.size() || (blocks[n].length == 0 && !blocks[n].in_flight)) {
        fresh = true;
        continue;
      }
      if (blocks[n].in_flight) return Overlap::kInFlight;
      if (blocks[n].crc != crcs[i] || blocks[n].length != BlockLength(i, length)) return Overlap::kDiffers;
    }
    return fresh ? Overlap::kFresh : Overlap::kRepeat;
  }
  void Begin(uint64_t first_block, size_t count) {
    if (blocks.size() < first_block + count) blocks.resize(first_block + count);
    for (size_t i = 0; i < count; ++i) blocks[first_block + i].in_flight = true;
    ++calls_in_flight;
  }
  // Blocks that were there before stay: they were written again with the same bytes.
  void End(uint64_t first_block, uint64_t length, const std::vector<uint32_t>& crcs, bool ok) {
    for (size_t i = 0; i < crcs.size(); ++i) {
      Block& b = blocks[first_block + i];
      b.in_flight = false;
      if (ok) b = Block{crcs[i], BlockLength(i, length), false};
    }
    --calls_in_flight;
    changed.Pulse();
  }
  // The offset of the first byte below `length` that is missing, or of the first beyond; nullopt if
  // exactly `length` bytes were written.
  std::optional<uint64_t> FirstHole(uint64_t length) const {
    const uint64_t count = DivCeil(length, kChecksumBlockBytes);
    for (uint64_t n = 0; n < count; ++n) {
      const uint64_t want = std::min(kChecksumBlockBytes, length - n * kChecksumBlockBytes);
      if (n >= blocks.size() || blocks[n].length != want) return n * kChecksumBlockBytes;
    }
    for (uint64_t n = count; n < blocks.size(); ++n) {
      if (blocks[n].length != 0) return n * kChecksumBlockBytes;
    }
    return std::nullopt;
  }
  std::vector<uint32_t> Table() const {
    std::vector<uint32_t> out;
    for (const Block& b : blocks) {
      if (b.length != 0) out.push_back(b.crc);
    }
    return out;
  }
  uint64_t WrittenBytes() const {
    uint64_t n = 0;
    for (const Block& b : blocks) n += b.length;
    return n;
  }

 private:
  // Length of block `i` of a write of `length` bytes.
  static uint32_t BlockLength(size_t i, uint64_t length) {
    return static_cast<uint32_t>(std::min(kChecksumBlockBytes, length - i * kChecksumBlockBytes));
  }
};

}  // namespace stria
