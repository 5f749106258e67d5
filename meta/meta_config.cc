#include "meta/meta_config.h"

#include <charconv>
#include <utility>

#include "common/quick_wake.h"
#include "meta/data_dir.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {

constexpr int64_t kHour = 3600 * kSecond;

}  // namespace

Result<MetaConfig> MetaConfigFrom(Config file) {
  MetaConfig c;
  c.data = file.String("data", c.data);
  c.listen = file.String("listen", c.listen);
  c.address = file.String("address", c.address);
  c.cluster_key_file = file.String("cluster_key", c.cluster_key_file);
  c.trust = file.String("trust", c.trust);
  c.admin_socket = file.String("admin_socket", c.admin_socket);
  c.grpc_listen = file.String("grpc_listen", c.grpc_listen);
  c.authority_overlap_ns = file.Duration("authority_overlap", c.authority_overlap_ns, 0, 30 * 24 * kHour);
  c.certificate_life_ns = file.Duration("certificate_life", c.certificate_life_ns, kMinCertificateLifeS * kSecond, kCertificateDays * kDayS * kSecond);
  c.log_file = file.String("log_file", c.log_file);
  c.log_level = file.OneOf("log_level", c.log_level, {"debug", "info", "warning", "error", "off"});
  c.metrics = file.String("metrics", c.metrics);
  c.slow_request_ns = file.Duration("slow_request", c.slow_request_ns, 0, kHour);
  c.memory_bytes = file.Size("memory", c.memory_bytes, 16 * kMiB, kTiB);
  c.backup = file.Bool("backup", c.backup);
  if (file.Has("backup_encrypted")) c.backup_encrypted = file.Bool("backup_encrypted", false);
  c.wake_latency = file.String("wake_latency", c.wake_latency);
  if (const auto latency = ParseWakeLatency(c.wake_latency, ""); !latency.ok()) {
    file.Reject("wake_latency", "must be " + std::string(kWakeLatencyHelp));
  }
  if (file.Has("layout")) {
    const Result<Layout> layout = ParseLayout(file.String("layout", ""));
    if (layout.ok()) c.layout = *layout;
    else file.Reject("layout", layout.error().message);
  }
  MetaServerOptions& s = c.server;
  s.root_squash = file.Bool("root_squash", s.root_squash);
  s.trusted_root = file.Strings("trusted_root");
  s.sessions.lease_ns = file.Duration("session.lease", s.sessions.lease_ns, kSecond, 600 * kSecond);
  s.sessions.remember_ns = file.Duration("session.remember", s.sessions.remember_ns, 0, 24 * kHour);
  s.answer_timeout_ns = file.Duration("session.answer_timeout", s.answer_timeout_ns, kSecond, kHour);
  s.cluster.suspect_ns = file.Duration("cluster.suspect", s.cluster.suspect_ns, kSecond, kHour);
  s.cluster.down_ns = file.Duration("cluster.down", s.cluster.down_ns, kSecond, kHour);
  s.cluster.out_ns = file.Duration("cluster.out", s.cluster.out_ns, kSecond, 30 * 24 * kHour);
  s.cluster.settle_ns = file.Duration("cluster.settle", s.cluster.settle_ns, 0, kHour);
  s.cluster.drain_failing_disks = file.Bool("cluster.drain_failing_disks", s.cluster.drain_failing_disks);
  s.repair.max_tasks = static_cast<uint32_t>(file.Int("repair.tasks", s.repair.max_tasks, 1, 4096));
  s.repair.max_writes_per_node =
      static_cast<uint32_t>(file.Int("repair.writes_per_node", s.repair.max_writes_per_node, 1, 256));
  s.repair.max_reads_per_node =
      static_cast<uint32_t>(file.Int("repair.reads_per_node", s.repair.max_reads_per_node, 1, 1024));
  s.fold.enabled = file.Bool("fold.enabled", s.fold.enabled);
  s.fold.age_ns = file.Duration("fold.age", s.fold.age_ns, kSecond, 30 * 24 * kHour);
  s.fold.rest_ns = file.Duration("fold.rest", s.fold.rest_ns, kSecond, 24 * kHour);
  if (s.cluster.down_ns < s.cluster.suspect_ns) file.Reject("cluster.down", "must not be shorter than cluster.suspect");
  if (s.answer_timeout_ns < s.sessions.lease_ns) {
    file.Reject("session.answer_timeout", "must not be shorter than session.lease");
  }
  c.ha = HaConfigFrom(file);
  RETURN_IF_ERROR(file.Finish());
  return c;
}

Result<void> CompleteMetaConfig(MetaConfig* config) {
  if (config->data.empty()) return Error(FsError::kInval, "data is empty: name the directory of the metadata store");
  ASSIGN_OR_RETURN(config->listen, WithPort(config->listen, kDefaultMetaPort));
  if (!config->address.empty()) {
    uint16_t port = kDefaultMetaPort;
    const std::string text = PortOfAddress(config->listen);
    std::from_chars(text.data(), text.data() + text.size(), port);
    const Result<std::string> address = WithPort(config->address, port);
    if (!address.ok()) return address.error().WithContext("address");
    if (!IsHostPort(*address)) return Error(FsError::kInval, "address is " + config->address + ": name a host that others know, HOST[:PORT]");
    config->address = *address;
  }
  if (config->ha) RETURN_IF_ERROR(CompleteHaConfig(&*config->ha, config->listen, config->address));
  config->server.archiver.encrypt = config->backup_encrypted.value_or(config->ha.has_value());
  if (config->trust.empty()) config->trust = TrustDirOf(config->data);
  if (config->admin_socket.empty()) config->admin_socket = config->data + "/admin.sock";
  if (config->admin_socket.front() != '/') return Error(FsError::kInval, "admin_socket is " + config->admin_socket + ": name a whole path");
  return Ok();
}

}  // namespace stria
