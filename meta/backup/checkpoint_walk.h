// A walk over all entries of a store that may change meanwhile: the pages of a checkpoint (archive.h).
#pragma once

#include <cstdint>
#include <string>

#include "common/kv/kv.h"
#include "meta/backup/archive.h"

namespace stria {

class CheckpointWalk {
 public:
  // Adds the next run of entries to the page, some milliseconds of work at most. REQUIRES: !page_full().
  Result<void> Step(KvStore& kv);
  bool ended() const { return ended_; }
  bool page_full() const { return page_.bytes() >= kMaxPageBytes; }
  bool page_empty() const { return page_.bytes() == 0; }
  std::string TakePage() { return page_.TakeBody(); }

 private:
  PageWriter page_;
  size_t family_ = 0;
  std::string from_;
  bool ended_ = false;
};

}  // namespace stria
