#include "common/metrics.h"

#include <cstdio>

namespace stria {
namespace {

// Buckets that are shown: 1 µs to 69 s, 512 B to 64 MiB, 1 to 2^20.
struct Range {
  int first, last;
  double scale;
};
Range RangeOf(MetricUnit unit) {
  switch (unit) {
    case MetricUnit::kSeconds:
      return {10, 36, 1e-9};
    case MetricUnit::kBytes:
      return {9, 26, 1};
    case MetricUnit::kCount:
      return {0, 20, 1};
  }
  return {0, 64, 1};
}

std::string Number(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", v);
  return text;
}

std::string LabelText(const Metrics::Labels& labels) {
  std::string out;
  for (const auto& [key, value] : labels) {
    if (!out.empty()) out += ',';
    out += key + "=\"";
    for (const char c : value) {
      if (c == '\n') {
        out += "\\n";
        continue;
      }
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    out += '"';
  }
  return out;
}

std::string Braced(const std::string& labels) { return labels.empty() ? "" : "{" + labels + "}"; }

bool IsMetricName(const std::string& name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

}  // namespace

uint64_t Histogram::count() const {
  uint64_t n = 0;
  for (const auto& b : buckets_) n += b.load(std::memory_order_relaxed);
  return n;
}

uint64_t Histogram::Quantile(double q) const {
  const uint64_t total = count();
  if (total == 0) return 0;
  const double want = q * static_cast<double>(total);
  double below = 0;
  for (int b = 0; b < kBuckets; ++b) {
    const auto here = static_cast<double>(bucket(b));
    if (here > 0 && below + here >= want) {
      if (b == 0) return 0;
      const double low = static_cast<double>(uint64_t{1} << (b - 1));
      const double share = (want - below) / here;
      return static_cast<uint64_t>(low + low * (share > 0 ? share : 0) * 0.999999);
    }
    below += here;
  }
  return UINT64_MAX;
}

Metrics::Metric& Metrics::Get(const std::string& name, const std::string& help, Kind kind, MetricUnit unit,
                              const Labels& labels) {
  CHECK(IsMetricName(name), "bad name of a metric: " + name);
  std::lock_guard<std::mutex> lock(mu_);
  auto [it, fresh] = families_.try_emplace(name);
  Family& family = it->second;
  if (fresh) {
    family.kind = kind;
    family.help = help;
    family.unit = unit;
  }
  CHECK(family.kind == kind && family.unit == unit, "two kinds of metric with one name: " + name);
  auto& metric = family.by_labels[LabelText(labels)];
  if (!metric) metric = std::make_unique<Metric>();
  return *metric;
}

MetricCounter& Metrics::GetCounter(const std::string& name, const std::string& help, const Labels& labels) {
  return Get(name, help, Kind::kCounter, MetricUnit::kCount, labels).counter;
}

Gauge& Metrics::GetGauge(const std::string& name, const std::string& help, const Labels& labels) {
  return Get(name, help, Kind::kGauge, MetricUnit::kCount, labels).gauge;
}

Histogram& Metrics::GetHistogram(const std::string& name, const std::string& help, MetricUnit unit,
                                 const Labels& labels) {
  return Get(name, help, Kind::kHistogram, unit, labels).histogram;
}

void Metrics::AddCallback(const std::string& name, const std::string& help, const Labels& labels,
                          std::function<double()> value) {
  Metric& metric = Get(name, help, Kind::kCallback, MetricUnit::kCount, labels);
  std::lock_guard<std::mutex> lock(mu_);
  metric.callback = std::move(value);
}

void Metrics::ExposeHistogram(const std::string& name, const std::string& labels, MetricUnit unit,
                              const Histogram& h, std::string* out) {
  const Range range = RangeOf(unit);
  const std::string comma = labels.empty() ? "" : labels + ",";
  uint64_t below = 0;
  for (int b = 0; b < Histogram::kBuckets; ++b) {
    below += h.bucket(b);
    if (b < range.first || b > range.last) continue;
    // Bucket b ends with the whole number 2^b - 1; "less or equal 2^b" is easier to read.
    const double le = static_cast<double>(uint64_t{1} << b) * range.scale;
    *out += name + "_bucket{" + comma + "le=\"" + Number(le) + "\"} " + std::to_string(below) + "\n";
  }
  *out += name + "_bucket{" + comma + "le=\"+Inf\"} " + std::to_string(below) + "\n";
  *out += name + "_sum" + Braced(labels) + " " + Number(static_cast<double>(h.sum()) * range.scale) + "\n";
  *out += name + "_count" + Braced(labels) + " " + std::to_string(below) + "\n";
}

std::string Metrics::Expose() const {
  std::lock_guard<std::mutex> lock(mu_);
  std::string out;
  for (const auto& [name, family] : families_) {
    static constexpr const char* kTypes[] = {"counter", "gauge", "histogram", "gauge"};
    out += "# HELP " + name + " " + family.help + "\n# TYPE " + name + " " +
           kTypes[static_cast<size_t>(family.kind)] + "\n";
    for (const auto& [labels, metric] : family.by_labels) {
      const std::string line = name + Braced(labels) + " ";
      switch (family.kind) {
        case Kind::kCounter:
          out += line + std::to_string(metric->counter.value()) + "\n";
          break;
        case Kind::kGauge:
          out += line + std::to_string(metric->gauge.value()) + "\n";
          break;
        case Kind::kHistogram:
          ExposeHistogram(name, labels, family.unit, metric->histogram, &out);
          break;
        case Kind::kCallback:
          if (metric->callback) out += line + Number(metric->callback()) + "\n";
          break;
      }
    }
  }
  return out;
}

}  // namespace stria
