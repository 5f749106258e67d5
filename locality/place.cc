#include "locality/place.h"

#include <algorithm>

namespace stria {
namespace {

constexpr std::string_view kPlace = "place=node:";

// The node's part of the spec: [begin, end); empty if it has none.
std::pair<size_t, size_t> NodePart(std::string_view spec) {
  size_t begin = spec.find(kPlace);
  if (begin == spec.npos) return {0, 0};
  begin += kPlace.size();
  return {begin, std::min(spec.find(',', begin), spec.size())};
}

bool IsNumber(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string Replaced(std::string_view spec, std::pair<size_t, size_t> part, std::string_view by) {
  return std::string(spec.substr(0, part.first)) + std::string(by) + std::string(spec.substr(part.second));
}

}  // namespace

Result<std::string> NodeNumberForName(std::string_view spec, const ClusterMap& map) {
  const auto part = NodePart(spec);
  const std::string_view name = spec.substr(part.first, part.second - part.first);
  if (name.empty()) return std::string(spec);
  std::string names;
  for (const NodeInfo& n : map.nodes) {
    if (n.name == name) return Replaced(spec, part, std::to_string(n.id.v));
    names += (names.empty() ? "" : ", ") + n.name;
  }
  if (IsNumber(name)) return std::string(spec);
  return Error(FsError::kNoEnt, "no node is called '" + std::string(name) +
                                    "'; there are: " + (names.empty() ? "none" : names));
}

std::string NodeNameForNumber(std::string_view spec, const ClusterMap& map) {
  const auto part = NodePart(spec);
  const std::string_view number = spec.substr(part.first, part.second - part.first);
  for (const NodeInfo& n : map.nodes) {
    if (!number.empty() && std::to_string(n.id.v) == number && !n.name.empty()) return Replaced(spec, part, n.name);
  }
  return std::string(spec);
}

}  // namespace stria
