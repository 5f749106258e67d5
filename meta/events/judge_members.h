// What is so of several metadata servers, in the words that people are told: pure, a part of Judge (judge.h).
#pragma once

#include <optional>

#include "meta/core/members_seen.h"
#include "meta/events/judge.h"

namespace stria {

// Adds to `out`. None: there is one metadata server, and what was told of others is gone.
void JudgeMembers(const std::optional<MembersSeen>& seen, const ToldStates& told, Judgement* out);

}  // namespace stria
