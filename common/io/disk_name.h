// The names that a Disk takes.
#pragma once

#include <string>
#include <string_view>

#include "common/error.h"

namespace stria {

inline constexpr size_t kMaxDiskNameBytes = 1024;
inline constexpr size_t kMaxDiskNamePartBytes = 200;
// ReplaceFile writes NAME + this first. Never listed; a leftover is overwritten by the next one.
inline constexpr std::string_view kDiskTempSuffix = ".new~";

// kBadRequest unless `name` is relative, without empty, "." or ".." parts, control characters or the
// temporary suffix, and within the bounds above.
inline Result<void> CheckDiskName(std::string_view name) {
  auto bad = [&](const char* why) {
    return Error(FsError::kBadRequest, "file name '" + std::string(name.substr(0, 100)) + "' " + why);
  };
  if (name.empty() || name.size() > kMaxDiskNameBytes) return bad("is empty or too long");
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return bad("has a control character");
  }
  std::string_view rest = name;
  while (true) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty()) return bad("has an empty part");
    if (part == "." || part == "..") return bad("has a part '.' or '..'");
    if (part.size() > kMaxDiskNamePartBytes) return bad("has a part that is too long");
    if (part.ends_with(kDiskTempSuffix)) return bad("ends like a temporary file");
    if (slash == std::string_view::npos) return Ok();
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace stria
