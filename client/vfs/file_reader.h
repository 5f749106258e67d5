// What one open file is read like, and how far is fetched ahead of it: the part of a handle that belongs to the room of the
// read path (read_path.h).
#pragma once

#include <cstdint>

#include "client/vfs/read_pattern.h"

namespace stria {

// Of one open file. Only ReadPath changes it.
class FileReader {
 public:
  FileReader() = default;

 private:
  friend class ReadPath;  // the same room
  ReadPattern pattern_;
  uint64_t window_bytes_ = 0;
  uint64_t ahead_to_ = 0;
};

}  // namespace stria
