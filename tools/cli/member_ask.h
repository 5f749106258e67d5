// What commands and the web page ask metadata servers about each other. Blocking.
#pragma once

#include <optional>

#include "api/replica_api.h"
#include "tools/cli/cluster_client.h"

namespace stria::cli {

// Of all of them, or with `alone` of who answers. kNotSupported with a sentence: it serves alone.
Result<MemberStatusReply> AskMembers(ClusterClient& client, bool alone);
// The same, where it does not matter whether there are several: none if it serves alone, or says nothing of it to this caller.
std::optional<MemberStatusReply> AskMembersIfAny(ClusterClient& client);
// What a metadata server that serves alone answers to calls about members, explained; others stay as they are.
Error ExplainedOfMembers(const Error& e);

}  // namespace stria::cli
