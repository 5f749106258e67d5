// Looks at this machine for `stria doctor`. Blocking, some seconds at most; any number of peers are tried at once. Nothing is changed, but
// for a file that is made and removed on each disk.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/doctor/facts.h"
#include "tools/cli/setup/settings_edit.h"

namespace stria::cli::doctor {

struct MountLine {
  std::string source, point, type;
  std::vector<std::string> options;
};

NameFact LookUp(const std::string& whose, const std::string& name, bool own);
// Whether the kernel's clock is led by something.
bool ClockIsSynchronized();
// Fills in what trying them shows; `whose`, `address` (host:port) and the like are set.
void TryPeers(std::vector<PeerFact>* peers);
DiskFact LookAtDisk(const NewDisk& disk);
KernelFact LookAtKernel();
uint64_t OpenFilesHard();
std::vector<MountLine> ReadFstab();
// Those below the usual place (kTrustDirectory, or of a role in there), and `more` directories; directories without any are left out.
std::vector<CertificateFact> LookAtCertificates(const std::vector<std::string>& more);

// ---- Pure parts ----

// Lines as in /etc/fstab and /proc/self/mounts: comments are left out, \040 and the like are what they stand for.
std::vector<MountLine> ParseMountLines(std::string_view text);
// The one in which a path is: the last of the longest mount points. nullptr if there is none.
const MountLine* MountHolding(const std::vector<MountLine>& lines, const std::string& path);
// Whether /etc/fuse.conf has user_allow_other.
bool AllowsOthers(std::string_view fuse_conf);
// Of a kernel's configuration file; none: it does not say.
std::optional<bool> HasPassthrough(std::string_view config);

}  // namespace stria::cli::doctor
