// Which lines of a log are written, and which only counted: a lasting fault is logged, and does not fill the disk. Pure.
//
// A line is written when it first comes. As long as it comes again, it is written once a minute, with how often it came. A line
// that differs only in the port of a client (kFirstClientPort and above: each connection has another) is the same one. A line that
// differs only in numbers (inodes, offsets, times) from kMaxAlike lines of that minute is counted with others like it.
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
  static constexpr uint32_t kFirstClientPort = 32768;  // as Linux has it (ip_local_port_range)

  struct Counted {
    int level = 0;
    std::string line;  // "... (N more like this in the last minute)"
  };
  // True if the line is to be written.
  bool Pass(int level, std::string_view line, int64_t now_ns);
  // Lines about counted lines whose minute is over (or all of them).
  std::vector<Counted> Due(int64_t now_ns, bool all = false);

 private:
  struct Count {
    uint64_t counted = 0;
    int level = 0;
    std::string last;  // of those that were counted
    void Add(int a_level, std::string_view line);
  };
  struct Kind {
    int64_t begin_ns = 0;
    std::map<std::string, Count, std::less<>> lines;  // that were written, without clients' ports
    Count others;
  };
  std::map<std::string, Kind, std::less<>> kinds_;  // by the line without its numbers
  std::vector<Counted> dropped_;
};

}  // namespace stria
