// What a walk over all stripes has counted (survey.h).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "api/meta_api.h"

namespace stria {

struct Exposure {
  std::pair<uint64_t, CommitSeq> of;  // map and store when the count began
  int64_t began_ns = 0;
  std::map<NodeId, NodeExposure> nodes;
  std::map<std::string, Layout> layouts;  // of stripes that there are, by RoomName; at most kMaxLayouts
  uint64_t thin = 0;                      // stripes with fewer copies than their layout asks for
  std::set<StripeId> some_thin;           // of these; at most kMaxThin
  static constexpr size_t kMaxLayouts = 64;
  static constexpr size_t kMaxThin = 1000;
};

}  // namespace stria
