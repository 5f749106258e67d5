// The calls of clients, where several metadata servers keep one namespace: they are worked on while this one serves, and each answer
// leaves when the gate lets it (meta/replica/answer_gate.h). While it does not serve, callers hear why not, and when a life ends in the
// middle of a call they hear kNotLeader.
//
// For the executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/exec/task.h"
#include "meta/plain_changes.h"
#include "meta/replica/answer_gate.h"
#include "proto/transport.h"

namespace stria {

class GatedDispatcher final : public Dispatcher {
 public:
  // `away`: why nothing is served now (MetaNode::WhyAway).
  explicit GatedDispatcher(std::function<Error()> away) : away_(std::move(away)) {}
  ~GatedDispatcher() override;

  // Calls go to `inner` from now on, which is there until Close. `changes`: what answers of calls that have written wait for; null: for
  // nothing. REQUIRES: !open().
  void Open(Dispatcher* inner, std::shared_ptr<AnswerGate> gate, std::unique_ptr<PlainChanges> changes = nullptr);
  // Nothing uses `inner` on return. Not from within a call.
  void Close();
  // The same, and nobody is answered: the process ends.
  void Abandon() { room_.reset(); }
  bool open() const { return room_ != nullptr; }

  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer> peer, std::string method, WireMessage request) override;

 private:
  using Answer = OneShot<Result<WireMessage>>;
  // Of one life.
  struct Room {
    Dispatcher* inner = nullptr;
    std::shared_ptr<AnswerGate> gate;
    std::unique_ptr<PlainChanges> changes;
    std::map<uint64_t, Answer> running;
    TaskScope scope;  // last: its tasks use everything above
  };
  static Task<void> Run(Room* room, uint64_t call, std::shared_ptr<const Peer> peer, std::string method, WireMessage request);

  const std::function<Error()> away_;
  uint64_t calls_ = 0;
  std::unique_ptr<Room> room_;
};

}  // namespace stria
