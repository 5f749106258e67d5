// What the system knows about mount points: reading the mount table, clearing away dead mounts,
// unmounting. Blocks; not for the executor's thread.
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
  std::string source;  // "stria:host:port"
};

// The topmost mount at `mountpoint` (absolute, without symlinks) according to a mountinfo file's text.
// Pure. Octal escapes of names are understood.
std::optional<MountEntry> FindMount(std::string_view mountinfo, std::string_view mountpoint);
// The same with /proc/self/mountinfo.
std::optional<MountEntry> FindMount(const std::string& mountpoint);
// Also by a bind mount: whether this namespace shows it at all.
bool IsMountedAnywhere(const MountEntry& mount);

// A directory to mount on: made absolute, free of the mount of a stria-mount that crashed ("Transport endpoint
// is not connected") or is stopped, which is disconnected and unmounted lazily. Errors say what is wrong with it.
// `former`: the client whose mount was cleared away because its program had crashed; leases can be taken over.
Result<std::string> PrepareMountpoint(const std::string& path, std::optional<Uuid>* former = nullptr);
// A path made absolute without asking what is mounted there: only its parent directories are looked at.
Result<std::string> MountpointPath(const std::string& path);

// Ends a mount of ours whose bytes are safe. `lazily`: also if files are open, which then fail.
Result<void> Unmount(const std::string& mountpoint, bool lazily);

// How far the kernel reads ahead on this mount; needs root. False if it could not be set.
bool SetReadAhead(const MountEntry& mount, uint64_t bytes);

}  // namespace stria
