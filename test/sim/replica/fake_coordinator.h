// A coordinator of the simulator: a linearizable value, asked over a network that loses, delays and doubles. Requests outlive who asked:
// a swap may be carried out long after its caller has given up, crashed, or started again.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "api/coordinator.h"
#include "common/exec/sim_executor.h"
#include "common/exec/task.h"

namespace stria {

struct FakeCoordinatorOptions {
  uint64_t lost_percent = 0;      // of requests, and of answers
  uint64_t doubled_percent = 0;   // of requests: carried out twice, at different times
  uint64_t late_percent = 0;      // of requests: up to late_ns later
  uint64_t refused_percent = 0;   // of requests, answered kUnavailable; half of them are carried out all the same
  int64_t late_ns = 8 * kSecond;
  int64_t delay_ns = 4 * kMillisecond;  // at most, of each request and answer
  int64_t deadline_ns = 2 * kSecond;    // of a caller
};

class FakeCoordinator {
 public:
  // `executor` outlives it.
  FakeCoordinator(SimExecutor* executor, const FakeCoordinatorOptions& options) : executor_(executor), options_(options) {}
  FakeCoordinator(const FakeCoordinator&) = delete;
  FakeCoordinator& operator=(const FakeCoordinator&) = delete;

  // As the process on `host` sees it. Outlived by this.
  std::unique_ptr<Coordinator> For(std::string host);

  void SetOptions(const FakeCoordinatorOptions& options) { options_ = options; }
  // While it is down, requests that arrive get lost.
  void SetUp(bool up) { up_ = up; }
  // Nothing of `host` arrives, or nothing arrives at it.
  void CutTo(const std::string& host, bool cut) { Set(&cut_to_, host, cut); }
  void CutFrom(const std::string& host, bool cut) { Set(&cut_from_, host, cut); }

  const CoordinatorValue& value() const { return value_; }
  uint64_t changes() const { return changes_; }
  // Is told of each change, at that moment. It may not cancel anything.
  void OnChange(std::function<void(const CoordinatorValue& old, const std::string& now)> told) { told_ = std::move(told); }

 private:
  class Handle;
  struct Request {
    bool swap = false;
    CoordinatorValue old;
    std::string value;
  };
  using Answer = OneShot<Result<CoordinatorValue>>;
  static void Set(std::set<std::string>* hosts, const std::string& host, bool in) {
    in ? static_cast<void>(hosts->insert(host)) : static_cast<void>(hosts->erase(host));
  }
  Task<Result<CoordinatorValue>> Call(std::string host, Request request);
  Task<void> Carry(std::string host, Request request, Answer answer);

  SimExecutor* const executor_;
  FakeCoordinatorOptions options_;
  bool up_ = true;
  std::set<std::string> cut_to_, cut_from_;
  CoordinatorValue value_;
  uint64_t changes_ = 0;
  std::function<void(const CoordinatorValue&, const std::string&)> told_;
  TaskScope scope_;  // requests under way
};

}  // namespace stria
