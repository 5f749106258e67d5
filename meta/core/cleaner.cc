#include "meta/core/cleaner.h"

#include <vector>

#include "common/sabotage.h"
#include "meta/core/for_each.h"
#include "meta/ops/ops.h"
#include "meta/session/recent_lookups.h"

namespace stria {
namespace {

constexpr size_t kReplyDeletes = 512;  // of an ended session, per transaction

}  // namespace

Result<void> Cleaner::Load(Txn& txn) {
  for (InodeId after;;) {
    ASSIGN_OR_RETURN(const auto page, ListOrphans(txn, after, kLoadPage));
    orphans_.insert(page.begin(), page.end());
    if (page.size() < kLoadPage) break;
    after = page.back();
  }
  for (InodeId after;;) {
    ASSIGN_OR_RETURN(const auto page, ListTrims(txn, after, kLoadPage));
    trims_.insert(page.begin(), page.end());
    if (page.size() < kLoadPage) break;
    after = page.back();
  }
  return Ok();
}

void Cleaner::Start() {
  work_.Set();
  scope_.Spawn(Loop());
}

void Cleaner::EndClaims() {
  claims_over_ = true;  // who has what open is known again
  reaps_ = orphans_;
}

void Cleaner::Tick(bool claims_over) {
  if (!claims_over_ && claims_over) EndClaims();
  for (; !lingers_.empty() && lingers_.front().first <= core_->Now(); lingers_.pop_front()) {
    reaps_.insert(lingers_.front().second);
  }
  if (!reaps_.empty() || !trims_.empty() || !ended_.empty()) work_.Set();
}

void Cleaner::NoteCommit(const Touched& touched) {
  core_->Committed();
  trims_.insert(touched.trim.begin(), touched.trim.end());
  orphans_.insert(touched.orphaned.begin(), touched.orphaned.end());
  for (InodeId ino : touched.orphaned) {
    if (!host_->IsOpen(ino)) Linger(ino);
  }
  if (!trims_.empty() || !reaps_.empty()) work_.Set();
}

Task<Result<void>> Cleaner::MakeRoomFor(const Touched& touched) {
  if (touched.trim.empty()) co_return co_await core_->Sync();
  for (InodeId ino : touched.trim) {
    Touched more;
    Txn txn(core_->store());
    CO_RETURN_IF_ERROR(TrimStep(txn, ino, &more));
    CO_RETURN_IF_ERROR(core_->Commit(txn));
    NoteCommit(more);
    host_->TellTrimmed(more);
    co_await Yield();
  }
  co_return Ok();
}

void Cleaner::ReapIfUnused(InodeId ino) {
  if (!orphans_.count(ino) || host_->IsOpen(ino)) return;
  // Other programs of the session that has just closed it may be about to open it, too.
  if (host_->IsWanted(ino)) {
    Linger(ino);
    return;
  }
  reaps_.insert(ino);
  work_.Set();
}

void Cleaner::Reap(InodeId ino) {
  if (!orphans_.count(ino)) return;
  reaps_.insert(ino);
  work_.Set();
}

void Cleaner::NoteEnded(SessionId s) {
  ended_.insert(s);
  work_.Set();
}

void Cleaner::Linger(InodeId ino) { lingers_.emplace_back(core_->Now() + RecentLookups::kKeepNs, ino); }

Task<void> Cleaner::Loop() {
  while (!core_->HasFailed()) {
    co_await work_.Wait();
    const Result<bool> more = CleanSome();
    if (!more.ok() && more.code() == FsError::kRetryLater) {
      co_await Sleep(core_->options().group_sync_ns);
    } else if (!more.ok()) {
      core_->Fail(more.error());
    } else if (!*more) {
      work_.Reset();
    }
    co_await Yield();
  }
}

// False: there was nothing to do.
Result<bool> Cleaner::CleanSome() {
  Touched touched;
  Txn txn(core_->store());
  if (!trims_.empty()) {
    const InodeId ino = *trims_.begin();
    ASSIGN_OR_RETURN(const bool more, TrimStep(txn, ino, &touched));
    RETURN_IF_ERROR(txn.Commit());
    if (!more) trims_.erase(ino);
    NoteCommit(touched);
    host_->TellTrimmed(touched);
    return true;
  }
  if (!ended_.empty()) {
    const SessionId s = *ended_.begin();
    ASSIGN_OR_RETURN(const bool more, CollectSession(txn, s, &touched));
    RETURN_IF_ERROR(txn.Commit());
    if (!more) ended_.erase(s);
    NoteCommit(touched);
    return true;
  }
  if (reaps_.empty() || !claims_over_) return false;
  const InodeId ino = *reaps_.begin();
  if (host_->IsOpen(ino) && !Sabotaged(Sabotage::kFreeOpenFiles)) {
    reaps_.erase(ino);  // again when it is released
    return true;
  }
  ASSIGN_OR_RETURN(const bool orphan, txn.Has<OrphanRecord>(InodeKey(ino)));
  if (orphan) {
    RETURN_IF_ERROR(OpReapOrphan(txn, ino, core_->Wall(), &touched));
    RETURN_IF_ERROR(txn.Commit());
    NoteCommit(touched);
  }
  reaps_.erase(ino);
  orphans_.erase(ino);
  return true;
}

Result<bool> Cleaner::CollectSession(Txn& txn, SessionId s, Touched* touched) {
  ASSIGN_OR_RETURN(const bool stripes, OpCollectSession(txn, s, touched));
  if (stripes) return true;
  ASSIGN_OR_RETURN(const auto replies, txn.ScanPrefix(Family::kReplies, SessionKey(s), kReplyDeletes));
  for (const KvEntry& e : replies) txn.Delete(Family::kReplies, e.first);
  if (replies.size() == kReplyDeletes) return true;
  txn.Delete(Family::kSessions, SessionKey(s));
  return false;
}

}  // namespace stria
