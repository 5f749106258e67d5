#include "common/quick_wake.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "common/temp_dir.h"

namespace stria {
namespace {

// The device is a file here: its content shows that it was opened.
class QuickWakeTest : public ::testing::Test {
 protected:
  QuickWakeTest() : device_(dir_.path() + "/cpu_dma_latency") { std::ofstream(device_).flush(); }

  // All of them come within `gap_ns` of each other.
  static int64_t Requests(QuickWake& wake, int64_t now_ns, int count, int64_t gap_ns) {
    for (int i = 0; i < count; ++i) wake.Note(now_ns += gap_ns);
    return now_ns;
  }
  static bool Becomes(const std::function<bool()>& what) {
    for (int i = 0; i < 2000; ++i) {
      if (what()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  std::optional<int32_t> Written() const {
    std::ifstream in(device_, std::ios::binary);
    int32_t value;
    if (!in.read(reinterpret_cast<char*>(&value), sizeof value)) return std::nullopt;
    return value;
  }

  TempDir dir_;
  std::string device_;
};

TEST_F(QuickWakeTest, IsHeldWhileRequestsAreDense) {
  QuickWake wake(7, device_);
  Requests(wake, 0, 1 + QuickWake::kDenseStreak, QuickWake::kDenseNs);
  ASSERT_TRUE(Becomes([&] { return Written() == 7; }));
  EXPECT_TRUE(Becomes([&] { return !wake.held(); })) << "nothing comes any more";
  // And again, as soon as it has let go of the device.
  std::filesystem::resize_file(device_, 0);
  int64_t now_ns = kSecond;
  EXPECT_TRUE(Becomes([&] {
    now_ns = Requests(wake, now_ns + kSecond, 1 + QuickWake::kDenseStreak, QuickWake::kDenseNs / 2);
    return Written() == 7;
  }));
}

TEST_F(QuickWakeTest, StaysHeldWhileAnyCome) {
  QuickWake wake(0, device_);
  int64_t now_ns = Requests(wake, 0, 1 + QuickWake::kDenseStreak, QuickWake::kDenseNs);
  const auto hold = std::chrono::nanoseconds(QuickWake::kHoldNs);
  bool was_held = false;
  auto noted = std::chrono::steady_clock::now(), late = noted;
  for (int i = 0; i < 600; ++i) {
    wake.Note(++now_ns);
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    const bool held = wake.held();
    const auto now = std::chrono::steady_clock::now();
    if (now - noted >= hold / QuickWake::kLeast) late = now;  // a busy machine may stop this thread
    noted = now;
    if (was_held && now - late > 3 * hold) EXPECT_TRUE(held) << i;
    was_held = held;
  }
  EXPECT_EQ(Written(), 0);
}

TEST_F(QuickWakeTest, FewRequestsAreNotWorthIt) {
  QuickWake wake(0, device_);
  int64_t now_ns = 0;
  for (int i = 0; i < 100; ++i) {
    now_ns = Requests(wake, now_ns + kSecond, QuickWake::kDenseStreak, QuickWake::kDenseNs);
    now_ns = Requests(wake, now_ns, 4, QuickWake::kDenseNs + 1);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(Written(), std::nullopt);
}

TEST_F(QuickWakeTest, OffOrWithoutTheDeviceItDoesNothing) {
  QuickWake off(std::nullopt, device_), absent(0, device_ + ".none");
  for (QuickWake* wake : {&off, &absent}) Requests(*wake, 0, 100, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(off.held());
  EXPECT_FALSE(absent.held());
  EXPECT_EQ(Written(), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(device_ + ".none"));
}

TEST(WakeLatency, IsRead) {
  EXPECT_EQ(*ParseWakeLatency("off", "haltpoll"), std::nullopt);
  EXPECT_EQ(*ParseWakeLatency("auto", "haltpoll"), 0);
  EXPECT_EQ(*ParseWakeLatency("auto", "intel_idle"), 10);
  EXPECT_EQ(*ParseWakeLatency("auto", ""), 10);
  EXPECT_EQ(*ParseWakeLatency("auto", "none"), std::nullopt);
  EXPECT_EQ(*ParseWakeLatency("5", "none"), 5);
  EXPECT_EQ(*ParseWakeLatency("0", ""), 0);
  EXPECT_EQ(*ParseWakeLatency("1000000", ""), 1'000'000);
  for (const char* bad : {"", "on", "-1", "1000001", "5us", "99999999999"}) {
    EXPECT_EQ(ParseWakeLatency(bad, "").code(), FsError::kInval) << bad;
  }
}

}  // namespace
}  // namespace stria
