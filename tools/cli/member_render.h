// The output of the verbs about metadata servers: pure, as render.h. What members call themselves is shown printable.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/replica_api.h"
#include "tools/cli/json.h"
#include "tools/cli/render.h"

namespace stria::cli {

std::string RenderMembers(const MemberStatusReply& r);
// A line for `status`.
std::string RenderMembersLine(const MemberStatusReply& r);
// As `stria meta status --json`: {"primary": NAME or null, "in_sync": [NAME, ..], .., "members": [..], "findings": [..]}
Json MembersJson(const MemberStatusReply& r);
// What is not as it should be, in sentences; worst first.
std::vector<Finding> DiagnoseMembers(const MemberStatusReply& r);

const MemberState* FindMember(const MemberStatusReply& r, const std::string& name);
// Who would take over best: in sync, reached, and the least behind; null if there is nobody but the primary.
const MemberState* Successor(const MemberStatusReply& r);

}  // namespace stria::cli
