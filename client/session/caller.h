// On whose behalf a call is made.
#pragma once

#include <cstdint>
#include <vector>

namespace stria {

struct Caller {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;
  uint32_t umask = 0;  // for what the caller creates
};

}  // namespace stria
