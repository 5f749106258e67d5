#include "meta/replica/beats/beat_sender.h"

#include <algorithm>
#include <optional>

namespace stria {
namespace {
constexpr int64_t kLooksPerBeat = 4;
}  // namespace

BeatSender::BeatSender(std::shared_ptr<BeatDesk> desk, BeatConnector* connector, std::function<void(const std::string&)> alarm)
    : desk_(std::move(desk)),
      connector_(connector),
      alarm_(std::move(alarm)),
      look_ns_(std::max<int64_t>(desk_->options().beat_ns / kLooksPerBeat, kMillisecond)) {}

Task<void> BeatSender::Run() {
  while (true) {
    const int64_t now_ns = Executor::Current().NowNs();
    Watch(now_ns);
    for (DueBeat& beat : desk_->Due(now_ns)) calls_.Spawn(Send(std::move(beat)));
    co_await Sleep(look_ns_);
  }
}

void BeatSender::Watch(int64_t now_ns) {
  const bool hangs = desk_->Hangs(now_ns);
  if (hangs == std::exchange(hangs_, hangs) || !hangs || !alarm_) return;
  alarm_("this metadata server has done no step of its work for " + std::to_string(desk_->options().watchdog_ns / kSecond) +
         " s (ha.watchdog): it tells the others no more that it is there, and another one takes over");
}

Task<void> BeatSender::Send(DueBeat beat) {
  const std::shared_ptr<BeatService> peer = connector_->ConnectBeats(beat.address);
  // A transport has deadlines of its own; this one holds whatever it does.
  std::optional<Result<BeatReply>> reply = co_await WithTimeout(desk_->options().answer_ns, peer->Beat(beat.request));
  if (!reply) reply.emplace(Error(FsError::kDeadline, "no answer in time"));
  desk_->Answered(beat, *reply, Executor::Current().NowNs());
}

}  // namespace stria
