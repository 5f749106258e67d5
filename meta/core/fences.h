// Which commits have ended sessions, or made them lapse: what these held may be given to others.
//
// Where another metadata server may go on without such a commit, and let the session come back with what it held, nothing may be given
// before that is durable (WaitFences, meta_core.h). Pure. For the executor's thread.
#pragma once

#include <algorithm>

#include "common/error.h"
#include "common/ids.h"

namespace stria {

class Fences {
 public:
  void Note(const Result<CommitSeq>& seq) {
    if (seq.ok()) last_ = std::max(last_, *seq);
  }
  CommitSeq last() const { return last_; }

 private:
  CommitSeq last_;
};

}  // namespace stria
