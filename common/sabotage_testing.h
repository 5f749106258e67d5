// Switches a seeded bug on, for tests.
#pragma once

#include "common/sabotage.h"

namespace stria {

// One at a time.
class ScopedSabotage {
 public:
  explicit ScopedSabotage(Sabotage s) { sabotage_internal::active = s; }
  ~ScopedSabotage() { sabotage_internal::active = Sabotage::kNone; }
  ScopedSabotage(const ScopedSabotage&) = delete;
  ScopedSabotage& operator=(const ScopedSabotage&) = delete;
};

}  // namespace stria
