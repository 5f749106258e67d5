// Whether a thread that waits for an answer of the mount is dying (nothing else ends its wait), and whether one runs.
//
// The kernel reports once per request that a signal has reached the thread (FUSE_INTERRUPT), whatever signal it is: one with a
// handler, SIGCHLD, a stop, a debugger's. From then on the thread waits for the answer and takes no other signal, and the
// kernel does not report one that kills it later. So the mount looks at /proc again and again, which shows pending signals.
//
// - When a signal kills a process, SIGKILL is pending in each of its threads, in most cases. Not so if the signal dumps core,
//   or if no thread was ready to take it, because all wait here and have been signalled before. Then the signal itself is
//   pending; it kills if it is neither blocked, ignored nor caught (a debugger may keep it from a traced process).
// - A killed process closes its files while it dies. No signal is pending any more, but /proc says how it ends.
// - The kernel reports no signal to a thread that closes files so, or waits for readahead pages.
// - A thread that /proc does not show (another pid namespace, hidepid) is not known to be dying.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stria {

struct ThreadState {
  // Bit n - 1 is signal n.
  uint64_t pending = 0;  // for the thread, or for its process
  uint64_t blocked = 0;
  uint64_t ignored = 0;
  uint64_t caught = 0;
  bool traced = false;
  bool exiting = false;
  int ended_by = 0;  // the signal that ends it, once it is exiting; 0: it ends by itself
};

// From /proc/<thread>/status and /proc/<thread>/stat; none if they are not understood.
std::optional<ThreadState> ParseThreadState(std::string_view status, std::string_view stat);

bool IsDying(const ThreadState& thread);

struct ThreadRun {
  bool runnable = false;     // it runs, or waits for a processor
  int64_t processor_ns = 0;  // that it has had; of a running thread as of the kernel's last tick
};

// From /proc/<thread>/stat and /proc/<thread>/schedstat; none if they are not understood.
std::optional<ThreadRun> ParseThreadRun(std::string_view stat, std::string_view schedstat);

// Blocks for as long as it takes to read two small files. Any thread.
class Threads {
 public:
  explicit Threads(std::string proc = "/proc");
  bool IsDying(uint32_t thread) const;
  // None: it is gone, or not known.
  std::optional<ThreadRun> Run(uint32_t thread) const;

 private:
  const std::string proc_;
  const bool ours_;  // its pid namespace is that of the mount and of the kernel's requests
};

}  // namespace stria
