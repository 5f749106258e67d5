#include "common/metrics.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "common/metrics_server.h"

namespace stria {
namespace {

TEST(Metrics, Text) {
  Metrics m;
  MetricCounter& reads = m.GetCounter("stria_reads_total", "Reads.", {{"disk", "n1:d\"0\""}});
  reads.Add(3);
  EXPECT_EQ(&reads, &m.GetCounter("stria_reads_total", "Reads.", {{"disk", "n1:d\"0\""}}));
  m.GetCounter("stria_reads_total", "Reads.", {{"disk", "b"}}).Add();
  m.GetGauge("stria_queue", "Queued.").Set(-5);
  m.AddCallback("stria_free_bytes", "Free.", {}, [] { return 12.5; });
  EXPECT_EQ(m.Expose(),
            "# HELP stria_free_bytes Free.\n"
            "# TYPE stria_free_bytes gauge\n"
            "stria_free_bytes 12.5\n"
            "# HELP stria_queue Queued.\n"
            "# TYPE stria_queue gauge\n"
            "stria_queue -5\n"
            "# HELP stria_reads_total Reads.\n"
            "# TYPE stria_reads_total counter\n"
            "stria_reads_total{disk=\"b\"} 1\n"
            "stria_reads_total{disk=\"n1:d\\\"0\\\"\"} 3\n");
}

TEST(Metrics, Histograms) {
  Metrics m;
  Histogram& h = m.GetHistogram("stria_read_seconds", "Times.", MetricUnit::kSeconds, {{"op", "read"}});
  EXPECT_EQ(h.Quantile(0.5), 0u);
  for (int i = 0; i < 90; ++i) h.Observe(1'000'000);
  for (int i = 0; i < 10; ++i) h.Observe(100'000'000);
  h.Observe(0);
  h.Observe(UINT64_MAX / 2);
  EXPECT_EQ(h.count(), 102u);
  EXPECT_GT(h.Quantile(0.5), 500'000u);
  EXPECT_LT(h.Quantile(0.5), 2'000'000u);
  EXPECT_GT(h.Quantile(0.95), 60'000'000u);
  const std::string text = m.Expose();
  EXPECT_NE(text.find("stria_read_seconds_bucket{op=\"read\",le=\"0.001048576\"} 91\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("stria_read_seconds_bucket{op=\"read\",le=\"+Inf\"} 102\n"), std::string::npos);
  EXPECT_NE(text.find("stria_read_seconds_count{op=\"read\"} 102\n"), std::string::npos);
}

TEST(Metrics, ManyThreads) {
  Metrics m;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&m] {
      for (int j = 0; j < 1000; ++j) {
        m.GetCounter("c", "C.").Add();
        m.GetHistogram("h", "H.", MetricUnit::kBytes).Observe(100);
      }
      (void)m.Expose();
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(m.GetCounter("c", "C.").value(), 4000u);
}

std::string Ask(uint16_t port, const std::string& request) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  EXPECT_EQ(send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string reply;
  char block[512];
  for (ssize_t n; (n = recv(fd, block, sizeof block, 0)) > 0;) reply.append(block, static_cast<size_t>(n));
  close(fd);
  return reply;
}

TEST(MetricsServer, Serves) {
  auto server = MetricsServer::Start("127.0.0.1:0", [] { return std::string("x 1\n"); }).value();
  ASSERT_GT(server->port(), 0);
  const std::string ok = Ask(server->port(), "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(ok.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(ok.ends_with("\r\n\r\nx 1\n"));
  EXPECT_TRUE(Ask(server->port(), "GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
  EXPECT_EQ(MetricsServer::Start("127.0.0.1:" + std::to_string(server->port()), [] { return ""; }).code(),
            FsError::kIo);
  for (const char* bad : {"", "nowhere", "1.2.3:x", "127.0.0.1:"}) {
    EXPECT_EQ(MetricsServer::Start(bad, [] { return ""; }).code(), FsError::kInval) << bad;
  }
}

}  // namespace
}  // namespace stria
