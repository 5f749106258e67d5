// The output of scrubbing, rebalancing and can-remove: pure, as render.h.
#pragma once

#include <string>
#include <vector>

#include "api/admin_api.h"
#include "tools/cli/json.h"
#include "tools/cli/render.h"

namespace stria::cli {

// A line for `status`; "" if there is nothing to say.
std::string RenderScrubLine(const UpkeepReply& u, int64_t now_s);
std::string RenderRebalanceLine(const UpkeepReply& u);
std::string RenderFoldLine(const UpkeepReply& u);  // "" if there is nothing to tell
// The places and age of the metadata's backup, and shards that are held after a restore.
std::string RenderBackupLine(const UpkeepReply& u, const ClusterMap& map, int64_t now_s);
// A backup that is old, or in one place only.
std::vector<Finding> DiagnoseBackup(const UpkeepReply& u, const ClusterMap& map, int64_t now_s);
// A row per disk.
std::string RenderScrubs(const UpkeepReply& u, const ClusterMap& map, int64_t now_s);
std::string RenderCanRemove(const CanRemoveReply& r);
// 0: nothing is lost or degraded; 1: some is degraded; 2: some is lost.
int CanRemoveCode(const CanRemoveReply& r);

// The repairs that were, or would be, made, and the remaining problems.
// fsck lists no more.
inline constexpr size_t kMaxProblems = 1000;
inline constexpr char kMoreProblems[] = "these are the first 1,000; there may be more: check again when these are gone\n";
std::string RenderFsckRepair(const FsckRepairReply& r, bool dry_run);

Json FsckRepairJson(const FsckRepairReply& r, bool dry_run);
Json UpkeepJson(const UpkeepReply& u, const ClusterMap& map);
Json CanRemoveJson(const CanRemoveReply& r);

}  // namespace stria::cli
