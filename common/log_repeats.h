// Which lines of a log are written, and which only counted: a lasting fault is logged, and does not fill the disk. Pure.
//
// A line that was written less than a minute ago is counted. So is a line that differs only in numbers (inodes, offsets, times)
// from kMaxAlike lines of that minute. When the minute is over, one line says how many there were.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/units.h"

namespace stria {

class LogRepeats {
 public:
  static constexpr int64_t kPeriodNs = 60 * kSecond;
  static constexpr size_t kMaxAlike = 30;
  static constexpr size_t kMaxKinds = 512;  // remembered; more, and all begin anew

  struct Counted {
    int level = 0;
    std::string line;  // "... (N more like this in the last minute)"
  };
  // True if the line is to be written.
  bool Pass(int level, std::string_view line, int64_t now_ns);
  // Lines about counted lines whose minute is over (or all of them).
  std::vector<Counted> Due(int64_t now_ns, bool all = false);

 private:
  struct Kind {
    int level = 0;
    int64_t begin_ns = 0;
    size_t written = 0;
    uint64_t counted = 0;
    std::string last;  // of those that were counted
    std::map<std::string, int64_t, std::less<>> lines;  // that were written
  };
  std::map<std::string, Kind, std::less<>> kinds_;  // by the line without its numbers
  std::vector<Counted> dropped_;
};

}  // namespace stria
