// Runs an attacker against the world, wave after wave, and looks after each whether what is promised still holds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "test/hostile/hostile_world.h"

namespace stria {

struct CampaignPlan {
  uint64_t seed = 1;
  uint64_t requests = 20'000;
  Hostile as = Hostile::kClient;
  uint64_t wave = 16;  // requests that are under way together; 1 tells which one it was
};

struct CampaignResult {
  std::string failure;  // a sentence; "" if all held
  uint64_t requests = 0;
  std::vector<std::string> last;  // of a failure: the requests of its wave, the last one last
  struct Count {
    uint64_t sent = 0, taken = 0;
  };
  std::map<std::string, Count> methods;
  uint64_t sessions = 0;             // that the attacker opened for itself, one after another
  uint64_t resident_bytes = 0;       // at the end
};

// `progress` is told of the requests so far, after each wave.
CampaignResult RunCampaign(const CampaignPlan& plan, const std::function<void(uint64_t)>& progress = {});

}  // namespace stria
