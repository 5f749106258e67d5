#include "server/data_config.h"

#include <set>
#include <utility>

#include "common/disk_label.h"
#include "common/printable.h"
#include "common/quick_wake.h"

namespace stria {
namespace {

std::string LastPart(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return "";
  const size_t slash = path.rfind('/', end);
  return path.substr(slash == std::string::npos ? 0 : slash + 1,
                     end - (slash == std::string::npos ? 0 : slash + 1) + 1);
}

bool IsNodeName(const std::string& name) {
  if (name.empty() || name.size() > 64) return false;
  for (const char c : name) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.';
    if (!fine) return false;
  }
  return true;
}

// What is wrong with what the cluster would call the disk, and what to do; "" if nothing is.
std::string NameFault(const DiskSpec& d) {
  const std::string disk = "disk " + Printable(d.path) + ": ";
  constexpr char kSet[] = "; set another with --disk PATH,label=L,channel=C, or label and channel in its table [[disk]]";
  if (d.label.empty()) return disk + "it has no label, and its path has no last part to be one" + kSet;
  const std::string fault = DiskNameFault(d.label, d.channel);
  return fault.empty() ? "" : disk + fault + kSet;
}

}  // namespace

Result<DiskSpec> ParseDiskSpec(const std::string& text) {
  DiskSpec out;
  size_t at = text.find(',');
  out.path = text.substr(0, at);
  while (at != std::string::npos) {
    const size_t end = text.find(',', at + 1);
    const std::string part = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    at = end;
    if (part.starts_with("label=")) {
      out.label = part.substr(6);
    } else if (part.starts_with("channel=")) {
      out.channel = part.substr(8);
    } else {
      return Error(FsError::kInval, "disk '" + text + "': '" + part + "' is not label=.. or channel=..");
    }
  }
  if (out.path.empty()) return Error(FsError::kInval, "disk '" + text + "' has no path");
  if (out.label.empty()) out.label = LastPart(out.path);
  return out;
}

Result<DataConfig> DataConfigFrom(Config file) {
  DataConfig c;
  file.Renamed("name", "node_name");
  file.Renamed("cluster_key_file", "cluster_key");
  c.node_name = file.String("node_name", c.node_name);
  c.listen = file.String("listen", c.listen);
  c.address = file.String("address", c.address);
  c.meta = file.Strings("meta");
  c.cluster_key_file = file.String("cluster_key", c.cluster_key_file);
  c.trust = file.String("trust", c.trust);
  const std::string mode = file.OneOf("data_security", WireModeName(c.data_security), {"privacy", "integrity", "auth"});
  c.data_security = ParseWireMode(mode).value_or(c.data_security);
  c.log_file = file.String("log_file", c.log_file);
  c.log_level = file.OneOf("log_level", c.log_level, {"debug", "info", "warning", "error", "off"});
  c.metrics = file.String("metrics", c.metrics);
  c.slow_request_ns = file.Duration("slow_request", c.slow_request_ns, 0, 3600 * kSecond);
  c.index_memory_bytes = file.Size("index_memory", c.index_memory_bytes, 16 * kMiB, kTiB);
  c.write_memory_bytes = file.Size("write_memory", c.write_memory_bytes, 16 * kMiB, kTiB);
  c.scrub_bytes_per_s = file.Size("scrub_rate", c.scrub_bytes_per_s, 64 * kKiB, 10 * kGiB);
  c.rebuilds = static_cast<int>(file.Int("rebuilds", c.rebuilds, 0, 64));
  c.background_percent = static_cast<uint32_t>(file.Int("background_percent", c.background_percent, 1, 99));
  c.smart_directory = file.String("smart_directory", c.smart_directory);
  c.wake_latency = file.String("wake_latency", c.wake_latency);
  if (const auto latency = ParseWakeLatency(c.wake_latency, ""); !latency.ok()) {
    file.Reject("wake_latency", "must be " + std::string(kWakeLatencyHelp));
  }
  for (Config& table : file.Tables("disk")) {
    DiskSpec d;
    d.path = table.RequiredString("path");
    d.label = table.String("label", LastPart(d.path));
    d.channel = table.String("channel", "");
    c.disks.push_back(std::move(d));
  }
  RETURN_IF_ERROR(file.Finish());
  return c;
}

Result<void> CompleteDataConfig(DataConfig* config, const std::string& host_name) {
  auto bad = [](const std::string& why) { return Error(FsError::kInval, why); };
  if (config->node_name.empty()) config->node_name = host_name;
  if (!IsNodeName(config->node_name))
    return bad("'" + config->node_name + "' is not a node name (letters, digits, . - _; at most 64)");
  if (config->meta.empty() && !config->reindex)
    return bad("no metadata server: give --meta HOST[:PORT] or meta = [..]");
  ASSIGN_OR_RETURN(config->meta, WithPorts(config->meta, kDefaultMetaPort));
  ASSIGN_OR_RETURN(config->listen, WithPort(config->listen, kDefaultDataPort));
  const std::string host = HostOfAddress(config->listen), port = PortOfAddress(config->listen);
  if (config->address.empty()) {
    const bool any = host == "0.0.0.0" || host == "[::]";
    config->address = any ? host_name : host;
  }
  ASSIGN_OR_RETURN(config->address, WithPort(config->address, static_cast<uint16_t>(std::stoul(port))));
  if (config->disks.empty()) return bad("no disks: give --disk PATH or [[disk]]");
  std::set<std::string> labels, paths;
  for (const DiskSpec& d : config->disks) {
    if (const std::string fault = NameFault(d); !fault.empty()) return bad(fault);
    if (!labels.insert(d.label).second) return bad("two disks have the label " + d.label);
    if (!paths.insert(d.path).second) return bad("disk " + d.path + " is given twice");
  }
  return Ok();
}

}  // namespace stria
