// What each job (of Slurm, HTCondor) has read and written through a mount. Counted by client/jobs; printed as user.stria.jobs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "locality/read_tally.h"

namespace stria {

inline constexpr char kJobsXattr[] = "user.stria.jobs";  // of whatever is in the mount: it is of all of it
inline constexpr char kNoJob[] = "other";                // processes of no job, and jobs that are not listed any more

struct JobIo {
  ReadTally fetched;           // for its reads, and ahead of them
  uint64_t read_bytes = 0;     // that it was given, from wherever
  uint64_t written_bytes = 0;
  uint64_t operations = 0;     // requests of the kernel that were answered
  int64_t waited_ns = 0;       // until each of these was answered; waiting for locks of programs does not count
  JobIo& operator+=(const JobIo& more);
  // REQUIRES: `earlier` is of the same counters, at an earlier time.
  JobIo Since(const JobIo& earlier) const;
  bool operator==(const JobIo&) const = default;
};

struct JobShare {
  std::string job;      // "slurm:123", "condor:12.0", "other"; no space in it
  JobIo io;
  int64_t idle_ns = 0;  // since its last request
  bool operator==(const JobShare&) const = default;
};

// A line for each: "slurm:123 local=N,network=N,reconstructed=N,read=N,written=N,operations=N,waited_ns=N,idle_ns=N".
std::string JobsText(const std::vector<JobShare>& jobs);
// The inverse; unknown keys are skipped. kCorrupt if a line has no name, or one of the keys is missing or no number.
Result<std::vector<JobShare>> ParseJobs(std::string_view text);

}  // namespace stria
