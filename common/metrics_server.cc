#include "common/metrics_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <prometheus/exposer.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <utility>

#include "common/log.h"

namespace stria {
namespace {

// Of civetweb, which serves: idle connections cost a thread each, so they end soon.
constexpr char kThreads[] = "2";
constexpr char kRequestTimeoutMs[] = "10000";

constexpr char kAnsweredHelp[] = "1 if the program's own thread answered this scrape; 0 if it was stuck, then nearly all else is missing.";

}  // namespace

// One question; shared by who asks and who answers, as either may be the last.
struct ExecutorMetrics::Asked {
  bool answered = false;  // guarded by State::mu
  MetricFamilies families;
  explicit Asked(const MetricFamilies::Labels& always) : families(always) {}
};

ExecutorMetrics::ExecutorMetrics(Executor* executor, MetricsSource source, int64_t wait_ns)
    : executor_(executor), wait_ns_(wait_ns), state_(std::make_shared<State>()) {
  state_->source = std::move(source);
}

std::vector<prometheus::MetricFamily> ExecutorMetrics::Whole(const MetricsSource& source, MetricFamilies families, bool answered) {
  AddProgramMetrics(source.program, &families);
  families.Gauge("stria_scrape_answered", kAnsweredHelp, answered ? 1 : 0);
  return families.Take();
}

std::vector<prometheus::MetricFamily> ExecutorMetrics::Collect() const {
  auto asked = std::make_shared<Asked>(state_->source.always);
  executor_->Post([state = state_, asked] {
    std::lock_guard<std::mutex> gathering(state->gathering);
    {
      std::lock_guard<std::mutex> lock(state->mu);
      if (state->closed) return;
    }
    MetricFamilies families(state->source.always);
    state->source.gather(&families);
    std::lock_guard<std::mutex> lock(state->mu);
    asked->families = std::move(families);
    asked->answered = true;
    state->changed.notify_all();
  });
  bool answered;
  MetricFamilies families(state_->source.always);
  {
    std::unique_lock<std::mutex> lock(state_->mu);
    state_->changed.wait_for(lock, std::chrono::nanoseconds(wait_ns_), [&] { return asked->answered || state_->closed; });
    answered = asked->answered;
    if (answered) std::swap(families, asked->families);
  }
  return Whole(state_->source, std::move(families), answered);
}

std::vector<prometheus::MetricFamily> ExecutorMetrics::CollectHere() const {
  MetricFamilies families(state_->source.always);
  state_->source.gather(&families);
  return Whole(state_->source, std::move(families), true);
}

void ExecutorMetrics::Close() {
  std::lock_guard<std::mutex> gathering(state_->gathering);
  std::lock_guard<std::mutex> lock(state_->mu);
  state_->closed = true;
  state_->changed.notify_all();
}

Result<void> CheckMetricsAddress(const std::string& address) {
  const Error bad(FsError::kInval, "'" + address + "' is not an address to serve metrics on: write one such as 127.0.0.1:9424 or [::1]:9424");
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return bad;
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos || std::stoi(port) > 65535) return bad;
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  unsigned char binary[sizeof(in6_addr)];
  if (inet_pton(bracketed ? AF_INET6 : AF_INET, host.c_str(), binary) != 1) return bad;
  return Ok();
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address, Executor* executor, MetricsSource source) {
  RETURN_IF_ERROR(CheckMetricsAddress(address));
  auto metrics = std::make_shared<ExecutorMetrics>(executor, std::move(source));
  // The library throws, and says no more than that it did not work.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", kThreads, "request_timeout_ms", kRequestTimeoutMs, "enable_keep_alive", "no"});
    exposer->RegisterCollectable(metrics);
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (ports.empty()) return Error(FsError::kUnavailable, "metrics cannot be served on " + address);
    return std::unique_ptr<MetricsServer>(
        new MetricsServer(std::move(metrics), std::move(exposer), static_cast<uint16_t>(ports.front())));
  } catch (const std::exception&) {
    return Error(FsError::kUnavailable,
                 "metrics cannot be served on " + address + ": another program may have that port, or no interface of this machine that address");
  }
}

MetricsServer::MetricsServer(std::shared_ptr<ExecutorMetrics> metrics, std::unique_ptr<prometheus::Exposer> exposer, uint16_t port)
    : metrics_(std::move(metrics)), exposer_(std::move(exposer)), port_(port) {}

MetricsServer::~MetricsServer() {
  metrics_->Close();  // first: threads that wait for an executor that has stopped
  exposer_.reset();
}

// ---- The file -------------------------------------------------------------------------------------

Result<void> CheckMetricsFile(const std::string& path) {
  if (path.ends_with(".prom") && path.size() > 5 && !path.ends_with("/.prom")) return Ok();
  return Error(FsError::kInval, "metrics_file is '" + path + "', and node_exporter reads files only that end in .prom");
}

Result<void> WriteMetricsFile(const std::string& path, const std::string& text) {
  const std::string making = path + ".new";
  // Never what somebody else has put there: a pipe would block, a link would lead elsewhere.
  (void)unlink(making.c_str());
  const int fd = open(making.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return ErrnoError(errno, "write the metrics to " + making);
  (void)fchmod(fd, 0644);  // node_exporter runs as another user, whatever the umask is
  size_t done = 0;
  int err = 0;
  while (done < text.size() && err == 0) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n >= 0) done += static_cast<size_t>(n);
    else if (errno != EINTR) err = errno;
  }
  if (close(fd) != 0 && err == 0) err = errno;
  if (err == 0 && rename(making.c_str(), path.c_str()) != 0) err = errno;
  if (err == 0) return Ok();
  unlink(making.c_str());
  return ErrnoError(err, "write the metrics to " + path);
}

Task<void> KeepMetricsFile(std::string path, Pool* pool, MetricsSource source) {
  const ExecutorMetrics metrics(&Executor::Current(), std::move(source));
  while (true) {
    const Result<void> written =
        co_await RunOn(*pool, [path, families = metrics.CollectHere()] { return WriteMetricsFile(path, MetricsText(families)); });
    if (!written.ok()) LogWarning("{}", written.error());
    co_await Sleep(kMetricsFileNs);
  }
}

}  // namespace stria
