// Serves GET and HEAD over plain HTTP, each reply of its own connection. Bounded: kThreads requests at once, kQueue connections that
// wait, request lines and headers of kMaxRequestBytes, kRequestTimeoutMs for a client to send one and to take the reply; a body is not read.
// Every reply tells the browser to use nothing from elsewhere (Content-Security-Policy and the like).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/error.h"
#include "tools/web/listen.h"

struct mg_context;
struct mg_connection;

namespace stria::web {

inline constexpr int kThreads = 8;
inline constexpr int kQueue = 32;
inline constexpr size_t kMaxRequestBytes = 8 * 1024;
inline constexpr int kRequestTimeoutMs = 10'000;

struct WebReply {
  int code = 200;
  std::string type;  // of the content: "text/plain; charset=utf-8"
  std::string body;
};

class HttpServer {
 public:
  // Of the path that is asked for; a query is left out. Any of kThreads threads at once.
  using Serve = std::function<WebReply(const std::string& path)>;

  // kUnavailable if the address cannot be had.
  static Result<std::unique_ptr<HttpServer>> Start(const ListenAt& at, Serve serve);
  // Waits for requests under way.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Where it listens, with the port that it got.
  const ListenAt& at() const { return at_; }

 private:
  HttpServer(const ListenAt& at, Serve serve) : at_(at), serve_(std::move(serve)) {}
  static int OnRequest(mg_connection* connection);
  static int OnLog(const mg_connection* connection, const char* message);
  WebReply ReplyTo(const std::string& method, const char* host, const char* path) const;

  ListenAt at_;
  const Serve serve_;
  mg_context* context_ = nullptr;
};

}  // namespace stria::web
