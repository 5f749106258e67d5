#include "common/metrics.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "common/exec/loop_executor.h"
#include "common/metrics_server.h"
#include "common/temp_dir.h"

namespace stria {
namespace {

bool Has(const std::string& text, const std::string& line) { return ("\n" + text).find("\n" + line + "\n") != std::string::npos; }

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LatencyHistogram, Buckets) {
  LatencyHistogram h;
  h.Add(-5);
  h.Add(0);
  h.Add(25 * kMicrosecond);
  h.Add(25 * kMicrosecond + 1);
  h.Add(60 * kSecond);
  h.Add(60 * kSecond + 1);
  EXPECT_EQ(h.bucket(0), 3u);
  EXPECT_EQ(h.bucket(1), 1u);
  EXPECT_EQ(h.bucket(LatencyHistogram::kEndsNs.size() - 1), 1u);
  EXPECT_EQ(h.bucket(LatencyHistogram::kEndsNs.size()), 1u);
  EXPECT_EQ(h.count(), 6u);
  EXPECT_EQ(h.sum_ns(), static_cast<uint64_t>(120 * kSecond + 50 * kMicrosecond + 2));
}

TEST(Metrics, Text) {
  MetricFamilies m({{"mount", "/data"}});
  m.Counter("stria_reads_total", "Reads.", 3, {{"disk", "n1:d\"0\""}});
  m.Gauge("stria_queue", "Queued.", -5);
  m.Counter("stria_reads_total", "Reads.", 1, {{"disk", "b"}});
  EXPECT_EQ(MetricsText(m.Take()),
            "# HELP stria_queue Queued.\n"
            "# TYPE stria_queue gauge\n"
            "stria_queue{mount=\"/data\"} -5\n"
            "# HELP stria_reads_total Reads.\n"
            "# TYPE stria_reads_total counter\n"
            "stria_reads_total{mount=\"/data\",disk=\"n1:d\\\"0\\\"\"} 3\n"
            "stria_reads_total{mount=\"/data\",disk=\"b\"} 1\n");
  EXPECT_TRUE(m.Take().empty());
}

TEST(Metrics, Histograms) {
  LatencyHistogram h;
  for (int i = 0; i < 90; ++i) h.Add(1 * kMillisecond);
  for (int i = 0; i < 10; ++i) h.Add(100 * kSecond);
  MetricFamilies m;
  m.Histogram("stria_read_seconds", "Times.", h, {{"op", "read"}});
  const std::string text = MetricsText(m.Take());
  EXPECT_TRUE(Has(text, "stria_read_seconds_bucket{op=\"read\",le=\"0.0005\"} 0")) << text;
  EXPECT_TRUE(Has(text, "stria_read_seconds_bucket{op=\"read\",le=\"0.001\"} 90")) << text;
  EXPECT_TRUE(Has(text, "stria_read_seconds_bucket{op=\"read\",le=\"60\"} 90")) << text;
  EXPECT_TRUE(Has(text, "stria_read_seconds_bucket{op=\"read\",le=\"+Inf\"} 100")) << text;
  EXPECT_TRUE(Has(text, "stria_read_seconds_count{op=\"read\"} 100")) << text;
}

TEST(Metrics, OfTheProgram) {
  MetricFamilies m;
  AddProgramMetrics("stria-test", &m);
  m.CertificateEnd(1'900'000'000);
  double memory = 0, began = 0, files = 0;
  for (const prometheus::MetricFamily& f : m.Take()) {
    ASSERT_EQ(f.metric.size(), 1u) << f.name;
    const double value = f.metric[0].gauge.value;
    if (f.name == "process_resident_memory_bytes") memory = value;
    if (f.name == "process_start_time_seconds") began = value;
    if (f.name == "process_open_fds") files = value;
    if (f.name == "stria_build_info") {
      EXPECT_EQ(value, 1);
      EXPECT_EQ(f.metric[0].label[0].value, "stria-test");
      EXPECT_EQ(f.metric[0].label[1].value.find(' '), std::string::npos) << f.metric[0].label[1].value;
      EXPECT_FALSE(f.metric[0].label[2].value.empty());
    }
  }
  EXPECT_GT(memory, 100'000);
  EXPECT_GT(began, 1'000'000'000);
  EXPECT_GE(files, 3);
}

TEST(MetricsDeathTest, NamesAreChecked) {
  MetricFamilies m;
  EXPECT_DEATH(m.Counter("stria_reads", "Reads.", 1), "_total");
  EXPECT_DEATH(m.Gauge("stria_reads_total", "Reads.", 1), "_total");
  EXPECT_DEATH(m.Gauge("reads", "Reads.", 1), "bad name");
  m.Gauge("stria_queue", "Queued.", 1);
  EXPECT_DEATH(m.Gauge("stria_queue", "Other.", 1), "two metrics");
}

std::string Ask(uint16_t port, const std::string& path) {
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  EXPECT_EQ(send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string reply;
  char block[4096];
  for (ssize_t n; (n = recv(fd, block, sizeof block, 0)) > 0;) reply.append(block, static_cast<size_t>(n));
  close(fd);
  std::erase(reply, '\r');
  return reply;
}

// An executor with a thread, and a source that says on which thread it was asked.
class ServedTest : public testing::Test {
 protected:
  ServedTest() : thread_([this] { executor_.Run(); }) {}
  ~ServedTest() override {
    executor_.Stop();
    thread_.join();
  }
  MetricsSource Source() {
    return {"stria-test", {{"mount", "/x"}}, [this](MetricFamilies* out) {
              ++asked_;
              out->Gauge("stria_on_own_thread", "1 if it is.", std::this_thread::get_id() == thread_.get_id());
            }};
  }
  LoopExecutor executor_;
  std::atomic<int> asked_ = 0;
  std::thread thread_;
};

TEST_F(ServedTest, OverHttp) {
  auto server = MetricsServer::Start("127.0.0.1:0", &executor_, Source()).value();
  ASSERT_GT(server->port(), 0);
  const std::string ok = Ask(server->port(), "/metrics");
  EXPECT_TRUE(ok.starts_with("HTTP/1.1 200 OK\n")) << ok;
  EXPECT_TRUE(Has(ok, "stria_on_own_thread{mount=\"/x\"} 1")) << ok;
  EXPECT_TRUE(Has(ok, "stria_scrape_answered{mount=\"/x\"} 1")) << ok;
  EXPECT_NE(ok.find("stria_build_info{mount=\"/x\",program=\"stria-test\","), std::string::npos) << ok;
  EXPECT_TRUE(Ask(server->port(), "/etc/passwd").starts_with("HTTP/1.1 404"));
  EXPECT_EQ(asked_, 1);
  const std::string taken = "127.0.0.1:" + std::to_string(server->port());
  const auto second = MetricsServer::Start(taken, &executor_, Source());
  EXPECT_EQ(second.code(), FsError::kUnavailable);
  EXPECT_NE(second.error().message.find(taken), std::string::npos);
}

TEST(MetricsAddress, Checked) {
  for (const char* good : {"127.0.0.1:0", "0.0.0.0:9424", "[::1]:9424", "[::]:1"}) EXPECT_TRUE(CheckMetricsAddress(good).ok()) << good;
  // The last ones mean other things to the library: all addresses, TLS, a redirection, two ports.
  for (const char* bad : {"", "nowhere", "pc1:9424", "1.2.3:x", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:123456", "::1:9424", "[127.0.0.1]:9424",
                          "9424", "127.0.0.1:9424s", "127.0.0.1:9424r", "127.0.0.1:1,127.0.0.1:2"}) {
    EXPECT_EQ(CheckMetricsAddress(bad).code(), FsError::kInval) << bad;
  }
}

TEST(ExecutorMetricsTest, StuckExecutor) {
  LoopExecutor executor;  // nobody runs it
  ExecutorMetrics metrics(&executor, {"stria-test", {}, [](MetricFamilies*) { ADD_FAILURE() << "it must not be asked"; }}, 10 * kMillisecond);
  const std::string text = MetricsText(metrics.Collect());
  EXPECT_TRUE(Has(text, "stria_scrape_answered 0")) << text;
  EXPECT_NE(text.find("stria_build_info{"), std::string::npos) << text;
}

TEST(ExecutorMetricsTest, NobodyWaitsWhenItIsClosed) {
  LoopExecutor executor;
  ExecutorMetrics metrics(&executor, {"stria-test", {}, [](MetricFamilies*) { ADD_FAILURE() << "it must not be asked"; }}, 3600 * kSecond);
  std::thread scrape([&metrics] { (void)metrics.Collect(); });
  metrics.Close();
  scrape.join();
  // What was asked for runs after the end, and finds it closed.
  executor.Post([&executor] { executor.Stop(); });
  executor.Run();
}

TEST(MetricsFile, Replaced) {
  TempDir dir;
  const std::string path = dir.path() + "/stria.prom";
  EXPECT_TRUE(CheckMetricsFile(path).ok());
  for (const char* bad : {"", ".prom", "/a/.prom", "/a/b.txt", "/a/b.prom.new"}) EXPECT_EQ(CheckMetricsFile(bad).code(), FsError::kInval) << bad;
  ASSERT_TRUE(WriteMetricsFile(path, "a 1\n").ok());
  ASSERT_TRUE(WriteMetricsFile(path, "a 2\n").ok());
  EXPECT_EQ(ReadAll(path), "a 2\n");
  struct stat st = {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0644u);
  EXPECT_NE(stat((path + ".new").c_str(), &st), 0);
  // What somebody else has put in the way is not written to, and nobody waits for it.
  ASSERT_EQ(mkfifo((path + ".new").c_str(), 0600), 0);
  ASSERT_TRUE(WriteMetricsFile(path, "a 3\n").ok());
  EXPECT_EQ(ReadAll(path), "a 3\n");
  const Result<void> nowhere = WriteMetricsFile(dir.path() + "/no/stria.prom", "a 1\n");
  EXPECT_EQ(nowhere.code(), FsError::kNoEnt);
}

TEST(MetricsFile, Kept) {
  TempDir dir;
  const std::string path = dir.path() + "/stria.prom";
  LoopExecutor executor;
  executor.MakeCurrent();
  ThreadPool pool(1, "files");
  TaskScope scope;
  scope.Spawn(KeepMetricsFile(path, &pool, {"stria-test", {}, [](MetricFamilies* out) { out->Gauge("stria_x", "X.", 7); }}));
  scope.Spawn([](LoopExecutor* ex, std::string file) -> Task<void> {
    while (access(file.c_str(), F_OK) != 0) co_await Sleep(kMillisecond);
    ex->Stop();
  }(&executor, path));
  executor.Run();
  scope.CancelAll();
  const std::string text = ReadAll(path);
  EXPECT_TRUE(Has(text, "stria_x 7")) << text;
  EXPECT_TRUE(Has(text, "stria_scrape_answered 1")) << text;
}

}  // namespace
}  // namespace stria
