#include "meta/coherence/grants.h"

#include <optional>

#include "common/sabotage.h"

namespace stria {
namespace {

// While it lives others are being told of an exclusive lease. Its session does not know of it yet, so nothing is buffered under it.
class Telling {
 public:
  using All = std::multiset<std::pair<SessionId, InodeId>>;
  Telling(All* all, std::pair<SessionId, InodeId> one) : all_(all), one_(all->insert(one)) {}
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;
  ~Telling() { all_->erase(one_); }

 private:
  All* const all_;
  const All::iterator one_;
};

}  // namespace

bool Grants::PushDemands(const std::vector<LeaseDemand>& demands) {
  bool not_taken = false;
  for (const LeaseDemand& d : demands) {
    SessionEvent e;
    e.kind = d.kind;
    e.ino = d.ino;
    e.lease = d.to;
    const uint64_t event = sessions_->Push(d.session, std::move(e));
    if (event == 0) {
      not_taken = true;
      continue;
    }
    table_.NoteDemand(d, event);
    ++(d.kind == SessionEvent::Kind::kFlush ? demanded_.flushes : demanded_.recalls);
    demands_[{d.session, event}] = {d.ino, core_->Now()};
  }
  return not_taken;
}

Task<Result<LeaseMode>> Grants::Acquire(const OpHeader& h, InodeId ino, bool for_write, bool data) {
  const SessionId s = h.session;
  const int64_t deadline_ns = core_->DeadlineOf(h);
  const uint64_t call = h.trace_id;
  const bool had_exclusive = table_.ModeOf(s, ino) == LeaseMode::kExclusive;
  bool first = true;
  LeaseMode mode = LeaseMode::kNone;
  std::optional<WaitList::Wait> wait;
  while (true) {
    if (Error e = sessions_->table().Check(s, h.epoch); !e.ok()) co_return e;  // and what it waited for is not its any more
    const LeaseTable::OpenOutcome o = table_.Open(s, ino, for_write, data, first, call, sessions_->WasSilent(s));
    first = false;
    if (o.late) {
      cleaner_->ReapIfUnused(ino);
      co_return Error(FsError::kRetryLater, "the file was released by a later call");
    }
    const bool not_taken = PushDemands(o.demands);
    if (o.granted) {
      mode = o.mode;
      break;
    }
    if (not_taken) continue;
    if (core_->Now() >= deadline_ns || core_->HasFailed()) {
      table_.AbandonOpen(s, ino);
      cleaner_->ReapIfUnused(ino);
      co_return Error(FsError::kDeadline, "another client does not give up its lease of the file");
    }
    if (!wait) wait.emplace(&notices_->waits(), WaitList::For::kOpen, s, ino);
    co_await core_->WaitProgress(deadline_ns);
  }
  wait.reset();
  if (mode == LeaseMode::kExclusive) {
    // From now on only the holder knows size and times: nobody else may go on with what they cached. An earlier try of this
    // call may have told them, and they may not know yet; it waits for them still.
    std::optional<Telling> telling;
    if (!had_exclusive) {
      telling.emplace(&telling_, std::pair(s, ino));
      notices_->TellAndNote(ino, s);
    }
    co_await notices_->WaitToldOf(ino, s, WaitList::For::kOpen);
  }
  CO_RETURN_IF_ERROR(co_await core_->fences().Wait());
  co_return mode;
}

Task<Result<void>> Grants::ClearForChange(SessionId s, InodeId ino, int64_t deadline_ns) {
  std::optional<WaitList::Wait> wait;
  while (true) {
    const LeaseTable::Outcome o = table_.ClearForChange(s, ino);
    if (o.clear) co_return Ok();
    if (PushDemands(o.demands)) continue;
    if (core_->Now() >= deadline_ns || core_->HasFailed()) {
      co_return Error(FsError::kDeadline, "another client does not give up its lease of the file");
    }
    if (!wait) wait.emplace(&notices_->waits(), WaitList::For::kChange, s, ino);
    co_await core_->WaitProgress(deadline_ns);
  }
}

Task<Result<void>> Grants::FlushOthers(SessionId s, InodeId ino, int64_t deadline_ns, WaitList::For why) {
  const SessionId holder = table_.DirtyHolder(s, ino);
  if (!holder) co_return Ok();
  uint64_t event = table_.NewestFlush(holder, ino);
  const EventQueue* const events = sessions_->table().FindEvents(holder);
  if (event == 0 || (events != nullptr && event <= events->delivered())) {
    // One that was delivered may have been carried out before the latest write.
    if (PushDemands({{holder, ino, SessionEvent::Kind::kFlush, LeaseMode::kNone}})) co_return Ok();
    event = table_.NewestFlush(holder, ino);
  }
  const WaitList::Events flush = {{holder, event}};
  std::optional<WaitList::Wait> wait;
  while (!table_.FlushDone(holder, ino, event)) {
    if (core_->Now() >= deadline_ns || core_->HasFailed()) {
      co_return Error(FsError::kDeadline, "another client does not write back what it holds of the file");
    }
    if (!wait) wait.emplace(&notices_->waits(), why, s, ino, &flush);
    co_await core_->WaitProgress(deadline_ns);
  }
  co_return Ok();
}

void Grants::GiveBack(const OpHeader& h, InodeId ino) {
  table_.Release(h.session, ino, h.trace_id);
  cleaner_->ReapIfUnused(ino);
  core_->Pulse();
}

void Grants::OpenAsMade(const OpHeader& h, InodeId made) {
  if (Sessions::IsReplay(h)) return;
  const LeaseTable::OpenOutcome o = table_.Open(h.session, made, true, true, true, h.trace_id, sessions_->WasSilent(h.session));
  PushDemands(o.demands);
  if (!o.granted && !o.late) table_.AbandonOpen(h.session, made);
  table_.NoteReader(h.session, made);
}

Grants::DirVisit::DirVisit(Grants* grants, SessionId s, InodeId dir) : grants_(grants), key_(dir, s) {
  ++grants_->visits_[key_];
}

Grants::DirVisit::~DirVisit() {
  if (grants_ == nullptr) return;
  auto it = grants_->visits_.find(key_);
  if (--it->second == 0) grants_->visits_.erase(it);
}

Task<Result<Grants::DirVisit>> Grants::Visit(const OpHeader& h, InodeId dir) {
  DirVisit visit(this, h.session, dir);
  // What is repeated after a restart happened before the session that has the directory now was given it.
  if (!sessions_->Repeats(h) && !Sabotaged(Sabotage::kVisitUnasked)) {
    CO_RETURN_IF_ERROR(co_await ClearForChange(h.session, dir, core_->DeadlineOf(h)));
  }
  co_return visit;
}

bool Grants::OthersVisit(InodeId dir, SessionId s) const {
  for (auto it = visits_.lower_bound({dir, SessionId()}); it != visits_.end() && it->first.first == dir; ++it) {
    if (it->first.second != s) return true;
  }
  return false;
}

bool Grants::TakeAlone(const OpHeader& h, InodeId dir, bool* had) {
  const SessionId s = h.session;
  *had = table_.ModeOf(s, dir) == LeaseMode::kExclusive;
  if (sessions_->WasSilent(s)) return false;
  const LeaseTable::OpenOutcome o = table_.Open(s, dir, true, true, true, h.trace_id);
  PushDemands(o.demands);
  if (!o.granted && !o.late) table_.AbandonOpen(s, dir);
  return o.granted && o.mode == LeaseMode::kExclusive;
}

Result<void> Grants::Done(const LeaseDoneRequest& r) {
  if (Error e = table_.LeaseDone(r.header.session, r.ino, r.lease, r.event_seq, r.header.trace_id); !e.ok()) return e;
  cleaner_->ReapIfUnused(r.ino);
  core_->Pulse();
  return Ok();
}

std::set<SessionId> Grants::Silent(int64_t most_ns) {
  std::set<SessionId> out;
  for (auto it = demands_.begin(); it != demands_.end();) {
    const auto& [key, demand] = *it;
    if (!table_.Pending(key.first, demand.first, key.second)) {
      it = demands_.erase(it);
      continue;
    }
    if (core_->Now() - demand.second >= sessions_->AnswersWithin(key.first, most_ns)) out.insert(key.first);
    ++it;
  }
  return out;
}

void Grants::ForgetDemands(SessionId s) {
  demands_.erase(demands_.lower_bound({s, 0}), demands_.upper_bound({s, UINT64_MAX}));
}

}  // namespace stria
