#include "server/data_metrics.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/exec/sim_run.h"
#include "common/metrics.h"
#include "server/disk_times.h"

namespace stria {
namespace {

std::string TextOf(const DataFigures& figures) {
  MetricFamilies out;
  AddDataMetrics(figures, &out);
  return "\n" + MetricsText(out.Take());
}

bool Has(const std::string& text, const std::string& line) { return text.find("\n" + line + "\n") != std::string::npos; }

TEST(DiskTimes, CallsAreTimedToTheirEnd) {
  SimExecutor ex(1);
  auto times = std::make_shared<DiskTimes>();
  std::optional<DiskTimes::Call> read(std::in_place, times, DiskWork::kRead);
  std::optional<DiskTimes::Call> sync(std::in_place, times, DiskWork::kSync);
  EXPECT_EQ(times->running, 2u);
  RunSim(ex, []() -> Task<void> { co_await Sleep(2 * kSecond); }());
  read.reset();
  EXPECT_EQ(times->running, 1u);
  EXPECT_EQ(times->took[static_cast<size_t>(DiskWork::kRead)].sum_ns(), static_cast<uint64_t>(2 * kSecond));
  EXPECT_EQ(times->took[static_cast<size_t>(DiskWork::kSync)].count(), 0u);
  const std::weak_ptr<DiskTimes> kept = times;
  times.reset();
  EXPECT_FALSE(kept.expired());  // a call that outlives its disk
  sync.reset();
  EXPECT_TRUE(kept.expired());
}

TEST(DataMetrics, DisksThatCanAndCannotBeUsed) {
  SimExecutor ex(1);
  const auto times = std::make_shared<DiskTimes>();
  { const DiskTimes::Call call(times, DiskWork::kWrite); }
  DataFigures f;
  f.registered = true;
  f.clock_ahead_ns = -1500 * kMillisecond;
  DiskUsage usage;
  usage.capacity_bytes = 1000;
  usage.read_us = 2500;
  usage.read_errors = 3;
  f.disks.push_back({"d1", usage, 7, times.get()});
  f.disks.push_back({"d2", std::nullopt, 0, nullptr});
  usage.failed = true;
  f.disks.push_back({"d3", usage, 0, nullptr});
  const std::string text = TextOf(f);
  EXPECT_TRUE(Has(text, "stria_disk_failed{disk=\"d1\"} 0")) << text;
  EXPECT_TRUE(Has(text, "stria_disk_failed{disk=\"d2\"} 1")) << text;
  EXPECT_TRUE(Has(text, "stria_disk_failed{disk=\"d3\"} 1")) << text;
  EXPECT_TRUE(Has(text, "stria_disk_capacity_bytes{disk=\"d1\"} 1000")) << text;
  EXPECT_EQ(text.find("stria_disk_capacity_bytes{disk=\"d2\"}"), std::string::npos) << text;
  EXPECT_TRUE(Has(text, "stria_disk_read_median_seconds{disk=\"d1\"} 0.0025")) << text;
  EXPECT_TRUE(Has(text, "stria_disk_read_errors_total{disk=\"d1\"} 3")) << text;
  EXPECT_TRUE(Has(text, "stria_disk_operation_duration_seconds_count{disk=\"d1\",operation=\"write\"} 1")) << text;
  EXPECT_TRUE(Has(text, "stria_disk_operation_duration_seconds_count{disk=\"d1\",operation=\"read\"} 0")) << text;
  EXPECT_TRUE(Has(text, "stria_data_clock_offset_seconds -1.5")) << text;
  EXPECT_TRUE(Has(text, "stria_data_registered 1")) << text;
}

TEST(DataMetrics, WhatIsNotKnownIsNotTold) {
  const std::string text = TextOf({});
  EXPECT_EQ(text.find("clock_offset"), std::string::npos) << text;
  EXPECT_EQ(text.find("certificate"), std::string::npos) << text;
  EXPECT_TRUE(Has(text, "stria_data_registered 0")) << text;
}

}  // namespace
}  // namespace stria
