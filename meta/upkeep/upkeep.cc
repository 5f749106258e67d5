#include "meta/upkeep/upkeep.h"

namespace stria {
namespace {

constexpr int64_t kWidenAgainNs = 30 * kSecond;  // after a task of the widener that failed

KeeperEnv With(KeeperEnv env, Event* work, TaskScope* scope) {
  env.work = work;
  env.scope = scope;
  return env;
}

}  // namespace

Upkeep::Upkeep(KeeperEnv env, const UpkeepOptions& options)
    : env_(With(env, &work_, &scope_)),
      repairer_(env_, options.repair,
                [this](const RepairTaskRecord& task, const StripeRecord& now) {
                  rebalancer_.NoteRebuilt(task);
                  if (now.info.narrow) widener_.Add(now.info.id, now.is_thin());
                },
                [this](const ReportedShard& said, TargetId target, NodeId by) { doubts_.Note(said, target, by.v); }),
      doubts_(env_, &repairer_),
      widener_(env_, &repairer_, [this] { misfits_.LookAgainBy(env_.Now() + kWidenAgainNs); }),
      misfits_(env_, &repairer_, &widener_),
      folder_(env_, &repairer_, &widener_, options.fold),
      rebalancer_(env_, &repairer_,
                  [this](StripeId s) { return repairer_.HasTask(s) || widener_.HasStripe(s) || folder_.HasStripe(s); }),
      scrubs_(env_),
      keepers_{&repairer_, &doubts_, &misfits_, &widener_, &rebalancer_, &folder_, &scrubs_} {}

Result<void> Upkeep::Load(Txn& txn) {
  for (Keeper* k : keepers_) RETURN_IF_ERROR(k->Load(txn));
  return Ok();
}

void Upkeep::Start() {
  work_.Set();
  scope_.Spawn(Loop());
}

void Upkeep::SetOptions(const UpkeepOptions& options) {
  repairer_.SetBudget(options.repair);
  folder_.SetOptions(options.fold);
  work_.Set();
}

Task<void> Upkeep::Loop() {
  while (!env_.host->HasFailed()) {
    co_await work_.Wait();
    work_.Reset();
    const Result<void> done = co_await Round();
    if (!done.ok() && done.code() == FsError::kRetryLater) env_.host->Committed();  // syncs
    else if (!done.ok()) env_.host->Fail(done.error());
    co_await Yield();
  }
}

Task<Result<void>> Upkeep::Round() {
  if (followed_ != env_.cluster->version()) {
    followed_ = env_.cluster->version();
    for (Keeper* k : keepers_) CO_RETURN_IF_ERROR(k->FollowMap());
  }
  for (Keeper* k : keepers_) CO_RETURN_IF_ERROR(co_await k->Scan());
  for (Keeper* k : keepers_) CO_RETURN_IF_ERROR(co_await k->PlanSome());
  co_return Ok();
}

// A node that is given anything by one keeper takes on nothing new from those after it.
Result<NodeWork> Upkeep::WorkFor(const std::set<TargetId>& here, uint32_t slots, uint64_t holder) {
  NodeWork work;
  work.holder = holder;
  for (Keeper* k : keepers_) {
    RETURN_IF_ERROR(k->WorkFor(here, slots, &work));
    if (work.size() > 0) slots = 0;
  }
  return work;
}

void Upkeep::ForgetHandedOut(const std::set<TargetId>& here) {
  for (Keeper* k : keepers_) k->ForgetHandedOut(here);
}

Result<void> Upkeep::TakeResults(NodeId from, const std::vector<RebuildResult>& rebuilt,
                                 const std::vector<WidenResult>& widened) {
  for (const RebuildResult& result : rebuilt) {
    for (Keeper* k : keepers_) {
      ASSIGN_OR_RETURN(const bool taken, k->TakeRebuilt(from, result));
      if (taken) break;
    }
  }
  for (const WidenResult& result : widened) {
    for (Keeper* k : keepers_) {
      ASSIGN_OR_RETURN(const bool taken, k->TakeWidened(from, result));
      if (taken) break;
    }
  }
  return Ok();
}

Result<void> Upkeep::TakeChecked(NodeId from, const std::vector<CheckResult>& checked) {
  for (const CheckResult& result : checked) {
    for (Keeper* k : keepers_) {
      ASSIGN_OR_RETURN(const bool taken, k->TakeChecked(from, result));
      if (taken) break;
    }
  }
  return Ok();
}

void Upkeep::Forget(TargetId target) {
  for (Keeper* k : keepers_) k->Forget(target);
}

void Upkeep::Hurry() {
  repairer_.Hurry();
  work_.Set();
}

void Upkeep::Tell(UpkeepReply* reply) const {
  for (const Keeper* k : keepers_) k->Tell(reply);
}

}  // namespace stria
