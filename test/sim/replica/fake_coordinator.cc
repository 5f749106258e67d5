#include "test/sim/replica/fake_coordinator.h"

namespace stria {

class FakeCoordinator::Handle final : public Coordinator {
 public:
  Handle(FakeCoordinator* owner, std::string host) : owner_(owner), host_(std::move(host)) {}
  Task<Result<CoordinatorValue>> Read() override { return owner_->Call(host_, {}); }
  Task<Result<CoordinatorValue>> Swap(CoordinatorValue old, std::string value) override {
    return owner_->Call(host_, {true, std::move(old), std::move(value)});
  }

 private:
  FakeCoordinator* const owner_;
  const std::string host_;
};

std::unique_ptr<Coordinator> FakeCoordinator::For(std::string host) { return std::make_unique<Handle>(this, std::move(host)); }

Task<Result<CoordinatorValue>> FakeCoordinator::Call(std::string host, Request request) {
  if (request.value.size() > kMaxCoordinatorValueBytes) co_return Error(FsError::kBadRequest, "the value is too large");
  Answer answer;
  if (executor_->rng().Percent(options_.doubled_percent)) scope_.Spawn(Carry(host, request, answer));
  scope_.Spawn(Carry(std::move(host), std::move(request), answer));
  std::optional<Result<CoordinatorValue>> got = co_await WithTimeout(options_.deadline_ns, answer.Take());
  if (!got) co_return Error(FsError::kDeadline, "the coordinator did not answer in time");
  co_return std::move(*got);
}

Task<void> FakeCoordinator::Carry(std::string host, Request request, Answer answer) {
  Random& rng = executor_->rng();
  const int64_t delay = static_cast<int64_t>(rng.Below(static_cast<uint64_t>(options_.delay_ns) + 1));
  const int64_t late =
      rng.Percent(options_.late_percent) ? static_cast<int64_t>(rng.Below(static_cast<uint64_t>(options_.late_ns) + 1)) : 0;
  const bool lost = rng.Percent(options_.lost_percent);
  const bool lost_back = rng.Percent(options_.lost_percent);
  const bool refused = rng.Percent(options_.refused_percent);
  const bool refused_done = rng.OneIn(2);
  co_await Sleep(delay + late);
  if (lost || !up_ || cut_to_.contains(host)) co_return;
  if (request.swap && value_ == request.old && (!refused || refused_done)) {
    const CoordinatorValue old = std::exchange(value_, request.value);
    ++changes_;
    if (told_) told_(old, request.value);
  }
  Result<CoordinatorValue> result =
      refused ? Result<CoordinatorValue>(Error(FsError::kUnavailable, "the coordinator has no leader")) : Result<CoordinatorValue>(value_);
  co_await Sleep(static_cast<int64_t>(rng.Below(static_cast<uint64_t>(options_.delay_ns) + 1)));
  if (lost_back || cut_from_.contains(host)) co_return;
  answer.Set(std::move(result));
}

}  // namespace stria
