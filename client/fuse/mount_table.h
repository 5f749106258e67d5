// The system's mount points: reads the mount table, clears away dead mounts, unmounts. Blocks; not for the executor's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/ids.h"

namespace stria {

inline constexpr char kMountType[] = "fuse.stria";

struct MountEntry {
  uint32_t dev_major = 0;
  uint32_t dev_minor = 0;
  std::string type;    // "fuse.stria"
  std::string source;  // as stria-mount gave it: "host:port:/path"
};

// The topmost mount at `mountpoint` (absolute, without symlinks) according to a mountinfo file's text.
// Pure. Octal escapes of names are understood.
std::optional<MountEntry> FindMount(std::string_view mountinfo, std::string_view mountpoint);
// The same with /proc/self/mountinfo.
std::optional<MountEntry> FindMount(const std::string& mountpoint);
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
