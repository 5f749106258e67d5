// Seeds of placements, another for each, so that stripes are spread over disks that are alike.
#pragma once

#include <cstdint>

namespace stria {

class PlaceSeeds {
 public:
  void Begin(uint64_t first) { next_ = first; }
  uint64_t next() const { return next_; }
  void Used(uint64_t count) { next_ += count; }
  uint64_t Take() { return next_++; }

 private:
  uint64_t next_ = 0;
};

}  // namespace stria
