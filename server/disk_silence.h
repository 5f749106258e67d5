// Whether a disk is there at all while calls wait for it (common/silence.h). When a call has waited for a second, the disk is
// asked for a thing that it must read itself. If that takes another second, the disk is silent: waiting calls are told to do
// without it, until it answers. A busy disk answers such a question in between.
//
// One question at a time, never cut off: a hanging disk keeps the thread that asks.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/exec/task.h"
#include "common/silence.h"

namespace stria {

class DiskSilence {
 public:
  using Ask = std::function<Task<void>()>;  // ends with the answer, good or bad
  DiskSilence(std::string name, Ask ask) : name_(std::move(name)), ask_(std::move(ask)) {}

  // While this lives a call waits for the disk.
  class Wait {
   public:
    explicit Wait(DiskSilence* disk);
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait() { disk_->silence_.Ended(); }

   private:
    DiskSilence* const disk_;
  };

  bool silent() const { return silence_.lost(); }
  Event& found() { return found_; }  // pulsed when it is found silent
  Error error() const;               // for the waiting calls

 private:
  void Expect();
  Task<void> Probe();
  Task<void> AskOnce();

  const std::string name_;
  const Ask ask_;
  Silence silence_;
  Event found_;
  Event answered_;  // pulsed
  bool asking_ = false;
  bool probing_ = false;
  Timer doubt_;
  TaskScope scope_;
};

}  // namespace stria
