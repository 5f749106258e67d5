// Ends the mounts of a test program that is killed. Such a program cannot end by itself if one of its threads waits
// for a mount that it serves itself: that thread cannot be killed, keeps /dev/fuse open, and so the kernel goes on
// waiting for answers that nobody gives any more; whoever waits for the program waits for ever.
//
// A process of its own, started with the first mount. It gets the SIGTERM that the program's process group gets first,
// or sees the program's end, and then ends the connections of all mounts that it was told of. Thread-safe.
#pragma once

#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "common/check.h"

namespace stria {

class MountGuard {
 public:
  // `path`: at most kMaxPath - 1 bytes.
  static void Watch(const std::string& path) {
    static const MountGuard guard;
    Path record = {};
    CHECK(path.size() < record.size());
    memcpy(record.data(), path.data(), path.size());
    CHECK(write(guard.pipe_[1], record.data(), record.size()) == static_cast<ssize_t>(record.size()));
  }

 private:
  static constexpr size_t kMaxPath = 128;  // below PIPE_BUF: a record is written whole
  static constexpr size_t kMaxMounts = 4096;  // a program's, one after another; no more are guarded
  using Path = std::array<char, kMaxPath>;

  MountGuard() {
    CHECK(pipe(pipe_) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) Guard();
    close(pipe_[0]);
  }

  // The program has threads, of which this child has none: nothing here may allocate memory or take a lock.
  [[noreturn]] void Guard() {
    struct sigaction told = {};
    told.sa_handler = [](int) {};  // ends read()
    sigaction(SIGTERM, &told, nullptr);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    static Path paths[kMaxMounts];
    size_t mounts = 0;
    dup2(pipe_[0], 3);
    close_range(4, ~0U, 0);
    Path path;
    while (read(3, path.data(), kMaxPath) == static_cast<ssize_t>(kMaxPath)) {
      if (mounts < kMaxMounts) paths[mounts++] = path;
    }
    for (size_t i = 0; i < mounts; ++i) {
      if (umount2(paths[i].data(), MNT_FORCE) != 0) umount2(paths[i].data(), MNT_DETACH);  // in use, but ended
      rmdir(paths[i].data());
    }
    _exit(0);
  }

  int pipe_[2];
};

}  // namespace stria
