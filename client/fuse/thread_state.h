// Whether a thread that waits for an answer of ours is about to die: nothing else ends its wait.
//
// The kernel tells us once per request that a signal has reached its thread (FUSE_INTERRUPT), of whatever kind: one with a
// handler, SIGCHLD, a stop, a debugger. From then on the thread waits for the answer and hears of no other signal, and of
// one that kills it later we are not told. So we look, and again: /proc says which signals are pending.
//
// - SIGKILL is pending in each thread of a process that a signal kills, in most cases: not if the signal dumps core, and not
//   if no thread was ready to take it, as they all wait here and have been signalled before. Then the signal itself is
//   pending, and kills if it is neither blocked, ignored nor caught (a debugger may keep it from a traced process).
// - Who was killed closes its files while it dies. No signal is pending any more; how it ends is known.
// - We are told of no signal to who closes so, or waits for pages that the kernel reads ahead.
// - A thread that /proc does not show (another pid namespace, hidepid) is not known to be dying.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stria {

struct ThreadState {
  // Of signal n bit n - 1.
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

// Blocks for as long as it takes to read two small files. Any thread.
class Threads {
 public:
  explicit Threads(std::string proc = "/proc");
  bool IsDying(uint32_t thread) const;

 private:
  const std::string proc_;
  const bool ours_;  // its numbers are those that we and the kernel's requests use
};

}  // namespace stria
