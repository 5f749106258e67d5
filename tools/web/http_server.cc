#include "tools/web/http_server.h"

#include <civetweb.h>

#include <array>
#include <exception>
#include <utility>

#include "common/log.h"
#include "common/printable.h"

namespace stria::web {
namespace {

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kHeaders[] =
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n";

const char* Words(int code) {
  switch (code) {
    case 200: return "OK";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
  }
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const ListenAt& at, Serve serve) {
  mg_init_library(0);
  std::unique_ptr<HttpServer> server(new HttpServer(at, std::move(serve)));
  const std::string ports = FormatListen(at), threads = std::to_string(kThreads), queue = std::to_string(kQueue),
                    bytes = std::to_string(kMaxRequestBytes), timeout = std::to_string(kRequestTimeoutMs);
  std::array<const char*, 13> options = {
      "listening_ports",    ports.c_str(),   "num_threads",        threads.c_str(), "connection_queue", queue.c_str(), "max_request_size", bytes.c_str(),
      "request_timeout_ms", timeout.c_str(), "enable_keep_alive", "no",            nullptr};
  mg_callbacks callbacks = {};
  callbacks.begin_request = &HttpServer::OnRequest;
  callbacks.log_message = &HttpServer::OnLog;
  server->context_ = mg_start(&callbacks, server.get(), options.data());
  if (server->context_ == nullptr) {
    return Error(FsError::kUnavailable, "cannot listen on " + ports + ": another program may have that port, or this machine not that address (--listen)");
  }
  mg_server_port port = {};
  if (mg_get_server_ports(server->context_, 1, &port) == 1 && port.port > 0) server->at_.port = static_cast<uint16_t>(port.port);
  return server;
}

HttpServer::~HttpServer() {
  if (context_ != nullptr) mg_stop(context_);
  mg_exit_library();
}

int HttpServer::OnLog(const mg_connection*, const char* message) {
  LogWarning("web server: {}", Printable(message));
  return 1;
}

WebReply HttpServer::ReplyTo(const std::string& method, const char* host, const char* path) const {
  if (method != "GET" && method != "HEAD") return {405, kText, "only GET: nothing can be changed here\n"};
  if (at_.loopback && !IsLoopbackHost(host == nullptr ? "" : host)) {
    return {403, kText, "this is served to this machine only: ask for it as localhost or 127.0.0.1\n"};
  }
  try {
    return serve_(path == nullptr ? "" : path);
  } catch (const std::exception& e) {  // of memory, or of JSON
    LogError("web server: {}", Printable(e.what()));
    return {500, kText, "this failed; the log says more\n"};
  }
}

int HttpServer::OnRequest(mg_connection* connection) {
  const mg_request_info* request = mg_get_request_info(connection);
  const auto* self = static_cast<const HttpServer*>(request->user_data);
  const std::string method = request->request_method == nullptr ? "" : request->request_method;
  const WebReply reply = self->ReplyTo(method, mg_get_header(connection, "Host"), request->local_uri);
  mg_printf(connection, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s%s\r\n", reply.code, Words(reply.code),
            reply.type.c_str(), reply.body.size(), reply.code == 405 ? "Allow: GET, HEAD\r\n" : "", kHeaders);
  if (method != "HEAD") mg_write(connection, reply.body.data(), reply.body.size());
  return reply.code;  // handled
}

}  // namespace stria::web
