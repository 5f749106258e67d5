// A file under /run that a running stria-mount keeps about its mount, locked as long as the program runs. umount(8) waits for
// it. A later mount on the same directory after a crash learns from it whose leases to take over. Blocks; not for the
// executor's thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "client/fuse/mount_table.h"
#include "common/error.h"
#include "common/ids.h"

namespace stria {

struct MountState {
  pid_t pid = 0;
  Uuid client;            // of its session
  int64_t timeout_s = 0;  // of a call
  bool lost_bytes = false;  // it could not write everything at its end
};

std::string EncodeMountState(const MountState& state);
std::optional<MountState> DecodeMountState(const std::string& text);

// For root's mounts only; umount(8) waits for no others.
std::string MountStatePath(const MountEntry& mount);

// Held by the program; the file goes with it.
class MountStateFile {
 public:
  static Result<MountStateFile> Make(const MountEntry& mount, MountState state);
  MountStateFile(MountStateFile&& o) noexcept;
  MountStateFile& operator=(MountStateFile&&) = delete;
  ~MountStateFile();
  void SetLostBytes();

 private:
  MountStateFile(std::string path, int fd, MountState state) : path_(std::move(path)), fd_(fd), state_(state) {}
  std::string path_;
  int fd_;
  MountState state_;
};

// The state of a mount, and a descriptor to wait with.
class MountWatch {
 public:
  // nullopt if nothing is known of the mount.
  static std::optional<MountWatch> Find(const MountEntry& mount);
  MountWatch(MountWatch&& o) noexcept;
  MountWatch& operator=(MountWatch&&) = delete;
  ~MountWatch();
  const MountState& state() const { return state_; }
  bool ProgramRuns() const;     // its lock is held
  bool ProgramStopped() const;  // by SIGSTOP or a debugger
  // Until the program has ended; the state it left. kTimedOut if it takes longer than its own timeouts allow or
  // is stopped.
  Result<MountState> WaitForEnd();

 private:
  MountWatch(int fd, MountState state) : fd_(fd), state_(state) {}
  int fd_;
  MountState state_;
};

}  // namespace stria
