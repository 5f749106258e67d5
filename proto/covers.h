// Who may call what: a row for each method of the services, beside their list (methods.h and its like). Default deny: a method
// without a row does not compile, and a caller that no row names is refused before its request is looked at.
//
// This is the first of two questions. The second is the service's: whose session it is, which node a report is of, which
// export a file is in. For that the dispatcher puts the caller into the request's header (OpHeader::peer, DataHeader::peer).
//
// Source: docs/security.md.
#pragma once

#include "api/admin_api.h"
#include "api/backup_api.h"
#include "api/beat_api.h"
#include "api/data_api.h"
#include "api/meta_api.h"
#include "api/replica_api.h"
#include "api/trust_api.h"
#include "trust/identity.h"

namespace stria {

struct Cover {
  RoleSet in_session;  // those that may call it in a session of theirs (OpHeader::session)
  RoleSet alone;       // without one; calls that have no sessions are all of this kind
};

namespace covers {

inline constexpr RoleSet kNobody = {};
inline constexpr RoleSet kEverybody = {Role::kMeta, Role::kData, Role::kClient, Role::kAdmin, Role::kMonitor};

inline constexpr Cover kOpening = {{Role::kClient}, {Role::kClient}};
inline constexpr Cover kSession = {{Role::kClient}, kNobody};
inline constexpr Cover kFiles = {{Role::kClient}, {Role::kAdmin}};  // an admin reads what is true now, and keeps nothing
inline constexpr Cover kReport = {{Role::kClient}, {Role::kData}};
inline constexpr Cover kMap = {{Role::kClient}, kEverybody};
inline constexpr Cover kStatus = {{Role::kClient}, {Role::kClient, Role::kAdmin, Role::kMonitor}};  // clients: the map and themselves
inline constexpr Cover kProgress = {kNobody, {Role::kAdmin, Role::kMonitor}};  // of all, and what has happened
inline constexpr Cover kAdmin = {kNobody, {Role::kAdmin}};
inline constexpr Cover kNode = {kNobody, {Role::kData}};
inline constexpr Cover kShards = {kNobody, {Role::kClient, Role::kData}};  // with a token for each
inline constexpr Cover kMember = {kNobody, kEverybody};  // about the caller's own certificate
inline constexpr Cover kMeta = {kNobody, {Role::kMeta}};
inline constexpr Cover kMembers = {kNobody, {Role::kMeta, Role::kAdmin, Role::kMonitor}};
inline constexpr Cover kMemberChange = {kNobody, {Role::kMeta, Role::kAdmin}};  // members hand an admin's on, and join
inline constexpr Cover kHere = {kNobody, kNobody};  // for callers in the same process only

// The row of a method. There is none for methods that are not below.
template <auto kMethod>
struct Of;
#define STRIA_COVER(Service, Method, row)      \
  template <>                                  \
  struct Of<&Service::Method> {                \
    static constexpr Cover kCover = row;       \
  }

STRIA_COVER(MetaService, OpenSession, kOpening);
STRIA_COVER(MetaService, Renew, kSession);
STRIA_COVER(MetaService, Poll, kSession);
STRIA_COVER(MetaService, CloseSession, kSession);
STRIA_COVER(MetaService, Lookup, kFiles);
STRIA_COVER(MetaService, GetAttr, kFiles);
STRIA_COVER(MetaService, SetAttr, kSession);
STRIA_COVER(MetaService, MakeNode, kSession);
STRIA_COVER(MetaService, Open, kSession);
STRIA_COVER(MetaService, Release, kSession);
STRIA_COVER(MetaService, LeaseDone, kSession);
STRIA_COVER(MetaService, Lock, kSession);
STRIA_COVER(MetaService, Unlink, kSession);
STRIA_COVER(MetaService, Rmdir, kSession);
STRIA_COVER(MetaService, Rename, kSession);
STRIA_COVER(MetaService, Link, kSession);
STRIA_COVER(MetaService, ReadLink, kFiles);
STRIA_COVER(MetaService, ReadDir, kFiles);
STRIA_COVER(MetaService, GetXattr, kFiles);
STRIA_COVER(MetaService, ListXattr, kFiles);
STRIA_COVER(MetaService, SetXattr, kSession);
STRIA_COVER(MetaService, RemoveXattr, kSession);
STRIA_COVER(MetaService, StatFs, kFiles);
STRIA_COVER(MetaService, GetLayout, kFiles);
STRIA_COVER(MetaService, SetLayout, kFiles);
STRIA_COVER(MetaService, Sync, kFiles);
STRIA_COVER(MetaService, Paths, kFiles);
STRIA_COVER(MetaService, GetExtents, kFiles);
STRIA_COVER(MetaService, Allocate, kSession);
STRIA_COVER(MetaService, Commit, kSession);
STRIA_COVER(MetaService, Clone, kSession);
STRIA_COVER(MetaService, ReportShard, kReport);
STRIA_COVER(MetaService, RegisterNode, kNode);
STRIA_COVER(MetaService, Heartbeat, kNode);
STRIA_COVER(MetaService, ReportWork, kNode);
STRIA_COVER(MetaService, CheckShards, kNode);
STRIA_COVER(MetaService, GetMap, kMap);
STRIA_COVER(MetaService, Status, kStatus);
STRIA_COVER(MetaService, Admin, kAdmin);
STRIA_COVER(MetaService, Fsck, kAdmin);

STRIA_COVER(AdminService, Upkeep, kProgress);  // its verbs that change something are for admins: AdminCalls
STRIA_COVER(AdminService, CanRemove, kAdmin);
STRIA_COVER(AdminService, ReportScrub, kNode);
STRIA_COVER(AdminService, CompareShards, kNode);
STRIA_COVER(AdminService, ListParity, kNode);
STRIA_COVER(AdminService, FsckRepair, kAdmin);
STRIA_COVER(AdminService, Names, kFiles);
STRIA_COVER(AdminService, Files, kAdmin);
STRIA_COVER(AdminService, ReadEvents, kProgress);

STRIA_COVER(TrustService, MakeToken, kAdmin);
STRIA_COVER(TrustService, ListTokens, kAdmin);
STRIA_COVER(TrustService, RevokeToken, kAdmin);
STRIA_COVER(TrustService, ListCertificates, kAdmin);
STRIA_COVER(TrustService, RevokeCertificate, kAdmin);
STRIA_COVER(TrustService, RenewCertificate, kMember);
STRIA_COVER(TrustService, ListExports, kAdmin);
STRIA_COVER(TrustService, SetExport, kAdmin);
STRIA_COVER(TrustService, RemoveExport, kAdmin);
STRIA_COVER(TrustService, ListClients, kAdmin);
STRIA_COVER(TrustService, EvictClient, kAdmin);
STRIA_COVER(TrustService, ReadAudit, kAdmin);
STRIA_COVER(TrustService, ChangeAuthority, kAdmin);
STRIA_COVER(TrustService, FollowAuthority, kMeta);  // it gives the authority's key

STRIA_COVER(DataService, Write, kShards);
STRIA_COVER(DataService, Seal, kShards);
STRIA_COVER(DataService, Read, kShards);
STRIA_COVER(DataService, Delete, kHere);
STRIA_COVER(DataService, Inventory, kMeta);

STRIA_COVER(BackupService, PutBackup, kMeta);
STRIA_COVER(BackupService, ListBackups, kMeta);
STRIA_COVER(BackupService, GetBackup, kMeta);
STRIA_COVER(BackupService, DeleteBackups, kMeta);

STRIA_COVER(ReplicaService, Append, kMeta);
STRIA_COVER(ReplicaService, Join, kMeta);
STRIA_COVER(ReplicaService, FetchKeys, kMeta);
STRIA_COVER(ReplicaService, FetchPage, kMeta);

STRIA_COVER(BeatService, Beat, kMeta);

STRIA_COVER(MemberService, Locate, kMember);  // where to ask: no secret of anybody's
STRIA_COVER(MemberService, Ask, kMeta);
STRIA_COVER(MemberService, MemberStatus, kMembers);
STRIA_COVER(MemberService, ChangeMembers, kMemberChange);
#undef STRIA_COVER

}  // namespace covers

template <auto kMethod>
inline constexpr Cover kCoverOf = covers::Of<kMethod>::kCover;

}  // namespace stria
