#include "tools/cli/json.h"

#include "common/printable.h"
#include "common/sentence.h"

namespace stria::cli {
namespace {

// The library's own writer knows UTF-8 only. `indent` < 0: all in one line.
void Write(const Json& j, int indent, int depth, std::string* out) {
  const auto line = [&](int at) {
    if (indent >= 0) *out += "\n" + std::string(static_cast<size_t>(indent * at), ' ');
  };
  const bool object = j.is_object();
  if (j.is_string()) {
    *out += JsonQuoted(j.get_ref<const std::string&>());
  } else if ((!object && !j.is_array()) || j.empty()) {
    *out += j.dump();
  } else {
    *out += object ? '{' : '[';
    bool first = true;
    for (const auto& item : j.items()) {
      if (!std::exchange(first, false)) *out += ',';
      line(depth + 1);
      if (object) *out += JsonQuoted(item.key()) + (indent >= 0 ? ": " : ":");
      Write(item.value(), indent, depth + 1, out);
    }
    line(depth);
    *out += object ? '}' : ']';
  }
}

std::string Written(const Json& j, int indent) {
  std::string out;
  Write(j, indent, 0, &out);
  return out + "\n";
}

}  // namespace

std::string Dump(const Json& j) { return Written(j, 2); }
std::string DumpLine(const Json& j) { return Written(j, -1); }

Json NodesJson(const ClusterMap& map) {
  Json out = Json::array();
  for (const NodeInfo& n : map.nodes) {
    out.push_back({{"name", n.name},
                   {"id", n.id.v},
                   {"uuid", n.uuid.ToString()},
                   {"address", n.address},
                   {"state", NodeStateName(n.state)},
                   {"since_ns", n.since_ns}});
  }
  return out;
}

namespace {

Json SmartJson(const DiskSmart& s) {
  if (s.device.empty()) return nullptr;
  return {{"device", s.device},
          {"model", s.model},
          {"serial", s.serial},
          {"power_on_hours", s.power_on_hours},
          {"temperature_c", s.temperature_c},
          {"reallocated", s.reallocated},
          {"pending", s.pending},
          {"health", SmartHealthName(s.health)},
          {"problem", s.problem}};
}

}  // namespace

Json DisksJson(const ClusterMap& map) {
  Json out = Json::array();
  for (const TargetInfo& t : map.targets) {
    if (t.state == TargetState::kRemoved) continue;
    const NodeInfo* n = map.FindNode(t.node);
    out.push_back({{"name", map.TargetName(t.id)},
                   {"id", t.id.v},
                   {"node", n ? n->name : ""},
                   {"label", t.label},
                   {"uuid", t.disk_uuid.ToString()},
                   {"channel", t.channel},
                   {"state", TargetStateName(t.state)},
                   {"health", TargetHealth(map, t.id)},
                   {"problem", t.problem},
                   {"given_up", t.given_up},
                   {"capacity_bytes", t.capacity_bytes},
                   {"free_bytes", t.free_bytes},
                   {"used_bytes", t.used_bytes},
                   {"read_errors", t.read_errors},
                   {"write_errors", t.write_errors},
                   {"read_us", t.read_us},
                   {"checksum_errors", t.checksum_errors},
                   {"smart", SmartJson(t.smart)}});
  }
  return out;
}

Json RepairsJson(const StatusReply& s) {
  Json out = Json::array();
  for (const RepairProgress& p : s.repairs) {
    const bool bytes = p.bytes_total > 0;
    out.push_back(
        {{"target", s.map.TargetName(p.target)},
         {"reason", p.reason},
         {"percent", Percent(bytes ? p.bytes_done : p.stripes_done, bytes ? p.bytes_total : p.stripes_total)},
         {"stripes_total", p.stripes_total},
         {"stripes_done", p.stripes_done},
         {"bytes_total", p.bytes_total},
         {"bytes_done", p.bytes_done},
         {"bytes_per_s", p.bytes_per_s},
         {"eta_s", p.eta_s < 0 ? Json() : Json(p.eta_s)},
         {"paused", p.paused},
         {"stuck", p.stuck}});
  }
  return out;
}

// Null before it was counted.
Json NodeLossJson(const StatusReply& s) {
  if (!s.node_loss.counted) return Json();
  Json nodes = Json::array();
  for (const NodeExposure& e : s.node_loss.nodes) {
    const NodeInfo* n = s.map.FindNode(e.node);
    nodes.push_back({{"name", n ? n->name : ""},
                     {"id", e.node.v},
                     {"stripes", e.stripes},
                     {"bytes", e.bytes},
                     {"unprotected_stripes", e.unprotected}});
  }
  return {{"age_ns", s.node_loss.age_ns}, {"nodes", nodes}};
}

Json StatusJson(const StatusReply& s, int64_t now_ns, const std::vector<Finding>& more) {
  std::vector<Finding> findings = Diagnose(s, now_ns);
  findings.insert(findings.end(), more.begin(), more.end());
  Json f = Json::array(), lost = Json::array(), sessions = Json::array();
  for (const Finding& x : findings) {
    f.push_back({{"severity", HealthName(x.severity)}, {"what", x.what}, {"action", x.action}});
  }
  for (const LostFile& x : s.lost_files) {
    lost.push_back({{"path", x.path}, {"inode", x.ino.v}, {"offset", x.offset}, {"length", x.length}});
  }
  for (const SessionInfo& x : s.sessions) {
    sessions.push_back(
        {{"id", x.id.v}, {"client", x.client}, {"owner", x.owner}, {"node", x.node_name}, {"lease_left_ns", x.lease_left_ns},
         {"local_bytes", x.io.local_bytes}, {"network_bytes", x.io.network_bytes}, {"reconstructed_bytes", x.io.reconstructed_bytes},
         {"written_bytes", x.io.written_bytes}, {"operations", x.io.operations}});
  }
  Json layouts = Json::array(), thin = Json::array();
  for (const LayoutRoom& x : s.layouts) {
    layouts.push_back({{"layout", x.layout}, {"stripes", x.stripes}, {"until", x.until}, {"narrow", x.narrow},
                       {"crowded", x.crowded}, {"fewer_copies", x.thin}, {"none", x.none}});
  }
  for (const LostFile& x : s.thin_files) {
    thin.push_back({{"path", x.path}, {"inode", x.ino.v}, {"offset", x.offset}, {"length", x.length}});
  }
  return {{"cluster", s.map.cluster.ToString()},
          {"state", HealthName(HealthOf(findings))},
          {"exit_code", static_cast<int>(HealthOf(findings))},
          {"findings", f},
          {"map_version", s.map.version},
          {"files", s.files},
          {"directories", s.directories},
          {"live_bytes", s.live_bytes},
          {"inline_bytes", s.inline_bytes},
          {"stripes", s.stripes},
          {"degraded_stripes", s.degraded_stripes},
          {"narrow_stripes", s.narrow_stripes},
          {"crowded_stripes", s.crowded_stripes},
          {"stripes_with_fewer_copies", s.thin_stripes},
          {"files_with_fewer_copies", thin},
          {"lacking_layouts", layouts},
          {"lost_stripes", s.lost_stripes},
          {"garbage_shards", s.garbage_shards},
          {"node_loss", NodeLossJson(s)},
          {"repair_limit_bytes_per_s", s.repair_limit_bytes_per_s},
          {"rebuilds", RepairsJson(s)},
          {"nodes", NodesJson(s.map)},
          {"disks", DisksJson(s.map)},
          {"clients", sessions},
          {"lost_files", lost},
          {"lost_files_cut", MayHaveMore(s.lost_files)},
          {"files_with_fewer_copies_cut", MayHaveMore(s.thin_files)}};
}

Json WhereJson(const std::vector<WhereRow>& rows) {
  Json out = Json::array();
  for (const WhereRow& r : rows) {
    out.push_back({{"offset", r.offset},
                   {"length", r.length},
                   {"role", r.role},
                   {"node", r.node},
                   {"disk", r.disk},
                   {"health", r.health},
                   {"stripe", r.stripe.v}});
  }
  return out;
}

Json ReadsJson(const ReadTally& tally) {
  return {{"local_bytes", tally.local_bytes},
          {"network_bytes", tally.network_bytes},
          {"reconstructed_bytes", tally.reconstructed_bytes}};
}

Json HostsJson(const std::vector<HostShare>& hosts) {
  Json out = Json::array();
  for (const HostShare& h : hosts) {
    out.push_back({{"node", h.node},
                   {"data_bytes", h.data_bytes},
                   {"redundancy_ranges", h.redundancy_ranges},
                   {"health", h.health}});
  }
  return out;
}

Json AdminJson(const AdminReply& r, bool dry_run) {
  return {{"message", r.message}, {"stripes", r.stripes}, {"bytes", r.bytes}, {"dry_run", dry_run}};
}

Json FsckJson(const FsckReply& r) {
  return {{"clean", r.problems.empty()},
          {"problems", r.problems},
          {"inodes", r.inodes},
          {"stripes", r.stripes},
          {"extents", r.extents}};
}

Json ErrorJson(const Error& e) {
  return {{"error", {{"code", std::string(FsErrorName(e.code))}, {"message", SentenceOf(e)}}}};
}

}  // namespace stria::cli
