// What runs by itself: group sync, timers, cleaning up. The background jobs are in meta/upkeep.
#include <algorithm>

#include "common/sabotage.h"
#include "meta/service/meta_server_impl.h"

namespace stria {
namespace {

constexpr size_t kReplyDeletes = 512;  // of an ended session, per transaction

}  // namespace

// What was answered is durable after twice group_sync_ns and a sync. Where clients ask for that themselves all the time,
// another sync would only be in their way.
Task<void> MetaServer::GroupSyncLoop() {
  while (fatal_.ok()) {
    co_await unsynced_.Wait();
    const CommitSeq waits = store_->last_seq();
    co_await Sleep(options_.group_sync_ns);
    if (store_->durable_seq() >= waits && store_->durable_seq() < store_->last_seq()) continue;
    unsynced_.Reset();
    if (store_->durable_seq() == store_->last_seq()) continue;
    const Result<void> synced = co_await store_->Sync();
    if (!synced.ok()) SetFatal(synced.error());
  }
}

Task<void> MetaServer::TickLoop() {
  while (fatal_.ok()) {
    const int64_t slept_ns = Now();
    co_await Sleep(options_.tick_ns);
    if (const int64_t late_ns = Now() - slept_ns - options_.tick_ns; late_ns > options_.tick_ns) {
      // A long check or a stopped process: what others sent meanwhile has not been read yet.
      cluster_->Excuse(late_ns);
      sessions_.Excuse(late_ns);
      co_await Yield();
    }
    cluster_->Tick(Now(), Wall());
    if (const auto saved = SaveCluster(); !saved.ok()) SetFatal(saved.error());
    PushMapEvents();
    ExpireSessions();
    LapseSilent();
    if (!window_over_ && !sessions_.reclaiming()) {
      window_over_ = true;  // who has what open is known again
      reaps_ = orphans_;
    }
    for (; !lingers_.empty() && lingers_.front().first <= Now(); lingers_.pop_front()) reaps_.insert(lingers_.front().second);
    if (!reaps_.empty() || !trims_.empty() || !ended_.empty()) clean_work_.Set();
    upkeep_->Wake();
    survey_->CountAhead();
  }
}

// Frees what is left behind, one bounded transaction at a time.
Task<void> MetaServer::CleanLoop() {
  while (fatal_.ok()) {
    co_await clean_work_.Wait();
    const Result<bool> more = CleanSome();
    if (!more.ok() && more.code() == FsError::kRetryLater) {
      co_await Sleep(options_.group_sync_ns);
    } else if (!more.ok()) {
      SetFatal(more.error());
    } else if (!*more) {
      clean_work_.Reset();
    }
    co_await Yield();
  }
}

Result<bool> MetaServer::CleanSome() {
  Touched touched;
  Txn txn(*store_);
  if (!trims_.empty()) {
    const InodeId ino = *trims_.begin();
    ASSIGN_OR_RETURN(const bool more, TrimStep(txn, ino, &touched));
    RETURN_IF_ERROR(txn.Commit());
    if (!more) trims_.erase(ino);
    NoteCommit(touched);
    TellTrimmed(touched);
    return true;
  }
  if (!ended_.empty()) {
    const SessionId s = *ended_.begin();
    ASSIGN_OR_RETURN(bool more, OpCollectSession(txn, s, &touched));
    if (!more) {
      ASSIGN_OR_RETURN(const auto replies, txn.ScanPrefix(Family::kReplies, SessionKey(s), kReplyDeletes));
      for (const KvEntry& e : replies) txn.Delete(Family::kReplies, e.first);
      more = replies.size() == kReplyDeletes;
    }
    if (!more) txn.Delete(Family::kSessions, SessionKey(s));
    RETURN_IF_ERROR(txn.Commit());
    if (!more) ended_.erase(s);
    NoteCommit(touched);
    return true;
  }
  if (reaps_.empty() || !window_over_) return false;
  const InodeId ino = *reaps_.begin();
  if (IsOpen(ino) && !Sabotaged(Sabotage::kFreeOpenFiles)) {
    reaps_.erase(ino);  // again when it is released
    return true;
  }
  ASSIGN_OR_RETURN(const bool orphan, txn.Has<OrphanRecord>(InodeKey(ino)));
  if (orphan) {
    RETURN_IF_ERROR(OpReapOrphan(txn, ino, Wall(), &touched));
    RETURN_IF_ERROR(txn.Commit());
    NoteCommit(touched);
  }
  reaps_.erase(ino);
  orphans_.erase(ino);
  return true;
}

}  // namespace stria
