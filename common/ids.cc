#include "common/ids.h"

#include <cstdio>

namespace stria {

std::string Uuid::ToString() const {
  char text[37];
  std::snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", static_cast<unsigned>(hi >> 32),
                static_cast<unsigned>(hi >> 16 & 0xffff), static_cast<unsigned>(hi & 0xffff),
                static_cast<unsigned>(lo >> 48), static_cast<unsigned long long>(lo & 0xffffffffffffULL));
  return text;
}

bool Uuid::Parse(const std::string& text, Uuid* out) {
  if (text.size() != 36) return false;
  uint64_t words[2] = {0, 0};
  int digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (c != '-') return false;
      continue;
    }
    uint64_t nibble;
    if (c >= '0' && c <= '9') {
      nibble = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      nibble = static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return false;
    }
    words[digits / 16] = words[digits / 16] << 4 | nibble;
    ++digits;
  }
  out->hi = words[0];
  out->lo = words[1];
  return true;
}

}  // namespace stria
