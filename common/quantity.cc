#include "common/quantity.h"

#include <cstdio>

#include "common/units.h"

namespace stria {
namespace {

struct SizeUnit {
  std::string_view name;
  uint64_t bytes;
};
constexpr SizeUnit kSizeUnits[] = {
    {"", 1},
    {"B", 1},
    {"K", kKiB},
    {"KiB", kKiB},
    {"M", kMiB},
    {"MiB", kMiB},
    {"G", kGiB},
    {"GiB", kGiB},
    {"T", kTiB},
    {"TiB", kTiB},
    {"P", 1024 * kTiB},
    {"PiB", 1024 * kTiB},
    {"KB", 1000},
    {"kB", 1000},
    {"MB", 1000'000},
    {"GB", 1000'000'000},
    {"TB", 1000'000'000'000},
    {"PB", 1000'000'000'000'000},
};

struct TimeUnit {
  std::string_view name;
  int64_t ns;
};
constexpr TimeUnit kTimeUnits[] = {
    {"d", 24 * 3600 * kSecond}, {"h", 3600 * kSecond}, {"m", 60 * kSecond}, {"min", 60 * kSecond}, {"s", kSecond},
    {"ms", kMillisecond},       {"us", kMicrosecond},  {"ns", 1},
};

// Takes the digits at the front. False if there are none or too many.
bool TakeNumber(std::string_view* text, uint64_t* out) {
  size_t n = 0;
  *out = 0;
  while (n < text->size() && (*text)[n] >= '0' && (*text)[n] <= '9') {
    if (__builtin_mul_overflow(*out, uint64_t{10}, out)) return false;
    if (__builtin_add_overflow(*out, static_cast<uint64_t>((*text)[n] - '0'), out)) return false;
    ++n;
  }
  text->remove_prefix(n);
  return n > 0;
}

Error NotASize(std::string_view text) {
  return Error(FsError::kInval,
               "'" + std::string(text) + "' is not a size such as 512, 64KiB, 10MiB or 2TiB");
}
Error NotADuration(std::string_view text) {
  return Error(FsError::kInval,
               "'" + std::string(text) + "' is not a duration such as 200ms, 15s, 5m or 1h30m");
}

}  // namespace

Result<uint64_t> ParseSize(std::string_view text) {
  std::string_view rest = text;
  uint64_t number;
  if (!TakeNumber(&rest, &number)) return NotASize(text);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  for (const SizeUnit& unit : kSizeUnits) {
    if (unit.name != rest) continue;
    uint64_t bytes;
    if (__builtin_mul_overflow(number, unit.bytes, &bytes)) return NotASize(text);
    return bytes;
  }
  return NotASize(text);
}

std::string FormatSize(uint64_t bytes) {
  constexpr std::string_view kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  uint64_t scale = 1;
  while (unit + 1 < std::size(kNames) && bytes / scale >= 1024) {
    scale *= 1024;
    ++unit;
  }
  if (bytes % scale == 0) return std::to_string(bytes / scale) + std::string(kNames[unit]);
  // Tenths, rounded; 1023.96 KiB would be "1024.0KiB", which is fine.
  const auto tenths = static_cast<uint64_t>((static_cast<unsigned __int128>(bytes) * 10 + scale / 2) / scale);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + std::string(kNames[unit]);
}

Result<int64_t> ParseDuration(std::string_view text) {
  if (text == "0") return int64_t{0};
  std::string_view rest = text;
  int64_t total = 0;
  size_t next = 0;  // units must go down
  do {
    uint64_t number;
    if (!TakeNumber(&rest, &number) || number > INT64_MAX) return NotADuration(text);
    size_t letters = 0;
    while (letters < rest.size() && rest[letters] >= 'a' && rest[letters] <= 'z') ++letters;
    while (next < std::size(kTimeUnits) && kTimeUnits[next].name != rest.substr(0, letters)) ++next;
    if (next == std::size(kTimeUnits)) return NotADuration(text);
    int64_t part;
    if (__builtin_mul_overflow(static_cast<int64_t>(number), kTimeUnits[next].ns, &part) ||
        __builtin_add_overflow(total, part, &total)) {
      return NotADuration(text);
    }
    ++next;
    rest.remove_prefix(letters);
  } while (!rest.empty());
  return total;
}

std::string FormatDuration(int64_t ns) {
  if (ns == 0) return "0s";
  std::string out = ns < 0 ? "-" : "";
  uint64_t left = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  int parts = 0;
  for (const TimeUnit& unit : kTimeUnits) {
    const uint64_t count = left / static_cast<uint64_t>(unit.ns);
    left %= static_cast<uint64_t>(unit.ns);
    if (count > 0) out += std::to_string(count) + std::string(unit.name);
    if (count > 0 || parts > 0) ++parts;
    if (parts == 2) break;
  }
  return out;
}

}  // namespace stria
