#include "meta/gated_dispatcher.h"

#include <utility>

#include "common/check.h"

namespace stria {

GatedDispatcher::~GatedDispatcher() = default;

void GatedDispatcher::Open(Dispatcher* inner, std::shared_ptr<AnswerGate> gate, std::unique_ptr<PlainChanges> changes) {
  CHECK(!room_, "two lives are served at a time");
  room_ = std::make_unique<Room>();
  room_->inner = inner;
  room_->gate = std::move(gate);
  room_->changes = std::move(changes);
}

void GatedDispatcher::Close() {
  if (!room_) return;
  const std::unique_ptr<Room> room = std::move(room_);
  room->scope.CancelAll();
  // Whatever comes next: this life is over, and what it worked out may be lost.
  const Error over(FsError::kNotLeader, away_().message);
  for (const auto& [call, answer] : room->running) answer.Set(over);
}

Task<void> GatedDispatcher::Run(Room* room, uint64_t call, std::shared_ptr<const Peer> peer, std::string method, WireMessage request) {
  Result<WireMessage> reply = Error(FsError::kNotLeader);
  const Result<void> entered = co_await room->gate->Enter();
  if (entered.ok()) {
    const CommitSeq before = room->changes ? room->changes->Written() : CommitSeq();
    reply = co_await room->inner->Handle(std::move(peer), std::move(method), std::move(request));
    if (room->changes && room->changes->Written() != before) co_await room->changes->Settle();
    const Result<void> may = co_await room->gate->Leave();
    if (!may.ok()) reply = may.error();
  } else {
    reply = entered.error();
  }
  const auto it = room->running.find(call);
  const Answer answer = it->second;
  room->running.erase(it);
  answer.Set(std::move(reply));
}

Task<Result<WireMessage>> GatedDispatcher::Handle(std::shared_ptr<const Peer> peer, std::string method, WireMessage request) {
  if (!room_) co_return away_();
  const uint64_t call = ++calls_;
  const Answer answer;
  room_->running.emplace(call, answer);
  room_->scope.Spawn(Run(room_.get(), call, std::move(peer), std::move(method), std::move(request)));
  // The room may be gone when there is an answer.
  co_return co_await answer.Take();
}

}  // namespace stria
