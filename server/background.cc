#include "server/background.h"

#include "common/exec/passed.h"

namespace stria {
namespace {

constexpr int64_t kWorthWakingNs = 1 * kMillisecond;  // earlier than it would look by itself

}  // namespace

GateUse& GateUse::operator=(GateUse&& o) noexcept {
  if (this == &o) return *this;
  End();
  gate_ = std::exchange(o.gate_, nullptr);
  bytes_ = o.bytes_;
  began_ns_ = o.began_ns_;
  background_ = o.background_;
  return *this;
}

void GateUse::End() {
  if (gate_ != nullptr) std::exchange(gate_, nullptr)->End(bytes_, began_ns_, background_);
}

GateUse BackgroundGate::Foreground(uint64_t bytes) {
  const int64_t now = Executor::Current().NowNs();
  share_.ForegroundBegan(now);
  return GateUse(this, bytes, now, false);
}

Task<GateUse> BackgroundGate::Background(uint64_t bytes) {
  const int64_t asked_ns = Executor::Current().NowNs();
  const SemaphoreHold turn = co_await Hold(turn_);
  int64_t now = Executor::Current().NowNs();
  for (int64_t at = share_.MayBeginAt(now); at > now; at = share_.MayBeginAt(now)) {
    wait_until_ns_ = at;
    co_await WithTimeout(at - now, Passed(&look_again_));
    now = Executor::Current().NowNs();
  }
  wait_until_ns_ = INT64_MIN;
  share_.BackgroundBegan(bytes, now);
  stats_.background_bytes += bytes;
  stats_.waited_ns += static_cast<uint64_t>(now - asked_ns);
  co_return GateUse(this, bytes, now, true);
}

void BackgroundGate::End(uint64_t bytes, int64_t began_ns, bool background) {
  const int64_t now = Executor::Current().NowNs();
  if (background) share_.BackgroundEnded(began_ns);
  else share_.ForegroundEnded(bytes, now);
  if (wait_until_ns_ > now && share_.MayBeginAt(now) < wait_until_ns_ - kWorthWakingNs) look_again_.Pulse();
}

}  // namespace stria
