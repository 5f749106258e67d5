// The metadata servers of `stria dev`: one, "meta", or two or three that agree through etcd, "meta1" .. . Each of several has
//
//     D/meta1.toml    who it is among them; made anew with each start
//     D/meta1/        its data; the first one's has the authority, which the others get a copy of
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "tools/cli/dev/plan.h"

namespace stria::cli {

inline constexpr int kMaxDevMetas = 3;

// Names of so many.
std::vector<std::string> DevMetaNames(int metas);
// What stands in D/NAME.toml.
std::string DevMetaSettings(const DevCluster& c, const DevProcess& p);
std::vector<std::string> MetaCommandLine(const DevCluster& c, const DevProcess& p, const std::string& binary);

// Whether it has a store.
bool IsDevMetaMade(const DevCluster& c, const DevProcess& p);
// Before its first start: the directory of one more of several, with the authority in it. REQUIRES: the first one has served.
Result<void> PrepareDevMeta(const DevCluster& c, const DevProcess& p);

}  // namespace stria::cli
