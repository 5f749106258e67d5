// The first machine of a cluster: its settings, its store, its service (stria cluster init). Each step is left out where it was done
// before, so that the same command again is no harm.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "common/units.h"
#include "tools/cli/json.h"
#include "tools/cli/setup/machine.h"

namespace stria::cli {

inline constexpr char kMetaService[] = "stria-meta";
inline constexpr int64_t kMetaPollNs = 200 * kMillisecond;  // between two looks at whether it serves

inline constexpr char kMetaSettingsFile[] = "/etc/stria/meta.toml";

struct InitParams {
  std::string settings_file = kMetaSettingsFile;
  std::string program;       // stria-meta, a whole path
  std::string address;       // HOST[:PORT] that others reach it at; "": as the settings say, or the host's name
  std::string layout;        // of a new cluster's root; "": as the settings say
  int64_t timeout_ns = 0;    // until it serves
  bool start = true;         // else that is the caller's: it is to be one of several (meta_member.h)
};

struct InitDone {
  Uuid cluster;
  std::string address, data;
  bool made = false;                 // the store, now
  bool serves = false;
  std::vector<std::string> changes;  // of the settings
  std::string start_command;         // where no systemd runs and nothing serves: what to run
};

// The cluster of the metadata server at a Unix socket; kUnavailable if nobody answers.
using AskCluster = std::function<Result<Uuid>(const std::string& socket)>;

// kPerm, kNoEnt, kConflict (the settings say something else than the parameters), kAccess (the cluster is insecure), kDeadline (it was
// started and does not serve); with a sentence that says what to do.
Result<InitDone> InitCluster(Machine* machine, const InitParams& params, const AskCluster& ask);

std::string RenderInit(const InitDone& done);
Json InitJson(const InitDone& done);

}  // namespace stria::cli
