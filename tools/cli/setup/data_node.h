// A machine with disks that has joined: its settings, its disks, its service (stria join TOKEN --disk ..).
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "tools/cli/setup/machine.h"
#include "tools/cli/setup/settings_edit.h"

namespace stria::cli {

inline constexpr char kDataSettingsFile[] = "/etc/stria/data.toml";

// What can be said of disks before the machine has joined: each is a directory that a data server can use, in a filesystem other than
// that of / unless `force`. Gives them with whole paths. A sentence for the first that is not so.
Result<std::vector<NewDisk>> CheckNewDisks(Machine* machine, const std::vector<std::string>& disks, bool force);

struct DataNodeParams {
  std::string settings_file = kDataSettingsFile;
  std::string program;  // stria-data, a whole path; "": it is not there
  Uuid cluster;
  NodeSettings settings;  // disks are of CheckNewDisks
};

struct DataNodeDone {
  std::vector<std::string> changes;  // of the settings
  std::vector<NewDisk> disks;        // all that the settings have
  bool started = false;
  std::string start_command;  // where no systemd runs: what to run
};

// Nothing is started where the settings have no disk. The same again changes nothing, and starts what does not run. kWrongCluster,
// kNotEmpty, kAccess (its files are another user's), kConflict, and what the service says.
Result<DataNodeDone> SetUpDataNode(Machine* machine, const DataNodeParams& params);

}  // namespace stria::cli
