// Over real connections on the loopback.
#include "tools/web/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace stria::web {
namespace {

class Http : public testing::Test {
 protected:
  void SetUp() override {
    auto started = HttpServer::Start({"127.0.0.1", 0, true}, [](const std::string& path) {
      if (path == "/throws") throw std::runtime_error("on purpose");
      return WebReply{path == "/" ? 200 : 404, "text/plain; charset=utf-8", "asked for " + path + "\n"};
    });
    ASSERT_TRUE(started.ok()) << started.error();
    server_ = std::move(*started);
    ASSERT_GT(server_->at().port, 0);
  }
  int Connect() const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_->at().port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit = {30, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  // All that comes until the server closes.
  std::string Ask(const std::string& request) const {
    const int fd = Connect();
    std::string got;
    (void)send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    char part[4096];
    for (ssize_t n; (n = recv(fd, part, sizeof part, 0)) > 0;) got.append(part, static_cast<size_t>(n));
    close(fd);
    return got;
  }
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Http, AReplyHasItsLengthAndTheHeadersThatProtect) {
  const std::string got = Ask("GET /?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(got.starts_with("HTTP/1.1 200 OK\r\n")) << got;
  EXPECT_TRUE(got.ends_with("\r\n\r\nasked for /\n")) << got;
  for (const char* header : {"Content-Length: 12\r\n", "Content-Security-Policy: default-src 'none'; script-src 'self'", "frame-ancestors 'none'",
                             "X-Content-Type-Options: nosniff", "Referrer-Policy: no-referrer", "Cache-Control: no-store", "Connection: close"}) {
    EXPECT_NE(got.find(header), std::string::npos) << header << "\n" << got;
  }
  EXPECT_EQ(got.find("unsafe"), std::string::npos);
}

TEST_F(Http, OnlyWhatReads) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const std::string got = Ask(std::string(method) + " / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
    EXPECT_TRUE(got.starts_with("HTTP/1.1 405 ")) << method << "\n" << got;
    EXPECT_NE(got.find("Allow: GET, HEAD\r\n"), std::string::npos) << got;
  }
  const std::string head = Ask("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n")) << head;
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

TEST_F(Http, ANameOfAnotherSiteThatLeadsHereIsRefused) {
  const std::string got = Ask("GET / HTTP/1.1\r\nHost: evil.example.org\r\n\r\n");
  EXPECT_TRUE(got.starts_with("HTTP/1.1 403 ")) << got;
  EXPECT_EQ(got.find("asked for"), std::string::npos);
}

TEST_F(Http, WhatIsNoRequestHarmsNobody) {
  for (const std::string& request : {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"), std::string("\x16\x03\x01\x00\xff\r\n\r\n"), std::string("GET / HTTP/1.1\r\nHost\r\n\r\n"),
                                     "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(4 * kMaxRequestBytes, 'x') + "\r\n\r\n",
                                     "GET /" + std::string(4 * kMaxRequestBytes, 'x') + " HTTP/1.1\r\n\r\n"}) {
    const std::string got = Ask(request);
    EXPECT_EQ(got.find("200 OK"), std::string::npos) << request.substr(0, 40) << "\n" << got;
  }
  EXPECT_TRUE(Ask("GET /throws HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 500 "));
  EXPECT_TRUE(Ask("GET /a/../../b HTTP/1.1\r\nHost: localhost\r\n\r\n").find("..") == std::string::npos);
  EXPECT_TRUE(Ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_F(Http, OneWhoSaysNothingDoesNotKeepOthersOut) {
  std::vector<int> silent;
  for (int i = 0; i + 1 < kThreads; ++i) silent.push_back(Connect());
  EXPECT_TRUE(Ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
  for (const int fd : silent) close(fd);
}

TEST(HttpServerStart, AnAddressThatIsTaken) {
  auto first = HttpServer::Start({"127.0.0.1", 0, true}, [](const std::string&) { return WebReply(); });
  ASSERT_TRUE(first.ok()) << first.error();
  const auto second = HttpServer::Start((*first)->at(), [](const std::string&) { return WebReply(); });
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("cannot listen on 127.0.0.1:"), std::string::npos) << second.error();
}

}  // namespace
}  // namespace stria::web
