// Certificates of a cluster of `stria dev`: for its nodes and mounts, made here from the authority that stria-meta has made, as all
// are of one user on one machine; and how a command finds those of its admin.
//
//     D/meta/trust/           of stria-meta: authority.pem and the like
//     D/meta/trust/admin/     what commands use
//     D/trust/n1/ ..          of each node and each mount
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"
#include "tools/cli/dev/plan.h"

namespace stria::cli {

// Makes the certificate of a node or a mount, unless there is one that is good for a while. REQUIRES: c.secured, and stria-meta
// has made its authority.
Result<void> IssueDevCertificate(const DevCluster& c, const DevProcess& p, int64_t now_s);

// Whether stria-meta has made what commands use.
bool HasDevAdmin(const DevCluster& c);

// The admin's credentials of the secured cluster whose directory holds `place`, if a metadata server of `addresses` is its; else "".
// Of clusters of this user and of root only.
std::string DevTrustNear(const std::string& place, const std::vector<std::string>& addresses);

}  // namespace stria::cli
