// What a mount has read and written.
#pragma once

#include <cstdint>

namespace stria {

// Bytes by where they came from; for `stria stats` and tests.
struct IoCounters {
  uint64_t read_calls = 0, read_bytes = 0;
  uint64_t write_calls = 0, write_bytes = 0;
  uint64_t fetched_bytes = 0;        // payload asked from data servers
  uint64_t committed_bytes = 0;
  uint64_t cache_hit_bytes = 0;
  uint64_t made_ahead = 0;     // files of which the server was told with their first bytes
  uint64_t set_ahead = 0;      // changes of mode, owner or times that it was told of with these
  uint64_t lost_mappings = 0;  // reads that found their stripe gone and asked for the mapping again
};

}  // namespace stria
