// `stria top` and `stria stats --by job`: who reads and writes how much. Pure; times are the caller's clock, in nanoseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/meta_api.h"
#include "locality/job_io.h"
#include "tools/cli/json.h"

namespace stria::cli {

// ---- Jobs of a mount

std::string RenderJobs(const std::vector<JobShare>& jobs);
Json JobsJson(const std::vector<JobShare>& jobs);

// ---- Counters of whoever reads and writes, at some moments

struct TopCounters {
  std::string name, place;   // as people know them: of a client with its node, of a job with its mount point
  bool began_here = false;   // who is new in a sample has counted from zero since the one before
  uint64_t local_bytes = 0, network_bytes = 0, decoded_bytes = 0, written_bytes = 0, operations = 0;
  std::optional<uint64_t> read_bytes;  // that were given to programs
  std::optional<int64_t> waited_ns;
};
struct TopSample {
  int64_t at_ns = 0;
  std::map<std::string, TopCounters> counters;  // by what stays the same between samples
};
TopSample SampleOfClients(const StatusReply& s, int64_t at_ns);
// Adds those of one mount.
void AddJobs(const std::string& mount, const std::vector<JobShare>& jobs, TopSample* to);

// A second's worth.
struct TopRow {
  std::string name, place;
  double local = 0, network = 0, decoded = 0, written = 0, operations = 0;
  std::optional<double> read, waiting;  // waiting: how many requests were under way, in the mean
};
struct TopRates {
  double seconds = 0;        // between the samples
  std::vector<TopRow> rows;  // most bytes first
};

// The last samples, as far back as `window_ns`: clients tell what they have done every few seconds only.
class TopWindow {
 public:
  explicit TopWindow(int64_t window_ns) : window_ns_(window_ns) {}
  void Add(TopSample sample);
  // As of the newest sample. Who was not there before (or has not told anything), or whose counters have fallen, has rates of 0.
  TopRates Rates() const;

 private:
  const int64_t window_ns_;
  std::deque<TopSample> samples_;  // oldest first
};

// "CLIENT", "NODE" or "JOB", "MOUNT" are the heads of the first columns. At most `most` rows (0: all), and a line that tells of more.
std::string RenderTop(const TopRates& rates, const std::string& name, const std::string& place, size_t most);
Json TopJson(const TopRates& rates, const std::string& name, const std::string& place);

}  // namespace stria::cli
