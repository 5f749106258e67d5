// Settings of stria-meta: a TOML file, and flags that override it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/address.h"
#include "common/config.h"
#include "common/error.h"
#include "common/units.h"
#include "meta/ha_config.h"
#include "meta/service/meta_server.h"
#include "stripe/types.h"
#include "trust/certificate.h"

namespace stria {

inline constexpr char kClusterKeyFile[] = "/etc/stria/cluster.key";

struct MetaConfig {
  std::string data = "/var/lib/stria/meta";
  std::string listen = "0.0.0.0:" + std::to_string(kDefaultMetaPort);
  std::string address;  // that others reach it at, for tokens; empty: from listen and the host's name
  std::string cluster_key_file;  // empty: the master key beside the authority, or kClusterKeyFile where there is none
  std::string trust;             // directory of the authority, or "off"; empty: DATA/trust
  std::string admin_socket;      // for commands of this machine; empty: DATA/admin.sock
  std::string grpc_listen;       // IP:PORT for gRPC; empty: none
  int64_t certificate_life_ns = kCertificateDays * kDayS * kSecond;  // of those that are given
  int64_t authority_overlap_ns = 0;  // for so long after 'stria ca rotate' the server goes on with its certificate of the former authority
  std::string log_file;  // empty: stderr
  std::string log_level = "info";
  std::string metrics;   // IP:PORT, empty: none
  int64_t slow_request_ns = 1 * kSecond;  // calls that take longer are logged; 0: none
  uint64_t memory_bytes = 512 * kMiB;  // of the store: block cache and write buffers
  Layout layout;         // of a new cluster's root
  bool backup = true;    // of the metadata, kept on data servers
  // Whether only the master key reads it. Not set: where another metadata server has that key, too, so that the loss of a disk takes both
  // at once nowhere.
  std::optional<bool> backup_encrypted;
  std::string wake_latency = "auto";  // common/quick_wake.h
  MetaServerOptions server;
  std::optional<HaConfig> ha;  // none: it is the cluster's only metadata server
};

// Keys: data, listen, address, cluster_key, trust, certificate_life, authority_overlap, admin_socket, grpc_listen, log_file, log_level,
// metrics, slow_request, memory, layout, backup, backup_encrypted, wake_latency, root_squash, and the tables [session] lease, remember,
// answer_timeout; [cluster] suspect, down, out, settle, drain_failing_disks; [repair] tasks, writes_per_node, reads_per_node; [fold] enabled
// (true unless it says otherwise), age, rest; [ha] (ha_config.h).
Result<MetaConfig> MetaConfigFrom(Config file);
// Fills in defaults, and checks that the settings fit together; an error is a sentence that names the key.
Result<void> CompleteMetaConfig(MetaConfig* config);

}  // namespace stria
