// The metadata service itself: sessions, leases and exactly-once around the operations of meta/ops, the
// cluster, repair and garbage collection. One executor thread; blocking reads of the store happen on it.
//
// How a mutation runs:
//   1. check header and session; a repeated op gets the stored reply, or joins the one that runs
//   2. wait until nothing conflicts: reclaims after a restart, leases of others (recall, flush)
//   3. run the operation in a transaction, together with its stored reply; commit
//   4. push invalidations to the sessions that cached what changed; wait until each has acknowledged
//      or is fenced
//   5. reply (Commit with durable=true: after the sync)
// Steps 2-5 run in a task of the server's own: a caller that goes away changes nothing. Nothing is locked
// while waiting; every wait is bounded by the caller's timeout, or by fencing those who do not answer.
//
// What runs by itself: group sync, timers of sessions and nodes, trimming, orphans, what fenced
// sessions left, repair. Destroying the server at any point is a crash; a new one on the same store
// recovers. Destroy whoever holds its calls first.
//
// Durable: as meta_api.h says.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/admin_api.h"
#include "api/backup_api.h"
#include "api/meta_api.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "common/random.h"
#include "common/token.h"
#include "meta/backup/archive_keeper.h"
#include "meta/cluster/cluster_keeper.h"
#include "meta/core/cleaner.h"
#include "meta/core/meta_core.h"
#include "meta/ops/op_ctx.h"
#include "meta/ops/ops.h"
#include "meta/service/meta_server_options.h"
#include "meta/service/reply_codec.h"
#include "meta/service/waits.h"
#include "meta/session/interest_table.h"
#include "meta/session/lapsed_sessions.h"
#include "meta/session/lease_table.h"
#include "meta/session/lock_table.h"
#include "meta/session/number_grants.h"
#include "meta/session/recent_lookups.h"
#include "meta/session/session_table.h"
#include "meta/store/room.h"
#include "meta/store/txn.h"
#include "meta/survey/survey.h"
#include "meta/upkeep/upkeep.h"

namespace stria {

inline constexpr int kMaxTxnTries = 64;                  // of an operation that must trim or sync first
inline constexpr size_t kReplyDeletesPerTxn = 8;         // acknowledged replies that go with a batch
inline constexpr size_t kMaxRunningOps = 16384;          // more: kRetryLater
inline constexpr size_t kMaxLostFiles = 100;             // in a status

class MetaServer final : public MetaService, public AdminService {
 public:
  // `keys`: the first signs. The store must be formatted (FormatMetaStore).
  MetaServer(MetaServerOptions options, std::unique_ptr<KvStore> kv, Random rng, std::vector<ClusterKey> keys);
  ~MetaServer() override;

  // Keeps a backup of the metadata on the data servers, from Start on. `connector` outlives the server.
  void UseBackups(BackupConnector* connector) { backups_ = connector; }
  void UseRoom(MetaRoom* room) { core_.UseRoom(room); }  // the store's disk; outlives the server
  // Opens the store, recovers, begins to serve. Before it calls give kNotReady.
  Task<Result<void>> Start();
  // Makes everything durable and ends all tasks; calls give kNotReady again.
  Task<Result<void>> Stop();
  // Resumes when the store has failed: nothing can be written any more, the process must end.
  Task<Error> WaitFatal() { return core_.WaitFatal(); }

  // ---- MetaService ----
  Task<Result<OpenSessionReply>> OpenSession(OpenSessionRequest r) override;
  Task<Result<RenewReply>> Renew(RenewRequest r) override;
  Task<Result<PollReply>> Poll(PollRequest r) override;
  Task<Result<Empty>> CloseSession(InodeRequest r) override;
  Task<Result<NodeReply>> Lookup(NameRequest r) override;
  Task<Result<NodeReply>> GetAttr(InodeRequest r) override;
  Task<Result<NodeReply>> SetAttr(SetAttrRequest r) override;
  Task<Result<OpenReply>> MakeNode(MakeNodeRequest r) override;
  Task<Result<OpenReply>> Open(OpenRequest r) override;
  Task<Result<Empty>> Release(InodeRequest r) override;
  Task<Result<Empty>> LeaseDone(LeaseDoneRequest r) override;
  Task<Result<LockReply>> Lock(LockRequest r) override;
  Task<Result<NodeReply>> Unlink(NameRequest r) override;
  Task<Result<NodeReply>> Rmdir(NameRequest r) override;
  Task<Result<NodeReply>> Rename(RenameRequest r) override;
  Task<Result<NodeReply>> Link(LinkRequest r) override;
  Task<Result<ReadLinkReply>> ReadLink(InodeRequest r) override;
  Task<Result<ReadDirReply>> ReadDir(ReadDirRequest r) override;
  Task<Result<XattrReply>> GetXattr(XattrRequest r) override;
  Task<Result<XattrReply>> ListXattr(XattrRequest r) override;
  Task<Result<XattrReply>> SetXattr(XattrRequest r) override;
  Task<Result<XattrReply>> RemoveXattr(XattrRequest r) override;
  Task<Result<StatFsReply>> StatFs(InodeRequest r) override;
  Task<Result<LayoutReply>> GetLayout(LayoutRequest r) override;
  Task<Result<LayoutReply>> SetLayout(LayoutRequest r) override;
  Task<Result<Empty>> Sync(InodeRequest r) override;
  Task<Result<PathsReply>> Paths(InodeRequest r) override;
  Task<Result<GetExtentsReply>> GetExtents(GetExtentsRequest r) override;
  Task<Result<AllocateReply>> Allocate(AllocateRequest r) override;
  Task<Result<CommitReply>> Commit(CommitRequest r) override;
  Task<Result<CloneReply>> Clone(CloneRequest r) override;
  Task<Result<Empty>> ReportShard(ReportShardRequest r) override;
  Task<Result<StripeReply>> GetStripe(StripeRequest r) override;
  Task<Result<RegisterNodeReply>> RegisterNode(RegisterNodeRequest r) override;
  Task<Result<HeartbeatReply>> Heartbeat(HeartbeatRequest r) override;
  Task<Result<Empty>> ReportWork(ReportWorkRequest r) override;
  Task<Result<CheckShardsReply>> CheckShards(CheckShardsRequest r) override;
  Task<Result<ClusterMap>> GetMap(InodeRequest r) override;
  Task<Result<StatusReply>> Status(InodeRequest r) override;
  Task<Result<AdminReply>> Admin(AdminRequest r) override;
  Task<Result<FsckReply>> Fsck(InodeRequest r) override;

  // ---- AdminService ----
  Task<Result<UpkeepReply>> Upkeep(UpkeepRequest r) override;
  Task<Result<CanRemoveReply>> CanRemove(CanRemoveRequest r) override;
  Task<Result<ScrubOrder>> ReportScrub(ReportScrubRequest r) override;
  Task<Result<CompareShardsReply>> CompareShards(CompareShardsRequest r) override;
  Task<Result<ListParityReply>> ListParity(ListParityRequest r) override;
  Task<Result<FsckRepairReply>> FsckRepair(FsckRepairRequest r) override;
  Task<Result<NamesReply>> Names(NamesRequest r) override;
  Task<Result<FilesReply>> Files(FilesRequest r) override;

  // Settings that count at once while it runs: [repair], [fold], and the times of [cluster]. The others stay as they were.
  void TakeSettings(const MetaServerOptions& now);

  // For tests and status.
  const LeaseTable& leases() const { return leases_; }
  const LockTable& locks() const { return locks_; }
  const SessionTable& sessions() const { return sessions_; }
  const WaitList& waits() const { return waits_; }
  MetaStore* store() { return &core_.store(); }
  const ClusterState& cluster() const { return cluster_.state(); }
  void NoteUnreachable(const std::string& who, std::vector<NodeId> nodes) { cluster_.NoteUnreachable(who, std::move(nodes)); }
  const Archiver* archiver() const { return archives_ ? archives_->archiver() : nullptr; }  // null: it keeps no backup
  uint64_t term() const { return core_.term(); }
  const stria::Upkeep* upkeep() const { return upkeep_.get(); }  // null before Start
  struct RepairSummary {
    size_t waiting = 0, parked = 0, in_flight = 0, widens = 0, folds = 0;
  };
  RepairSummary repair_summary() const;

 private:
  // What the operations may ask about open inodes.
  class Opens final : public OpenTable {
   public:
    explicit Opens(const MetaServer* server) : server_(server) {}
    bool IsInUse(SessionId asks, InodeId ino) const override {
      return server_->IsOpen(ino) || server_->lookups_.ByAnother(asks, ino, server_->core_.Now());
    }
    bool HasOpen(SessionId s, InodeId ino, bool for_write) const override {
      return for_write ? server_->leases_.IsWriter(s, ino) : server_->leases_.IsReader(s, ino);
    }
    bool HadOpen(SessionId s, InodeId ino, bool for_write, std::string_view proof) const override {
      return (server_->Proved(s, proof, ino) & (for_write ? kOpenWrite : kOpenRead)) != 0;
    }

   private:
    const MetaServer* server_;
  };
  // What the rooms below tell and ask.
  class Host final : public KeeperHost, public CleanerHost, public ClusterHost {
   public:
    explicit Host(MetaServer* server) : server_(server) {}
    // ---- KeeperHost ----
    void Committed() override { server_->core_.Committed(); }
    void Committed(const Touched& touched) override { server_->cleaner_.NoteCommit(touched); }
    bool AreClaimsOver() const override { return server_->cleaner_.AreClaimsOver(); }
    Task<void> Announce(Touched touched) override { co_await server_->Announce(SessionId(), touched, {}); }
    void Fail(Error error) override { server_->core_.Fail(std::move(error)); }
    bool HasFailed() const override { return server_->core_.HasFailed(); }
    // ---- CleanerHost ----
    bool IsOpen(InodeId ino) const override { return server_->IsOpen(ino); }
    bool IsWanted(InodeId ino) const override {
      return server_->lookups_.ByAnother(SessionId(), ino, server_->core_.Now());
    }
    void TellTrimmed(const Touched& touched) override { server_->TellTrimmed(touched); }
    // ---- ClusterHost ----
    void MapChanged() override { server_->PushMapEvents(); }
    void Moved(Txn& txn, const std::set<TargetId>& targets) override { server_->upkeep_->NoteMoved(txn, targets); }
    void Restarted(const std::set<TargetId>& here) override { server_->upkeep_->ForgetHandedOut(here); }

   private:
    MetaServer* const server_;
  };
  struct RunBase {
    explicit RunBase(OpKind k) : kind(k) {}
    virtual ~RunBase() = default;
    const OpKind kind;
    Event changed;
  };
  template <class Rep>
  struct OpRun final : RunBase {
    using RunBase::RunBase;
    std::optional<Result<Rep>> result;
  };
  using Untold = std::map<SessionId, uint64_t>;  // newest event
  using Acks = std::vector<std::pair<SessionId, uint64_t>>;
  template <class Req, class Rep>
  using RunFn = Task<Result<Rep>> (MetaServer::*)(Req);
  template <class Req, class Rep>
  using AfterFn = Task<Result<Rep>> (MetaServer::*)(Req, Rep);

  // ---- core.cc: callers, announcements; recovery.cc ----
  Result<void> CheckSession(const OpHeader& h);  // also the header; notes acknowledged replies
  // As CheckSession; also without a session, for admins' calls, who read what is true now and keep nothing.
  Result<void> CheckCaller(const OpHeader& h) { return h.session ? CheckSession(h) : core_.CheckHeader(h); }
  // CheckSession, then waits for the end of the reclaim window.
  Task<Result<void>> Gate(const OpHeader& h);
  Task<Result<void>> GateCaller(const OpHeader& h);  // the same with CheckCaller
  // As the request says, asked and answered before a restart that lost it. What its session holds the session has claimed:
  // nothing is opened by it, as there may be nobody any more who would give it back.
  static bool IsReplay(const OpHeader& h) { return h.replay_order != 0 && h.replay_order != UINT64_MAX; }
  // And it can be so: it has its place among what the restart has lost. One that comes too late is a request like others.
  uint64_t ReplayOrder(const OpHeader& h) const;
  bool Repeats(const OpHeader& h) const { return IsReplay(h) && ReplayOrder(h) != 0; }
  bool Recovers(const OpHeader& h) const;
  void NoteReclaimed();  // a session, or it is gone
  // What is the cluster's: for admins and data servers, who call without a session. Nobody whom clients call by another name.
  bool IsAdmin(const OpHeader& h) const;
  // CheckCaller; kPerm, "only root ..", if it is nobody of those.
  Result<void> CheckAdmin(const OpHeader& h, const char* does = "asks for this, and data servers");
  void ReplayIsAt(const OpHeader& h, uint64_t order);  // nothing if it is not of a replay
  Task<Result<void>> AwaitReclaims(const OpHeader& h);
  OpCtx Ctx(const OpHeader& h, Touched* touched);
  OpCtx NamesCtx(const OpHeader& h);  // to ask for paths: an admin is told of all
  // Pushes; those whose queue is full are fenced. Appends what to wait for. True if some were fenced.
  bool Push(const std::vector<InterestTable::Notice>& notices, Acks* acks);
  // No mutation is answered before these are acknowledged.
  void NoteEvictions(const std::vector<InterestTable::Notice>& evicted);
  // What may be cached is bounded: for what one reads others have to forget something, who are fenced when their queues
  // are full. So nobody reads faster than they can. To be followed by the noting without another await. Not for what a
  // kernel may need to read a page (attributes, mappings): forgetting that page waits for it.
  Task<void> WaitEvictions();
  bool PushDemands(const std::vector<LeaseDemand>& demands);
  uint64_t PushEvent(SessionId s, SessionEvent e);
  Task<void> WaitAcks(Acks acks, SessionId asks, InodeId ino, WaitList::For why);  // as WaitList::Wait
  // Tells everybody but `from` what changed, and `from` what its reply does not cover; waits for the
  // others.
  Task<void> Announce(SessionId from, const Touched& touched, std::vector<InodeId> covered);
  // No answer about a directory's names overtakes what was announced of them: who hears of a change from us must not
  // find, or hear from others who have looked at what they cached, that it has not happened.
  // All but `except` are to forget what they cache of it; WaitTold waits until they have.
  void TellAndNote(InodeId ino, SessionId except);
  // Its allocated bytes are fewer; nobody waits for that.
  void TellTrimmed(const Touched& touched);
  Task<void> WaitTold(InodeId dir);
  Task<void> WaitTold(std::map<InodeId, Untold>* of, InodeId ino, SessionId except,
                      WaitList::For why = WaitList::For::kQuestion);
  bool IsUntold(SessionId s, InodeId ino) const;  // of a change of the inode's attributes or bytes
  // The file has lost its last name: sessions that keep it for a next open, or will, are to give it back.
  void TellOrphaned(const Touched& touched);
  void PushMapEvents();
  Task<void> TickLoop();
  Result<void> LoadAll();
  void CancelTasks();
  Result<void> LoadSessions(Txn& txn);

  template <class Req, class Rep>
  Task<Result<Rep>> Mutate(OpKind kind, Req r, RunFn<Req, Rep> run, AfterFn<Req, Rep> after);
  template <class Req, class Rep>
  Task<void> RunOp(std::shared_ptr<OpRun<Rep>> op, Req r, RunFn<Req, Rep> run, AfterFn<Req, Rep> after,
                   std::optional<Rep> stored, bool begun);
  template <class Rep>
  Task<Result<Rep>> AwaitRun(std::shared_ptr<OpRun<Rep>> op, int64_t deadline_ns);
  template <class Rep, class F>
  Task<Result<Rep>> Apply(OpKind kind, const OpHeader& h, Touched* touched, F f);

  // ---- sessions.cc ----
  Task<Result<OpenSessionReply>> OpenFresh(OpenSessionRequest r);
  std::string_view ReclaimHeld(const OpenSessionRequest& r);  // "", or why not
  OpenSessionReply SessionReply(SessionId s, bool reclaimed);
  // Ends a session at once, durable with the next sync; what it left is collected later. `why` is for
  // the log; "" if it asked for it.
  void Fence(SessionId s, std::string_view why);
  void ExpireSessions();
  void LapseSilent();
  uint8_t Proved(SessionId s, std::string_view proof, InodeId ino) const;  // OpenRights
  std::string ProofOf(const OpHeader& h, InodeId first, uint32_t count, uint8_t rights) const;
  std::string ProofOfOpen(const OpHeader& h, InodeId ino) const;  // as it is now, and as h.opened says
  // Who may not do it makes nobody give up a lease: the error of `op(txn, ctx)` if it is one that stays. Asks only if there
  // is somebody.
  template <class F>
  Result<void> CheckBeforeRecall(const OpHeader& h, InodeId ino, F op);
  Task<Result<LeaseMode>> AcquireLease(const OpHeader& h, InodeId ino, bool for_write, bool data);
  void GiveBack(const OpHeader& h, InodeId ino);  // the session has it open no more
  Task<Result<void>> ClearForChange(SessionId s, InodeId ino, int64_t deadline_ns);
  Task<Result<void>> FlushOthers(SessionId s, InodeId ino, int64_t deadline_ns,
                                 WaitList::For why = WaitList::For::kQuestion);

  // ---- come_back.cc: sessions whose lease has run out ----
  // Others may have what it held. Fences it instead if it could not come back.
  void Lapse(SessionId s, std::string_view why);
  bool MayComeBack(const OpenSessionRequest& r) const;
  Task<Result<OpenSessionReply>> ComeBack(OpenSessionRequest r);
  std::vector<NotTaken> TakeUp(const OpenSessionRequest& r);  // REQUIRES: the session has come back just now
  void ForgetHeld(SessionId s);  // what others wait for from it, and what it would be told
  bool IsOpen(InodeId ino) const { return leases_.IsOpen(ino) || lapsed_.IsOpen(ino); }

  // ---- namespace.cc ----
  std::vector<InodeId> Covered(const NodeReply& r) const;
  Result<NodeReply> SettleNode(const OpHeader& h, NodeReply reply);
  Task<Result<NodeReply>> RunSetAttr(SetAttrRequest r);
  Task<Result<OpenReply>> RunMakeNode(MakeNodeRequest r);
  Task<Result<OpenReply>> AfterMakeNode(MakeNodeRequest r, OpenReply reply);
  void OpenAsMade(const OpHeader& h, InodeId made);
  bool NoteMadeDir(const OpHeader& h, const OpenReply& made);
  Task<Result<OpenReply>> RunOpen(OpenRequest r);
  Task<Result<OpenReply>> AfterOpen(OpenRequest r, OpenReply reply);
  Task<Result<OpenReply>> TakeLease(OpHeader h, bool for_read, bool for_write, OpenReply reply);
  void AddMapping(const OpenRequest& r, OpenReply* reply);
  Task<Result<NodeReply>> RunUnlink(NameRequest r);
  Task<Result<NodeReply>> RunRmdir(NameRequest r);
  Task<Result<NodeReply>> RunRename(RenameRequest r);
  Task<Result<NodeReply>> RunLink(LinkRequest r);
  Task<Result<XattrReply>> RunSetXattr(XattrRequest r);
  Task<Result<XattrReply>> RunRemoveXattr(XattrRequest r);
  Task<Result<LayoutReply>> RunSetLayout(LayoutRequest r);
  Task<Result<LayoutReply>> AfterSetLayout(LayoutRequest r, LayoutReply reply);

  // ---- ahead.cc: directories that a session has to itself ----
  // While it lives, no session but its own is given the directory.
  class DirVisit {
   public:
    DirVisit(MetaServer* server, SessionId s, InodeId dir);
    DirVisit(DirVisit&& o) noexcept : server_(std::exchange(o.server_, nullptr)), key_(o.key_) {}
    DirVisit& operator=(DirVisit&&) = delete;
    ~DirVisit();

   private:
    MetaServer* server_;
    const std::pair<InodeId, SessionId> key_;
  };
  // To be kept by whoever reads or changes names of the directory, or what is inherited or permitted in it, from before
  // that until it is answered: no other session has it to itself.
  Task<Result<DirVisit>> VisitDir(const OpHeader& h, InodeId dir);
  Task<Result<std::optional<DirVisit>>> VisitIfDir(const OpHeader& h, InodeId ino);
  // `may` is asked before anybody gives up a lease of it. Lives as long as the call.
  Task<Result<std::optional<DirVisit>>> VisitNamedDir(const OpHeader& h, InodeId parent, const std::string& name,
                                                      const std::function<Result<void>(InodeId)>& may);
  InodeId DirNamed(const OpHeader& h, InodeId parent, const std::string& name);  // 0: it is none
  bool OthersVisit(InodeId dir, SessionId s) const;
  Task<void> GrantAhead(const OpHeader& h, const MakeNodeRequest& r, OpenReply* reply);
  bool IsNumberOf(const OpHeader& h, InodeId ino) const;  // given to the session for what it makes
  static Result<void> CheckMake(const CommitRequest& r);
  Result<CommitReply> MakeAndCommit(Txn& txn, const OpCtx& ctx, const CommitRequest& r);
  Task<Result<void>> AnnounceMade(const CommitRequest& r, const Touched& touched);

  // ---- locks.cc ----
  Task<Result<LockReply>> TestLock(LockRequest r);
  Task<Result<LockReply>> RunLock(LockRequest r);
  Result<void> CheckLock(const LockRequest& r);
  static LockReply LockReplyOf(SessionId s, const LockTable::Answer& a);
  void TellLocksFree(const std::vector<LockNotice>& notices);

  // ---- data.cc ----
  Task<Result<AllocateReply>> RunAllocate(AllocateRequest r);
  Task<Result<AllocateReply>> AfterAllocate(AllocateRequest r, AllocateReply reply);
  Result<AllocateReply> AllocateInTxn(Txn& txn, const OpCtx& ctx, const AllocateRequest& r);
  Result<void> CheckDisksOf(const CommitRequest& r) const;
  Task<Result<CommitReply>> RunCommit(CommitRequest r);
  Task<Result<CommitReply>> AfterCommit(CommitRequest r, CommitReply reply);
  Task<Result<void>> AnnounceData(SessionId s, InodeId ino, const Touched& touched);
  Task<Result<CloneReply>> RunClone(CloneRequest r);
  Task<Result<CloneReply>> AfterClone(CloneRequest r, CloneReply reply);

  // ---- cluster.cc ----
  GarbageUpTo Deletable() const;

  // ---- upkeep.cc ----
  Result<std::string> StartRepair(bool dry_run);

  // ---- admin.cc ----
  Task<Result<AdminReply>> AdminTargets(AdminRequest r, std::vector<TargetId> targets);
  Result<std::set<StripeId>> OnlyAllocatedOn(TargetId target);
  Task<Result<AdminReply>> AdminRemove(AdminRequest r, std::vector<TargetId> targets);
  Task<Result<AdminReply>> AdminRepair(AdminRequest r);
  Task<Result<AdminReply>> FinishAdmin(AdminReply reply);
  Result<TargetState> NextState(const AdminRequest& r, const TargetInfo& t) const;
  Result<void> CheckReplacement(const AdminRequest& r) const;

  MetaServerOptions options_;  // see TakeSettings
  Host host_{this};
  MetaCore core_;
  Cleaner cleaner_;
  ClusterKeeper cluster_;

  SessionTable sessions_;
  LeaseTable leases_;
  LockTable locks_;
  LapsedSessions lapsed_;
  std::map<SessionId, std::vector<NotTaken>> not_taken_;  // of the last time that it came back
  InterestTable interests_;
  NumberGrants numbers_;
  std::map<std::pair<InodeId, SessionId>, size_t> visits_;  // how many DirVisits
  RecentLookups lookups_;
  Opens opens_{this};

  std::map<SessionId, std::shared_ptr<Event>> polls_;  // pulsed when a session has events
  std::map<std::pair<SessionId, uint64_t>, std::pair<InodeId, int64_t>> demands_;  // unanswered: since when
  std::map<SessionId, std::pair<uint64_t, int64_t>> oldest_event_;  // unacknowledged: since when the oldest
  // Names of these directories, attributes or data of these inodes have changed: newest event of that which a
  // session has perhaps not acknowledged.
  std::map<InodeId, Untold> untold_, untold_attrs_;
  WaitList waits_;
  std::map<SessionId, uint64_t> evictions_;  // newest eviction notice: no mutation overtakes it
  std::map<std::pair<SessionId, OpSeq>, std::shared_ptr<RunBase>> running_;
  size_t running_count_ = 0;

  bool replays_began_ = false;

  BackupConnector* backups_ = nullptr;

  TaskScope scope_;  // its tasks use everything above
  // Rooms of their own, and their tasks. Made by LoadAll; those below are ended first.
  std::unique_ptr<ArchiveKeeper> archives_;
  std::unique_ptr<stria::Upkeep> upkeep_;
  std::unique_ptr<Survey> survey_;
};

// Makes an empty store a new cluster's: superblock and root directory. Durable on return.
Task<Result<void>> FormatMetaStore(std::unique_ptr<KvStore> kv, FormatParams params);

}  // namespace stria
