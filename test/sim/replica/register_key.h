// The cluster key of tests with a FakeCoordinator. It seals the register.
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
