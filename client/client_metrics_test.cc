#include "client/client_metrics.h"

#include <gtest/gtest.h>

#include <string>

#include "common/latency_histogram.h"
#include "common/metrics.h"

namespace stria {
namespace {

std::string TextOf(const ClientFigures& figures) {
  MetricFamilies out({{"mount", "/data"}});
  AddClientMetrics(figures, &out);
  return "\n" + MetricsText(out.Take());
}

bool Has(const std::string& text, const std::string& line) { return text.find("\n" + line + "\n") != std::string::npos; }

TEST(ClientMetrics, BytesByWhereTheyCameFrom) {
  ClientFigures f;
  f.io.read_bytes = 100;
  f.io.cache_hit_bytes = 30;
  f.reads.tally = {10, 20, 5};
  const std::string text = TextOf(f);
  EXPECT_TRUE(Has(text, "stria_mount_read_bytes_total{mount=\"/data\"} 100")) << text;
  EXPECT_TRUE(Has(text, "stria_mount_fetched_bytes_total{mount=\"/data\",source=\"local\"} 10")) << text;
  EXPECT_TRUE(Has(text, "stria_mount_fetched_bytes_total{mount=\"/data\",source=\"network\"} 20")) << text;
  EXPECT_TRUE(Has(text, "stria_mount_decoded_bytes_total{mount=\"/data\"} 5")) << text;
  EXPECT_TRUE(Has(text, "stria_mount_cache_hit_bytes_total{mount=\"/data\"} 30")) << text;
}

TEST(ClientMetrics, SessionAndRequests) {
  LatencyHistogram reads, none;
  reads.Add(3 * kMillisecond);
  ClientFigures f;
  f.lease_left_ns = -5 * kSecond;
  f.losses = 1;
  f.requests = {{"read", &reads}, {"write", &none}};
  std::string text = TextOf(f);
  EXPECT_TRUE(Has(text, "stria_mount_lease_left_seconds{mount=\"/data\"} 0")) << text;
  EXPECT_TRUE(Has(text, "stria_mount_session_losses_total{mount=\"/data\"} 1")) << text;
  EXPECT_TRUE(Has(text, "stria_mount_request_duration_seconds_bucket{mount=\"/data\",request=\"read\",le=\"0.005\"} 1")) << text;
  EXPECT_EQ(text.find("request=\"write\""), std::string::npos) << text;
  EXPECT_EQ(text.find("certificate"), std::string::npos) << text;
  f.certificate_end_s = 1'900'000'000;
  text = TextOf(f);
  EXPECT_TRUE(Has(text, "stria_certificate_expiry_timestamp_seconds{mount=\"/data\"} 1900000000")) << text;
}

TEST(ClientMetrics, Jobs) {
  ClientFigures f;
  f.jobs = {{"slurm:7", {{10, 20, 5}, 40, 50, 6, 2 * kSecond}}, {"other", {}}};
  const std::string text = TextOf(f);
  EXPECT_TRUE(Has(text, "stria_mount_job_fetched_bytes_total{mount=\"/data\",batch_job=\"slurm:7\",source=\"local\"} 10")) << text;
  EXPECT_TRUE(Has(text, "stria_mount_job_fetched_bytes_total{mount=\"/data\",batch_job=\"slurm:7\",source=\"network\"} 20")) << text;
  EXPECT_TRUE(Has(text, "stria_mount_job_decoded_bytes_total{mount=\"/data\",batch_job=\"slurm:7\"} 5")) << text;
  EXPECT_TRUE(Has(text, "stria_mount_job_operations_total{mount=\"/data\",batch_job=\"slurm:7\"} 6")) << text;
  EXPECT_TRUE(Has(text, "stria_mount_job_wait_seconds_total{mount=\"/data\",batch_job=\"slurm:7\"} 2")) << text;
  EXPECT_TRUE(Has(text, "stria_mount_job_read_bytes_total{mount=\"/data\",batch_job=\"other\"} 0")) << text;
}

}  // namespace
}  // namespace stria
