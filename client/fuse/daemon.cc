#include "client/fuse/daemon.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "common/sentence.h"

namespace stria {
namespace {

constexpr int kDiedExit = 1;

void WriteAll(int fd, const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the starter is gone
    at += static_cast<size_t>(n);
  }
}

// From the child: its exit code as a byte, then a sentence.
[[noreturn]] void WaitForChild(int fd) {
  std::string said;
  char part[512];
  while (true) {
    const ssize_t n = read(fd, part, sizeof(part));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    said.append(part, static_cast<size_t>(n));
  }
  if (said.empty()) {
    SaySentence("stria-mount", "it ended before the mount worked; its log may say why");
    _exit(kDiedExit);
  }
  if (said.size() > 1) SaySentence("stria-mount", std::string_view(said).substr(1));
  std::fflush(stderr);
  _exit(static_cast<unsigned char>(said[0]));
}

}  // namespace

Result<Daemon> Daemon::Start(bool foreground) {
  if (foreground) return Daemon(-1);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, "make a pipe");
  const pid_t child = fork();
  if (child < 0) return ErrnoError(errno, "fork");
  if (child > 0) {
    close(ends[1]);
    WaitForChild(ends[0]);
  }
  close(ends[0]);
  setsid();
  return Daemon(ends[1]);
}

Daemon::Daemon(Daemon&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Daemon::~Daemon() {
  if (fd_ >= 0) close(fd_);
}

void Daemon::Ready() {
  if (fd_ < 0) return;
  (void)!chdir("/");
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0) {
    for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
    if (null > 2) close(null);
  }
  WriteAll(fd_, std::string(1, '\0'));
  close(std::exchange(fd_, -1));
}

void Daemon::Failed(const std::string& sentence, int exit_code) {
  if (fd_ < 0) {
    SaySentence("stria-mount", sentence);
    return;
  }
  WriteAll(fd_, std::string(1, static_cast<char>(exit_code)) + sentence);
  close(std::exchange(fd_, -1));
}

}  // namespace stria
