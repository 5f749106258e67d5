// A machine becomes one of several metadata servers: its settings and its service (stria cluster init --etcd, stria join with a token
// of role meta). Each step is left out where it was done before.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/error.h"
#include "tools/cli/setup/init_cluster.h"
#include "tools/cli/setup/machine.h"
#include "tools/cli/setup/settings_edit.h"

namespace stria::cli {

// What the service is started with, beside the unit of the package.
inline constexpr char kMemberUnit[] = "/etc/systemd/system/stria-meta.service.d/stria-members.conf";

struct MemberParams {
  std::string settings_file = kMetaSettingsFile;
  std::string program;      // stria-meta, a whole path
  MemberSettings member;    // etcd "": as the settings say
  std::string flag;         // "--ha-init": of the store that there is; "--join": of an empty directory
  int64_t timeout_ns = 0;   // until it answers
};

struct MemberDone {
  std::vector<std::string> changes;  // of the settings
  bool started = false;
  std::string start_command;  // where no systemd runs: what to run
};

// kInval with a sentence: so many members of etcd could lose none and still decide.
Result<void> CheckEtcd(const std::vector<std::string>& etcd);

// Before a machine that joins is given `authority` (the text of authority.pem): nothing of another cluster or of another metadata server would
// be written over, and nothing that is left of one would be believed. kNotEmpty with what to move away; an error of a file.
Result<void> CheckIsFree(Machine* machine, const MetaPaths& paths, const std::string& authority);

// `answers`: whether it does. kConflict: the settings say something else, kDeadline: it was started and does not answer; with a sentence
// that says what to do.
Result<MemberDone> SetUpMember(Machine* machine, const MemberParams& params, const std::function<bool()>& answers);

}  // namespace stria::cli
