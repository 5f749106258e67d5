#include "client/jobs/job_finder.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "client/jobs/job_name.h"
#include "common/io/unique_fd.h"
#include "locality/job_io.h"

namespace stria {
namespace {

constexpr size_t kMaxStatBytes = 4 * 1024;
constexpr size_t kMaxCgroupBytes = 16 * 1024;
constexpr size_t kMaxEnvironmentBytes = 256 * 1024;
constexpr size_t kMaxAdBytes = 256 * 1024;
constexpr int kStartField = 19;  // of the fields behind the name

// As much as there is, up to so many bytes. nullopt: it cannot be opened.
std::optional<std::string> ReadUpTo(const std::string& path, size_t most) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.ok()) return std::nullopt;
  std::string text(most, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = read(fd.get(), text.data() + have, text.size() - have);
    if (n <= 0) break;
    have += static_cast<size_t>(n);
  }
  text.resize(have);
  return text;
}

}  // namespace

std::optional<uint64_t> ParseStartTicks(std::string_view stat) {
  // "17 (a name) S 1 ...": the name may contain anything.
  const size_t name_end = stat.rfind(") ");
  if (name_end == stat.npos) return std::nullopt;
  stat.remove_prefix(name_end + 2);
  for (int field = 0; field < kStartField; ++field) {
    const size_t space = stat.find(' ');
    if (space == stat.npos) return std::nullopt;
    stat.remove_prefix(space + 1);
  }
  const std::string_view digits = stat.substr(0, stat.find_first_of(" \n"));
  uint64_t ticks = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ticks);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return ticks;
}

std::string ReadJobAd(const std::string& path, uint32_t uid) {
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_CACHED | RESOLVE_NO_SYMLINKS;
  const UniqueFd place(static_cast<int>(syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
  if (!place.ok()) return "";
  struct statx is = {};
  if (statx(place.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MODE | STATX_UID, &is) != 0) return "";
  const bool may_read = is.stx_uid == uid || (is.stx_mode & S_IROTH) != 0;
  // A file of a block device: others have no major number, and may be a server's.
  if (!S_ISREG(is.stx_mode) || is.stx_dev_major == 0 || !may_read) return "";
  return ReadUpTo("/proc/self/fd/" + std::to_string(place.get()), kMaxAdBytes).value_or("");
}

JobFinder::JobFinder(std::string proc) : proc_(std::move(proc)), ours_([this] {
  char self[32] = {};
  const ssize_t n = readlink((proc_ + "/self").c_str(), self, sizeof(self) - 1);
  return n > 0 && std::string_view(self, static_cast<size_t>(n)) == std::to_string(getpid());
}()) {}

JobFound JobFinder::Find(uint32_t thread) const {
  JobFound found;
  found.job = kNoJob;
  if (!ours_ || thread == 0) return found;
  const std::string of_thread = proc_ + "/" + std::to_string(thread);
  const std::optional<std::string> stat_text = ReadUpTo(of_thread + "/stat", kMaxStatBytes);
  const std::optional<uint64_t> start = stat_text ? ParseStartTicks(*stat_text) : std::nullopt;
  found.gone = !start;
  if (!start) return found;
  found.start = *start;
  const std::string of_cgroup = JobOfCgroup(ReadUpTo(of_thread + "/cgroup", kMaxCgroupBytes).value_or(""));
  JobEnvironment environment;
  std::string ad;
  if (!of_cgroup.starts_with("slurm:")) {  // else it would change nothing
    environment = ParseJobEnvironment(ReadUpTo(of_thread + "/environ", kMaxEnvironmentBytes).value_or(""));
    struct stat owner = {};
    if (!environment.condor_ad.empty() && ::stat(of_thread.c_str(), &owner) == 0) ad = ReadJobAd(environment.condor_ad, owner.st_uid);
  }
  found.job = JobName(of_cgroup, environment, ad);
  return found;
}

}  // namespace stria
