#include "tools/cli/render.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "common/printable.h"
#include "common/units.h"

namespace stria::cli {
namespace {

constexpr int kBarCells = 20;

std::string Printf(const char* format, auto... args) {
  char text[512];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

uint64_t BytesOrStripesDone(const RepairProgress& p) {
  return p.bytes_total > 0 ? p.bytes_done : p.stripes_done;
}
uint64_t BytesOrStripesTotal(const RepairProgress& p) {
  return p.bytes_total > 0 ? p.bytes_total : p.stripes_total;
}

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0 || value >= 9.95) return Printf("%.0f %s", value, kUnits[unit]);
  return Printf("%.1f %s", value, kUnits[unit]);
}

std::string HumanDuration(int64_t s) {
  s = std::max<int64_t>(s, 0);
  const auto n = [](int64_t v) { return std::to_string(v); };
  if (s < 60) return n(s) + " s";
  if (s < 3600) return n(s / 60) + " min" + (s % 60 ? " " + n(s % 60) + " s" : "");
  if (s < 86400) return n(s / 3600) + " h" + (s / 60 % 60 ? " " + n(s / 60 % 60) + " min" : "");
  return n(s / 86400) + " d" + (s / 3600 % 24 ? " " + n(s / 3600 % 24) + " h" : "");
}

std::string Milliseconds(uint64_t us) { return us < 10'000 ? Printf("%.1f ms", us / 1e3) : Printf("%.0f ms", us / 1e3); }

std::string Count(uint64_t n, std::string_view one, std::string_view many) {
  return std::to_string(n) + " " + std::string(n == 1 ? one : many);
}

int Percent(uint64_t done, uint64_t total) {
  if (done >= total) return 100;
  return static_cast<int>(static_cast<unsigned __int128>(done) * 100 / total);
}

std::string ProgressBar(int percent, int width) {
  const int full = std::clamp(percent, 0, 100) * width / 100;
  return "[" + std::string(static_cast<size_t>(full), '#') +
         std::string(static_cast<size_t>(width - full), '-') + "]";
}

std::string RenderTable(const Table& table, int indent) {
  const auto shown = [](std::vector<std::string> row) {  // nodes, users and directories have chosen many of these names
    for (std::string& cell : row) cell = Printable(cell);
    return row;
  };
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : table.rows) rows.push_back(shown(row));
  std::vector<size_t> width;
  const auto measure = [&](const std::vector<std::string>& row) {
    if (row.size() > width.size()) width.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  };
  measure(table.header);
  for (const auto& row : rows) measure(row);
  std::string out;
  const auto print = [&](const std::vector<std::string>& row) {
    std::string line(static_cast<size_t>(indent), ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(width[i] - row[i].size(), ' ');
      const bool right = i < table.right.size() && table.right[i];
      line += (i ? "  " : "") + (right ? pad + row[i] : row[i] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  if (!table.header.empty()) print(table.header);
  for (const auto& row : rows) print(row);
  return out;
}

const char* HealthName(Health h) {
  switch (h) {
    case Health::kHealthy: return "HEALTHY";
    case Health::kDegraded: return "DEGRADED";
    case Health::kAtRisk: return "AT RISK";
  }
  return "?";
}

const char* NodeStateName(NodeState s) {
  switch (s) {
    case NodeState::kUp: return "up";
    case NodeState::kSuspect: return "suspect";
    case NodeState::kDown: return "down";
    case NodeState::kOut: return "out";
  }
  return "?";
}

const char* TargetStateName(TargetState s) {
  switch (s) {
    case TargetState::kUp: return "up";
    case TargetState::kDraining: return "draining";
    case TargetState::kFailed: return "failed";
    case TargetState::kOut: return "out";
    case TargetState::kRemoved: return "removed";
  }
  return "?";
}

const char* SmartHealthName(SmartHealth h) {
  switch (h) {
    case SmartHealth::kUnknown: return "unknown";
    case SmartHealth::kGood: return "good";
    case SmartHealth::kFailing: return "failing";
  }
  return "?";
}

bool IsFinished(const RepairProgress& p) { return p.stuck == 0 && p.stripes_done >= p.stripes_total; }

std::vector<const TargetInfo*> DisksOf(const ClusterMap& map, NodeId node) {
  std::vector<const TargetInfo*> out;
  for (const TargetInfo& t : map.targets) {
    if (t.node == node && t.state != TargetState::kRemoved) out.push_back(&t);
  }
  return out;
}

ClusterMap InOrder(ClusterMap map) {
  const auto key = [](const std::string& name) {  // "n10" -> ("n", 10, "n10")
    const size_t digits = name.find_first_of("0123456789");
    uint64_t number = 0;
    for (size_t i = digits; i < name.size() && i < digits + 18 && name[i] >= '0' && name[i] <= '9'; ++i) {
      number = number * 10 + static_cast<uint64_t>(name[i] - '0');
    }
    return std::make_tuple(name.substr(0, digits), number, name);
  };
  std::sort(map.nodes.begin(), map.nodes.end(),
            [&](const NodeInfo& a, const NodeInfo& b) { return key(a.name) < key(b.name); });
  std::map<NodeId, size_t> place;
  for (size_t i = 0; i < map.nodes.size(); ++i) place[map.nodes[i].id] = i;
  std::sort(map.targets.begin(), map.targets.end(), [&](const TargetInfo& a, const TargetInfo& b) {
    return std::make_pair(place[a.node], key(a.label)) < std::make_pair(place[b.node], key(b.label));
  });
  return map;
}

std::string FileForPeople(const std::string& path, InodeId ino) {
  return path.empty() ? "inode " + std::to_string(ino.v) : PrintableName(path);
}

std::string RenderRepairLine(const RepairProgress& p, const ClusterMap& map) {
  const int percent = Percent(BytesOrStripesDone(p), BytesOrStripesTotal(p));
  std::string line =
      Printable(map.TargetName(p.target)) + "  " + ProgressBar(percent, kBarCells) + Printf(" %3d %%  ", percent);
  line += p.bytes_total > 0
              ? HumanBytes(p.bytes_done) + " of " + HumanBytes(p.bytes_total)
              : std::to_string(p.stripes_done) + " of " + Count(p.stripes_total, "stripe", "stripes");
  if (p.paused) {
    line += ", paused";
  } else if (percent < 100) {
    line += ", " + HumanBytes(static_cast<uint64_t>(std::max(p.bytes_per_s, 0.0))) + "/s";
    if (p.eta_s >= 0) line += ", " + HumanDuration(p.eta_s) + " left";
  }
  if (p.stuck > 0) line += ", " + std::to_string(p.stuck) + " stuck";
  if (!p.reason.empty()) line += " (" + Printable(p.reason) + ")";
  return line;
}

std::string RenderRepairs(const StatusReply& s) {
  std::string out;
  const bool any = !std::all_of(s.repairs.begin(), s.repairs.end(), IsFinished);
  for (const RepairProgress& p : s.repairs) out += RenderRepairLine(p, s.map) + "\n";
  if (!any) {
    out = s.degraded_stripes == 0
              ? "nothing to rebuild\n"
              : "no rebuild runs; " + Count(s.degraded_stripes, "stripe misses", "stripes miss") +
                    " a column\n";
  }
  if (s.repair_limit_bytes_per_s > 0) {
    out += "limit: " + HumanBytes(static_cast<uint64_t>(s.repair_limit_bytes_per_s)) + "/s\n";
  }
  return out;
}

namespace {

TargetInfo SumOf(const std::vector<const TargetInfo*>& disks) {
  TargetInfo sum;
  for (const TargetInfo* d : disks) {
    sum.used_bytes += d->used_bytes;
    sum.free_bytes += d->free_bytes;
    sum.read_errors += d->read_errors;
    sum.write_errors += d->write_errors;
    sum.checksum_errors += d->checksum_errors;
  }
  return sum;
}

std::string RenderTree(const ClusterMap& map) {
  Table t;
  t.header = {"NAME", "STATE", "USED", "FREE", "READ", "WRITE", "CKSUM"};
  t.right = {false, false, true, true, true, true, true};
  const auto add = [&](const std::string& name, const char* state, const TargetInfo& d) {
    t.rows.push_back({name, state, HumanBytes(d.used_bytes), HumanBytes(d.free_bytes), std::to_string(d.read_errors),
                      std::to_string(d.write_errors), std::to_string(d.checksum_errors)});
  };
  for (const NodeInfo& n : map.nodes) {
    const auto disks = DisksOf(map, n.id);
    add(n.name, NodeStateName(n.state), SumOf(disks));
    std::map<std::string, std::vector<const TargetInfo*>> channels;
    for (const TargetInfo* d : disks) channels[d->channel].push_back(d);
    for (const auto& [channel, there] : channels) {
      if (!channel.empty()) add("  " + channel, "", SumOf(there));  // without a name each has one of its own
      for (const TargetInfo* d : there) {
        const bool absent = d->state == TargetState::kUp && !d->problem.empty();
        add((channel.empty() ? "  " : "    ") + d->label, absent ? "absent" : TargetStateName(d->state), *d);
      }
    }
  }
  return RenderTable(t, 4);
}

std::string RenderLostFiles(const StatusReply& s) {
  if (s.lost_stripes == 0 && s.lost_files.empty()) return "errors: no known data errors\n";
  if (s.lost_files.empty()) {
    return "errors: " + Count(s.lost_stripes, "stripe", "stripes") + " cannot be read until nodes or disks are back; root sees which files\n";
  }
  std::string out = "errors: these ranges give EIO until their nodes or disks are back:\n";
  for (const LostFile& f : s.lost_files) {
    out += "    " + FileForPeople(f.path, f.ino) + "  " +
           std::to_string(f.offset) + "+" + std::to_string(f.length) + "\n";
  }
  if (MayHaveMore(s.lost_files)) out += "    .. and perhaps more; all of them:  stria status --all\n";
  return out;
}

}  // namespace

std::string RenderStatus(const StatusReply& s, int64_t now_ns, const std::string& upkeep,
                         const std::vector<Finding>& more) {
  std::vector<Finding> findings = Diagnose(s, now_ns);
  findings.insert(findings.end(), more.begin(), more.end());
  std::string out = "cluster: " + s.map.cluster.ToString() + "\n";
  out += "  state: " + std::string(HealthName(HealthOf(findings))) + "\n";
  for (const Finding& f : findings) {  // nodes and clients say some of it
    out += (f.severity == Health::kHealthy ? "   note: " : " status: ") + Printable(f.what) + "\n";
    if (!f.action.empty()) out += " action: " + Printable(f.action) + "\n";
  }
  for (const RepairProgress& p : s.repairs) {
    if (!IsFinished(p)) out += "rebuild: " + RenderRepairLine(p, s.map) + "\n";
  }
  uint64_t used = 0, capacity = 0;
  for (const TargetInfo& t : s.map.targets) {
    if (t.state == TargetState::kRemoved) continue;
    used += t.used_bytes;
    capacity += t.capacity_bytes;
  }
  out += "   data: " + HumanBytes(s.live_bytes) + " in " + Count(s.files, "file", "files") + " and " +
         Count(s.directories, "directory", "directories") + "; " + Count(s.stripes, "stripe", "stripes") +
         " (" + std::to_string(s.degraded_stripes) + " degraded, " + std::to_string(s.narrow_stripes) +
         " narrow, " + std::to_string(s.crowded_stripes) + " crowded, " + std::to_string(s.lost_stripes) +
         " lost); " + HumanBytes(s.inline_bytes) + " inline\n";
  out += "  disks: " + HumanBytes(used) + " used of " + HumanBytes(capacity) + "; " +
         Count(s.garbage_shards, "shard", "shards") + " to be deleted\n" + upkeep + "\n";
  out += RenderTree(s.map) + "\n";
  if (!s.sessions.empty()) {
    Table t;
    t.header = {"CLIENT", "OWNER", "NODE", "LEASE"};
    for (const SessionInfo& c : s.sessions) {
      t.rows.push_back({Printable(c.client), c.owner.empty() ? "-" : Printable(c.owner), c.node_name.empty() ? "-" : Printable(c.node_name),
                        HumanDuration(c.lease_left_ns / kSecond)});
    }
    out += RenderTable(t, 4) + "\n";
  }
  return out + RenderLostFiles(s);
}

std::string RenderNodes(const StatusReply& s, int64_t now_ns) {
  Table t;
  t.header = {"NODE", "STATE", "SINCE", "ADDRESS", "DISKS", "USED", "FREE"};
  t.right = {false, false, true, false, true, true, true};
  for (const NodeInfo& n : s.map.nodes) {
    uint64_t used = 0, free = 0;
    const auto disks = DisksOf(s.map, n.id);
    for (const TargetInfo* d : disks) {
      used += d->used_bytes;
      free += d->free_bytes;
    }
    t.rows.push_back({n.name, NodeStateName(n.state),
                      n.since_ns > 0 ? HumanDuration((now_ns - n.since_ns) / kSecond) : "-", n.address,
                      std::to_string(disks.size()), HumanBytes(used), HumanBytes(free)});
  }
  return RenderTable(t, 0);
}

std::string RenderDisks(const StatusReply& s) {
  Table t;
  t.header = {"DISK", "STATE", "CHANNEL", "CAPACITY", "USED", "FREE", "READ", "WRITE", "CKSUM"};
  t.right = {false, false, false, true, true, true, true, true, true};
  const bool smart = std::any_of(s.map.targets.begin(), s.map.targets.end(), [](const TargetInfo& d) { return !d.smart.device.empty(); });
  if (smart) {
    t.header.insert(t.header.end(), {"SMART", "AGE", "BAD", "SERIAL"});
    t.right.insert(t.right.end(), {false, true, true, false});
  }
  for (const TargetInfo& d : s.map.targets) {
    if (d.state == TargetState::kRemoved) continue;
    t.rows.push_back({s.map.TargetName(d.id), TargetHealth(s.map, d.id), d.channel.empty() ? "-" : d.channel,
                      HumanBytes(d.capacity_bytes), HumanBytes(d.used_bytes), HumanBytes(d.free_bytes),
                      std::to_string(d.read_errors), std::to_string(d.write_errors),
                      std::to_string(d.checksum_errors)});
    if (!smart) continue;
    const DiskSmart& m = d.smart;
    const bool known = !m.device.empty();
    for (std::string cell : {known ? std::string(SmartHealthName(m.health)) : "-",
                             known && m.power_on_hours > 0 ? HumanDuration(static_cast<int64_t>(m.power_on_hours) * 3600) : "-",
                             known ? std::to_string(m.reallocated + m.pending) : "-", m.serial.empty() ? "-" : Printable(m.serial)}) {
      t.rows.back().push_back(std::move(cell));
    }
  }
  return RenderTable(t, 0);
}

}  // namespace stria::cli
