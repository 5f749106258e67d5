// The output of `stria rebuild watch`, and when it ends: pure, fed with one status after the other.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/meta_api.h"

namespace stria::cli {

class RebuildWatch {
 public:
  // A rebuild may not be listed yet just after it was asked for, and a node that is down is not given up
  // before its grace period: after this long with nothing running, watching ends.
  static constexpr int64_t kQuietNs = 8 * kSecond;

  enum class End : uint8_t {
    kNotYet,
    kDone,   // every stripe has all its columns
    kQuiet,  // stripes miss columns and nothing works on it
    kStuck,  // all that is left has no place to go, or is paused
  };
  struct View {
    End end = End::kNotYet;
    std::vector<std::string> lines;  // one per rebuild, those that finished too
    std::string sentence;            // when it ended: how
  };
  // `now_ns`: any clock that does not jump.
  View Update(const StatusReply& s, int64_t now_ns);

 private:
  std::map<TargetId, RepairProgress> seen_;  // by target, as last listed
  int64_t quiet_since_ns_ = -1;
  int64_t stuck_since_ns_ = -1;
};

}  // namespace stria::cli
