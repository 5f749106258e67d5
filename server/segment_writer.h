// Appends entries to the active segment of one disk and knows the sizes of all its segments. A segment
// is appended to by the process that made it only: a restart begins a new one, so that a torn tail is
// never continued. For the executor's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/buffer.h"
#include "common/exec/task.h"
#include "common/io/disk.h"
#include "server/segment.h"
#include "server/shard_index.h"

namespace stria {

class SegmentWriter {
 public:
  // Keeps a segment from being removed, as between an append and the index records that name it. An append's hold also says
  // that the index lacks these records.
  class Pin {
   public:
    Pin() = default;
    Pin(SegmentWriter* w, uint64_t segment) : writer_(w), segment_(segment) { ++w->pins_[segment]; }
    Pin(SegmentWriter* w, SegmentPlace unindexed) : Pin(w, unindexed.segment) {
      unindexed_ = unindexed;
      w->unindexed_.insert(unindexed);
      w->TellIndex();
    }
    Pin(Pin&& o) noexcept
        : writer_(std::exchange(o.writer_, nullptr)), segment_(o.segment_), unindexed_(o.unindexed_) {}
    Pin& operator=(Pin&& o) noexcept {
      Release();
      writer_ = std::exchange(o.writer_, nullptr);
      segment_ = o.segment_;
      unindexed_ = o.unindexed_;
      return *this;
    }
    ~Pin() { Release(); }
    uint64_t segment() const { return segment_; }
    void Release() {
      if (!writer_) return;
      auto it = writer_->pins_.find(segment_);
      if (--it->second == 0) writer_->pins_.erase(it);
      if (unindexed_) writer_->Indexed(*unindexed_);
      writer_ = nullptr;
    }

   private:
    SegmentWriter* writer_ = nullptr;
    uint64_t segment_ = 0;
    std::optional<SegmentPlace> unindexed_;  // where the append begins
  };
  struct Item {
    SegmentEntry entry;   // its offset is chosen here
    BufferChain payload;  // of packed shards
  };
  struct Appended {
    std::vector<SegmentPlace> places;
    std::string file;
    Error sync;  // of the file, if it was asked for
    Pin pin;
  };

  SegmentWriter(Disk* disk, ShardIndex* index, Uuid disk_uuid)
      : disk_(disk), index_(index), disk_uuid_(disk_uuid) {}

  // Learns of an existing file. Before the first Append.
  void AddExisting(uint64_t segment, uint64_t size_bytes) {
    sizes_[segment] = size_bytes;
    index_->NoteSegment(segment);
  }
  // Writes the items as one batch of the active segment, and syncs its file if so asked; else it is not durable before
  // that. After an error the segment is not appended to any more. Calls may overlap.
  Task<Result<Appended>> Append(std::vector<Item> items, bool sync);
  // Waits until the index has all earlier appends.
  Task<void> AllIndexed();

  bool Removable(uint64_t segment) const { return segment != active_ && !pins_.contains(segment); }
  const std::map<uint64_t, uint64_t>& sizes() const { return sizes_; }
  void Forget(uint64_t segment) {
    sizes_.erase(segment);
    dirty_.erase(segment);
  }
  // Segments appended to since they were last marked clean.
  const std::set<uint64_t>& dirty() const { return dirty_; }
  void MarkClean(uint64_t segment) { dirty_.erase(segment); }

 private:
  SegmentPlace End() const;  // where the next append begins, or a bit before
  void Indexed(SegmentPlace begin);
  void TellIndex();

  Disk* const disk_;
  ShardIndex* const index_;
  const Uuid disk_uuid_;
  uint64_t active_ = 0;
  uint64_t end_ = 0;  // of the active segment, allocated
  std::map<uint64_t, uint64_t> sizes_;
  std::map<uint64_t, int> pins_;
  std::set<SegmentPlace> unindexed_;  // where appends begin that the index has not got yet
  Event indexed_;                     // one of them less
  std::set<uint64_t> dirty_;
};

}  // namespace stria
