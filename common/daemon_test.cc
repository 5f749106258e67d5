#include "common/daemon.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

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
  Task<void> Break() {
    Fail(Error(FsError::kIo, "the disk has gone"));
    co_return;
  }
  Task<void> End() {
    executor_.Stop();
    co_return;
  }
  int shutdowns = 0;

 private:
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

TEST(DaemonFrame, EndsByItselfToo) {
  BlockStopSignals();
  TestDaemon ends;
  EXPECT_EQ(ends.Run(ends.End()), 0);
  EXPECT_EQ(ends.shutdowns, 0);
  TestDaemon fails;
  EXPECT_EQ(fails.Run(fails.Break()), 1);
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
