// The part of a listing that an open directory holds, and the position in it. Pure. Not thread-safe.
//
// Positions are the kernel's offsets: 0 the beginning, then one after each of the two dots, then entries' cookies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "api/meta_api.h"

namespace stria {

class DirChunk {
 public:
  static constexpr uint64_t kAfterDot = 1;
  static constexpr uint64_t kAfterDotDot = 2;

  // To be asked for what follows `offset`.
  static uint64_t CookieOf(uint64_t offset) { return offset <= kAfterDotDot ? 0 : offset; }

  // What follows `offset`, the position from now on.
  void Take(uint64_t offset, ReadDirReply reply) {
    entries_ = std::move(reply.entries);
    end_ = reply.end;
    from_ = CookieOf(offset);
    next_ = 0;
    offset_ = offset;
  }
  // Goes to `offset`, if what follows it is held (telldir, seekdir). False: nothing has changed.
  bool Seek(uint64_t offset) {
    if (!from_) return false;
    if (offset == offset_) return true;
    if (CookieOf(offset) == *from_) {
      next_ = 0;
    } else {
      size_t at = 0;
      while (at < entries_.size() && entries_[at].cookie != offset) ++at;
      if (at == entries_.size()) return false;
      next_ = at + 1;
    }
    offset_ = offset;
    return true;
  }
  void PassDots(uint64_t offset) { offset_ = offset; }
  // The entry at the position; null: none is held.
  const DirEntry* Next() const { return next_ < entries_.size() ? &entries_[next_] : nullptr; }
  void Pass() { offset_ = entries_[next_++].cookie; }

  uint64_t offset() const { return offset_; }
  bool end() const { return end_; }  // the held entries are the last ones of the listing
  const std::vector<DirEntry>& entries() const { return entries_; }

 private:
  std::vector<DirEntry> entries_;
  std::optional<uint64_t> from_;  // the cookie that entries_ follow; none is held before the first
  size_t next_ = 0;               // of entries_
  uint64_t offset_ = 0;           // after entries_[next_ - 1]
  bool end_ = false;
};

}  // namespace stria
