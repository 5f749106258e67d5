#include "client/session/op_log.h"

namespace stria {

void OpLog::Keep(Undurable op) {
  bytes_ += op.bytes;
  if (op.answered == 0) op.answered = ++answered_;
  const uint64_t order = op.order();
  kept_.emplace(order, std::move(op));
}

void OpLog::Durable(CommitSeq durable) {
  while (!kept_.empty() && kept_.begin()->first <= durable.v) {
    bytes_ -= kept_.begin()->second.bytes;
    kept_.erase(kept_.begin());
  }
}

void OpLog::DurableOf(uint64_t answered) {
  std::erase_if(kept_, [&](const auto& entry) {
    if (entry.second.answered > answered) return false;
    bytes_ -= entry.second.bytes;
    return true;
  });
}

std::vector<OpLog::Undurable> OpLog::TakeAll() {
  std::vector<Undurable> out;
  out.reserve(kept_.size());
  for (auto& [order, op] : kept_) out.push_back(std::move(op));
  kept_.clear();
  bytes_ = 0;
  return out;
}

void OpLog::Reset() {
  kept_.clear();
  bytes_ = 0;
  next_ = 1;
  open_ = std::make_shared<OpTicket::OpenSet>();
}

}  // namespace stria
