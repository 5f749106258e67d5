#include "common/disk_label.h"

#include <algorithm>

#include "common/printable.h"

namespace stria {
namespace {

constexpr size_t kShownBytes = 80;  // of a name that is too long

bool IsOfLabels(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}
bool IsOfChannels(char c) { return c > ' ' && c < 127; }
bool IsRestOfCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }  // in UTF-8

std::string Fault(const char* what, std::string_view name, bool (*fine)(char), const char* allowed) {
  const std::string it = std::string("the ") + what + " '" + Printable(name.substr(0, kShownBytes)) + (name.size() > kShownBytes ? ".." : "") + "' has ";
  const std::string may = std::string(": it may have ") + allowed + ", at most " + std::to_string(kMaxDiskLabelBytes) + " of them";
  if (const auto bad = std::ranges::find_if_not(name, fine); bad != name.end()) {
    const auto end = std::find_if_not(bad + 1, name.end(), IsRestOfCharacter);
    return it + "'" + Printable(std::string_view(bad, end)) + "' in it" + may;
  }
  if (name.size() > kMaxDiskLabelBytes) return it + std::to_string(name.size()) + " characters" + may;
  return "";
}

}  // namespace

std::string LabelFault(std::string_view label) { return Fault("label", label, IsOfLabels, "letters, digits, . - _"); }

std::string ChannelFault(std::string_view channel) {
  return Fault("channel", channel, IsOfChannels, "letters, digits and punctuation, but no spaces");
}

std::string DiskNameFault(std::string_view label, std::string_view channel) {
  const std::string fault = LabelFault(label);
  return fault.empty() ? ChannelFault(channel) : fault;
}

}  // namespace stria
