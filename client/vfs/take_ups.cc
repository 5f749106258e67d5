#include "client/vfs/take_ups.h"

namespace stria {
namespace {
constexpr int64_t kAgainNs = 1 * kSecond;
}  // namespace

void TakeUps::Start(const InodeTakeUpPtr& of) {
  if (of->any() && !std::exchange(of->under_way_, true)) scope_.Spawn(Run(of));
}

void TakeUps::CommittedTo(const InodeTakeUpPtr& of, uint64_t head_seal) {
  if (!of->any() || head_seal <= of->upto_) return;
  of->Forget();
  needs_.ended(of);
}

Task<void> TakeUps::Run(InodeTakeUpPtr of) {
  while (of->any()) {
    co_await needs_.flush(of);
    CommittedTo(of, needs_.head_seal(of));  // it was cut off
    if (of->any()) co_await Sleep(kAgainNs);
  }
  of->under_way_ = false;
  needs_.maybe_unused(of);
}

}  // namespace stria
