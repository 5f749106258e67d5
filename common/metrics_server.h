// Serves GET /metrics over HTTP, from one thread of its own, one request at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/error.h"

namespace stria {

class MetricsServer {
 public:
  // `address` is "IP:PORT" (IPv6: "[IP]:PORT"; port 0: any). `text` is called on the server's thread for
  // each request, e.g. Metrics::Expose.
  static Result<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                      std::function<std::string()> text);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  uint16_t port() const { return port_; }

 private:
  MetricsServer(int listen_fd, int stop_fd, uint16_t port, std::function<std::string()> text);
  void Loop();
  void Serve(int fd);

  const int listen_fd_;
  const int stop_fd_;
  const uint16_t port_;
  const std::function<std::string()> text_;
  std::thread thread_;
};

}  // namespace stria
