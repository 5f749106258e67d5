// The output of the command line, as pure functions of the cluster's answers. No clock, no terminal: the wall clock
// (nanoseconds) and the width are arguments. Sizes are bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta_api.h"
#include "locality/where.h"

namespace stria::cli {

std::string HumanBytes(uint64_t bytes);      // "0 B", "1.5 GiB", "12 GiB"
std::string HumanDuration(int64_t seconds);  // "5 s", "2 min 5 s", "3 h 4 min", "2 d 3 h"
std::string Count(uint64_t n, std::string_view one, std::string_view many);  // "1 file", "3 files"

// Rounds down, so that 100 is only ever printed for all of it. 100 if total is 0.
int Percent(uint64_t done, uint64_t total);
// "[#####-----]" with `width` cells between the brackets.
std::string ProgressBar(int percent, int width);

std::string Milliseconds(uint64_t us);  // "0.3 ms"

// Cells are shown as Printable() has them. Columns are as wide as their widest cell, two spaces apart; those in `right` are flushed right. No
// spaces at the ends of lines.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::vector<bool> right;  // by column; missing ones are left
};
std::string RenderTable(const Table& table, int indent);

// ---- Health ---------------------------------------------------------------------------------------

// The numbers are exit codes.
enum class Health : uint8_t {
  kHealthy = 0,
  kDegraded = 1,  // everything can be read; some of it with less redundancy than its layout asks for
  kAtRisk = 2,    // some bytes cannot be read now
};
const char* HealthName(Health h);  // "HEALTHY", "DEGRADED", "AT RISK"

// The node's disks, without removed ones.
std::vector<const TargetInfo*> DisksOf(const ClusterMap& map, NodeId node);

// The map with its nodes and disks in the order in which people count: n2 before n10.
ClusterMap InOrder(ClusterMap map);

// The server lists no more of them than this, and they are as many.
inline constexpr size_t kMaxListedFiles = 100;
inline bool MayHaveMore(const std::vector<LostFile>& files) { return files.size() == kMaxListedFiles; }

// A file as people know it: its path if there is one.
std::string FileForPeople(const std::string& path, InodeId ino);

// True if nothing of it is left to do.
bool IsFinished(const RepairProgress& p);

// A fault, and what to do about it.
struct Finding {
  Health severity = Health::kDegraded;  // kHealthy: only a hint
  std::string what;    // one sentence
  std::string action;  // one sentence or a command to paste; "" if it heals by itself
};
// Worst first; empty is healthy.
std::vector<Finding> Diagnose(const StatusReply& s, int64_t now_ns);
Health HealthOf(const std::vector<Finding>& findings);

const char* NodeStateName(NodeState s);
const char* TargetStateName(TargetState s);
const char* SmartHealthName(SmartHealth h);  // "unknown", "good", "failing"

// ---- Reports --------------------------------------------------------------------------------------

// `upkeep`: lines about background work besides repair (upkeep.h).
// `more`: findings besides those of Diagnose.
std::string RenderStatus(const StatusReply& s, int64_t now_ns, const std::string& upkeep = "",
                         const std::vector<Finding>& more = {});
std::string RenderNodes(const StatusReply& s, int64_t now_ns);
std::string RenderDisks(const StatusReply& s);
// "n3:d1  [####----]  52 %  1.2 GiB of 2.3 GiB, 110 MiB/s, 10 s left (n3 is out)"
std::string RenderRepairLine(const RepairProgress& p, const ClusterMap& map);
std::string RenderRepairs(const StatusReply& s);

}  // namespace stria::cli
