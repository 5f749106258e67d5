// Randomness of the operating system (getrandom): identities, keys, and seeds of real processes.
// Everything else takes a seeded Random (common/random.h). Any thread.
#pragma once

#include <cstdint>
#include <span>

#include "common/ids.h"

namespace stria {

// Fit for secrets.
void OsRandomBytes(std::span<uint8_t> out);
uint64_t OsRandom64();
// A random (version 4) UUID.
Uuid NewUuid();

}  // namespace stria
