#include "common/metrics.h"

#include <dirent.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "common/check.h"
#include "common/program.h"

namespace stria {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

bool IsMetricName(const std::string& name) {
  if (!name.starts_with("stria_") && !name.starts_with("process_")) return false;
  return std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

double Seconds(int64_t ns) { return static_cast<double>(ns) / static_cast<double>(kSecond); }

// "0.9.0 (commit 0123456789ab)"
std::pair<std::string, std::string> VersionAndCommit() {
  const std::string all = Version();
  const size_t open = all.find(" (commit ");
  if (open == std::string::npos) return {all, "unknown"};
  const size_t begin = all.find_last_of(' ') + 1;
  return {all.substr(0, open), all.substr(begin, all.find(')', begin) - begin)};
}

// Fields of /proc/self/stat after the name, which may have anything in it: the first is the state, number 3 of proc(5).
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return {};
  std::istringstream rest(text.substr(end_of_name + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

int64_t BootSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("btime ")) return std::strtoll(line.c_str() + 6, nullptr, 10);
  }
  return 0;
}

double OpenFiles() {
  DIR* dir = opendir("/proc/self/fd");
  if (dir == nullptr) return 0;
  double n = 0;
  while (const dirent* e = readdir(dir)) n += e->d_name[0] != '.';
  closedir(dir);
  return n - 1;  // without the one that counts
}

}  // namespace

ClientMetric& MetricFamilies::Add(const std::string& name, const std::string& help, MetricType type, const Labels& labels) {
  CHECK(IsMetricName(name), "bad name of a metric: " + name);
  CHECK((type == MetricType::Counter) == name.ends_with("_total"), "counters, and nothing else, end in _total: " + name);
  auto [it, fresh] = by_name_.try_emplace(name);
  MetricFamily& family = it->second;
  if (fresh) {
    family.name = name;
    family.help = help;
    family.type = type;
  }
  CHECK(family.type == type && family.help == help, "two metrics have one name: " + name);
  ClientMetric metric;
  for (const Labels* some : {static_cast<const Labels*>(&always_), &labels}) {
    for (const auto& [key, value] : *some) metric.label.push_back({key, value});
  }
  family.metric.push_back(std::move(metric));
  return family.metric.back();
}

void MetricFamilies::Counter(const std::string& name, const std::string& help, double value, const Labels& labels) {
  Add(name, help, MetricType::Counter, labels).counter.value = value;
}

void MetricFamilies::Gauge(const std::string& name, const std::string& help, double value, const Labels& labels) {
  Add(name, help, MetricType::Gauge, labels).gauge.value = value;
}

void MetricFamilies::Histogram(const std::string& name, const std::string& help, const LatencyHistogram& histogram,
                               const Labels& labels) {
  ClientMetric::Histogram& out = Add(name, help, MetricType::Histogram, labels).histogram;
  out.sample_count = histogram.count();
  out.sample_sum = static_cast<double>(histogram.sum_ns()) / static_cast<double>(kSecond);
  uint64_t below = 0;
  for (size_t i = 0; i < LatencyHistogram::kEndsNs.size(); ++i) {
    below += histogram.bucket(i);
    out.bucket.push_back({below, Seconds(LatencyHistogram::kEndsNs[i])});
  }
  out.bucket.push_back({histogram.count(), std::numeric_limits<double>::infinity()});
}

void MetricFamilies::CertificateEnd(int64_t not_after_s) {
  Gauge("stria_certificate_expiry_timestamp_seconds", "When the program's own certificate ends, in seconds since 1970.",
        static_cast<double>(not_after_s));
}

std::vector<MetricFamily> MetricFamilies::Take() {
  std::vector<MetricFamily> out;
  for (auto& [_, family] : std::exchange(by_name_, {})) out.push_back(std::move(family));
  return out;
}

void AddProgramMetrics(const std::string& program, MetricFamilies* out) {
  const auto [version, commit] = VersionAndCommit();
  out->Gauge("stria_build_info", "1; the labels say what runs.", 1, {{"program", program}, {"version", version}, {"commit", commit}});
  const std::vector<std::string> stat = StatFields();
  constexpr size_t kUserTicks = 11, kSystemTicks = 12, kBeganTicks = 19, kResidentPages = 21;  // less 3 of proc(5)
  if (stat.size() <= kResidentPages) return;
  const auto number = [&stat](size_t i) { return std::strtod(stat[i].c_str(), nullptr); };
  const auto ticks_per_s = static_cast<double>(sysconf(_SC_CLK_TCK));
  out->Counter("process_cpu_seconds_total", "Processor time of the process, in user and kernel mode.",
               (number(kUserTicks) + number(kSystemTicks)) / ticks_per_s);
  out->Gauge("process_start_time_seconds", "When the process began, in seconds since 1970.",
             static_cast<double>(BootSeconds()) + number(kBeganTicks) / ticks_per_s);
  out->Gauge("process_resident_memory_bytes", "Memory of the process that is in use.",
             number(kResidentPages) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  out->Gauge("process_open_fds", "Open files and sockets of the process.", OpenFiles());
}

std::string MetricsText(const std::vector<MetricFamily>& families) { return prometheus::TextSerializer().Serialize(families); }

}  // namespace stria
