#include "server/disk_silence.h"

#include <optional>
#include <utility>

#include "common/exec/passed.h"
#include "common/log.h"

namespace stria {
namespace {

}  // namespace

DiskSilence::Wait::Wait(DiskSilence* disk) : disk_(disk) {
  disk_->silence_.Asked(Executor::Current().NowNs());
  disk_->Expect();
}

Error DiskSilence::error() const { return Error(FsError::kUnavailable, name_ + " does not answer"); }

void DiskSilence::Expect() {
  const std::optional<int64_t> doubt_ns = silence_.DoubtNs();
  if (doubt_.pending() || probing_ || !doubt_ns) return;
  Executor::Current().StartTimer(&doubt_, *doubt_ns, [this] {
    if (!silence_.InDoubt(Executor::Current().NowNs())) return Expect();
    probing_ = true;
    scope_.Spawn(Probe());
  });
}

Task<void> DiskSilence::AskOnce() {
  co_await ask_();
  asking_ = false;
  answered_.Pulse();
}

Task<void> DiskSilence::Probe() {
  const Executor& ex = Executor::Current();
  const int64_t sent_ns = ex.NowNs();
  asking_ = true;
  scope_.Spawn(AskOnce());
  while (asking_) {
    const int64_t wait_ns = silence_.ProbeNs();
    if (co_await WithTimeout(wait_ns, Passed(&answered_)) || !asking_ || silence_.lost()) continue;
    LogWarning("{} does not answer: others are told to do without it until it does", name_);
    silence_.Lost(ex.NowNs());
    found_.Pulse();
  }
  if (silence_.lost()) LogInfo("{} answers again", name_);
  silence_.ProbeAnswered(ex.NowNs() - sent_ns);
  silence_.Heard(ex.NowNs());
  probing_ = false;
  Expect();
}

}  // namespace stria
