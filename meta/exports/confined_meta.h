// Holds sessions that are confined to an export to it: a decorator around the metadata service, between the dispatcher and MetaServer.
//
// Invariants, for calls of a confined session:
//  - each inode that the request is about was shown to a session of the same export: it is sealed with the export's key
//    (trust/inode_handle.h). What needs no seal is proved otherwise: InodeUse (api/inodes_of.h);
//  - names are asked for and changed only in directories that lie below the export's root now. A directory that was moved out is no door:
//    kStale. A file that was moved out stays readable to who was shown it, as with NFS;
//  - every inode of a reply is sealed, so that the session can name it. `..` of the root is the root, and no seal is given of what is
//    above it;
//  - paths begin at the export's root, and others are hidden;
//  - the space is that of the cluster, by the layout of the export's root; how many files there are elsewhere is not told;
//  - calls about the cluster are refused.
// A refusal is kStale, for that is what a handle is that leads nowhere, says no number, and counts as a denial.
//
// A method without a rule does not compile: it stays pure virtual. Sessions that are not confined pass as they are. Errors of the inner
// service also pass: some say the number of an inode that the request named. Executor's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/admin_api.h"
#include "api/inodes_of.h"
#include "api/meta_api.h"
#include "common/exec/task.h"
#include "meta/exports/confined.h"

namespace stria {

// The tree of directories as it is now.
class ConfinedTree {
 public:
  virtual ~ConfinedTree() = default;
  // True of the root itself, and of a directory that is not there: the inner service says so, or it comes while the call waits.
  virtual bool LiesBelow(InodeId dir, InodeId root) = 0;
  // From the root of all, "/a/b"; "/" of that. nullopt: it has none.
  virtual std::optional<std::string> PathOf(InodeId dir) = 0;
};

// What both services check.
class Confinement {
 public:
  using Bound = ConfinedSessions::Bound;
  // A call was refused; after it was counted.
  using Denied = std::function<void(const OpHeader& by, std::string_view why)>;

  // All of them outlive it.
  Confinement(const ConfinedSessions* sessions, ConfinedTree* tree, Denied denied = nullptr)
      : sessions_(sessions), tree_(tree), denied_(std::move(denied)) {}

  // Of the caller's own session. A call that names another's passes as it is, and is refused for that by whoever answers it: nobody
  // learns here what binds a session that is not his, nor tries seals for it.
  std::optional<Bound> BoundOf(const OpHeader& h) const { return h.session && sessions_->IsOwn(h) ? BoundOf(h.session) : std::nullopt; }
  std::optional<Bound> BoundOf(SessionId s) const { return s ? sessions_->BoundOf(s) : std::nullopt; }
  // The first invariant and the second.
  template <class Req>
  Result<void> Check(const Bound& bound, const Req& r) {
    Result<void> out;
    ForEachInode(r, [&](InodeId ino, InodeUse use) {
      if (ino && out.ok() && use != InodeUse::kKnown) out = CheckOne(bound, r.header, ino, use == InodeUse::kDirectory);
    });
    return out;
  }
  template <class Rep>
  static void Seal(const Bound& bound, Rep* reply) {
    if constexpr (requires { reply->seals; }) {
      reply->seals.clear();
      ForEachInode(*reply, [&](InodeId ino, InodeUse use) {
        if (ino && use == InodeUse::kNamed) SealOne(bound, ino, &reply->seals);
      });
    }
  }
  bool LiesBelow(const Bound& bound, InodeId dir) { return tree_->LiesBelow(dir, bound.root); }
  Error Refuse(const OpHeader& h, FsError code, std::string_view why);
  // As paths are told to the session; nullopt: not at all.
  static std::optional<std::string> PathBelow(const std::string& root, const std::string& path);
  std::optional<std::string> RootPath(const Bound& bound) { return tree_->PathOf(bound.root); }
  // Takes the paths as the session may see them, and counts the others as hidden.
  void ShowPaths(const Bound& bound, std::vector<std::string> paths, std::vector<std::string>* shown, uint64_t* hidden);

  uint64_t denials() const { return denials_; }

 private:
  Result<void> CheckOne(const Bound& bound, const OpHeader& h, InodeId ino, bool directory);
  static void SealOne(const Bound& bound, InodeId ino, std::vector<InodeSeal>* seals);

  const ConfinedSessions* const sessions_;
  ConfinedTree* const tree_;
  const Denied denied_;
  uint64_t denials_ = 0;
};

// The rule of each method, as X(Rule, Name, Request, Reply). Sealed: the inodes of request and reply, as above. Passes: it names no
// inode, or only gives up what the session has. Refused: a confined session has no business with it. Own: a function of its own.
#define STRIA_CONFINED_META(X)                                        \
  X(Own, OpenSession, OpenSessionRequest, OpenSessionReply)           \
  X(Passes, Renew, RenewRequest, RenewReply)                          \
  X(Passes, Poll, PollRequest, PollReply)                             \
  X(Passes, CloseSession, InodeRequest, Empty)                        \
  X(Own, Lookup, NameRequest, NodeReply)                              \
  X(Sealed, GetAttr, InodeRequest, NodeReply)                         \
  X(Sealed, SetAttr, SetAttrRequest, NodeReply)                       \
  X(Sealed, MakeNode, MakeNodeRequest, OpenReply)                     \
  X(Sealed, Open, OpenRequest, OpenReply)                             \
  X(Passes, Release, InodeRequest, Empty)                             \
  X(Passes, LeaseDone, LeaseDoneRequest, Empty)                       \
  X(Sealed, Lock, LockRequest, LockReply)                             \
  X(Sealed, Unlink, NameRequest, NodeReply)                           \
  X(Sealed, Rmdir, NameRequest, NodeReply)                            \
  X(Sealed, Rename, RenameRequest, NodeReply)                         \
  X(Sealed, Link, LinkRequest, NodeReply)                             \
  X(Sealed, ReadLink, InodeRequest, ReadLinkReply)                    \
  X(Own, ReadDir, ReadDirRequest, ReadDirReply)                       \
  X(Sealed, GetXattr, XattrRequest, XattrReply)                       \
  X(Sealed, ListXattr, XattrRequest, XattrReply)                      \
  X(Sealed, SetXattr, XattrRequest, XattrReply)                       \
  X(Sealed, RemoveXattr, XattrRequest, XattrReply)                    \
  X(Own, StatFs, InodeRequest, StatFsReply)                           \
  X(Sealed, GetLayout, LayoutRequest, LayoutReply)                    \
  X(Sealed, SetLayout, LayoutRequest, LayoutReply)                    \
  X(Passes, Sync, InodeRequest, Empty)                                \
  X(Own, Paths, InodeRequest, PathsReply)                             \
  X(Sealed, GetExtents, GetExtentsRequest, GetExtentsReply)           \
  X(Sealed, Allocate, AllocateRequest, AllocateReply)                 \
  X(Sealed, Commit, CommitRequest, CommitReply)                       \
  X(Sealed, Clone, CloneRequest, CloneReply)                          \
  X(Passes, ReportShard, ReportShardRequest, Empty)                   \
  X(Refused, RegisterNode, RegisterNodeRequest, RegisterNodeReply)    \
  X(Refused, Heartbeat, HeartbeatRequest, HeartbeatReply)             \
  X(Refused, ReportWork, ReportWorkRequest, Empty)                    \
  X(Refused, CheckShards, CheckShardsRequest, CheckShardsReply)       \
  X(Passes, GetMap, InodeRequest, ClusterMap)                         \
  X(Own, Status, InodeRequest, StatusReply)                           \
  X(Refused, Admin, AdminRequest, AdminReply)                         \
  X(Refused, Fsck, InodeRequest, FsckReply)

class ConfinedMeta final : public MetaService {
 public:
  // Both outlive it.
  ConfinedMeta(MetaService* inner, Confinement* confinement) : inner_(inner), confinement_(confinement) {}

#define STRIA_DECLARE(Rule, Name, Request, Reply) Task<Result<Reply>> Name(Request r) override;
  STRIA_CONFINED_META(STRIA_DECLARE)
#undef STRIA_DECLARE

 private:
  template <class Req, class Rep>
  Task<Result<Rep>> CallSealed(Task<Result<Rep>> (MetaService::*method)(Req), Confinement::Bound bound, Req r);
  Task<Result<NodeReply>> DoLookup(Confinement::Bound bound, NameRequest r);
  Task<Result<ReadDirReply>> DoReadDir(Confinement::Bound bound, ReadDirRequest r);
  Task<Result<StatFsReply>> DoStatFs(Confinement::Bound bound, InodeRequest r);
  Task<Result<PathsReply>> DoPaths(Confinement::Bound bound, InodeRequest r);
  Task<Result<StatusReply>> DoStatus(InodeRequest r);

  MetaService* const inner_;
  Confinement* const confinement_;
};

// The same for the service of admins, of which a session may ask for an inode's names only.
#define STRIA_CONFINED_ADMIN(X)                                       \
  X(Refused, Upkeep, UpkeepRequest, UpkeepReply)                      \
  X(Refused, CanRemove, CanRemoveRequest, CanRemoveReply)             \
  X(Refused, ReportScrub, ReportScrubRequest, ScrubOrder)             \
  X(Refused, CompareShards, CompareShardsRequest, CompareShardsReply) \
  X(Refused, ListParity, ListParityRequest, ListParityReply)          \
  X(Refused, FsckRepair, FsckRepairRequest, FsckRepairReply)          \
  X(Own, Names, NamesRequest, NamesReply)                             \
  X(Refused, Files, FilesRequest, FilesReply)                         \
  X(Refused, ReadEvents, ReadEventsRequest, ReadEventsReply)

class ConfinedAdmin final : public AdminService {
 public:
  // An inode with more pages of names than this has no more to tell a confined session. What it says to ask on with is the number of the
  // next page, as the inner service's says in which directories the names are.
  static constexpr uint64_t kMaxPages = 64;

  ConfinedAdmin(AdminService* inner, Confinement* confinement) : inner_(inner), confinement_(confinement) {}

#define STRIA_DECLARE(Rule, Name, Request, Reply) Task<Result<Reply>> Name(Request r) override;
  STRIA_CONFINED_ADMIN(STRIA_DECLARE)
#undef STRIA_DECLARE

 private:
  Task<Result<NamesReply>> DoNames(Confinement::Bound bound, NamesRequest r);

  AdminService* const inner_;
  Confinement* const confinement_;
};

}  // namespace stria
