// The system's mount points: reads the mount table, clears away dead mounts, unmounts. Blocks; not for the executor's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/ids.h"

namespace stria {

inline constexpr char kMountType[] = "fuse.stria";

struct MountEntry {
  uint32_t dev_major = 0;
  uint32_t dev_minor = 0;
  std::string type;    // "fuse.stria"
  std::string source;  // as stria-mount gave it: "host:port:/path"
  std::vector<std::string> options;  // "rw", "noatime", ..: of the mount, and of its filesystem
  bool Has(std::string_view option) const;
};

// An attribute of each file: the flags that the mount's program heeds, as MountFlags::ToString() has them. A question for it makes the
// program look first whether a remount has changed them.
inline constexpr std::string_view kFlagsXattr = "user.stria.flags";

// Options that the kernel leaves to the mount's program, and that a remount may change.
struct MountFlags {
  bool sync = false, noatime = false;
  bool read_only = false;
  static MountFlags Of(const MountEntry& mount);
  std::string ToString() const;  // "sync,noatime": as far as there are any; without the last
  bool operator==(const MountFlags&) const = default;
};

// The topmost mount at `mountpoint` (absolute, without symlinks) according to a mountinfo file's text.
// Pure. Octal escapes of names are understood.
std::optional<MountEntry> FindMount(std::string_view mountinfo, std::string_view mountpoint);
// The same with /proc/self/mountinfo.
std::optional<MountEntry> FindMount(const std::string& mountpoint);
// The topmost mount of the same filesystem at `mountpoint`, whatever else is mounted over it.
std::optional<MountEntry> FindSameMount(std::string_view mountinfo, const MountEntry& mount, std::string_view mountpoint);
std::optional<MountEntry> FindSameMount(const MountEntry& mount, const std::string& mountpoint);
// Also by a bind mount: whether this namespace shows it at all.
bool IsMountedAnywhere(const MountEntry& mount);

// A directory to mount on: made absolute. The mount of a stria-mount that crashed ("Transport endpoint is not connected") or is
// stopped is disconnected and unmounted lazily. Errors say what is wrong with the directory. `former`: the client whose crashed
// mount was cleared away; its leases can be taken over.
Result<std::string> PrepareMountpoint(const std::string& path, std::optional<Uuid>* former = nullptr);
// Makes a path absolute without touching a mount there: it looks at parent directories only.
Result<std::string> MountpointPath(const std::string& path);

// Ends a mount of this program whose bytes are safe. `lazily`: also if files are open, which then fail.
Result<void> Unmount(const std::string& mountpoint, bool lazily);

// How far the kernel reads ahead on this mount; needs root. False if it could not be set.
bool SetReadAhead(const MountEntry& mount, uint64_t bytes);

}  // namespace stria
