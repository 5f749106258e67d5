#include "tools/cli/member_ask.h"

#include <utility>

namespace stria::cli {

Error ExplainedOfMembers(const Error& e) {
  if (e.code != FsError::kVersion && e.code != FsError::kNoSys) return e;
  return Error(FsError::kNotSupported, "the cluster has one metadata server, which serves alone; what it takes for several is in docs/settings.md, [ha]");
}

Result<MemberStatusReply> AskMembers(ClusterClient& client, bool alone) {
  auto reply = client.CallMembers<MemberStatusReply>("metadata servers", [alone](MemberService& members, OpHeader header) {
    MemberStatusRequest r;
    r.header.timeout_ns = header.timeout_ns;
    r.alone = alone;
    return members.MemberStatus(std::move(r));
  });
  if (!reply.ok()) return ExplainedOfMembers(reply.error());
  return reply;
}

std::optional<MemberStatusReply> AskMembersIfAny(ClusterClient& client) {
  Result<MemberStatusReply> reply = AskMembers(client, false);
  if (!reply.ok()) return std::nullopt;
  return std::move(*reply);
}

}  // namespace stria::cli
