// Serves a program's metrics over HTTP (GET /metrics) by prometheus-cpp, and writes them into a file for node_exporter.
//
// The threads of the HTTP server own nothing of the program's: for each scrape they post a question to its executor and wait for
// the answer, for kScrapeNs at most. A program whose executor is stuck then still says what it is, and stria_scrape_answered 0.
//
// Whoever can connect reads everything: names of nodes, disks and mounts, and how much is going on; no names of files. There is
// neither TLS nor a password, so it is off unless an address is given, and that had better be of the loopback or of a network of
// administrators.
#pragma once

#include <prometheus/collectable.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/exec/executor.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "common/metrics.h"

namespace prometheus {
class Exposer;
}  // namespace prometheus

namespace stria {

inline constexpr int64_t kScrapeNs = 5 * kSecond;
inline constexpr int64_t kMetricsFileNs = 15 * kSecond;  // between two writings of the file

struct MetricsSource {
  std::string program;            // "stria-data"
  MetricFamilies::Labels always;  // of every metric
  // What the program counts, on the executor's thread; it does not wait for anything.
  std::function<void(MetricFamilies*)> gather;
};

// Asks the executor for the metrics. Collect: any thread but the executor's.
class ExecutorMetrics final : public prometheus::Collectable {
 public:
  // `executor` outlives it.
  ExecutorMetrics(Executor* executor, MetricsSource source, int64_t wait_ns = kScrapeNs);
  ~ExecutorMetrics() override { Close(); }
  std::vector<prometheus::MetricFamily> Collect() const override;
  // The same on the executor's thread, without waiting.
  std::vector<prometheus::MetricFamily> CollectHere() const;
  // From its return on `gather` is not called any more, and nobody waits. Any thread.
  void Close();

 private:
  struct State {
    MetricsSource source;
    std::mutex gathering;  // held while source.gather runs
    std::mutex mu;
    std::condition_variable changed;
    bool closed = false;  // guarded by mu, and set while gathering is held
  };
  struct Asked;
  static std::vector<prometheus::MetricFamily> Whole(const MetricsSource& source, MetricFamilies families, bool answered);

  Executor* const executor_;
  const int64_t wait_ns_;
  const std::shared_ptr<State> state_;
};

class MetricsServer {
 public:
  // `address` is IP:PORT (IPv6: [IP]:PORT; port 0: any). kInval for another text, kUnavailable if it cannot be had; a sentence.
  // Executor's thread, or before it runs. `executor` outlives the server.
  static Result<std::unique_ptr<MetricsServer>> Start(const std::string& address, Executor* executor, MetricsSource source);
  // Scrapes under way end first.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;
  uint16_t port() const { return port_; }

 private:
  MetricsServer(std::shared_ptr<ExecutorMetrics> metrics, std::unique_ptr<prometheus::Exposer> exposer, uint16_t port);

  const std::shared_ptr<ExecutorMetrics> metrics_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  const uint16_t port_;
};

// kInval, a sentence, for what is no address to serve metrics on.
Result<void> CheckMetricsAddress(const std::string& address);
// kInval, a sentence, for a file that node_exporter would not read: it takes *.prom only.
Result<void> CheckMetricsFile(const std::string& path);

// Replaces the file as a whole: who reads sees the old or the new one. Readable for everybody. Blocks.
Result<void> WriteMetricsFile(const std::string& path, const std::string& text);

// Writes the metrics into `path` at once and every kMetricsFileNs, until it is destroyed. An error is logged, and it goes on. `pool`
// does what blocks; it and the executor, which is the current one, outlive the task. Whoever ends it removes the file: what is old
// would look as if it were new.
Task<void> KeepMetricsFile(std::string path, Pool* pool, MetricsSource source);

}  // namespace stria
