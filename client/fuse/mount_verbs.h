// What mount(8) and umount(8) do with an existing mount: remount, unmount and wait. Blocks.
#pragma once

#include "client/fuse/mount_config.h"

namespace stria {

// Exit codes of mount(8) and its helpers.
inline constexpr int kMountOk = 0;
inline constexpr int kMountFailed = 32;

// ro, rw, nosuid and the like; options that only a new mount can change stay. Returns the exit code.
int RemountMount(const MountConfig& config);

// Unmounts, waits until the mount's program has written everything, and tells if it could not. The exit code.
int UnmountAndWait(const MountConfig& config);

// The same source is mounted there, by a program that runs: `mount -a` asks again.
bool IsMountedAlready(const std::string& mountpoint, const std::string& fsname);

}  // namespace stria
