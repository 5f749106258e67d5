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
#include "meta/coherence/coherence.h"
#include "meta/core/cleaner.h"
#include "meta/core/meta_core.h"
#include "meta/ops/op_ctx.h"
#include "meta/ops/ops.h"
#include "meta/service/meta_server_options.h"
#include "meta/service/reply_codec.h"
#include "meta/session/number_grants.h"
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
  const LeaseTable& leases() const { return coherence_.leases().table(); }
  const LockTable& locks() const { return coherence_.locks(); }
  const SessionTable& sessions() const { return coherence_.sessions().table(); }
  const WaitList& waits() const { return coherence_.notices().waits(); }
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
  // What the rooms below tell and ask.
  class Host final : public KeeperHost, public CleanerHost, public ClusterHost {
   public:
    explicit Host(MetaServer* server) : server_(server) {}
    // ---- KeeperHost ----
    void Committed() override { server_->core_.Committed(); }
    void Committed(const Touched& touched) override { server_->cleaner_.NoteCommit(touched); }
    bool AreClaimsOver() const override { return server_->cleaner_.AreClaimsOver(); }
    Task<void> Announce(Touched touched) override { co_await server_->notices_->Announce(SessionId(), touched, {}); }
    void Fail(Error error) override { server_->core_.Fail(std::move(error)); }
    bool HasFailed() const override { return server_->core_.HasFailed(); }
    // ---- CleanerHost ----
    bool IsOpen(InodeId ino) const override { return server_->coherence_.IsOpen(ino); }
    bool IsWanted(InodeId ino) const override { return server_->coherence_.IsWanted(ino); }
    void TellTrimmed(const Touched& touched) override { server_->notices_->TellTrimmed(touched); }
    // ---- ClusterHost ----
    void MapChanged() override;
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
  template <class Req, class Rep>
  using RunFn = Task<Result<Rep>> (MetaServer::*)(Req);
  template <class Req, class Rep>
  using AfterFn = Task<Result<Rep>> (MetaServer::*)(Req, Rep);

  // ---- recovery.cc ----
  Task<void> TickLoop();
  Result<void> LoadAll();
  void CancelTasks();

  template <class Req, class Rep>
  Task<Result<Rep>> Mutate(OpKind kind, Req r, RunFn<Req, Rep> run, AfterFn<Req, Rep> after);
  template <class Req, class Rep>
  Task<void> RunOp(std::shared_ptr<OpRun<Rep>> op, Req r, RunFn<Req, Rep> run, AfterFn<Req, Rep> after,
                   std::optional<Rep> stored, bool begun);
  template <class Rep>
  Task<Result<Rep>> AwaitRun(std::shared_ptr<OpRun<Rep>> op, int64_t deadline_ns);
  template <class Rep, class F>
  Task<Result<Rep>> Apply(OpKind kind, const OpHeader& h, Touched* touched, F f);

  // ---- namespace.cc ----
  std::vector<InodeId> Covered(const NodeReply& r) const;
  Result<NodeReply> SettleNode(const OpHeader& h, NodeReply reply);
  Task<Result<NodeReply>> RunSetAttr(SetAttrRequest r);
  Task<Result<OpenReply>> RunMakeNode(MakeNodeRequest r);
  Task<Result<OpenReply>> AfterMakeNode(MakeNodeRequest r, OpenReply reply);
  bool NoteMadeDir(const OpHeader& h, const OpenReply& made);
  Task<Result<OpenReply>> RunOpen(OpenRequest r);
  Task<Result<OpenReply>> AfterOpen(OpenRequest r, OpenReply reply);
  Task<Result<OpenReply>> TakeLease(OpHeader h, bool for_read, bool for_write, OpenReply reply);
  void AddMapping(const OpenRequest& r, OpenReply* reply);
  void NoteEntries(const ReadDirRequest& r, std::vector<DirEntry>* entries);
  Task<Result<NodeReply>> RunUnlink(NameRequest r);
  Task<Result<NodeReply>> RunRmdir(NameRequest r);
  Task<Result<NodeReply>> RunRename(RenameRequest r);
  Task<Result<NodeReply>> RunLink(LinkRequest r);
  Task<Result<XattrReply>> RunSetXattr(XattrRequest r);
  Task<Result<XattrReply>> RunRemoveXattr(XattrRequest r);
  Task<Result<LayoutReply>> RunSetLayout(LayoutRequest r);
  Task<Result<LayoutReply>> AfterSetLayout(LayoutRequest r, LayoutReply reply);

  // ---- ahead.cc: directories that a session has to itself ----
  Task<Result<std::optional<Leases::DirVisit>>> VisitIfDir(const OpHeader& h, InodeId ino);
  // `may` is asked before anybody gives up a lease of it. Lives as long as the call.
  Task<Result<std::optional<Leases::DirVisit>>> VisitNamedDir(const OpHeader& h, InodeId parent, const std::string& name,
                                                      const std::function<Result<void>(InodeId)>& may);
  InodeId DirNamed(const OpHeader& h, InodeId parent, const std::string& name);  // 0: it is none
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

  Coherence coherence_;
  Sessions* const sessions_ = &coherence_.sessions();
  Notices* const notices_ = &coherence_.notices();
  Leases* const leases_ = &coherence_.leases();
  NumberGrants numbers_;

  std::map<std::pair<SessionId, OpSeq>, std::shared_ptr<RunBase>> running_;
  size_t running_count_ = 0;

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
