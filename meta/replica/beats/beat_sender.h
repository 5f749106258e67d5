// The beats of a desk (beat_desk.h) through a connector, on whichever executor it runs: in a process that of the beat thread
// (meta/beat_thread.h), in simulations the only one.
//
// For its executor's thread. What it is given outlives it, but for the desk, which it shares.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "api/beat_api.h"
#include "common/exec/task.h"
#include "meta/replica/beats/beat_desk.h"

namespace stria {

class BeatSender {
 public:
  // `alarm` is told, in a sentence, when the watchdog stops the beats; may be empty.
  BeatSender(std::shared_ptr<BeatDesk> desk, BeatConnector* connector, std::function<void(const std::string&)> alarm);

  // Until it is destroyed.
  Task<void> Run();

 private:
  Task<void> Send(DueBeat beat);
  void Watch(int64_t now_ns);

  const std::shared_ptr<BeatDesk> desk_;
  BeatConnector* const connector_;
  const std::function<void(const std::string&)> alarm_;
  const int64_t look_ns_;
  bool hangs_ = false;
  TaskScope calls_;  // last: its tasks use everything above
};

// Answers others' beats.
class BeatAnswerer final : public BeatService {
 public:
  explicit BeatAnswerer(std::shared_ptr<BeatDesk> desk) : desk_(std::move(desk)) {}
  Task<Result<BeatReply>> Beat(BeatRequest request) override { co_return desk_->Answer(request, Executor::Current().NowNs()); }

 private:
  const std::shared_ptr<BeatDesk> desk_;
};

}  // namespace stria
