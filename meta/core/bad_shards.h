// Which shards were found bad by somebody who read them. The repairer owns them (meta/upkeep/repairer.h); this is what other
// rooms may ask.
#pragma once

#include <cstdint>
#include <set>

#include "common/ids.h"

namespace stria {

class BadShards {
 public:
  virtual ~BadShards() = default;
  virtual bool IsBad(StripeId stripe, uint16_t column, ShardId shard) const = 0;
  virtual std::set<StripeId> BadStripes() const = 0;
};

}  // namespace stria
