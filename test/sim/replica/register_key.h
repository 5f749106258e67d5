// The key of clusters whose register a FakeCoordinator has: what it says is signed with it.
#pragma once

#include "common/token.h"

namespace stria {

inline ClusterKey RegisterTestKey() {
  ClusterKey key;
  key.id = 1;
  key.secret.fill(7);
  return key;
}

}  // namespace stria
