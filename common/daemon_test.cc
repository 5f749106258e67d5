#include "common/daemon.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "common/temp_dir.h"

namespace stria {
namespace {

class TestDaemon final : public DaemonFrame {
 public:
  ~TestDaemon() override { scope_.CancelAll(); }
  Task<void> Wait() {
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGINT);
    while (true) co_await Sleep(kSecond);
  }
  Task<void> ServeAndStop() {
    SayReady();
    kill(getpid(), SIGTERM);
    while (true) co_await Sleep(kSecond);
  }
  Task<void> Break() {
    Fail(Error(FsError::kIo, "the disk has gone"));
    co_return;
  }
  Task<void> End() {
    executor_.Stop();
    co_return;
  }
  Task<void> HangUp() {
    kill(getpid(), SIGHUP);
    while (reloads == 0) co_await Sleep(kMillisecond);
    executor_.Stop();
  }
  int shutdowns = 0, reloads = 0;

 private:
  void Reload() override { ++reloads; }
  Task<void> Shutdown() override {
    ++shutdowns;
    co_await Sleep(20 * kMillisecond);
    executor_.Stop();
  }
};

TEST(DaemonFrame, ShutsDownOnceAtASignal) {
  BlockStopSignals();
  TestDaemon d;
  EXPECT_EQ(d.Run(d.Wait()), 0);
  EXPECT_EQ(d.shutdowns, 1);
}

// The messages that systemd gets on its socket.
TEST(DaemonFrame, TellsWhenItServesAndWhenItStops) {
  BlockStopSignals();
  // an abstract name: a directory's path may be too long
  const std::string path = "@stria-daemon-test-" + std::to_string(getpid());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path + 1, sizeof address.sun_path - 1, 1);
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), length), 0);
  setenv("NOTIFY_SOCKET", path.c_str(), 1);
  TestDaemon d;
  EXPECT_EQ(d.Run(d.ServeAndStop()), 0);
  unsetenv("NOTIFY_SOCKET");
  std::string heard;
  char text[256];
  for (ssize_t n = 0; (n = recv(fd, text, sizeof text, 0)) > 0;) heard += std::string(text, static_cast<size_t>(n)) + ";";
  close(fd);
  EXPECT_EQ(heard, "READY=1;STOPPING=1;");
}

TEST(DaemonFrame, GoesOnAtSighup) {
  BlockStopSignals();
  TestDaemon d;
  EXPECT_EQ(d.Run(d.HangUp()), 0);
  EXPECT_EQ(d.reloads, 1);
  EXPECT_EQ(d.shutdowns, 0);
}

TEST(DaemonFrame, EndsByItselfToo) {
  BlockStopSignals();
  TestDaemon ends;
  EXPECT_EQ(ends.Run(ends.End()), 0);
  EXPECT_EQ(ends.shutdowns, 0);
  TestDaemon fails;
  EXPECT_EQ(fails.Run(fails.Break()), 1);
}

TEST(LoadClusterKeys, SaysWhoElseReadsThem) {
  const TempDir dir;
  const std::string path = std::string(dir.path()) + "/key";
  std::ofstream(path) << "1 00";
  for (const auto& [mode, warned] : {std::pair{0600, false}, {0400, false}, {0640, false}, {0644, true}, {0660, true}, {0606, true}}) {
    chmod(path.c_str(), static_cast<mode_t>(mode));
    const std::string said = WhoReadsClusterKeys(path);
    EXPECT_EQ(!said.empty(), warned) << std::oct << mode << said;
    if (warned) EXPECT_NE(said.find("chmod 600 " + path), std::string::npos) << said;
  }
}

TEST(LoadClusterKeys, SaysWhichFile) {
  const TempDir dir;
  const std::string path = std::string(dir.path()) + "/key";
  auto missing = LoadClusterKeys(path);
  EXPECT_EQ(missing.code(), FsError::kNoEnt);
  EXPECT_NE(missing.error().message.find(path), std::string::npos);
  std::ofstream(path) << "nonsense";
  auto bad = LoadClusterKeys(path);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().ToString().find(path), std::string::npos);
}

}  // namespace
}  // namespace stria
