// Runs the receivers of events: programs that get bytes on standard input, bounded in time. Blocking; one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"

namespace stria::cli {

inline constexpr size_t kMaxReceiverInput = 32 * 1024;  // a pipe takes it at once

// With this program's environment and `more`, in a process group of its own, which is killed after `timeout_ns`. An error says what
// became of it if it is anything but exit 0.
Result<void> RunReceiver(const std::vector<std::string>& argv, const std::vector<std::pair<std::string, std::string>>& more,
                         const std::string& input, int64_t timeout_ns);

// The first of these that can be executed; "" if none can.
std::string FirstProgram(const std::vector<std::string>& paths);

// "" if there is none. Other errors: it cannot be read.
Result<std::string> ReadStateFile(const std::string& path);
// In one step, and durable on return. Makes the last directory of the path (0700) if it is not there.
Result<void> WriteStateFile(const std::string& path, const std::string& content);

}  // namespace stria::cli
