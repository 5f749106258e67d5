// The metadata service: rooms that each own their state (meta/README.md, "Rooms of the metadata server"), wired together here.
// One executor thread; blocking reads of the store happen on it.
//
// Owns the rooms, the order in which they begin and end, and the clock. Called by the dispatchers (meta/served_meta.h, test/sim).
//
// How a mutation runs: meta/files/op_runs.h. What runs by itself: group sync (meta/core/meta_core.h), the clock below, cleaning
// up (meta/core/cleaner.h), background jobs (meta/upkeep/upkeep.h), the backup (meta/backup/archive_keeper.h). Destroying the
// server at any point is a crash; a new one on the same store recovers. Destroy whoever holds its calls first.
//
// Durable: as meta_api.h says.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
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
#include "meta/calls/admin_calls.h"
#include "meta/calls/node_calls.h"
#include "meta/cluster/cluster_keeper.h"
#include "meta/coherence/coherence.h"
#include "meta/core/cleaner.h"
#include "meta/core/meta_core.h"
#include "meta/events/event_room.h"
#include "meta/exports/confined.h"
#include "meta/exports/export_room.h"
#include "meta/files/files.h"
#include "meta/service/meta_server_options.h"
#include "meta/service/trust_rooms.h"
#include "meta/store/room.h"
#include "meta/survey/survey.h"
#include "meta/upkeep/upkeep.h"

namespace stria {

class MetaServer final : public MetaService, public AdminService {
 public:
  // `keys`: the first signs. The store must be formatted (FormatMetaStore).
  MetaServer(MetaServerOptions options, std::unique_ptr<KvStore> kv, Random rng, std::vector<ClusterKey> keys);
  ~MetaServer() override;

  // Keeps a backup of the metadata on the data servers, from Start on. `connector` outlives the server.
  void UseBackups(BackupConnector* connector) { backups_ = connector; }
  void UseRoom(MetaRoom* room) { core_.UseRoom(room); }  // the store's disk; outlives the server
  void UsePool(Pool* pool) { admins_.UsePool(pool); }  // for checks of the metadata; outlives the server, and its store
  TrustRooms& trust() { return trust_; }  // who is of the cluster
  // Opens the store, recovers, begins to serve. Before it calls give kNotReady.
  Task<Result<void>> Start();
  // Makes everything durable and ends all tasks; calls give kNotReady again.
  Task<Result<void>> Stop();
  // Resumes when the store has failed: nothing can be written any more, the process must end.
  Task<Error> WaitFatal() { return core_.WaitFatal(); }

  // ---- MetaService ----
  Task<Result<OpenSessionReply>> OpenSession(OpenSessionRequest r) override;
  Task<Result<RenewReply>> Renew(RenewRequest r) override;
  Task<Result<PollReply>> Poll(PollRequest r) override { return coherence_.sessions().Poll(std::move(r)); }
  Task<Result<Empty>> CloseSession(InodeRequest r) override;
  Task<Result<NodeReply>> Lookup(NameRequest r) override { return files_.Lookup(std::move(r)); }
  Task<Result<NodeReply>> GetAttr(InodeRequest r) override { return files_.GetAttr(std::move(r)); }
  Task<Result<NodeReply>> SetAttr(SetAttrRequest r) override { return files_.SetAttr(std::move(r)); }
  Task<Result<OpenReply>> MakeNode(MakeNodeRequest r) override { return files_.MakeNode(std::move(r)); }
  Task<Result<OpenReply>> Open(OpenRequest r) override { return files_.Open(std::move(r)); }
  Task<Result<Empty>> Release(InodeRequest r) override { return files_.Release(std::move(r)); }
  Task<Result<Empty>> LeaseDone(LeaseDoneRequest r) override { return files_.LeaseDone(std::move(r)); }
  Task<Result<LockReply>> Lock(LockRequest r) override { return files_.Lock(std::move(r)); }
  Task<Result<NodeReply>> Unlink(NameRequest r) override { return files_.Unlink(std::move(r)); }
  Task<Result<NodeReply>> Rmdir(NameRequest r) override { return files_.Rmdir(std::move(r)); }
  Task<Result<NodeReply>> Rename(RenameRequest r) override { return files_.Rename(std::move(r)); }
  Task<Result<NodeReply>> Link(LinkRequest r) override { return files_.Link(std::move(r)); }
  Task<Result<ReadLinkReply>> ReadLink(InodeRequest r) override { return files_.ReadLink(std::move(r)); }
  Task<Result<ReadDirReply>> ReadDir(ReadDirRequest r) override { return files_.ReadDir(std::move(r)); }
  Task<Result<XattrReply>> GetXattr(XattrRequest r) override { return files_.GetXattr(std::move(r)); }
  Task<Result<XattrReply>> ListXattr(XattrRequest r) override { return files_.ListXattr(std::move(r)); }
  Task<Result<XattrReply>> SetXattr(XattrRequest r) override { return files_.SetXattr(std::move(r)); }
  Task<Result<XattrReply>> RemoveXattr(XattrRequest r) override { return files_.RemoveXattr(std::move(r)); }
  Task<Result<StatFsReply>> StatFs(InodeRequest r) override { return files_.StatFs(std::move(r)); }
  Task<Result<LayoutReply>> GetLayout(LayoutRequest r) override { return files_.GetLayout(std::move(r)); }
  Task<Result<LayoutReply>> SetLayout(LayoutRequest r) override { return files_.SetLayout(std::move(r)); }
  Task<Result<Empty>> Sync(InodeRequest r) override { return files_.Sync(std::move(r)); }
  Task<Result<PathsReply>> Paths(InodeRequest r) override { return files_.Paths(std::move(r)); }
  Task<Result<GetExtentsReply>> GetExtents(GetExtentsRequest r) override { return files_.GetExtents(std::move(r)); }
  Task<Result<AllocateReply>> Allocate(AllocateRequest r) override { return files_.Allocate(std::move(r)); }
  Task<Result<CommitReply>> Commit(CommitRequest r) override { return files_.Commit(std::move(r)); }
  Task<Result<CloneReply>> Clone(CloneRequest r) override { return files_.Clone(std::move(r)); }
  Task<Result<Empty>> ReportShard(ReportShardRequest r) override { return files_.ReportShard(std::move(r)); }
  Task<Result<RegisterNodeReply>> RegisterNode(RegisterNodeRequest r) override { return nodes_.RegisterNode(std::move(r)); }
  Task<Result<HeartbeatReply>> Heartbeat(HeartbeatRequest r) override { return nodes_.Heartbeat(std::move(r)); }
  Task<Result<Empty>> ReportWork(ReportWorkRequest r) override { return nodes_.ReportWork(std::move(r)); }
  Task<Result<CheckShardsReply>> CheckShards(CheckShardsRequest r) override { return nodes_.CheckShards(std::move(r)); }
  Task<Result<ClusterMap>> GetMap(InodeRequest r) override { return nodes_.GetMap(std::move(r)); }
  Task<Result<StatusReply>> Status(InodeRequest r) override;
  Task<Result<AdminReply>> Admin(AdminRequest r) override { return admins_.Admin(std::move(r)); }
  Task<Result<FsckReply>> Fsck(InodeRequest r) override { return admins_.Fsck(std::move(r)); }

  // ---- AdminService ----
  Task<Result<UpkeepReply>> Upkeep(UpkeepRequest r) override { return admins_.Upkeep(std::move(r)); }
  Task<Result<CanRemoveReply>> CanRemove(CanRemoveRequest r) override { return admins_.CanRemove(std::move(r)); }
  Task<Result<ScrubOrder>> ReportScrub(ReportScrubRequest r) override { return nodes_.ReportScrub(std::move(r)); }
  Task<Result<CompareShardsReply>> CompareShards(CompareShardsRequest r) override { return nodes_.CompareShards(std::move(r)); }
  Task<Result<ListParityReply>> ListParity(ListParityRequest r) override { return nodes_.ListParity(std::move(r)); }
  Task<Result<FsckRepairReply>> FsckRepair(FsckRepairRequest r) override { return admins_.FsckRepair(std::move(r)); }
  Task<Result<NamesReply>> Names(NamesRequest r) override { return admins_.Names(std::move(r)); }
  Task<Result<FilesReply>> Files(FilesRequest r) override { return admins_.Files(std::move(r)); }
  Task<Result<ReadEventsReply>> ReadEvents(ReadEventsRequest r) override { return admins_.ReadEvents(std::move(r)); }

  // Settings that count at once while it runs: [repair], [fold], and the times of [cluster]. The others stay as they were.
  void TakeSettings(const MetaServerOptions& now);

  // For tests and status.
  const LeaseTable& leases() const { return coherence_.grants().table(); }
  const LockTable& locks() const { return coherence_.locks(); }
  const SessionTable& sessions() const { return coherence_.sessions().table(); }
  const WaitList& waits() const { return coherence_.notices().waits(); }
  const Coherence& coherence() const { return coherence_; }
  MetaStore* store() { return &core_.store(); }
  const ConfinedSessions* confined() const { return &coherence_; }  // for a ConfinedFront
  const ClusterState& cluster() const { return cluster_.state(); }
  // `who`: a server.
  void NoteUnreachable(const std::string& who, std::vector<NodeId> nodes) { cluster_.NoteUnreachable({SessionId(), who, who}, std::move(nodes)); }
  const Archiver* archiver() const { return archives_ ? archives_->archiver() : nullptr; }  // null: it keeps no backup
  uint64_t term() const { return core_.term(); }
  int64_t token_time_ns() const { return core_.is_open() ? core_.tokens().TimeNs() : 0; }  // 0 before Start
  const stria::Upkeep* upkeep() const { return upkeep_.get(); }  // null before Start
  struct RepairSummary {
    size_t waiting = 0, parked = 0, in_flight = 0, widens = 0, folds = 0;
  };
  RepairSummary repair_summary() const;

 private:
  // What the rooms below tell and ask.
  class Host final : public KeeperHost, public CleanerHost, public ClusterHost, public FilesHost {
   public:
    explicit Host(MetaServer* server) : server_(server) {}
    // ---- KeeperHost ----
    void Committed() override { server_->core_.Committed(); }
    void Committed(const Touched& touched) override { server_->cleaner_.NoteCommit(touched); }
    bool AreClaimsOver() const override { return server_->cleaner_.AreClaimsOver(); }
    Task<void> Announce(Touched touched) override { co_await server_->coherence_.notices().Announce(SessionId(), touched, {}); }
    void Fail(Error error) override { server_->core_.Fail(std::move(error)); }
    bool HasFailed() const override { return server_->core_.HasFailed(); }
    // ---- CleanerHost ----
    bool IsOpen(InodeId ino) const override { return server_->coherence_.IsOpen(ino); }
    bool IsWanted(InodeId ino) const override { return server_->coherence_.IsWanted(ino); }
    void TellTrimmed(const Touched& touched) override { server_->coherence_.notices().TellTrimmed(touched); }
    // ---- ClusterHost ----
    void MapChanged() override;
    void Moved(Txn& txn, const std::set<TargetId>& targets) override { server_->upkeep_->NoteMoved(txn, targets); }
    void Restarted(const std::set<TargetId>& here) override { server_->upkeep_->ForgetHandedOut(here); }
    // ---- FilesHost ----
    void LayoutAsked(const Layout& layout) override { server_->survey_->NoteAsked(layout); }
    Result<void> Committed(const std::vector<StripeInfo>& stripes) override { return server_->upkeep_->NoteCommitted(stripes); }
    Result<void> FoundBad(const ReportedShard& bad) override { return server_->upkeep_->NoteBad(bad); }
    void Doubted(const ReportedShard& said, TargetId target, uint64_t by) override { server_->upkeep_->NoteDoubt(said, target, by); }

   private:
    MetaServer* const server_;
  };
  Task<void> TickLoop();
  Task<Result<ClusterSeen>> SeeCluster();  // cluster_seen.cc
  Result<void> LoadAll();
  void NoteEnded(SessionId s);  // rooms forget what they know of it
  void CancelTasks();

  MetaServerOptions options_;  // see TakeSettings
  Host host_{this};
  MetaCore core_;
  Cleaner cleaner_;
  ClusterKeeper cluster_;
  ExportRoom exports_;

  Coherence coherence_;
  LoadedRooms rooms_;  // those that LoadAll makes
  stria::Files files_;
  NodeCalls nodes_;
  AdminCalls admins_;
  TrustRooms trust_;

  BackupConnector* backups_ = nullptr;

  TaskScope scope_;  // its tasks use everything above
  // Rooms of their own, and their tasks. Made by LoadAll; those below are ended first.
  std::unique_ptr<ArchiveKeeper> archives_;
  std::unique_ptr<stria::Upkeep> upkeep_;
  std::unique_ptr<Survey> survey_;
  std::unique_ptr<EventRoom> events_;  // null: it keeps none
};

// Makes an empty store a new cluster's: superblock and root directory. Durable on return.
Task<Result<void>> FormatMetaStore(std::unique_ptr<KvStore> kv, FormatParams params);

}  // namespace stria
