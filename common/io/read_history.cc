#include "common/io/read_history.h"

#include <algorithm>

namespace stria {

bool ReadHistory::Note(uint64_t file, uint64_t offset, uint64_t length) {
  if (length == 0) return false;
  auto it = by_file_.find(file);
  if (it == by_file_.end()) {
    if (by_file_.size() >= max_files_) {
      by_file_.erase(files_.back().id);
      files_.pop_back();
    }
    files_.push_front({file, {}});
    it = by_file_.emplace(file, files_.begin()).first;
  } else {
    files_.splice(files_.begin(), files_, it->second);
  }
  std::vector<bool>& read = it->second->read;
  const uint64_t first = offset / kHistoryPieceBytes, end = (offset + length - 1) / kHistoryPieceBytes + 1;
  const uint64_t known_end = std::min<uint64_t>(end, kMaxHistoryPieces);
  uint64_t before = end - std::max(first, known_end);
  if (known_end > read.size()) read.resize(known_end, false);
  for (uint64_t i = first; i < known_end; ++i) {
    before += read[i];
    read[i] = true;
  }
  return 2 * before > end - first;
}

void ReadHistory::Forget(uint64_t file) {
  const auto it = by_file_.find(file);
  if (it == by_file_.end()) return;
  files_.erase(it->second);
  by_file_.erase(it);
}

}  // namespace stria
