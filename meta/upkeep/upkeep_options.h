// What the keepers can be told (meta/meta_config.h reads it from a file).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/units.h"
#include "stripe/repair_plan.h"

namespace stria {

// Folding (folder.h): of gathered layouts with parity, no others.
struct FoldOptions {
  bool enabled = true;
  int64_t age_ns = 60 * kSecond;   // a stripe has been as it is, and its files as they are, for so long
  int64_t rest_ns = 30 * kSecond;  // between two scans for what could be folded
  size_t max_folds = 16;           // in flight
};

struct UpkeepOptions {
  RepairBudget repair;
  FoldOptions fold;
};

}  // namespace stria
