// Files: the half of MetaService that is about names, attributes, bytes and locks of files. Each call asks coherence whether it
// may go on, runs an operation of meta/ops, and has coherence tell the others (op_runs.h).
//
// A session may have a directory to itself: LeaseMode::kExclusive of its inode. It then makes files in it, with numbers
// that it was given beforehand, and tells of each with its first Commit (CommitRequest::make). Nobody can see that,
// because
//  1. it is granted only while no other session knows anything of the directory's names (Notices) nor is doing
//     anything that reads or changes them (Grants::DirVisit), and what others know of its attributes is taken from them first;
//  2. whoever comes to do such a thing first recalls the lease (Grants::Visit), and the session tells of all that it has
//     made before it answers; who asks for the directory's attributes has it flushed, as a file's size.
//
// Owns: the numbers given to sessions for files that they make (meta/session/number_grants.h), and the operations that run.
//
// Invariants: a call that changes something runs exactly once, and is not answered before what it changed was told (op_runs.h,
// Notices). A session has a directory to itself only under 1.
//
// Called by MetaServer. Sees coherence, the core and its cleaner, and the cluster (to place stripes); what it tells others is
// FilesHost.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/meta_api.h"
#include "common/exec/task.h"
#include "meta/cluster/cluster_keeper.h"
#include "meta/coherence/coherence.h"
#include "meta/core/cleaner.h"
#include "meta/core/meta_core.h"
#include "meta/files/op_runs.h"
#include "meta/ops/ops.h"
#include "meta/repair/repair_queue.h"
#include "meta/session/number_grants.h"

namespace stria {

// Notices to the rooms above.
class FilesHost {
 public:
  virtual ~FilesHost() = default;
  virtual void LayoutAsked(const Layout& layout) = 0;  // stripes of it were allocated
  virtual Result<void> Committed(const std::vector<StripeInfo>& stripes) = 0;
  virtual Result<void> FoundBad(const ReportedShard& bad) = 0;  // by who is believed
  // By a reader (Peer::Holder), whose word alone is not: the shard is on `target`.
  virtual void Doubted(const ReportedShard& said, TargetId target, uint64_t by) = 0;
};

class Files {
 public:
  // All outlive it.
  Files(MetaCore* core, Cleaner* cleaner, Coherence* coherence, const ClusterKeeper* cluster, FilesHost* host)
      : core_(core), coherence_(coherence), sessions_(&coherence->sessions()),
        notices_(&coherence->notices()), grants_(&coherence->grants()), cluster_(cluster), host_(host),
        runs_(core, cleaner, coherence) {}
  void ForgetRuns() { runs_.Forget(); }              // the core's tasks have ended
  void NoteEnded(SessionId s) { numbers_.Drop(s); }  // the session is over

  Task<Result<NodeReply>> Lookup(NameRequest r);
  Task<Result<NodeReply>> GetAttr(InodeRequest r);
  Task<Result<NodeReply>> SetAttr(SetAttrRequest r);
  Task<Result<OpenReply>> MakeNode(MakeNodeRequest r);
  Task<Result<OpenReply>> Open(OpenRequest r);
  Task<Result<Empty>> Release(InodeRequest r);
  Task<Result<Empty>> LeaseDone(LeaseDoneRequest r);
  Task<Result<LockReply>> Lock(LockRequest r);
  Task<Result<NodeReply>> Unlink(NameRequest r);
  Task<Result<NodeReply>> Rmdir(NameRequest r);
  Task<Result<NodeReply>> Rename(RenameRequest r);
  Task<Result<NodeReply>> Link(LinkRequest r);
  Task<Result<ReadLinkReply>> ReadLink(InodeRequest r);
  Task<Result<ReadDirReply>> ReadDir(ReadDirRequest r);
  Task<Result<XattrReply>> GetXattr(XattrRequest r);
  Task<Result<XattrReply>> ListXattr(XattrRequest r);
  Task<Result<XattrReply>> SetXattr(XattrRequest r);
  Task<Result<XattrReply>> RemoveXattr(XattrRequest r);
  Task<Result<StatFsReply>> StatFs(InodeRequest r);
  Task<Result<LayoutReply>> GetLayout(LayoutRequest r);
  Task<Result<LayoutReply>> SetLayout(LayoutRequest r);
  Task<Result<Empty>> Sync(InodeRequest r);
  Task<Result<PathsReply>> Paths(InodeRequest r);
  Task<Result<GetExtentsReply>> GetExtents(GetExtentsRequest r);
  Task<Result<AllocateReply>> Allocate(AllocateRequest r);
  Task<Result<CommitReply>> Commit(CommitRequest r);
  Task<Result<CloneReply>> Clone(CloneRequest r);
  Task<Result<Empty>> ReportShard(ReportShardRequest r);

 private:
  // ---- names.cc ----
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
  Result<void> MayLookBeforeRecall(const OpHeader& h, InodeId dir, const std::string& name);
  Task<Result<NodeReply>> RunRename(RenameRequest r);
  Task<Result<NodeReply>> RunLink(LinkRequest r);
  Task<Result<XattrReply>> RunSetXattr(XattrRequest r);
  Task<Result<XattrReply>> RunRemoveXattr(XattrRequest r);
  Task<Result<XattrReply>> ChangeXattr(OpKind kind, decltype(&OpSetXattr) op, XattrRequest r);
  Task<Result<LayoutReply>> RunSetLayout(LayoutRequest r);
  Task<Result<LayoutReply>> AfterSetLayout(LayoutRequest r, LayoutReply reply);

  // ---- ahead.cc: directories that a session has to itself ----
  Task<Result<std::optional<Grants::DirVisit>>> VisitIfDir(const OpHeader& h, InodeId ino);
  // `may` is asked before anybody gives up a lease of it. Lives as long as the call.
  Task<Result<std::optional<Grants::DirVisit>>> VisitNamedDir(const OpHeader& h, InodeId parent, const std::string& name,
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

  MetaCore* const core_;
  Coherence* const coherence_;
  Sessions* const sessions_;
  Notices* const notices_;
  Grants* const grants_;
  const ClusterKeeper* const cluster_;
  FilesHost* const host_;
  NumberGrants numbers_;
  OpRuns runs_;
};

}  // namespace stria
