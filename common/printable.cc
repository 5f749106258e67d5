#include "common/printable.h"

#include <absl/strings/str_join.h>

#include <cstdint>
#include <cstdio>

namespace stria {
namespace {

// A character of UTF-8; bytes 0 if there is none, then it is one stray byte.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

Character CharacterAt(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  uint32_t code = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (overlong || surrogate || code > 0x10ffff) return {};
  return {code, bytes};
}

// Characters that a terminal obeys instead of showing, and those that turn the direction of writing.
bool IsControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

void AppendEscaped(std::string_view bytes, std::string* out) {
  for (const char b : bytes) {
    switch (b) {
      case '\t': *out += "\\t"; break;
      case '\n': *out += "\\n"; break;
      case '\r': *out += "\\r"; break;
      default:
        char octal[5];
        std::snprintf(octal, sizeof octal, "\\%03o", static_cast<uint8_t>(b));
        *out += octal;
    }
  }
}

// `special`: characters that get a backslash.
std::string Escaped(std::string_view text, std::string_view special) {
  std::string out;
  while (!text.empty()) {
    const Character c = CharacterAt(text);
    const std::string_view one = text.substr(0, c.bytes == 0 ? 1 : c.bytes);
    if (c.bytes == 0 || IsControl(c.code)) {
      AppendEscaped(one, &out);
    } else {
      if (special.find(one[0]) != special.npos) out += '\\';
      out += one;
    }
    text.remove_prefix(one.size());
  }
  return out;
}

std::string DollarQuoted(std::string_view text) { return "$'" + Escaped(text, "\\'") + "'"; }

void AppendUnicode(uint32_t unit, std::string* out) {
  char text[7];
  std::snprintf(text, sizeof text, "\\u%04x", unit & 0xffffu);
  *out += text;
}

}  // namespace

bool IsPrintable(std::string_view text) {
  while (!text.empty()) {
    const Character c = CharacterAt(text);
    if (c.bytes == 0 || IsControl(c.code)) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

std::string Printable(std::string_view text) { return Escaped(text, ""); }

std::string PrintableLines(std::string_view text) {
  std::string out;
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) out += Printable(text.substr(0, end)) + "\n";
  return out + Printable(text);
}

std::string PrintableList(const std::vector<std::string>& texts) {
  return absl::StrJoin(texts, ", ", [](std::string* out, const std::string& text) { *out += Printable(text); });
}

std::string PrintableName(std::string_view name) {
  // One that looks like the other form would be taken for it.
  return IsPrintable(name) && !name.starts_with("$'") ? std::string(name) : DollarQuoted(name);
}

std::string ShellQuoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

std::string BashQuoted(std::string_view text) { return IsPrintable(text) ? ShellQuoted(text) : DollarQuoted(text); }

std::string JsonQuoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const Character c = CharacterAt(text);
    const std::string_view one = text.substr(0, c.bytes == 0 ? 1 : c.bytes);
    if (c.bytes == 0) {
      AppendUnicode(0xdc00u | static_cast<uint8_t>(one[0]), &out);
    } else if (one == "\"" || one == "\\") {
      out.append("\\").append(one);
    } else if (one == "\n" || one == "\t" || one == "\r" || one == "\b" || one == "\f") {
      out += '\\';
      out += one == "\n" ? 'n' : one == "\t" ? 't' : one == "\r" ? 'r' : one == "\b" ? 'b' : 'f';
    } else if (IsControl(c.code)) {
      AppendUnicode(c.code, &out);
    } else {
      out += one;
    }
    text.remove_prefix(one.size());
  }
  return out + "\"";
}

}  // namespace stria
