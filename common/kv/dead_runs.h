// Ranges of keys without any value where much was deleted lately. A search for the next or the last key would pass all the
// deletions, one by one, until the store has forgotten them. Kept exactly, as keys come and go. Pure; not thread-safe.
//
// A reader reports what it found. A write that overlapped the reading may have changed that, so:
//
//   const uint64_t as_of = runs.AsOf();          read..
//   runs.Found(as_of, f, from, to);              there is nothing in [from, to): taken if no write came between
//   runs.WriteBegins(batch); write.. runs.WriteEnded(batch, ok);     puts count from the beginning, deletions at the end
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/kv/kv.h"

namespace stria {

class DeadRuns {
 public:
  // Of all families together; beyond that all are forgotten, and found again by slow searches.
  static constexpr size_t kMaxRuns = 16'384;

  explicit DeadRuns(size_t families) : runs_(families) {}

  // The first key at or after `key` that may be there; `key` itself if nothing is known.
  std::string_view Up(KvFamily f, std::string_view key) const;
  // The key at which to look for the last one at or before `key`: between the two there is none, but perhaps itself.
  std::string_view Down(KvFamily f, std::string_view key) const;

  uint64_t AsOf() const { return writing_ ? 0 : writes_ + 1; }
  void Found(uint64_t as_of, KvFamily f, std::string_view from, std::string_view to);

  void WriteBegins(const KvBatch& batch);
  void WriteEnded(const KvBatch& batch, bool ok);

  size_t size() const { return size_; }

 private:
  using Runs = std::map<std::string, std::string, std::less<>>;  // from -> to; disjoint, not touching
  Runs::const_iterator Holding(KvFamily f, std::string_view key) const;
  void Add(KvFamily f, std::string from, std::string to);
  void Cut(KvFamily f, const std::string& key);

  std::vector<Runs> runs_;
  size_t size_ = 0;
  uint64_t writes_ = 0;
  bool writing_ = false;
};

}  // namespace stria
