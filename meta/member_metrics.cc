#include "meta/member_metrics.h"

#include <algorithm>

namespace stria {

void AddMemberMetrics(const MemberStatusReply& seen, MetricFamilies* out) {
  const auto self = std::ranges::find(seen.members, seen.self, &MemberState::name);
  if (self == seen.members.end()) return;
  const auto in_sync = std::ranges::count_if(seen.members, [](const MemberState& m) { return m.in_sync; });
  constexpr MemberRole kRoles[] = {MemberRole::kStarting, MemberRole::kJoining, MemberRole::kStandby, MemberRole::kCandidate,
                                   MemberRole::kOpening,  MemberRole::kPrimary, MemberRole::kStalled};
  for (const MemberRole role : kRoles) {
    out->Gauge("stria_meta_role", "1 for the role that this metadata server has among several, 0 for the others; missing if it serves alone.",
               self->role == role, {{"role", MemberRoleName(role)}});
  }
  out->Gauge("stria_meta_in_sync", "1 if this metadata server has everything that is durable, as all of them agree.", self->in_sync);
  out->Gauge("stria_meta_lag_batches", "Changes of the metadata that the primary has and this server does not have durably.", static_cast<double>(self->lag));
  out->Gauge("stria_meta_coordinator_up", "1 if this metadata server has reached etcd in the last seconds.", self->coordinator);
  out->Gauge("stria_meta_term", "The term of the primary that this server knows of; another primary, or another start of it, has a higher one.",
             static_cast<double>(seen.term));
  out->Gauge("stria_meta_members", "Metadata servers of the cluster, as far as this one knows.", static_cast<double>(seen.members.size()));
  out->Gauge("stria_meta_in_sync_members", "Those that are in sync.", static_cast<double>(in_sync));
  out->Gauge("stria_meta_min_in_sync", "So many have to be in sync, or whoever waits for something to be durable goes on waiting.",
             static_cast<double>(seen.min_in_sync));
}

}  // namespace stria
