// Processors that wake up at once while requests come one after the other.
//
// A request passes through several threads that sleep until it comes. While all of them sleep the processors sleep, too: on a
// physical machine deeply enough to take 100 us and more to wake up, in a virtual one until the hypervisor runs them again.
// That can be most of the time of a small request. While requests are dense, a process may ask the kernel for processors that
// wake up sooner (PM QoS, https://docs.kernel.org/power/pm_qos_interface.html): it holds /dev/cpu_dma_latency open. The price
// is energy, not time: a busy processor is not affected. The kernel takes the wish back when the file is closed, however the
// process ends.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "common/error.h"
#include "common/units.h"

namespace stria {

// The time that a processor may take to wake up, in microseconds. Nothing: any time ("off").
using WakeLatency = std::optional<int32_t>;

inline constexpr std::string_view kWakeLatencyHelp = "auto, off, or microseconds";
inline constexpr int32_t kMaxWakeLatencyUs = 1'000'000;

// "off", "auto", or microseconds. "auto" depends on the processors' idle driver, `driver`. 0 where a guest's idle processor
// would go back to the hypervisor ("haltpoll"), which no other value prevents. Off without a driver ("none"), because the
// kernel's answer binds only a driver. 10 elsewhere, which allows a processor's first sleep and prevents the deep ones. kInval:
// none of these.
Result<WakeLatency> ParseWakeLatency(std::string_view text, std::string_view driver);
// The idle driver's name as the kernel gives it, "none" if there is none; "" if it cannot be read.
std::string IdleDriver();

// Holds the device while requests are dense: from the fourth that came within kDenseNs of the one before, until fewer than
// kLeast came in kHoldNs. Thread-safe. Without the right to open the device, or the device, it does nothing.
class QuickWake {
 public:
  static constexpr int64_t kDenseNs = 2 * kMillisecond;
  static constexpr int kDenseStreak = 3;
  static constexpr int64_t kHoldNs = 20 * kMillisecond;
  static constexpr uint64_t kLeast = 4;
  static constexpr int64_t kRestNs = 1 * kSecond;  // when the device could not be had

  explicit QuickWake(WakeLatency latency, std::string device = "/dev/cpu_dma_latency");
  ~QuickWake();
  QuickWake(const QuickWake&) = delete;
  QuickWake& operator=(const QuickWake&) = delete;

  // A request came. Any thread; a few nanoseconds. `now_ns` never goes back, except where threads overtake each other.
  void Note(int64_t now_ns);
  bool held() const { return held_.load(std::memory_order_relaxed); }

 private:
  void Loop(int32_t latency_us);
  bool Hold(int32_t latency_us);
  void WaitUntilFew();
  void Rest(int64_t ns);

  const std::string device_;
  std::atomic<int64_t> last_ns_{INT64_MIN / 2};
  std::atomic<uint64_t> noted_{0};
  std::atomic<int> streak_{0};
  std::atomic<bool> asked_{false};  // the thread has something to do, or does it
  std::atomic<bool> held_{false};
  std::mutex mu_;
  std::condition_variable cv_;
  bool stop_ = false;    // guarded by mu_
  std::thread thread_;   // opens and closes the device, which takes microseconds of every processor
};

}  // namespace stria
