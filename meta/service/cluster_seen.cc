// What the events are judged by (meta/events): the rooms' answers of one moment.
#include "meta/service/meta_server.h"

namespace stria {

Task<Result<ClusterSeen>> MetaServer::SeeCluster() {
  const ClusterState& cluster = cluster_.state();
  const ClusterOptions& times = cluster.options();
  // After a start nodes are not heard yet: that says nothing.
  if (cluster.AwaitsFirstBeats() && core_.Now() - core_.started_ns() < times.down_ns + times.settle_ns) {
    co_return Error(FsError::kNotReady, "the nodes have not been heard yet");
  }
  CO_ASSIGN_OR_RETURN(const Damage damage, co_await survey_->DamageNow());
  ClusterSeen seen;
  seen.degraded_stripes = damage.degraded;
  seen.lost_stripes = damage.lost.size();
  seen.map = cluster.Map();
  for (const TargetInfo& t : seen.map.targets) {
    if (t.state != TargetState::kDraining) continue;
    if (std::string why = cluster.EmptyingReason(t.id); why == kTooManyErrors || why == kPredictsFailure) seen.emptied[t.id] = std::move(why);
  }
  if (const auto& exposure = survey_->exposure()) seen.thin_stripes = exposure->thin;
  CO_ASSIGN_OR_RETURN(seen.layouts, survey_->LackingRooms());
  seen.backup = archives_->State();
  seen.scrubs = upkeep_->scrubs().Progress();
  if (core_.room() != nullptr) {
    seen.room = core_.room()->Level();
    seen.room_told = core_.room()->Told();
  }
  const int64_t wall_s = core_.Wall() / kSecond;
  for (auto& [whose, not_after_s] : trust_.enrolment()->EndingBefore(wall_s + kCertificateSoonS)) seen.certificates.push_back({whose, not_after_s});
  seen.facts = events_->facts();
  seen.version = options_.version;
  if (options_.life.members) seen.members = options_.life.members();
  seen.wall_ns = core_.Wall();
  co_return std::move(seen);
}

}  // namespace stria
