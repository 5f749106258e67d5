// Which job a thread belongs to, by /proc.
//
// Blocks: /proc/PID/environ waits for the lock of that process's memory, which may be held until the mount answers one of its
// requests (a page fault on a mapped file). So it is asked on a thread that answers no requests, and that nobody waits for who does.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stria {

struct JobFound {
  bool gone = false;   // there is no such thread any more, or it cannot be seen
  uint64_t start = 0;  // when it began, in ticks since the machine's start: tells it from a later one with its number
  std::string job;     // as of job_name.h
};

// Of /proc/PID/stat; none if it is not understood.
std::optional<uint64_t> ParseStartTicks(std::string_view stat);

// The text of a job ad that a process (of that user) names; "" if it cannot be had without waiting for a server, or the process
// might not read it itself: anybody may name any path. So only regular files of local disks, with no symlink on the way, whose names
// the kernel has in memory, and which are the user's or everybody's to read.
std::string ReadJobAd(const std::string& path, uint32_t uid);

class JobFinder {
 public:
  explicit JobFinder(std::string proc = "/proc");
  JobFound Find(uint32_t thread) const;

 private:
  const std::string proc_;
  const bool ours_;  // its pid namespace is that of the mount and of the kernel's requests
};

}  // namespace stria
