// Settings of stria-data: a TOML file, and flags that override it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/address.h"
#include "common/config.h"
#include "common/error.h"
#include "common/units.h"
#include "trust/place.h"
#include "trust/tls/wire_mode.h"

namespace stria {

struct DiskSpec {
  std::string path;
  std::string label;    // default: the path's last part
  std::string channel;  // the controller or bus it shares with others; default: its own
  bool operator==(const DiskSpec&) const = default;
};

inline constexpr char kClusterKeyFile[] = "/etc/stria/cluster.key";

struct DataConfig {
  std::string node_name;  // default: the host's name
  std::string listen = "0.0.0.0:" + std::to_string(kDefaultDataPort);
  std::string address;  // that others reach this node at; default: from listen and the host's name
  std::vector<std::string> meta;
  std::string cluster_key_file;  // empty: none, if it has credentials and kClusterKeyFile is not there
  std::string trust = kTrustDirectory;         // directory of its credentials, or "off"
  WireMode data_security = WireMode::kPrivacy;  // the least that it takes
  std::vector<DiskSpec> disks;
  std::string log_file;  // empty: stderr
  std::string log_level = "info";
  std::string metrics;  // IP:PORT, empty: none
  int64_t slow_request_ns = 5 * kSecond;  // calls that take longer are logged; 0: none
  uint64_t index_memory_bytes = 256 * kMiB;
  uint64_t write_memory_bytes = 256 * kMiB;
  uint64_t scrub_bytes_per_s = 20 * kMiB;  // per disk
  int rebuilds = 2;
  uint32_t background_percent = 25;  // of the bytes that are moved while others use the node
  std::string smart_directory = "/run/stria-smart";  // what disks say of themselves (smart.h); empty: it is not read
  std::string wake_latency = "auto";  // common/quick_wake.h
  bool reindex = false;
};

// "PATH", "PATH,label=d1,channel=c0". kInval with a sentence.
Result<DiskSpec> ParseDiskSpec(const std::string& text);
Result<DataConfig> DataConfigFrom(Config file);
// Fills in defaults that depend on the host and on others, and checks that nothing is missing or twice.
Result<void> CompleteDataConfig(DataConfig* config, const std::string& host_name);

}  // namespace stria
