// What `stria doctor` thinks of what it has seen. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/doctor/facts.h"
#include "tools/cli/json.h"

namespace stria::cli::doctor {

// The numbers are exit codes.
enum class Verdict : uint8_t { kOk = 0, kWarning = 1, kProblem = 2 };
const char* VerdictName(Verdict v);  // "ok", "warning", "problem"

struct Check {
  std::string area;     // "names", "clock", "network", "disks", "kernel", "limits", "versions", "certificates", "cluster", "metadata"
  Verdict verdict = Verdict::kOk;
  std::string sentence;  // what is so
  std::string action;    // what to do; "" if nothing
};

// In the order of the areas; at least one of each that there is something to say of.
std::vector<Check> Judge(const Facts& facts);
Verdict WorstOf(const std::vector<Check>& checks);

std::string RenderChecks(const std::vector<Check>& checks);
Json ChecksJson(const std::vector<Check>& checks);

// {6, 1} of "6.1.0-13-amd64"; {0, 0} if it is none.
std::pair<int, int> KernelOf(const std::string& release);
// "0.9" of "0.9.0 (commit 0123456789ab)": what decides who talks to whom. "" if it is none.
std::string ReleaseOf(const std::string& version);

}  // namespace stria::cli::doctor
