// Files of a cluster, as verbs name them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "locality/where.h"
#include "tools/cli/context.h"

namespace stria::cli {

// The files that a PATH of the command line means.
struct Resolved {
  std::unique_ptr<ClusterClient> client;
  Attr attr;
};

// A file of a mount is asked by its inode number; its sizes are the mount's word (it may hold unwritten
// bytes). Other paths are taken from the root of the cluster's filesystem, if one was named.
Result<Resolved> Resolve(const Context& ctx, const std::string& path);

// WhereRows of a range of a file.
Result<std::vector<WhereRow>> AskWhere(ClusterClient& client, const ClusterMap& map, InodeId ino, uint64_t offset,
                                       uint64_t length);

// A virtual attribute (user.stria.*) of a file in a mount, as that mount says.
Result<std::string> AskMount(const std::string& path, const std::string& name);

}  // namespace stria::cli
