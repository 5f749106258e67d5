#include "common/quick_wake.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <fstream>
#include <utility>

namespace stria {
namespace {
constexpr int32_t kShallowSleepUs = 10;
}  // namespace

Result<WakeLatency> ParseWakeLatency(std::string_view text, std::string_view driver) {
  if (text == "off") return WakeLatency();
  if (text == "auto" && driver == "none") return WakeLatency();
  if (text == "auto") return WakeLatency(driver == "haltpoll" ? 0 : kShallowSleepUs);
  int32_t us = 0;
  const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), us);
  if (err != std::errc() || end != text.data() + text.size() || us < 0 || us > kMaxWakeLatencyUs) {
    return Error(FsError::kInval, "wake_latency is '" + std::string(text) + "'; give " + std::string(kWakeLatencyHelp) +
                                      " (0 to " + std::to_string(kMaxWakeLatencyUs) + ")");
  }
  return WakeLatency(us);
}

std::string IdleDriver() {
  std::ifstream in("/sys/devices/system/cpu/cpuidle/current_driver");
  std::string name;
  std::getline(in, name);
  return name;
}

QuickWake::QuickWake(WakeLatency latency, std::string device) : device_(std::move(device)) {
  if (!latency || access(device_.c_str(), W_OK) != 0) return;
  thread_ = std::thread([this, us = *latency] { Loop(us); });
  pthread_setname_np(thread_.native_handle(), "quick-wake");
}

QuickWake::~QuickWake() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
  }
  cv_.notify_one();
  thread_.join();
}

void QuickWake::Note(int64_t now_ns) {
  const int64_t before_ns = last_ns_.exchange(now_ns, std::memory_order_relaxed);
  noted_.fetch_add(1, std::memory_order_relaxed);
  if (asked_.load(std::memory_order_relaxed) || !thread_.joinable()) return;
  if (now_ns - before_ns > kDenseNs) return streak_.store(0, std::memory_order_relaxed);
  if (streak_.fetch_add(1, std::memory_order_relaxed) + 1 < kDenseStreak) return;
  streak_.store(0, std::memory_order_relaxed);
  {
    std::lock_guard<std::mutex> lock(mu_);
    asked_ = true;
  }
  cv_.notify_one();
}

void QuickWake::Loop(int32_t latency_us) {
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mu_);
      cv_.wait(lock, [this] { return asked_ || stop_; });
      if (stop_) return;
    }
    if (!Hold(latency_us)) Rest(kRestNs);
    asked_ = false;
  }
}

bool QuickWake::Hold(int32_t latency_us) {
  const int fd = open(device_.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool taken = write(fd, &latency_us, sizeof latency_us) == sizeof latency_us;
  if (taken) {
    held_ = true;
    WaitUntilFew();
    held_ = false;
  }
  close(fd);
  return taken;
}

void QuickWake::WaitUntilFew() {
  uint64_t before;
  do {
    before = noted_;
    Rest(kHoldNs);
  } while (noted_ - before >= kLeast);
}

// Or until the end.
void QuickWake::Rest(int64_t ns) {
  std::unique_lock<std::mutex> lock(mu_);
  cv_.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return stop_; });
}

}  // namespace stria
