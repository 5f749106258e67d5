// Counters, gauges and histograms of a process, in Prometheus' text form.
//
// A metric lives as long as its registry; updating one is a relaxed atomic operation from any thread.
// Registering and Expose() take a lock.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/compiler.h"

namespace stria {

class MetricCounter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void Set(int64_t v) { value_.store(v, std::memory_order_relaxed); }
  void Add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// A histogram of whole numbers (nanoseconds, bytes), in buckets that end at powers of two.
class Histogram {
 public:
  static constexpr int kBuckets = 65;  // bucket b: values v with bit_width(v) == b
  void Observe(uint64_t v) {
    buckets_[static_cast<size_t>(std::bit_width(v))].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(v, std::memory_order_relaxed);
  }
  uint64_t count() const;
  uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }
  // About the value that the share q in [0, 1] of all is below; 0 if there are none.
  uint64_t Quantile(double q) const;
  uint64_t bucket(int b) const { return buckets_[static_cast<size_t>(b)].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
  std::atomic<uint64_t> sum_{0};
};

enum class MetricUnit { kSeconds, kBytes, kCount };  // kSeconds: observed in nanoseconds

class Metrics {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // The metric of this name and these labels, made at the first call. Names are
  // [a-z_][a-z0-9_]*, e.g. "stria_disk_read_bytes_total". REQUIRES: one kind and help per name.
  MetricCounter& GetCounter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& GetGauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& GetHistogram(const std::string& name, const std::string& help, MetricUnit unit,
                          const Labels& labels = {});
  // A gauge whose value Expose() asks for, on its thread.
  void AddCallback(const std::string& name, const std::string& help, const Labels& labels,
                   std::function<double()> value);

  std::string Expose() const;

 private:
  enum class Kind { kCounter, kGauge, kHistogram, kCallback };
  struct Metric {
    MetricCounter counter;
    Gauge gauge;
    Histogram histogram;
    std::function<double()> callback;
  };
  struct Family {
    Kind kind;
    std::string help;
    MetricUnit unit;
    std::map<std::string, std::unique_ptr<Metric>> by_labels;
  };
  Metric& Get(const std::string& name, const std::string& help, Kind kind, MetricUnit unit,
              const Labels& labels);
  static void ExposeHistogram(const std::string& name, const std::string& labels, MetricUnit unit,
                              const Histogram& h, std::string* out);

  mutable std::mutex mu_;
  std::map<std::string, Family> families_;  // guarded by mu_
};

}  // namespace stria
