// Mounts of Stria on this machine, as /proc/self/mountinfo tells.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace stria::cli {

struct StriaMount {
  std::string path;                    // mount point, absolute
  std::vector<std::string> addresses;  // of the metadata server
  bool operator==(const StriaMount&) const = default;
};

// Lines of type fuse.stria, whose source is "stria:ADDR[+ADDR..][:/PATH]"; later mounts last. Skips lines that it does not
// understand.
std::vector<StriaMount> ParseMountInfo(std::string_view text);
// Those of this process's mount namespace.
std::vector<StriaMount> ReadMounts();

// The innermost mount that holds `path` (absolute, without symlinks); nullptr if none does.
const StriaMount* MountOf(const std::vector<StriaMount>& mounts, const std::string& path);

// A virtual attribute (user.stria.*) of a file in a mount, as that mount says. kNoEnt: it is in none, or in one that does not know it.
Result<std::string> AskMount(const std::string& path, const std::string& name);
// Sets one.
Result<void> TellMount(const std::string& path, const std::string& name, const std::string& value);

// "a:1,b:2" -> its parts, empty ones dropped.
std::vector<std::string> SplitAddresses(std::string_view text);

// Takes the mount away: as root by itself, else through fusermount3. `lazy`: also when it is in use or
// its process is dead. Not an error if nothing is mounted there.
Result<void> Unmount(const std::string& path, bool lazy);

}  // namespace stria::cli
