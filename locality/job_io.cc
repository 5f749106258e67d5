#include "locality/job_io.h"

#include <algorithm>
#include <charconv>

namespace stria {
namespace {

template <class Number>
bool ParseNumber(std::string_view digits, Number* to) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *to);
  return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
}

// False: a number is none, or one is missing.
bool ParseCounters(std::string_view rest, JobShare* out) {
  int seen = 0;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const size_t equals = part.find('=');
    if (equals == part.npos) return false;
    const std::string_view key = part.substr(0, equals), value = part.substr(equals + 1);
    JobIo& io = out->io;
    bool good = true;
    if (key == "local") good = ParseNumber(value, &io.fetched.local_bytes);
    else if (key == "network") good = ParseNumber(value, &io.fetched.network_bytes);
    else if (key == "reconstructed") good = ParseNumber(value, &io.fetched.reconstructed_bytes);
    else if (key == "read") good = ParseNumber(value, &io.read_bytes);
    else if (key == "written") good = ParseNumber(value, &io.written_bytes);
    else if (key == "operations") good = ParseNumber(value, &io.operations);
    else if (key == "waited_ns") good = ParseNumber(value, &io.waited_ns);
    else if (key == "idle_ns") good = ParseNumber(value, &out->idle_ns);
    else continue;
    if (!good) return false;
    ++seen;
  }
  return seen == 8;
}

}  // namespace

JobIo& JobIo::operator+=(const JobIo& more) {
  fetched += more.fetched;
  read_bytes += more.read_bytes;
  written_bytes += more.written_bytes;
  operations += more.operations;
  waited_ns += more.waited_ns;
  return *this;
}

JobIo JobIo::Since(const JobIo& earlier) const {
  JobIo d = *this;
  d.fetched.local_bytes -= earlier.fetched.local_bytes;
  d.fetched.network_bytes -= earlier.fetched.network_bytes;
  d.fetched.reconstructed_bytes -= earlier.fetched.reconstructed_bytes;
  d.read_bytes -= earlier.read_bytes;
  d.written_bytes -= earlier.written_bytes;
  d.operations -= earlier.operations;
  d.waited_ns -= earlier.waited_ns;
  return d;
}

std::string JobsText(const std::vector<JobShare>& jobs) {
  std::string out;
  for (const JobShare& j : jobs) {
    out += j.job + " " + ReadTallyText(j.io.fetched) + ",read=" + std::to_string(j.io.read_bytes) + ",written=" + std::to_string(j.io.written_bytes) +
           ",operations=" + std::to_string(j.io.operations) + ",waited_ns=" + std::to_string(j.io.waited_ns) +
           ",idle_ns=" + std::to_string(j.idle_ns) + "\n";
  }
  return out;
}

Result<std::vector<JobShare>> ParseJobs(std::string_view text) {
  std::vector<JobShare> out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t space = line.find(' ');
    JobShare share;
    share.job = line.substr(0, space);
    if (space == line.npos || space == 0 || !ParseCounters(line.substr(space + 1), &share)) {
      return Error(FsError::kCorrupt, "'" + std::string(line) + "' does not say what a job has read and written");
    }
    out.push_back(std::move(share));
  }
  return out;
}

}  // namespace stria
