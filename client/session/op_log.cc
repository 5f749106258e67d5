#include "client/session/op_log.h"

namespace stria {

void OpLog::Keep(Undurable op) {
  bytes_ += op.bytes;
  const uint64_t order = op.order();
  kept_.emplace(order, std::move(op));
}

void OpLog::Durable(CommitSeq durable) {
  while (!kept_.empty() && kept_.begin()->first <= durable.v) {
    bytes_ -= kept_.begin()->second.bytes;
    kept_.erase(kept_.begin());
  }
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
