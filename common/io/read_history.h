// Which parts of files were read lately. Bytes that are read for the first time do not go into the page cache, so a scan over
// much data does not displace bytes that are read again and again, and pays for no useless copy. The idea is that of 2Q (T.
// Johnson and D. Shasha, VLDB 1994).
//
// Remembers pieces of kHistoryPieceBytes of the files read last, at most `max_files` of them, and of each its kMaxHistoryPieces
// first pieces (later ones count as read before). A pure data structure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "common/units.h"

namespace stria {

inline constexpr uint64_t kHistoryPieceBytes = 128 * kKiB;
inline constexpr size_t kMaxHistoryPieces = 8192;  // 1 GiB, in 1 KiB

class ReadHistory {
 public:
  explicit ReadHistory(size_t max_files) : max_files_(max_files) {}
  // True if more than half of the range's pieces were read before. Then, and otherwise, they are now.
  bool Note(uint64_t file, uint64_t offset, uint64_t length);
  void Forget(uint64_t file);
  size_t files() const { return by_file_.size(); }

 private:
  struct File {
    uint64_t id = 0;
    std::vector<bool> read;
  };
  const size_t max_files_;
  std::list<File> files_;  // the last first
  std::map<uint64_t, std::list<File>::iterator> by_file_;
};

}  // namespace stria
