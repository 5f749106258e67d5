// Sizes and durations as people write them: "64MiB", "15s".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.h"

namespace stria {

// A whole number and a unit: B (or none), KiB MiB GiB TiB PiB, the same as K M G T P, and decimal KB MB
// GB TB PB. kInval with a sentence otherwise, or beyond 64 bits.
Result<uint64_t> ParseSize(std::string_view text);
// Exact if the number is a multiple of its unit ("64MiB"), else with one decimal ("1.5GiB").
std::string FormatSize(uint64_t bytes);

// Whole numbers with units d h m s ms us ns, largest first: "15s", "1h30m". Nanoseconds. "0" needs no
// unit.
Result<int64_t> ParseDuration(std::string_view text);
// The two largest units that are not 0: "1h30m", "2.5s" is "2s500ms". Negative ones start with "-".
std::string FormatDuration(int64_t ns);

}  // namespace stria
