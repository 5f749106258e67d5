// How `stria doctor` finds the cluster of a machine on which nobody names one: as what runs there does. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "tools/cli/doctor/gather.h"
#include "tools/cli/mounts.h"

namespace stria::cli::doctor {

struct Way {
  std::string by;                  // "/etc/stria/data.toml", "the mount /data", "/etc/fstab for /data"
  std::vector<std::string> metas;  // host:port; at least one
  std::string trust;               // the directory of the credentials; "": as commands find them
  std::string near;                // a mount's directory: a cluster of `stria dev` has its credentials beside it; "": none
  bool operator==(const Way&) const = default;
};

// In the order in which they are tried: the data server's settings (`data_metas`, of the file `data_file`, with the credentials in
// `data_trust`), the mounts that are there, the last one first, and those of /etc/fstab. A mount takes its credentials from where its line
// of /etc/fstab says. Of ways to the same metadata servers the first counts; what is no address is left out.
std::vector<Way> WaysToCluster(const std::vector<std::string>& data_metas, const std::string& data_file, const std::string& data_trust,
                               const std::vector<StriaMount>& mounts, const std::vector<MountLine>& fstab);

// Of ways that name a server in common, which are to one cluster, one that has all of their servers and the first one's credentials; without
// any metas if there are no ways. kUnavailable with the remedy if they are to several clusters.
Result<Way> TheOnlyOne(std::vector<Way> ways);

}  // namespace stria::cli::doctor
