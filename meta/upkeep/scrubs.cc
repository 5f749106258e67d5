#include "meta/upkeep/scrubs.h"

#include "meta/core/cluster_keys.h"

namespace stria {

Result<void> Scrubs::Load(Txn& txn) {
  ASSIGN_OR_RETURN(const auto orders, txn.Get(Family::kRepairs, ScrubOrdersKey()));
  if (orders) RETURN_IF_ERROR(orders_.Decode(*orders));
  return Ok();
}

Result<void> Scrubs::Save() {
  Txn txn(*env_.store);
  txn.Put(Family::kRepairs, ScrubOrdersKey(), orders_.Encode());
  RETURN_IF_ERROR(txn.Commit());
  env_.host->Committed();
  return Ok();
}

Result<std::string> Scrubs::Order(const UpkeepRequest& r) {
  std::string message;
  std::vector<TargetId> targets;
  for (TargetId t : env_.cluster->Targets()) {
    const TargetState state = env_.cluster->FindTarget(t)->state;
    if (state == TargetState::kUp || state == TargetState::kDraining) targets.push_back(t);
  }
  switch (r.verb) {
    case UpkeepVerb::kScrubStart:
      message = "every shard on " + std::to_string(targets.size()) + " disks is read and checked";
      break;
    case UpkeepVerb::kScrubPause: message = "scrubbing is paused"; break;
    default: message = "scrubbing goes on";
  }
  if (r.dry_run) return message;
  if (r.verb == UpkeepVerb::kScrubStart) orders_.Start(env_.Wall() / kSecond, r.number, targets);
  else orders_.SetPaused(r.verb == UpkeepVerb::kScrubPause);
  RETURN_IF_ERROR(Save());
  return message;
}

Result<ScrubOrder> Scrubs::Take(const std::vector<ScrubProgress>& disks) {
  bool changed = false;
  for (const ScrubProgress& p : disks) changed = orders_.Take(p) || changed;
  if (changed) RETURN_IF_ERROR(Save());
  return orders_.For(disks);
}

void Scrubs::Tell(UpkeepReply* reply) const {
  reply->scrub_paused = orders_.paused();
  reply->scrub_bytes_per_s = orders_.bytes_per_s();
  reply->scrubs = orders_.Progress();
  for (ScrubProgress& p : reply->scrubs) p.running = p.running || orders_.owing().count(p.target) > 0;
}

}  // namespace stria
