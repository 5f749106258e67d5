#include "meta/upkeep/keeper.h"

#include "meta/ops/ops.h"

namespace stria {

Result<void> Keeper::DropTask(const std::string& key, const std::vector<Column>& leftovers) const {
  Txn txn(*env_.store);
  for (const Column& c : leftovers) {
    if (c.shard) RETURN_IF_ERROR(OpDropReservedShard(txn, c.target, c.shard));
  }
  txn.Delete(Family::kRepairs, key);
  RETURN_IF_ERROR(txn.Commit());
  env_.host->Committed();
  return Ok();
}

}  // namespace stria
