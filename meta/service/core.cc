// Headers, waiting, telling others.
#include <algorithm>

#include "common/log.h"
#include "common/sabotage.h"
#include "meta/service/meta_server_impl.h"

namespace stria {

MetaServer::MetaServer(MetaServerOptions options, std::unique_ptr<KvStore> kv, Random rng,
                       std::vector<ClusterKey> keys)
    : options_(std::move(options)),
      core_({options_.group_sync_ns, options_.token_ttl_ns}, std::move(kv), rng, std::move(keys)),
      cleaner_(&core_, &host_),
      cluster_(&core_, &host_, options_.cluster),
      sessions_(options_.sessions),
      interests_(options_.max_interests) {
  core_.OnFail([this] {
    for (auto& [id, event] : polls_) event->Pulse();
  });
}

MetaServer::~MetaServer() { CancelTasks(); }

// A start that failed has not made all rooms.
void MetaServer::CancelTasks() {
  if (survey_) survey_->Stop();
  if (upkeep_) upkeep_->Stop();
  if (archives_) archives_->Stop();
  scope_.CancelAll();
}

Result<void> MetaServer::CheckSession(const OpHeader& h) {
  RETURN_IF_ERROR(core_.CheckHeader(h));
  if (Error e = sessions_.Check(h.session, h.epoch); !e.ok()) return e;
  if (sessions_.IsUnclaimed(h.session)) {
    return Error(FsError::kRetryLater, "the metadata server has restarted: reclaim the session first");
  }
  // On its way while the server restarted: it must not come before what the session repeats first.
  if (h.term != 0 && h.term != core_.term()) return Error(FsError::kRetryLater, "the metadata server has restarted: ask again");
  sessions_.AckReplies(h.session, h.acked_below);
  return Ok();
}

// What was acknowledged before the restart is shown to nobody, nor changed, before all of it is there again, in the
// order in which it was done.
bool MetaServer::Recovers(const OpHeader& h) const {
  if (sessions_.reclaiming()) return true;
  const uint64_t order = ReplayOrder(h);
  return order != 0 ? sessions_.AwaitsReplaysBefore(h.session, order, core_.Now()) : sessions_.AwaitsReplays(h.session, core_.Now());
}

// Only changes are repeated.
uint64_t MetaServer::ReplayOrder(const OpHeader& h) const {
  if (h.replay_order == 0 || !h.op_seq || !sessions_.MayRepeat(h.session, h.replay_order, core_.Now())) return 0;
  return h.replay_order;
}

void MetaServer::NoteReclaimed() {
  if (replays_began_ || sessions_.reclaiming()) return;
  replays_began_ = true;
  sessions_.ReplaysBegin(core_.Now());
}

bool MetaServer::IsAdmin(const OpHeader& h) const {
  const bool squashed = h.session && options_.root_squash && h.uid == 0;
  return !squashed && options_.admin_uids.count(h.uid) > 0;
}

Result<void> MetaServer::CheckAdmin(const OpHeader& h, const char* does) {
  RETURN_IF_ERROR(CheckCaller(h));
  if (IsAdmin(h)) return Ok();
  return Error(FsError::kPerm, std::string("only root ") + does);
}

void MetaServer::ReplayIsAt(const OpHeader& h, uint64_t order) {
  if (!Repeats(h)) return;
  sessions_.ReplayIsAt(h.session, order);
  core_.Pulse();
}

Task<Result<void>> MetaServer::AwaitReclaims(const OpHeader& h) {
  const int64_t deadline_ns = core_.DeadlineOf(h);
  while (Recovers(h)) {
    if (core_.Now() >= deadline_ns) {
      co_return Error(FsError::kRetryLater, "waiting for clients to reclaim what they held before the restart");
    }
    co_await core_.WaitProgress(std::min(deadline_ns, core_.Now() + kSecond));
  }
  co_return Ok();
}

Task<Result<void>> MetaServer::Gate(const OpHeader& h) {
  CO_RETURN_IF_ERROR(CheckSession(h));
  if (Recovers(h)) {
    CO_RETURN_IF_ERROR(co_await AwaitReclaims(h));
    CO_RETURN_IF_ERROR(CheckSession(h));
  }
  co_return Ok();
}

Task<Result<void>> MetaServer::GateCaller(const OpHeader& h) {
  if (h.session) co_return co_await Gate(h);
  CO_RETURN_IF_ERROR(core_.CheckHeader(h));
  co_return co_await AwaitReclaims(h);
}

OpCtx MetaServer::Ctx(const OpHeader& h, Touched* touched) {
  OpCtx ctx;
  ctx.uid = h.uid;
  ctx.gid = h.gid;
  ctx.groups = h.groups;
  if (options_.root_squash && h.uid == 0) {
    ctx.uid = ctx.gid = options_.squash_id;
    ctx.groups.clear();
  }
  ctx.now_ns = core_.Wall();
  ctx.session = h.session;
  ctx.open = &opens_;
  ctx.touched = touched;
  ctx.opened = h.opened;
  ctx.repeated = Repeats(h);
  return ctx;
}

OpCtx MetaServer::NamesCtx(const OpHeader& h) {
  OpCtx ctx = Ctx(h, nullptr);
  if (IsAdmin(h)) ctx.uid = ctx.gid = 0;
  return ctx;
}

void MetaServer::TakeSettings(const MetaServerOptions& now) {
  options_.repair = now.repair;
  options_.fold = now.fold;
  cluster_.SetTimes(now.cluster);
  if (upkeep_ != nullptr) upkeep_->SetOptions({now.repair, now.fold});
}

uint64_t MetaServer::PushEvent(SessionId s, SessionEvent e) {
  const uint64_t event = sessions_.Push(s, std::move(e));
  if (event != 0) {
    if (auto it = polls_.find(s); it != polls_.end()) it->second->Pulse();
  } else if (sessions_.Exists(s)) {
    Lapse(s, "it does not take its events");  // everything it caches must be taken for stale
  }
  return event;
}

bool MetaServer::Push(const std::vector<InterestTable::Notice>& notices, Acks* acks) {
  bool fenced = false;
  for (const InterestTable::Notice& n : notices) {
    if (!sessions_.Exists(n.session)) continue;
    const uint64_t event = PushEvent(n.session, n.event);
    if (event == 0) fenced = true;
    else if (acks != nullptr) acks->emplace_back(n.session, event);
  }
  return fenced;
}

bool MetaServer::PushDemands(const std::vector<LeaseDemand>& demands) {
  bool fenced = false;
  for (const LeaseDemand& d : demands) {
    SessionEvent e;
    e.kind = d.kind;
    e.ino = d.ino;
    e.lease = d.to;
    const uint64_t event = PushEvent(d.session, std::move(e));
    if (event == 0) {
      fenced = true;
      continue;
    }
    leases_.NoteDemand(d, event);
    demands_[{d.session, event}] = {d.ino, core_.Now()};
  }
  return fenced;
}

Task<void> MetaServer::WaitAcks(Acks acks, SessionId asks, InodeId ino, WaitList::For why) {
  std::optional<WaitList::Wait> wait;
  // Who does not answer is fenced by its lease or by FenceSilent, so this ends.
  while (!core_.HasFailed()) {
    acks.erase(std::remove_if(acks.begin(), acks.end(),
                              [&](const auto& a) { return sessions_.Acked(a.first, a.second); }),
               acks.end());
    if (acks.empty()) co_return;
    if (!wait) wait.emplace(&waits_, why, asks, ino, &acks);
    co_await core_.WaitProgress(core_.Now() + options_.answer_timeout_ns);
  }
}

Task<void> MetaServer::Announce(SessionId from, const Touched& touched, std::vector<InodeId> covered) {
  // `from` may keep what its reply says, and others may change it while this is announced: noted first, so that it
  // is told of that.
  if (sessions_.Exists(from)) {
    std::vector<InterestTable::Notice> evicted;
    for (InodeId ino : covered) interests_.NoteAttr(from, ino, &evicted);
    NoteEvictions(evicted);
  }
  Acks acks;
  const auto tell = [&](const std::vector<InterestTable::Notice>& others, Untold* untold) {
    Acks told;
    if (!Sabotaged(Sabotage::kLoseInvalidation)) Push(others, &told);
    for (const auto& [session, event] : told) (*untold)[session] = event;
    acks.insert(acks.end(), told.begin(), told.end());
  };
  std::vector<InterestTable::Notice> mine;
  const auto tell_of = [&](InodeId ino, bool data) {
    const bool is_covered = std::find(covered.begin(), covered.end(), ino) != covered.end();
    const SessionId except = is_covered ? from : SessionId();
    std::vector<InterestTable::Notice> others;
    for (auto& n : data ? interests_.DataChanged(ino, except) : interests_.AttrChanged(ino, except)) {
      (n.session == from ? mine : others).push_back(std::move(n));
    }
    tell(others, &untold_attrs_[ino]);
  };
  for (InodeId ino : touched.data) tell_of(ino, true);
  for (InodeId ino : touched.attrs) {
    if (!touched.data.count(ino)) tell_of(ino, false);
  }
  for (const auto& [dir, name] : touched.entries) tell(interests_.EntryChanged(dir, name, from), &untold_[dir]);
  Push(mine, nullptr);
  for (auto it = evictions_.begin(); it != evictions_.end();) {
    if (sessions_.Acked(it->first, it->second)) {
      it = evictions_.erase(it);
      continue;
    }
    if (it->first != from) acks.emplace_back(it->first, it->second);
    ++it;
  }
  TellOrphaned(touched);
  if (!acks.empty()) {
    const auto& of = touched.data.empty() ? touched.attrs : touched.data;
    co_await WaitAcks(std::move(acks), from, of.empty() ? InodeId() : *of.begin(), WaitList::For::kChange);
  }
  for (const auto& [dir, name] : touched.entries) co_await WaitTold(dir);
  // Who was told by the change before this one, and has not acknowledged that, was not told again. What `from` has
  // not processed may wait for this very call.
  for (InodeId ino : touched.data) co_await WaitTold(&untold_attrs_, ino, from, WaitList::For::kChange);
  for (InodeId ino : touched.attrs) co_await WaitTold(&untold_attrs_, ino, from, WaitList::For::kChange);
}

void MetaServer::TellAndNote(InodeId ino, SessionId except) {
  Acks acks;
  Push(interests_.DataChanged(ino, except), &acks);
  for (const auto& [session, event] : acks) untold_attrs_[ino][session] = event;
}

void MetaServer::TellTrimmed(const Touched& touched) {
  for (InodeId ino : touched.attrs) Push(interests_.AttrChanged(ino, SessionId()), nullptr);
}

Task<void> MetaServer::WaitTold(InodeId dir) {
  co_await WaitTold(&untold_, dir, SessionId());
}

Task<void> MetaServer::WaitTold(std::map<InodeId, Untold>* of, InodeId ino, SessionId except, WaitList::For why) {
  if (Sabotaged(Sabotage::kAnswerBeforeTold)) co_return;
  auto it = of->find(ino);
  if (it == of->end()) co_return;
  Acks acks(it->second.begin(), it->second.end());
  std::erase_if(acks, [&](const auto& a) { return a.first == except; });
  co_await WaitAcks(std::move(acks), except, ino, why);
  // There may be newer ones by now.
  it = of->find(ino);
  if (it == of->end()) co_return;
  std::erase_if(it->second, [this](const auto& a) { return sessions_.Acked(a.first, a.second); });
  if (it->second.empty()) of->erase(it);
}

void MetaServer::TellOrphaned(const Touched& touched) {
  for (InodeId ino : touched.orphaned) {
    for (SessionId s : leases_.HoldersExcept(SessionId(), ino)) {
      SessionEvent e;
      e.kind = SessionEvent::Kind::kInvalidateAttr;
      e.ino = ino;
      PushEvent(s, std::move(e));
    }
  }
}

void MetaServer::NoteEvictions(const std::vector<InterestTable::Notice>& evicted) {
  Acks acks;
  Push(evicted, &acks);
  for (const auto& [session, event] : acks) evictions_[session] = event;
}

Task<void> MetaServer::WaitEvictions() {
  const size_t most = options_.sessions.max_events / 4;
  while (!core_.HasFailed() && std::any_of(evictions_.begin(), evictions_.end(),
                                    [&](const auto& e) { return sessions_.Queued(e.first) > most; })) {
    co_await core_.WaitProgress(core_.Now() + options_.answer_timeout_ns);
  }
}

void MetaServer::PushMapEvents() {
  for (SessionId s : sessions_.All()) {
    SessionEvent e;
    e.kind = SessionEvent::Kind::kClusterMap;
    PushEvent(s, std::move(e));
  }
  upkeep_->Wake();
}

}  // namespace stria
