// The newest batches of a store, in order, in memory, until they are archived. Bounded: when it would hold
// too much it stops, which its owner sees, and a new checkpoint makes good for the gap. For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/ids.h"
#include "common/kv/kv.h"
#include "common/units.h"

namespace stria {

inline constexpr size_t kMaxTapeBytes = 64 * kMiB;

class BatchTape {
 public:
  explicit BatchTape(size_t max_bytes = kMaxTapeBytes) : max_bytes_(max_bytes) {}

  // Takes every batch from now on; the store is at `last`. Forgets earlier batches.
  void Begin(CommitSeq last);
  void Stop();
  // Nothing if it does not record. `wall_ns` is archived with the batch, `now_ns` is for oldest_ns.
  void Add(CommitSeq seq, int64_t now_ns, int64_t wall_ns, const KvBatch& batch);
  // The same of a batch that was encoded already (EncodeArchivedBatch), for a log that ships it, too.
  void AddEncoded(CommitSeq seq, int64_t now_ns, std::string encoded);

  // False before Begin, after Stop, and from when it held too much.
  bool recording() const { return recording_; }
  // While it records: has all batches after `after` up to `last`.
  CommitSeq after() const { return after_; }
  CommitSeq last() const { return CommitSeq(after_.v + batches_.size()); }
  size_t bytes() const { return bytes_; }
  // When its oldest batch was added; nullopt if it has none.
  std::optional<int64_t> oldest_ns() const;

  struct Cut {
    CommitSeq first, last;
    std::string body;  // of a segment (archive.h)
  };
  // The oldest batches up to max_bytes, none beyond `durable`: a power cut could take those back. nullopt if there are none.
  // They stay on the tape.
  std::optional<Cut> CutAt(CommitSeq durable, size_t max_bytes) const;
  // Those up to `last` are not needed any more.
  void Drop(CommitSeq last);

 private:
  struct Batch {
    int64_t now_ns = 0;
    std::string encoded;
  };
  const size_t max_bytes_;
  bool recording_ = false;
  CommitSeq after_;
  size_t bytes_ = 0;
  std::deque<Batch> batches_;
};

}  // namespace stria
