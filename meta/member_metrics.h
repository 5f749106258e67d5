// What one of several metadata servers tells Prometheus of itself and the others. A server that is alone tells none of it.
#pragma once

#include "api/replica_api.h"
#include "common/metrics.h"
#include "meta/replica/beats/beat_desk.h"

namespace stria {

// `seen`: as this member sees them all (member_view.h).
void AddMemberMetrics(const MemberStatusReply& seen, MetricFamilies* out);
void AddBeatMetrics(const BeatFigures& beats, MetricFamilies* out);

}  // namespace stria
