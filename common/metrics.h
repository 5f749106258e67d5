// What a program tells Prometheus: made anew for each scrape from counters that the program has anyway, on its executor's thread,
// so that no request pays for it.
//
// Names follow Prometheus' rules: stria_ (or process_) first; counters end in _total; base units (_seconds, _bytes, timestamps in
// seconds since 1970); labels have few values (methods, nodes, disks), never names of files or numbers of sessions. MetricFamilies
// holds to these with CHECK, and docs/monitoring/README.md lists all names.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/latency_histogram.h"

namespace stria {

// The metrics of one scrape. Not thread-safe.
class MetricFamilies {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // `always`: labels that every metric gets, for programs of which a machine has several.
  explicit MetricFamilies(Labels always = {}) : always_(std::move(always)) {}

  // REQUIRES of all: a name has one kind and one help, and no two metrics of it have the same labels.
  void Counter(const std::string& name, const std::string& help, double value, const Labels& labels = {});
  void Gauge(const std::string& name, const std::string& help, double value, const Labels& labels = {});
  void Histogram(const std::string& name, const std::string& help, const LatencyHistogram& histogram, const Labels& labels = {});
  // The end of a certificate, seconds since 1970.
  void CertificateEnd(int64_t not_after_s);

  // In order of their names. Nothing is left here.
  std::vector<prometheus::MetricFamily> Take();

 private:
  prometheus::ClientMetric& Add(const std::string& name, const std::string& help, prometheus::MetricType type, const Labels& labels);

  Labels always_;
  std::map<std::string, prometheus::MetricFamily> by_name_;
};

// stria_build_info, and of this process: memory, processor time, open files, and when it began. Reads /proc, no disk. Any thread.
void AddProgramMetrics(const std::string& program, MetricFamilies* out);

// Prometheus' text form (0.0.4).
std::string MetricsText(const std::vector<prometheus::MetricFamily>& families);

}  // namespace stria
