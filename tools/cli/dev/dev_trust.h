// Certificates of a cluster of `stria dev`. Its nodes and mounts join as those of any cluster do: by a token that the admin makes, over
// the network, so that the metadata server knows their certificates, renews them and can revoke them.
//
//     D/meta/trust/           of stria-meta, which makes them itself: authority.pem, its own certificate; of several: D/meta1/trust/ ..
//     D/meta/trust/admin/     the admin's, made with those: what commands use, and what makes the first token
//     D/trust/n1/ ..          of each node and each mount, by joining
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/trust_api.h"
#include "common/error.h"
#include "tools/cli/dev/plan.h"
#include "tools/cli/joining.h"

namespace stria::cli {

// How members join.
struct DevJoining {
  std::function<Result<MakeTokenReply>(MakeTokenRequest)> make_token;  // of the admin; called by one thread
  AskToJoinCall ask;                                                   // called by several threads at once
  int64_t timeout_ns = 0;                                              // of each request to join; > 0
};

// Of a secured cluster: whether a node or a mount has no certificate, or one that is over. One that is revoked stays, as on any machine:
// whoever wants another removes its directory, or joins with a token. An error: there is one that is not good.
Result<bool> HasToJoin(const DevCluster& c, const DevProcess& p, int64_t now_s);
// These nodes and mounts, each by a token of its own for its name. Their certificates are on disk when it returns without an error; after
// an error some may be. REQUIRES: c.secured.
Result<void> JoinDevMembers(const DevCluster& c, const std::vector<const DevProcess*>& members, const DevJoining& how);

// Whether stria-meta has made what commands use.
bool HasDevAdmin(const DevCluster& c);

// The admin's credentials of the secured cluster whose directory holds `place`, if a metadata server of `addresses` is its; else "".
// Of clusters of this user and of root only.
std::string DevTrustNear(const std::string& place, const std::vector<std::string>& addresses);

}  // namespace stria::cli
