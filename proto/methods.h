// Every method of the services as X(Name, Request, Reply), in the order of api/*.h and the .proto files.
#pragma once

#define STRIA_META_METHODS(X)                                  \
  X(OpenSession, OpenSessionRequest, OpenSessionReply)         \
  X(Renew, RenewRequest, RenewReply)                           \
  X(Poll, PollRequest, PollReply)                              \
  X(CloseSession, InodeRequest, Empty)                         \
  X(Lookup, NameRequest, NodeReply)                            \
  X(GetAttr, InodeRequest, NodeReply)                          \
  X(SetAttr, SetAttrRequest, NodeReply)                        \
  X(MakeNode, MakeNodeRequest, OpenReply)                      \
  X(Open, OpenRequest, OpenReply)                              \
  X(Release, InodeRequest, Empty)                              \
  X(LeaseDone, LeaseDoneRequest, Empty)                        \
  X(Lock, LockRequest, LockReply)                              \
  X(Unlink, NameRequest, NodeReply)                            \
  X(Rmdir, NameRequest, NodeReply)                             \
  X(Rename, RenameRequest, NodeReply)                          \
  X(Link, LinkRequest, NodeReply)                              \
  X(ReadLink, InodeRequest, ReadLinkReply)                     \
  X(ReadDir, ReadDirRequest, ReadDirReply)                     \
  X(GetXattr, XattrRequest, XattrReply)                        \
  X(ListXattr, XattrRequest, XattrReply)                       \
  X(SetXattr, XattrRequest, XattrReply)                        \
  X(RemoveXattr, XattrRequest, XattrReply)                     \
  X(StatFs, InodeRequest, StatFsReply)                         \
  X(GetLayout, LayoutRequest, LayoutReply)                     \
  X(SetLayout, LayoutRequest, LayoutReply)                     \
  X(Sync, InodeRequest, Empty)                                 \
  X(Paths, InodeRequest, PathsReply)                           \
  X(GetExtents, GetExtentsRequest, GetExtentsReply)            \
  X(Allocate, AllocateRequest, AllocateReply)                  \
  X(Commit, CommitRequest, CommitReply)                        \
  X(Clone, CloneRequest, CloneReply)                           \
  X(ReportShard, ReportShardRequest, Empty)                    \
  X(RegisterNode, RegisterNodeRequest, RegisterNodeReply)      \
  X(Heartbeat, HeartbeatRequest, HeartbeatReply)               \
  X(ReportWork, ReportWorkRequest, Empty)                      \
  X(CheckShards, CheckShardsRequest, CheckShardsReply)         \
  X(GetMap, InodeRequest, ClusterMap)                          \
  X(Status, InodeRequest, StatusReply)                         \
  X(Admin, AdminRequest, AdminReply)                           \
  X(Fsck, InodeRequest, FsckReply)

#define STRIA_DATA_METHODS(X)                    \
  X(Write, WriteRequest, WriteReply)             \
  X(Seal, SealRequest, SealReply)                \
  X(Read, ReadRequest, ReadReply)                \
  X(Delete, DeleteRequest, DeleteReply)          \
  X(Inventory, InventoryRequest, InventoryReply)
