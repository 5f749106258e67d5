// For tests: what fails in every world of members (node_world.h, replica_world.h), by the seed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/random.h"

namespace stria {

inline constexpr uint64_t kMemberFaults = 5;

// The `which`th of kMemberFaults: `m` crashes or loses power, all lose power, or calls from `m` to the member that `other` gives are lost,
// and perhaps those the other way. False: it is none of these, and nothing has happened. `other` is called at most once.
template <class World, class Member, class Other>
bool FailMember(World* world, Random* rng, uint64_t which, Member& m, Other other) {
  if (which >= kMemberFaults) return false;
  if (which < 2) {
    world->Crash(m, rng->OneIn(2));
  } else if (which == 2) {
    for (size_t i = 0; i < world->size(); ++i) world->Crash(world->member(i), true);
  } else {
    Member& at = other();
    world->Cut(m.name, at.name, true);
    if (rng->OneIn(2)) world->Cut(at.name, m.name, true);
  }
  return true;
}

// Half of those that are down.
template <class World>
void StartSomeMembers(World* world, Random* rng) {
  for (size_t i = 0; i < world->size(); ++i) {
    auto& m = world->member(i);
    if (!m.up && rng->OneIn(2)) world->Start(m);
  }
}

}  // namespace stria
