#include "locality/read_tally.h"

#include <charconv>

namespace stria {

std::string ReadTallyText(const ReadTally& tally) {
  return "local=" + std::to_string(tally.local_bytes) + ",network=" + std::to_string(tally.network_bytes) +
         ",reconstructed=" + std::to_string(tally.reconstructed_bytes);
}

Result<ReadTally> ParseReadTally(std::string_view text) {
  ReadTally tally;
  unsigned seen = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    uint64_t* to = nullptr;
    if (key == "local") to = &tally.local_bytes;
    if (key == "network") to = &tally.network_bytes;
    if (key == "reconstructed") to = &tally.reconstructed_bytes;
    if (to == nullptr) continue;
    const std::string_view digits = equals == part.npos ? "" : part.substr(equals + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *to);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.empty()) {
      return Error(FsError::kCorrupt, "'" + std::string(text) + "' does not say where bytes were read from");
    }
    ++seen;
  }
  if (seen != 3) {
    return Error(FsError::kCorrupt, "'" + std::string(text) + "' does not say where bytes were read from");
  }
  return tally;
}

}  // namespace stria
