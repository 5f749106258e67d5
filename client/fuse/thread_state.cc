#include "client/fuse/thread_state.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/io/unique_fd.h"

namespace stria {
namespace {

constexpr uint64_t kExitingFlag = 0x4;  // PF_EXITING of the kernel's sources
constexpr size_t kMaxFileBytes = 16 * 1024;

constexpr uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }
// Signals whose default action ignores them or stops the process.
constexpr uint64_t kHarmless = Bit(SIGCHLD) | Bit(SIGCONT) | Bit(SIGURG) | Bit(SIGWINCH) | Bit(SIGSTOP) | Bit(SIGTSTP) |
                               Bit(SIGTTIN) | Bit(SIGTTOU);

std::optional<uint64_t> Number(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The text after "key:" on a line of its own.
std::optional<uint64_t> Field(std::string_view status, std::string_view key, int base) {
  size_t at = 0;
  while (at < status.size()) {
    const std::string_view line = status.substr(at, status.find('\n', at) - at);
    if (line.starts_with(key) && line.substr(key.size()).starts_with(":")) {
      const size_t value = line.find_first_not_of(" \t", key.size() + 1);
      return value == line.npos ? std::nullopt : Number(line.substr(value), base);
    }
    at += line.size() + 1;
  }
  return std::nullopt;
}

std::string ReadAll(const std::string& path) {
  std::string text(kMaxFileBytes, '\0');
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  size_t have = 0;
  while (fd.ok() && have < text.size()) {
    const ssize_t n = read(fd.get(), text.data() + have, text.size() - have);
    if (n <= 0) break;
    have += static_cast<size_t>(n);
  }
  text.resize(have);
  return text;
}

}  // namespace

std::optional<ThreadState> ParseThreadState(std::string_view status, std::string_view stat) {
  const auto own = Field(status, "SigPnd", 16), shared = Field(status, "ShdPnd", 16);
  const auto blocked = Field(status, "SigBlk", 16), ignored = Field(status, "SigIgn", 16), caught = Field(status, "SigCgt", 16);
  const auto tracer = Field(status, "TracerPid", 10);
  if (!own || !shared || !blocked || !ignored || !caught || !tracer) return std::nullopt;

  // "17 (a name) S 1 ...": the name may contain anything. Of the numbers behind it, number 6 is the flags and the last is how
  // it ends, as in wait(2); 0 if this process may not know.
  const size_t name_end = stat.rfind(')');
  if (name_end == stat.npos) return std::nullopt;
  stat.remove_prefix(name_end + 1);
  while (stat.ends_with('\n')) stat.remove_suffix(1);
  std::optional<uint64_t> flags, end;
  for (int field = 0; !stat.empty(); ++field) {
    stat.remove_prefix(std::min(stat.find_first_not_of(' '), stat.size()));
    const std::string_view word = stat.substr(0, stat.find(' '));
    if (field == 6) flags = Number(word, 10);
    end = Number(word, 10);
    stat.remove_prefix(word.size());
  }
  if (!flags || !end) return std::nullopt;

  ThreadState thread;
  thread.pending = *own | *shared;
  thread.blocked = *blocked;
  thread.ignored = *ignored;
  thread.caught = *caught;
  thread.traced = *tracer != 0;
  thread.exiting = (*flags & kExitingFlag) != 0;
  if (thread.exiting) thread.ended_by = static_cast<int>(*end & 0x7f);
  return thread;
}

bool IsDying(const ThreadState& thread) {
  if (thread.pending & Bit(SIGKILL)) return true;
  if (thread.exiting) return thread.ended_by != 0;
  if (thread.traced) return false;
  return (thread.pending & ~(thread.blocked | thread.ignored | thread.caught | kHarmless)) != 0;
}

std::optional<ThreadRun> ParseThreadRun(std::string_view stat, std::string_view schedstat) {
  const size_t name_end = stat.rfind(") ");
  if (name_end == stat.npos || name_end + 2 >= stat.size()) return std::nullopt;
  const auto processor_ns = Number(schedstat.substr(0, schedstat.find(' ')), 10);
  if (!processor_ns) return std::nullopt;
  // "R"; between being woken and that it is "W" in some versions.
  const char state = stat[name_end + 2];
  return ThreadRun{state == 'R' || state == 'W', static_cast<int64_t>(*processor_ns)};
}

Threads::Threads(std::string proc) : proc_(std::move(proc)), ours_([this] {
  char self[32] = {};
  const ssize_t n = readlink((proc_ + "/self").c_str(), self, sizeof(self) - 1);
  return n > 0 && std::string_view(self, static_cast<size_t>(n)) == std::to_string(getpid());
}()) {}

bool Threads::IsDying(uint32_t thread) const {
  if (!ours_ || thread == 0) return false;
  const std::string of_thread = proc_ + "/" + std::to_string(thread);
  const auto state = ParseThreadState(ReadAll(of_thread + "/status"), ReadAll(of_thread + "/stat"));
  return state && stria::IsDying(*state);
}

std::optional<ThreadRun> Threads::Run(uint32_t thread) const {
  if (!ours_ || thread == 0) return std::nullopt;
  const std::string of_thread = proc_ + "/" + std::to_string(thread);
  return ParseThreadRun(ReadAll(of_thread + "/stat"), ReadAll(of_thread + "/schedstat"));
}

}  // namespace stria
