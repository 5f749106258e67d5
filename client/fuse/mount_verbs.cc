#include "client/fuse/mount_verbs.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/xattr.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "client/fuse/mount_state.h"
#include "client/fuse/mount_table.h"
#include "common/sentence.h"

namespace stria {
namespace {

struct Flag {
  std::string_view option;
  unsigned long flag;
};
constexpr Flag kFlags[] = {{"nosuid", MS_NOSUID},         {"nodev", MS_NODEV},       {"noexec", MS_NOEXEC},
                           {"noatime", MS_NOATIME},       {"dirsync", MS_DIRSYNC},   {"nodiratime", MS_NODIRATIME}};

int Failed(const std::string& sentence) {
  SaySentence("stria-mount", sentence);
  return kMountFailed;
}

std::string WhyNot(int err, const std::string& mountpoint) {
  if (err == EBUSY) return mountpoint + " is in use: close its open files (fuser -vm shows them), or umount -l";
  return "cannot change " + mountpoint + ": " + std::strerror(err);
}

// This program's mount there, or the error that there is none.
std::optional<MountEntry> OurMount(const std::string& given, std::string* mountpoint) {
  auto path = MountpointPath(given);
  if (path.ok()) {
    *mountpoint = *path;
    std::optional<MountEntry> mount = FindMount(*mountpoint);
    if (mount && mount->type == kMountType) return mount;
  }
  (void)Failed("no Stria filesystem is mounted on " + given);
  return std::nullopt;
}

// Makes the mount's program go by the options that the kernel has now. `before`: what the kernel had.
int Heeded(const std::string& mountpoint, const MountFlags& before, const MountFlags& wanted) {
  if (before == wanted && wanted.ToString().empty()) return kMountOk;
  char heeded[256];
  const ssize_t n = getxattr(mountpoint.c_str(), std::string(kFlagsXattr).c_str(), heeded, sizeof heeded);
  if (n < 0 && before.ToString() == wanted.ToString()) return kMountOk;  // only ro or rw differ, which the kernel sees to
  if (n >= 0 && std::string_view(heeded, static_cast<size_t>(n)) == wanted.ToString()) return kMountOk;
  return Failed(mountpoint + " shows its new options, but its stria-mount does not go by sync and noatime (" +
                (n < 0 ? std::strerror(errno) : "it has other ones") + "): unmount it and mount it again");
}

}  // namespace

int RemountMount(const MountConfig& config) {
  std::string mountpoint;
  const std::optional<MountEntry> mount_before = OurMount(config.mountpoint, &mountpoint);
  if (!mount_before) return kMountFailed;
  unsigned long flags = MS_REMOUNT | (config.read_only ? MS_RDONLY : 0) | (config.sync ? MS_SYNCHRONOUS : 0) |
                        (config.no_symlinks ? MS_NOSYMFOLLOW : 0);  // the last of ro and rw
  for (const std::string& option : config.fuse_options) {
    for (const Flag& f : kFlags) {
      if (f.option == option) flags |= f.flag;
    }
  }
  // Where a remount names no kind of access times, the kernel keeps the one that there is.
  if ((flags & MS_NOATIME) == 0) flags |= MS_RELATIME;
  if (mount(nullptr, mountpoint.c_str(), nullptr, flags, nullptr) != 0) return Failed(WhyNot(errno, mountpoint));
  const MountFlags wanted{(flags & MS_SYNCHRONOUS) != 0, (flags & MS_NOATIME) != 0, (flags & MS_RDONLY) != 0};
  return Heeded(mountpoint, MountFlags::Of(*mount_before), wanted);
}

int UnmountAndWait(const MountConfig& config) {
  const auto path = MountpointPath(config.mountpoint);
  if (!path.ok()) return Failed(path.error().message);
  const std::string& mountpoint = *path;
  const std::optional<MountEntry> mount = FindMount(mountpoint);
  if (!mount) return Failed("nothing is mounted on " + mountpoint);
  // umount(8) asks the helper of "fuse" where it does not look for the subtype: others' mounts are just unmounted.
  std::optional<MountWatch> program = mount->type == kMountType ? MountWatch::Find(*mount) : std::nullopt;
  const int flags = UMOUNT_NOFOLLOW | (config.lazy ? MNT_DETACH : 0) | (config.force ? MNT_FORCE : 0);
  if (umount2(mountpoint.c_str(), flags) != 0) return Failed(WhyNot(errno, mountpoint));
  if (!program || config.lazy || IsMountedAnywhere(*mount)) return kMountOk;
  // It ends by itself, unless a container got a copy of all mounts when it was started.
  if (program->ProgramRuns()) (void)kill(program->state().pid, SIGTERM);
  const auto end = program->WaitForEnd();
  if (!end.ok()) {
    return Failed(mountpoint + " is unmounted, but its bytes may not all be written: " + end.error().message);
  }
  if (end->lost_bytes) return Failed(mountpoint + " is unmounted, but not all of its bytes could be written: see its log");
  return kMountOk;
}

bool IsMountedAlready(const std::string& mountpoint, const std::string& fsname) {
  auto path = MountpointPath(mountpoint);
  const std::optional<MountEntry> there = path.ok() ? FindMount(*path) : std::nullopt;
  if (!there || there->type != kMountType || there->source != fsname) return false;
  const std::optional<MountWatch> program = MountWatch::Find(*there);
  return program && program->ProgramRuns() && !program->ProgramStopped();
}

}  // namespace stria
