// What stria-meta is told on its command line, and the settings that it has by that and by its file.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "meta/meta_config.h"

namespace stria {

struct RestoreFlags {
  std::vector<std::string> from;  // empty: serve
  bool dry_run = false;
  bool unproven = false;
};

struct FormatFlags {
  bool format = false;
  bool only = false;        // end afterwards
  bool make_trust = false;  // of a cluster that is there
};

// How it becomes one of several metadata servers ([ha]), or alone again.
struct SeveralFlags {
  bool init = false;    // the first of them
  bool join = false;    // one more, in an empty directory
  bool leave = false;   // the last one is alone again, then end
  bool adopt = false;   // with init: the coordinator has lost the register, and this store is the one to go on from
  std::string cluster;  // with join and without certificates, which say it
};

struct MetaFlags {
  std::string config_file, data, listen, cluster_key, trust, layout, log_file, log_level, metrics, admin_socket, grpc_listen, certificate_life;
  bool insecure = false;
  std::vector<std::string> trusted_root;
  FormatFlags format;
  RestoreFlags restore;
  SeveralFlags several;
};

// Flags go before the file. An error is a sentence that names the key or flag.
Result<MetaConfig> ConfigFrom(const MetaFlags& flags);
// Whether these go together; an error is a sentence that names the flag.
Result<void> CheckSeveralFlags(const MetaFlags& flags, const MetaConfig& config);

}  // namespace stria
