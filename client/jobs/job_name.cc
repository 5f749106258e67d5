#include "client/jobs/job_name.h"

#include <algorithm>

#include "locality/job_io.h"

namespace stria {
namespace {

constexpr size_t kMaxDigits = 20;
constexpr size_t kMaxPathBytes = 4095;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= kMaxDigits && std::all_of(text.begin(), text.end(), IsDigit);
}
bool IsPlain(char c) { return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.'; }

// Up to the separator, which goes, too.
std::string_view TakeUpTo(std::string_view* rest, char separator) {
  const std::string_view part = rest->substr(0, rest->find(separator));
  rest->remove_prefix(std::min(rest->size(), part.size() + 1));
  return part;
}

// "slot1_1" of "slot1_1@pc7"; "" if it is no name of a slot.
std::string PlainSlot(std::string_view text) {
  text = text.substr(0, text.find('@'));
  const bool good = text.size() > 4 && text.size() <= 32 && text.starts_with("slot") && IsDigit(text[4]) && std::all_of(text.begin(), text.end(), IsPlain);
  return good ? std::string(text) : "";
}

std::string SlotOf(std::string_view component) {
  const size_t at = component.rfind("slot");
  return component.starts_with("condor_") && at != component.npos ? PlainSlot(component.substr(at)) : "";
}

// The value of an integer attribute of an ad, of a line as "ClusterId = 12".
std::string_view AdNumber(std::string_view line, std::string_view name) {
  if (!line.starts_with(name)) return "";
  line.remove_prefix(name.size());
  const auto skip = [&] { line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t"))); };
  skip();
  if (!line.starts_with('=')) return "";
  line.remove_prefix(1);
  skip();
  line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
  return IsNumber(line) ? line : "";
}

}  // namespace

std::string JobOfCgroup(std::string_view text) {
  std::string condor;
  while (!text.empty()) {
    // "5:memory:/slurm/uid_1000/job_12/step_0", "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0"
    std::string_view path = TakeUpTo(&text, '\n');
    TakeUpTo(&path, ':');
    TakeUpTo(&path, ':');
    bool below_slurm = false, below_condor = false;
    while (!path.empty()) {
      const std::string_view component = TakeUpTo(&path, '/');
      if (below_slurm && component.starts_with("job_") && IsNumber(component.substr(4))) return "slurm:" + std::string(component.substr(4));
      if (below_condor && condor.empty()) {
        if (const std::string slot = SlotOf(component); !slot.empty()) condor = "condor:" + slot;
      }
      below_slurm = below_slurm || component.find("slurm") != component.npos;
      below_condor = below_condor || component.find("condor") != component.npos;
    }
  }
  return condor;
}

JobEnvironment ParseJobEnvironment(std::string_view environment) {
  JobEnvironment out;
  while (!environment.empty()) {
    std::string_view value = TakeUpTo(&environment, '\0');
    const std::string_view name = TakeUpTo(&value, '=');
    if (name == "SLURM_JOB_ID" && IsNumber(value)) out.slurm_job = value;
    if (name == "_CONDOR_JOB_AD" && value.starts_with('/') && value.size() <= kMaxPathBytes) out.condor_ad = value;
    if (name == "_CONDOR_SLOT") out.condor_slot = PlainSlot(value);
  }
  return out;
}

std::string CondorJobId(std::string_view ad) {
  std::string cluster, process;
  while (!ad.empty()) {
    const std::string_view line = TakeUpTo(&ad, '\n');
    if (const auto n = AdNumber(line, "ClusterId"); !n.empty()) cluster = n;
    if (const auto n = AdNumber(line, "ProcId"); !n.empty()) process = n;
  }
  return cluster.empty() || process.empty() ? "" : cluster + "." + process;
}

std::string JobName(const std::string& of_cgroup, const JobEnvironment& environment, std::string_view ad) {
  if (of_cgroup.starts_with("slurm:")) return of_cgroup;
  if (const std::string id = CondorJobId(ad); !id.empty()) return "condor:" + id;
  if (!of_cgroup.empty()) return of_cgroup;
  if (!environment.condor_ad.empty() && !environment.condor_slot.empty()) return "condor:" + environment.condor_slot;
  if (!environment.slurm_job.empty()) return "slurm:" + environment.slurm_job;
  return kNoJob;
}

}  // namespace stria
