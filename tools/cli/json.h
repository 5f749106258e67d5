// The output of --json. Key order is fixed, numbers are plain (bytes, nanoseconds), times are wall clock.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/meta_api.h"
#include "tools/cli/render.h"
#include "tools/cli/where.h"

namespace stria::cli {

using Json = nlohmann::ordered_json;

// `more`: findings besides those of Diagnose.
Json StatusJson(const StatusReply& s, int64_t now_ns, const std::vector<Finding>& more = {});
Json NodesJson(const ClusterMap& map);
Json DisksJson(const ClusterMap& map);
Json RepairsJson(const StatusReply& s);
Json WhereJson(const std::vector<WhereRow>& rows);
Json ReadsJson(const ReadTally& tally);
Json HostsJson(const std::vector<HostShare>& hosts);
Json AdminJson(const AdminReply& r, bool dry_run);
Json FsckJson(const FsckReply& r);
Json ErrorJson(const Error& e);

// Two spaces of indent, a newline at the end. Strings (file names) may be any bytes: JsonQuoted.
std::string Dump(const Json& j);
// The same in one line.
std::string DumpLine(const Json& j);

}  // namespace stria::cli
