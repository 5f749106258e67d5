#include "client/vfs/leases.h"

#include "client/vfs/server_silent.h"
#include "common/token.h"

namespace stria {

void InodeLease::Take(const Grant& grant, const std::string& proof, Bounds bounds) {
  // What was buffered under a higher lease is flushed under it: the server believes in that until the recall that it
  // has sent is answered.
  const bool keeps = buffers_writes() && bounds.dirty && grant.mode != LeaseMode::kExclusive;
  if (!keeps) mode_ = grant.mode;
  // Answered before this grant came: the server counts on it. (kShared is the least that is granted.)
  if (!keeps && recalled_at_ > grant.asked && mode_ != LeaseMode::kShared) mode_ = recalled_to_;
  // Where writes under way will end, and append, only the server knows: what is written beside them is not buffered.
  if (bounds.shared_writes && mode_ == LeaseMode::kExclusive) mode_ = LeaseMode::kShared;
  // What is not committed yet is of before the session lapsed, and it may turn out that it is not to be.
  if (bounds.of_before && mode_ != LeaseMode::kNone) mode_ = LeaseMode::kShared;
  ++grants_;
  owes_ = 0;
  // Of two answers that overtook each other the one that says more counts.
  const uint8_t had = RightsIn(proof_), has = RightsIn(proof);
  if ((had & ~has) == 0 || (has & ~had & kOpenWrite) != 0) {
    if ((had & ~has & kOpenRead) != 0) for_read_ = false;
    proof_ = proof;
  }
  for_read_ = for_read_ || grant.for_read;
  for_write_ = for_write_ || grant.for_write;
}

void InodeLease::TakeAlone(std::string proof, uint64_t asked) {
  mode_ = recalled_at_ > asked ? recalled_to_ : LeaseMode::kExclusive;  // as in Take
  for_write_ = mode_ == LeaseMode::kExclusive;
  proof_ = std::move(proof);
  ++grants_;
  owes_ = 0;
}

void InodeLease::TakeMade(std::string proof) {
  mode_ = LeaseMode::kExclusive;
  for_read_ = for_write_ = true;
  proof_ = std::move(proof);
  ++grants_;
}

void InodeLease::Recalled(LeaseMode left, uint64_t events_seen) {
  mode_ = left;
  recalled_at_ = events_seen;
  recalled_to_ = left;
  if (left == LeaseMode::kNone || left == LeaseMode::kRead) for_write_ = false;
}

void InodeLease::LoseAll(uint64_t generation) {
  Drop();
  owes_ = 0;
  proof_.clear();
  generation_ = generation;
}

void Leases::CreateEnded(uint64_t call) {
  creates_.erase(call);
  create_ended_.Pulse();
  while (!met_.empty() && (creates_.empty() || met_.front()->told_at_ <= creates_.begin()->second)) {
    const InodeLeasePtr of = std::move(met_.front());
    met_.pop_front();
    of->met_ = false;
    needs_.maybe_unused(of);
  }
}

Task<void> Leases::CreatesBefore(uint64_t call) {
  while (!creates_.empty() && creates_.begin()->first < call) co_await create_ended_.Wait();
}

void Leases::Meet(const InodeLeasePtr& of) {
  of->met_ = true;
  met_.push_back(of);
}

// What was asked of the server may have been done in a try that it could not answer, whatever the last one said.
Leases::Opening::~Opening() {
  --of_->opening_;
  if (granted || !of_->none() || of_->generation_ != leases_->needs_.generation()) return;
  of_->owes_ = leases_->needs_.number_call();
}

Task<bool> Leases::Release(InodeLeasePtr of, uint64_t call) {
  of->owes_ = call;
  InodeRequest r;
  r.ino = of->ino_;
  r.header.trace_id = call;
  const uint64_t term = r.header.term = needs_.term();
  const auto done = co_await needs_.release(std::move(r));
  // In another term of the server it was of nothing; what the session claimed then may have been this still.
  if (done.ok() && needs_.term() == term && of->owes_ == call) of->owes_ = 0;
  co_return of->owes_ != call;
}

Leases::GivenBack Leases::GiveBack(InodeLease& of) {
  const GivenBack out{needs_.number_call(), needs_.term()};
  of.owes_ = out.call;
  return out;
}

bool Leases::WasGivenBack(InodeLease& of, uint64_t call, bool surely) {
  if (of.owes_ != call) return true;  // it was granted again, or told
  if (surely) of.owes_ = 0;
  return surely;
}

Task<bool> Leases::Done(InodeId ino, LeaseMode lease, uint64_t event_seq, uint64_t call) {
  LeaseDoneRequest r;
  r.header.trace_id = call != 0 ? call : needs_.number_call();  // it says what is so now
  r.ino = ino;
  r.lease = lease;
  r.event_seq = event_seq;
  const uint64_t era = needs_.era();
  while (true) {
    const auto done = co_await needs_.lease_done(r);
    // Who waits for it waits until it is heard, or our session has ended.
    if (!ServerSilent(done.code()) || needs_.era() != era) co_return done.ok();
    co_await Sleep(kAgainNs);
  }
}

Task<void> Leases::DoneNotHeld(InodeId ino, InodeLeasePtr of, LeaseMode left, uint64_t event_seq) {
  const bool coming = of && (of->opening() || creating());
  if (coming) {
    of->recalled_at_ = events_seen_;
    of->recalled_to_ = left;
  }
  co_await Done(ino, coming ? left : LeaseMode::kNone, event_seq);
}

}  // namespace stria
