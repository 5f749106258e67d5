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
#include <functional>
#include <string>

#include "common/notify.h"
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
  // Until the time is up, or `enough` has come true.
  Task<void> ServeUntil(std::function<bool()> enough) {
    SayReady();
    for (int i = 0; i < 3000 && !enough(); ++i) co_await Sleep(10 * kMillisecond);
    executor_.Stop();
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
  std::string status;

 private:
  std::string Status() override { return status; }
  void Reload() override {
    ++reloads;
    if (!status.empty()) status = "all is well again";
  }
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

// systemd's socket, and what comes there.
class Systemd {
 public:
  Systemd() {
    const std::string path = "@stria-daemon-test-" + std::to_string(getpid());  // of no directory, whose path may be too long
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path + 1, sizeof address.sun_path - 1, 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), length), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~Systemd() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    close(fd_);
  }
  void ExpectsSignsOfLife(int64_t within_ns) { setenv("WATCHDOG_USEC", std::to_string(within_ns / 1000).c_str(), 1); }
  // All since the beginning.
  const std::string& Heard() {
    char text[1024];
    for (ssize_t n = 0; (n = recv(fd_, text, sizeof text, 0)) > 0;) heard_ += std::string(text, static_cast<size_t>(n)) + ";";
    return heard_;
  }
  bool HasHeard(const std::string& what) { return Heard().find(what) != std::string::npos; }

 private:
  const int fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  std::string heard_;
};

TEST(DaemonFrame, TellsWhenItServesAndWhenItStops) {
  BlockStopSignals();
  Systemd systemd;
  TestDaemon d;
  EXPECT_EQ(d.Run(d.ServeAndStop()), 0);
  EXPECT_EQ(systemd.Heard(), "READY=1;STOPPING=1;");
}

TEST(DaemonFrame, WaitsForNobodyWhoDoesNotListen) {
  Systemd systemd;
  for (int i = 0; i < 10'000; ++i) TellAlive();  // many more than the socket takes
  TellStatus("well");
  std::string heard = systemd.Heard();
  EXPECT_TRUE(heard.starts_with("WATCHDOG=1;WATCHDOG=1;")) << heard;
  EXPECT_FALSE(systemd.HasHeard("STATUS")) << "there was no room for it";
  TellAlive();
  EXPECT_EQ(systemd.Heard(), heard + "WATCHDOG=1;");
}

TEST(DaemonFrame, GivesSignsOfLifeAndSaysHowItIs) {
  BlockStopSignals();
  Systemd systemd;
  systemd.ExpectsSignsOfLife(300 * kMillisecond);
  TestDaemon d;
  d.status = "2 of 2 disks";
  int looks = 0;
  EXPECT_EQ(d.Run(d.ServeUntil([&] {
    const bool alive = systemd.HasHeard("WATCHDOG=1;WATCHDOG=1;");
    if (alive && looks++ == 0) d.status = "1 of 2 disks\nMAINPID=1";  // what it says is one line, whatever is in it
    return systemd.HasHeard("STATUS=1 of");
  })), 0);
  EXPECT_TRUE(systemd.Heard().starts_with("READY=1\nSTATUS=2 of 2 disks;WATCHDOG=1;WATCHDOG=1;")) << systemd.Heard();
  EXPECT_TRUE(systemd.HasHeard(";STATUS=1 of 2 disks MAINPID=1;")) << systemd.Heard();
}

TEST(DaemonFrame, GivesNoSignOfLifeWhileItStandsStill) {
  BlockStopSignals();
  Systemd systemd;
  systemd.ExpectsSignsOfLife(30 * kMillisecond);
  TestDaemon d;
  std::string heard;
  EXPECT_EQ(d.Run(d.ServeUntil([&] {
    usleep(500'000);
    heard = systemd.Heard();
    return true;
  })), 0);
  EXPECT_EQ(heard, "READY=1;");
}

TEST(DaemonFrame, TellsOfAReload) {
  BlockStopSignals();
  Systemd systemd;
  TestDaemon d;
  d.status = "a disk is away";
  int looks = 0;
  EXPECT_EQ(d.Run(d.ServeUntil([&] {
    if (looks++ == 0) kill(getpid(), SIGHUP);
    return systemd.HasHeard("again");
  })), 0);
  EXPECT_TRUE(systemd.HasHeard(";RELOADING=1\nMONOTONIC_USEC=")) << systemd.Heard();
  EXPECT_TRUE(systemd.HasHeard(";READY=1\nSTATUS=all is well again;")) << systemd.Heard();
}

TEST(DaemonFrame, TellsOfNoReloadBeforeItServes) {
  BlockStopSignals();
  Systemd systemd;
  TestDaemon d;
  EXPECT_EQ(d.Run(d.HangUp()), 0);
  EXPECT_EQ(systemd.Heard(), "");
}

TEST(DaemonFrame, TellsWhyItFails) {
  BlockStopSignals();
  Systemd systemd;
  TestDaemon d;
  EXPECT_EQ(d.Run(d.Break()), 1);
  EXPECT_TRUE(systemd.HasHeard("STATUS=")) << systemd.Heard();
  EXPECT_TRUE(systemd.HasHeard("the disk has gone")) << systemd.Heard();
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

TEST(RefuseToStart, NoTerminalObeysIt) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(RefuseToStart("stria-data", Error(FsError::kInval, "/etc/\033[31m.toml: no such\nfile")), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "stria-data: /etc/\\033[31m.toml: no such\\nfile\n");
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
