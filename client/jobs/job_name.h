// Which job a process belongs to, from what /proc says of it. Pure; any bytes are taken.
//
// Names are "slurm:123" (Slurm's number of the job), "condor:12.0" (HTCondor's cluster and process), or "condor:slot1_1" where the
// number is not known; kNoJob (locality/job_io.h) for everybody else: systemd's sessions, scopes and services. At most kMaxJobNameBytes,
// of letters, digits and ".:_-".
//
// A user may give a process an environment, and a cgroup below the own ones, that claim another job. Nothing is decided by these names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stria {

inline constexpr size_t kMaxJobNameBytes = 64;

// From /proc/PID/cgroup, of either version: "slurm:123", "condor:slot1_1", or "".
std::string JobOfCgroup(std::string_view text);

struct JobEnvironment {
  std::string slurm_job;    // SLURM_JOB_ID
  std::string condor_ad;    // _CONDOR_JOB_AD: a path, of any bytes
  std::string condor_slot;  // _CONDOR_SLOT
};
// From /proc/PID/environ. What has not the form that it must have is left out.
JobEnvironment ParseJobEnvironment(std::string_view environment);

// "12.0" from the text of a job ad; "" if it does not say.
std::string CondorJobId(std::string_view ad);

// All of it together. A job of Slurm that the cgroup names wins: the process cannot leave that. `ad`: the text of condor_ad, or "".
std::string JobName(const std::string& of_cgroup, const JobEnvironment& environment, std::string_view ad);

}  // namespace stria
