// Processes that outlive the command which started them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"

namespace stria::cli {

struct StartedProcess {
  pid_t pid = 0;
  uint64_t start_time = 0;
};

// Starts `argv` in a session of its own, in /, without standard input, with stdout and stderr appended
// to `log`, and no other descriptor. Errors: it could not be executed.
Result<StartedProcess> StartDetached(const std::vector<std::string>& argv, const std::string& log);

// True while that very process runs (a zombie does not). Reaps it if it is a child.
bool IsRunning(pid_t pid, uint64_t start_time);

// Not an error if it is gone already.
void SendSignal(pid_t pid, uint64_t start_time, int signal);
// False if it still runs at the end.
bool WaitGone(pid_t pid, uint64_t start_time, int64_t timeout_ns);
// TERM, and KILL after `patience_ns`. False if even that did not help.
bool StopProcess(pid_t pid, uint64_t start_time, int64_t patience_ns);

// The path of stria-meta, stria-data or stria-mount: in $STRIA_BIN_DIR, beside this program, where Bazel built it, or in
// /usr/lib/stria. kNoEnt with the remedy.
Result<std::string> FindBinary(const std::string& name);

// Runs a program to its end, with this program's output (`quiet`: its stdout goes to stderr). Returns its exit status; 128 if a
// signal ended it.
Result<int> RunProgram(const std::vector<std::string>& argv, bool quiet = false);

// The last `bytes` of a file; "" if it cannot be read.
std::string ReadTail(const std::string& path, size_t bytes);

}  // namespace stria::cli
