// Coherence: many clients cache the same files, and each sees what the others have done. This room is about who they are
// (sessions.h), what they may have cached (notices.h), what they may do without asking (grants.h), and their file locks. What
// concerns all of these at once is here: sessions that begin, lapse, come back and end.
//
// Owns: the parts above, file locks (meta/session/lock_table.h), what lapsed sessions had (lapsed_sessions.h), and which inodes
// were looked up just now (recent_lookups.h).
//
// When a lease has run out, others get what they want at once: the session holds nothing any more, and the record that
// says so comes before whatever they change (one log). But it is remembered for a while: its operations stay exactly
// once, its allocated stripes its own, and what it had open is not freed. When it comes back it goes on under a new epoch, so
// that what it asked before, and what answers that, is void. What it gets back is decided where each thing is known best:
//  - files that it has open: if they are there, always. It holds no lease of them, and asks for one when it needs one;
//  - what it has cached: it forgets all of it (and what it fetched of stripes stays right, as stripes never change);
//  - bytes that it has yet to write: each commit of them names the version of the file that they were written over, and
//    is refused if it is another (CommitRequest::only_known). In one transaction with the commit, so that nothing need
//    be kept from others until then; and it holds after a restart of the server as well;
//  - locks: those that nobody else has had since.
//
// Invariant: others are granted nothing that a session held before that session has lapsed or ended, in the store as well; and
// what it asked for under an older epoch is not carried out. A session of a client that has proved who it is holds by an export that
// names that client now: when the exports change it is given the new line if that is no less, and is ended if it is.
//
// Called by handlers of files, MetaServer (the calls about sessions, and its clock) and AdminCalls. Sees the exports, the core and
// its cleaner.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta_api.h"
#include "common/exec/task.h"
#include "meta/coherence/exported.h"
#include "meta/coherence/grants.h"
#include "meta/coherence/notices.h"
#include "meta/coherence/sessions.h"
#include "meta/core/cleaner.h"
#include "meta/core/meta_core.h"
#include "meta/exports/confined.h"
#include "meta/exports/export_room.h"
#include "meta/ops/op_ctx.h"
#include "meta/session/address_writes.h"
#include "meta/session/lapsed_sessions.h"
#include "meta/session/lock_table.h"
#include "meta/session/recent_lookups.h"

namespace stria {

struct CoherenceOptions {
  SessionTableOptions sessions;
  CallerOptions callers;
  size_t max_interests = kMaxInterests;
  // A session that leaves a notice or a recall unanswered for so long lapses; an owner that was silent has a lease's time (SilentOwners).
  int64_t answer_timeout_ns = 90 * kSecond;
};

class Coherence : public ConfinedSessions {
 public:
  using Ended = std::function<void(SessionId)>;
  // `ended`: a session is over.
  Coherence(MetaCore* core, Cleaner* cleaner, const CoherenceOptions& options, Ended ended);
  // Before Load. Clients that prove who they are mount by these; `trusted_root`: whether root of this one counts as root where root
  // is squashed. Both outlive this.
  void UseExports(ExportRoom* exports, std::function<bool(const Peer&)> trusted_root);
  Result<void> Load(Txn& txn);
  void Tick();  // takes what they hold from those whose lease has run out, or who do not answer

  Sessions& sessions() { return sessions_; }
  const Sessions& sessions() const { return sessions_; }
  Notices& notices() { return notices_; }
  const Notices& notices() const { return notices_; }
  Grants& grants() { return grants_; }
  const Grants& grants() const { return grants_; }
  const LockTable& locks() const { return locks_; }

  // ---- Sessions ----
  // Since the start: sessions whose lease ran out, and those that were ended against their clients' will.
  struct Losses {
    uint64_t lapsed = 0, fenced = 0;
  };
  const Losses& losses() const { return losses_; }
  // All of the reply but the map.
  Task<Result<OpenSessionReply>> OpenSession(OpenSessionRequest r);
  Result<RenewReply> Renew(const RenewRequest& r);  // all of it but the map's version
  Result<void> CloseSession(const OpHeader& h);
  // Ends a session at once: what its client has not committed is lost. kNoEnt: there is none. Durable with the next sync.
  Result<void> EvictClient(SessionId s);
  // Certificates of this key were revoked: its sessions end, and what it was given, whatever its role, is good no more. As EvictClient.
  void EndHolder(const Sha256Hash& key);
  std::optional<Bound> BoundOf(SessionId s) const override;
  bool IsOwn(const OpHeader& h) const override { return sessions_.CheckOwner(h).ok(); }

  // ---- For operations ----
  OpCtx Ctx(const OpHeader& h, Touched* touched);
  OpCtx NamesCtx(const OpHeader& h);  // to ask for paths: an admin is told of all
  // Counts as whom the client names, so that the client knows what the server would say of him.
  bool IsBelieved(const OpHeader& h);
  // Who may not do it makes nobody give up a lease: the error of `op(txn, ctx)` if it is one that stays. Asks only if there
  // is somebody.
  template <class F>
  Result<void> CheckBeforeRecall(const OpHeader& h, InodeId ino, F op);
  bool IsOpen(InodeId ino) const { return grants_.table().IsOpen(ino) || lapsed_.IsOpen(ino); }
  bool IsWanted(InodeId ino) const { return lookups_.ByAnother(SessionId(), ino, core_->Now()); }
  void NoteLookup(SessionId s, InodeId ino) { lookups_.Note(s, ino, core_->Now()); }

  // ---- What a session was given, proved: OpenRights ----
  uint8_t Proved(SessionId s, std::string_view proof, InodeId ino) const { return core_->verifier().OpenRights(proof, s, ino); }
  std::string ProofOf(const OpHeader& h, InodeId first, uint32_t count, uint8_t rights) const {
    return core_->signer().ProveOpen({h.session, first, count, rights});
  }
  std::string ProofOfOpen(const OpHeader& h, InodeId ino) const;  // as it is now, and as h.opened says

  // ---- File locks ----
  // Carries out what is asked for. Whom it makes room for is not told yet: TellLocksFree(notices), by which sessions can lapse.
  LockTable::Answer Lock(SessionId s, const LockRequest& r);
  void TellLocksFree(const std::vector<LockNotice>& notices);

 private:
  // What the operations may ask about open inodes.
  class Opens final : public OpenTable {
   public:
    explicit Opens(const Coherence* of) : of_(of) {}
    bool IsInUse(SessionId asks, InodeId ino) const override {
      return of_->IsOpen(ino) || of_->lookups_.ByAnother(asks, ino, of_->core_->Now());
    }
    bool HasOpen(SessionId s, InodeId ino, bool for_write) const override {
      const LeaseTable& t = of_->grants_.table();
      return for_write ? t.IsWriter(s, ino) : t.IsReader(s, ino);
    }
    bool HadOpen(SessionId s, InodeId ino, bool for_write, std::string_view proof) const override {
      return (of_->Proved(s, proof, ino) & (for_write ? kOpenWrite : kOpenRead)) != 0;
    }

   private:
    const Coherence* const of_;
  };
  Task<Result<OpenSessionReply>> OpenFresh(OpenSessionRequest r);
  // The session keeps what the exports still give it, as seen from `address`, or is ended. That counts at once; if only its client has
  // moved, the record of it follows (AddressWrites).
  void HoldToExport(SessionId s, const std::string& address);
  void StoreRecord(SessionId s);  // durable with the next sync. REQUIRES: there is such a session
  void JudgeAll();
  std::string_view ReclaimHeld(const OpenSessionRequest& r);  // "", or why not
  std::string_view ReclaimFiles(const OpenSessionRequest& r, std::set<InodeId>* held);  // the same
  OpenSessionReply SessionReply(const OpHeader& h, SessionId s, bool reclaimed) const;
  BelievedCallers Believes(const OpHeader& h, const SessionGrant& grant) const;
  // Ends a session at once, durable with the next sync; what it left is collected later. `why` is for
  // the log; "" if it asked for it. `cut_off`: the tokens that it was given are not good any more, unless another session
  // of its owner may have them, too: the mounts of one machine have one key, and so one holder.
  void Fence(SessionId s, std::string_view why, bool cut_off = true);
  // Others may have what it held. Fences it instead if it could not come back.
  // `whole`: all that it has open is known here.
  void Lapse(SessionId s, std::string_view why, bool whole = true);
  void LapseSilent(SessionId s, std::string_view why);  // the same; its owner gets less from now on
  void LapseWhoIsSilent();
  void ForgetHeld(SessionId s);  // what others wait for from it, and what it would be told
  bool MayComeBack(const OpenSessionRequest& r) const;
  Task<Result<OpenSessionReply>> ComeBack(OpenSessionRequest r);
  std::vector<NotTaken> TakeUp(const OpenSessionRequest& r);  // REQUIRES: the session has come back just now

  MetaCore* const core_;
  Cleaner* const cleaner_;
  const int64_t answer_timeout_ns_;
  const Ended ended_;
  Losses losses_;
  Sessions sessions_;
  Exported exported_;
  Notices notices_;
  Grants grants_;
  LockTable locks_;
  LapsedSessions lapsed_;
  AddressWrites address_writes_;
  std::map<SessionId, std::vector<NotTaken>> not_taken_;  // of the last time that it came back
  RecentLookups lookups_;
  Opens opens_{this};
};

template <class F>
Result<void> Coherence::CheckBeforeRecall(const OpHeader& h, InodeId ino, F op) {
  if (!grants_.table().DirtyHolder(h.session, ino)) return Ok();
  Touched touched;
  Txn txn(core_->store());  // dropped
  const auto done = op(txn, Ctx(h, &touched));
  switch (done.code()) {  // of these nothing that others have yet to tell makes another one
    case FsError::kAccess:
    case FsError::kPerm:
    case FsError::kIsDir:
    case FsError::kNotDir:
    case FsError::kLoop:
    case FsError::kBadRequest:
    case FsError::kNotSupported:
    case FsError::kInval:
    case FsError::kRange:
    case FsError::kConflict: return done.error();
    default: return Ok();
  }
}

}  // namespace stria
