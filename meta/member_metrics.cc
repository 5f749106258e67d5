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

void AddBeatMetrics(const BeatFigures& beats, MetricFamilies* out) {
  out->Counter("stria_meta_beats_sent_total", "Beats that this metadata server has sent to the others while it was primary.", static_cast<double>(beats.sent));
  out->Counter("stria_meta_beats_promised_total", "Those of them that were answered with a promise.", static_cast<double>(beats.promised));
  out->Counter("stria_meta_promises_given_total", "Beats of primaries that this metadata server has answered with a promise.",
               static_cast<double>(beats.given));
  out->Counter("stria_meta_hangs_total", "Times that this metadata server has stopped its beats, as its logic had done nothing for longer than ha.watchdog.",
               static_cast<double>(beats.hangs));
  out->Gauge("stria_meta_longest_step_seconds", "The longest that the logic of this metadata server was busy with one step since its start.",
             static_cast<double>(beats.longest_step_ns) / kSecond);
}

}  // namespace stria
