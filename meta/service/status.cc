// What status shows, and the consistency check.
#include <algorithm>

#include "meta/cluster/room_advice.h"
#include "meta/ops/fsck.h"
#include "meta/service/meta_server_impl.h"

namespace stria {

Task<Result<StatusReply>> MetaServer::Status(InodeRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  CO_ASSIGN_OR_RETURN(const Damage damage, co_await survey_->DamageNow());
  StatusReply s;
  s.map = cluster_.state().Map();
  s.files = core_.store().Count(Counter::kFiles);
  s.directories = core_.store().Count(Counter::kDirectories);
  s.stripes = core_.store().Count(Counter::kStripes);
  s.live_bytes = core_.store().Count(Counter::kLiveBytes);
  s.inline_bytes = core_.store().Count(Counter::kInlineBytes);
  s.narrow_stripes = core_.store().Count(Counter::kNarrow);
  s.crowded_stripes = core_.store().Count(Counter::kCrowded);
  s.garbage_shards = core_.store().Count(Counter::kGarbageShards);
  s.degraded_stripes = damage.degraded;
  s.lost_stripes = damage.lost.size();
  const bool named = sessions_->IsAdmin(r.header);  // files are named to admins only
  if (named) {
    CO_ASSIGN_OR_RETURN(s.lost_files, ListFilesOf(core_.store(), damage.lost, kMaxLostFiles, damage.gone));
  }
  s.repairs = upkeep_->repairer().Progress();
  for (SessionId id : sessions_->table().All()) {
    const SessionRecord& record = *sessions_->table().Find(id);
    s.sessions.push_back({id, record.client, record.node_name, sessions_->table().LeaseLeftNs(id, core_.Now())});
  }
  s.repair_limit_bytes_per_s = static_cast<int64_t>(upkeep_->repairer().settings().limit_bytes_per_s);
  s.node_loss = co_await survey_->NodeLossNow();
  CO_ASSIGN_OR_RETURN(s.layouts, survey_->LackingRooms());
  if (const auto& exposure = survey_->exposure()) {
    s.thin_stripes = exposure->thin;
    if (named) {
      CO_ASSIGN_OR_RETURN(s.thin_files, ListFilesOf(core_.store(), exposure->some_thin, kMaxLostFiles));
    }
  }
  s.advice = RoomAdvice(cluster_.state(), core_.Wall());
  if (core_.room() != nullptr) {
    for (Advice& a : core_.room()->Told()) s.advice.push_back(std::move(a));
  }
  s.removed = cluster_.state().removed().All();
  co_return std::move(s);
}

MetaServer::RepairSummary MetaServer::repair_summary() const {
  if (upkeep_ == nullptr) return {};
  const Repairer& r = upkeep_->repairer();
  return {r.waiting(), r.parked(), r.in_flight(), upkeep_->widener().in_flight(), upkeep_->folder().queue().in_flight()};
}

Task<Result<FsckReply>> MetaServer::Fsck(InodeRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckAdmin(r.header, "checks the metadata: everybody waits meanwhile"));
  // On this thread, so that nothing changes meanwhile: everybody waits until it is done.
  co_return CheckStore(core_.store().kv());
}

}  // namespace stria
