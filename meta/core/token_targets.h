// Which node a disk is of: all that the mint of tokens asks of the cluster.
#pragma once

#include "common/ids.h"

namespace stria {

class TokenTargets {
 public:
  virtual ~TokenTargets() = default;
  // The zero Uuid: there is no such disk.
  virtual Uuid NodeOf(TargetId target) const = 0;
};

}  // namespace stria
