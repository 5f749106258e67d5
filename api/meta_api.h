// The metadata service. Implemented by meta/ (the real thing) and by proto/ (a client stub over a
// transport).
//
// Mutations are exactly once per (session, op_seq); repeating one gives the stored reply. Replies that
// carry attributes or entries (also "not there") may be cached by the session until an event
// invalidates them or its lease runs out.
//
// Durable: Commit with durable=true, Clone, Sync, SetLayout, RegisterNode, Admin are durable when they
// return. Other mutations are durable at the next group sync; after a restart of the server the
// session replays those it has not known durable (reply.seq > durable_seq).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/cluster_api.h"
#include "api/session_api.h"
#include "api/types.h"
#include "common/exec/task.h"

namespace stria {

// ---- Sessions (how one is opened, and comes back: session_api.h) --------------------------------------

struct RenewRequest {
  OpHeader header;
  CommitSeq seen_seq;  // no read started before this commit is still running here (garbage grace)
  std::vector<NodeId> unreachable;  // nodes that do not answer here, although others may hear them
  ClientIo io;                      // for people to see; nothing is decided by it
};
struct RenewReply {
  uint64_t term = 0;  // differs from the session's: reclaim before anything else
  int64_t lease_ns = 0;
  CommitSeq current_seq;
  CommitSeq durable_seq;
  uint64_t map_version = 0;
};

struct PollRequest {
  OpHeader header;       // timeout_ns is the longest wait; the server answers sooner with events
  uint64_t acked_event = 0;  // all up to this are processed; recalls and flushes begun
};
struct PollReply {
  uint64_t term = 0;
  std::vector<SessionEvent> events;  // in order, following acked_event; empty after a quiet wait
};

struct InodeRequest {
  OpHeader header;
  InodeId ino;
};
struct LeaseDoneRequest {
  OpHeader header;
  InodeId ino;
  LeaseMode lease = LeaseMode::kNone;  // the session now holds this
  uint64_t event_seq = 0;              // the recall or flush this answers; 0 for a voluntary change
};
struct Empty {};

// ---- Locks ----------------------------------------------------------------------------------------

enum class LockOp : uint8_t {
  kTest = 1,      // the lock that keeps the owner from having it
  kTry = 2,
  kWait = 3,      // if it cannot be had: waits in line under `ticket`; ask again after kLockFree
  kUnlock = 4,
  kWithdraw = 5,  // `ticket` waits no more
};
struct LockRequest {
  OpHeader header;  // with the term
  LockOp op = LockOp::kTest;
  bool keep = false;    // kTry, kWait of a byte range: parts that the owner has locked more strongly stay so
  uint64_t ticket = 0;  // kWait, kWithdraw: chosen by the client, > 0, once per session
  FileLock lock;
};
// Locks are volatile: they end with their session, and sessions claim them again after a restart of the
// server. kDeadlock: to wait would be for ever. kNoLock: too many of the session's.
struct LockReply {
  bool granted = false;
  std::optional<FileLock> conflict;  // if not; pid and owner are 0 if another client holds it
};

// ---- Namespace ------------------------------------------------------------------------------------

struct NameRequest {  // lookup, unlink, rmdir
  OpHeader header;
  InodeId parent;
  std::string name;
  // Unlink: the session no longer has this open (as by Release), whatever happens to the name.
  InodeId release;
};
// The inode concerned, and the directories that changed.
struct NodeReply {
  Attr attr;
  std::optional<Attr> parent;
  std::optional<Attr> parent2;  // rename between directories
  CommitSeq seq;                // of the mutation; 0 for reads
  bool held_elsewhere = false;  // another client buffers writes: attr is for this once, no events tell of changes
  bool released = false;        // `release` of the request was heeded
  std::vector<InodeSeal> seals;  // of a confined session: of all inodes of the reply. Those of a part are with the whole
};

struct SetAttrRequest {
  OpHeader header;
  InodeId ino;
  std::optional<uint32_t> mode;
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  std::optional<uint64_t> size;  // truncate; shrinking masks the range at once
  std::optional<int64_t> atime_ns;
  std::optional<int64_t> mtime_ns;
  bool atime_now = false;
  bool mtime_now = false;
  bool kill_suid = false;  // a write by a non-owner happened
  // The inode was read then; nothing else is set: moves the atime if due (api/relatime.h) and the inode is still of
  // read_version. For callers who may read it, or have it open for reading.
  std::optional<int64_t> read_ns;
  uint64_t read_version = 0;
};
inline constexpr uint32_t kMaxNumbersAhead = 256;
struct MakeNodeRequest {
  OpHeader header;
  InodeId parent;
  std::string name;
  FileType type = FileType::kFile;
  uint32_t mode = 0;
  uint32_t umask = 0;  // taken off the mode, unless the directory has a default ACL
  uint64_t rdev = 0;
  std::string target;  // of a symlink
  bool open = false;       // files: also open for writing (new ones: for reading, too), as Open would
  bool for_read = false;   // open: an existing file is wanted for reading as well
  bool exclusive = false;  // kExist if there; otherwise an existing file is opened
  bool truncate = false;   // an existing file is truncated
  // Of a replay: the number from the lost creation. The inode gets it again, because handles and other replays name it. Ignored
  // if the number is not free, not from before the restart, or was not given to this session (header.opened).
  InodeId former;
  // The next new files in this directory are to be made with their first commit (OpenReply::alone), and so many numbers are
  // wanted for them; at most kMaxNumbersAhead.
  bool ahead = false;
  uint32_t numbers = 0;
};
struct GetExtentsReply {
  Attr attr;
  std::vector<Extent> extents;       // that intersect [offset, covered_to), whole, in order
  std::vector<StripeGrant> stripes;  // those they refer to, by id, with read tokens
  uint64_t covered_to = 0;           // less than asked when the reply would be too large
  int64_t tokens_live_ns = 0;        // from when this was asked
  std::vector<InodeSeal> seals;
};
struct OpenRequest {
  OpHeader header;
  InodeId ino;
  bool for_write = false;
  bool truncate = false;
  bool for_read = true;    // this, for_write or both
  // Otherwise header's uid needs permission. The session has it open so already (also as header.opened says), whatever its
  // permissions are now, and wants its lease again.
  bool check_access = true;
  uint64_t map_bytes = 0;  // the mapping of so much from the start is wanted, too
};
struct OpenReply {
  NodeReply node;
  bool created = false;
  LeaseMode lease = LeaseMode::kNone;  // of a file
  Layout layout;
  // Of a new directory: it has no names yet, and the session is told of each that comes.
  bool whole = false;
  // From the start to mapping->covered_to, as GetExtents would tell, if the lease lets it be kept and it is short.
  std::optional<GetExtentsReply> mapping;
  // MakeNodeRequest::ahead: the session has the directory to itself (LeaseMode::kExclusive of it) until a recall. No other
  // session knows a name in it, so the server learns of new names with each file's first commit.
  bool alone = false;
  // Numbers for such files: `numbers` of them from this one on. They are the session's, in this term of the server.
  InodeId first_number;
  uint32_t numbers = 0;
  bool sets = false;  // MadeFile::set of such a file is heeded
  // That the session has it open so, and as it was before, or has made it: for OpHeader::opened and HeldInode.
  std::string proof;
  std::string alone_proof;    // the same of the directory
  std::string numbers_proof;  // and of all these files
  std::vector<InodeSeal> seals;  // `first_number` and those after it have theirs when their files are made
};
struct RenameRequest {
  OpHeader header;
  InodeId parent;
  std::string name;
  InodeId new_parent;
  std::string new_name;
  bool no_replace = false;
  bool exchange = false;
  // As NameRequest::release, for the inode of new_name. If it loses its last name here, the session knows, and is not told.
  InodeId release;
};
struct LinkRequest {
  OpHeader header;
  InodeId ino;
  InodeId new_parent;
  std::string new_name;
};
struct ReadLinkReply {
  std::string target;
};
struct ReadDirRequest {
  OpHeader header;
  InodeId ino;
  uint64_t cookie = 0;  // 0 from the start; else of the last entry seen
  uint32_t limit = 1000;
  bool with_attrs = false;
};
struct DirEntry {
  std::string name;
  InodeId ino;
  FileType type = FileType::kFile;
  uint64_t cookie = 0;  // > 0, stable while the entry exists; "." and ".." are not listed
  std::optional<Attr> attr;
};
struct ReadDirReply {
  std::vector<DirEntry> entries;
  bool end = false;
  InodeId parent;  // of the directory, for ".."
  std::vector<InodeSeal> seals;
};
struct XattrRequest {
  OpHeader header;
  InodeId ino;
  std::string name;
  std::string value;     // set
  bool create = false;   // set: kExist if there
  bool replace = false;  // set: kNoData if not there
};
struct XattrReply {
  std::string value;                // get
  std::vector<std::string> names;   // list
  CommitSeq seq;
};
struct StatFsReply {
  // That files of the whole cluster can hold with the layout of the directory that was asked about (the root's, if it is none; of a session
  // that is confined to an export always the export's root).
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t files = 0;  // and directories; 0: not told, to a session that is confined to an export
};
struct LayoutRequest {
  OpHeader header;
  InodeId ino;
  std::optional<Layout> layout;  // set; nullopt gets
};
struct LayoutReply {
  Layout layout;
  bool inherited = false;
};

// ---- Data -----------------------------------------------------------------------------------------

struct GetExtentsRequest {
  OpHeader header;
  InodeId ino;
  uint64_t offset = 0;
  uint64_t length = 0;
  // The answer waits until every client that caches the state before the last change has been told; if false, only if the asker
  // has acknowledged that change itself. False for pages, which the asker's kernel may have to read before it can forget them:
  // two clients that wait so for each other would wait for ever.
  bool when_told = false;
};
struct AllocateRequest {
  OpHeader header;
  InodeId ino;  // the layout is this inode's
  uint32_t count = 1;  // stripes, at most 16; fewer come when space runs out
  uint64_t payload_bytes = 0;  // of each, at most; 0 means a full stripe of the layout
  std::vector<TargetId> avoid;  // the writer has just failed to write there
};
// Stripes to fill: info.shape has the columns to use (payload_bytes == 0), every column has shard and
// target, tokens are for writing. Unused ones become garbage when the session ends or gives them back.
struct AllocateReply {
  std::vector<StripeGrant> stripes;
  CommitSeq seq;
};
// A file that its maker, who has its directory to itself, tells the server of with its first bytes.
struct MadeFile {
  InodeId parent;
  std::string name;
  uint32_t mode = 0;
  uint32_t umask = 0;
  std::optional<int64_t> made_ns;  // the time that it shows, and its directory (api/dir_time.h)
  // The maker's changes to it since then. Not done if the file exists already.
  struct Set {
    std::optional<uint32_t> mode;
    std::optional<uint32_t> uid;
    std::optional<uint32_t> gid;
    std::optional<int64_t> atime_ns;
    std::optional<int64_t> mtime_ns;
  };
  std::optional<Set> set;
};
struct CommitRequest {
  OpHeader header;
  InodeId ino;  // 0: only give_back is looked at
  std::vector<StripeInfo> stripes;  // newly sealed ones, with lengths and digests
  std::vector<Extent> extents;      // sorted, disjoint; stripes among the new ones, or inline
  std::vector<std::pair<uint64_t, uint64_t>> punch;  // (offset, length) that become holes, first
  std::optional<uint64_t> grow_to;  // size becomes at least this
  bool clip = false;  // extents do not grow the file beyond grow_to: their parts behind it are dropped
  std::optional<int64_t> mtime_ns;
  bool append = false;   // the extents (one run) go to the end of the file as the server knows it
  bool durable = false;  // wait until it survives a power cut
  std::vector<StripeId> give_back;  // allocated and not used
  // The inode is made first, open for writing (kExclusive), in the same transaction, for header's uid. It is made already
  // if that name is that inode, and it is the caller's. kConflict: `ino` is none of OpenReply::numbers.
  std::optional<MadeFile> make;
  // The file's data_version as the writer of the extents knew it; 0: not told. With `only_known` the commit is refused (kStale)
  // if the version is another one by now: another client has changed the file.
  uint64_t known_version = 0;
  bool only_known = false;
};
struct CommitReply {
  Attr attr;
  uint64_t append_offset = 0;
  CommitSeq seq;
  std::optional<Attr> parent;  // of the new file
  std::vector<InodeSeal> seals;
};
// Bytes and holes of a range appear in another file, or elsewhere in the same, and share its stripes.
struct CloneRequest {
  OpHeader header;
  InodeId from;
  uint64_t from_offset = 0;
  InodeId to;
  uint64_t to_offset = 0;
  uint64_t length = 0;  // > 0
};
struct CloneReply {
  Attr attr;            // of `to`
  uint64_t cloned = 0;  // of the range, from its front: less when the source ends or one transaction is full
  CommitSeq seq;
  std::vector<InodeSeal> seals;
};
struct ReportShardRequest {  // a reader could not use this shard
  OpHeader header;
  StripeId stripe;
  uint16_t column = 0;
  ShardId shard;
  FsError reason = FsError::kChecksum;  // kChecksum, kNoSuchShard, kDiskFailed, kUnavailable
  std::string token;  // of a session: with which it was to be read
};
struct PathsReply {
  std::vector<std::string> paths;
  uint64_t hidden = 0;  // names in directories that the caller may not list, or outside of the session's export
  bool more = false;    // there are more names than these; AdminService::Names gives all, page by page
};

// ---- Cluster: cluster_api.h ------------------------------------------------------------------------

class MetaService {
 public:
  virtual ~MetaService() = default;

  virtual Task<Result<OpenSessionReply>> OpenSession(OpenSessionRequest r) = 0;
  virtual Task<Result<RenewReply>> Renew(RenewRequest r) = 0;
  virtual Task<Result<PollReply>> Poll(PollRequest r) = 0;
  virtual Task<Result<Empty>> CloseSession(InodeRequest r) = 0;  // ino unused

  virtual Task<Result<NodeReply>> Lookup(NameRequest r) = 0;
  virtual Task<Result<NodeReply>> GetAttr(InodeRequest r) = 0;
  virtual Task<Result<NodeReply>> SetAttr(SetAttrRequest r) = 0;
  virtual Task<Result<OpenReply>> MakeNode(MakeNodeRequest r) = 0;  // mknod, mkdir, symlink, create
  virtual Task<Result<OpenReply>> Open(OpenRequest r) = 0;
  virtual Task<Result<Empty>> Release(InodeRequest r) = 0;  // the session has ino open no more
  virtual Task<Result<Empty>> LeaseDone(LeaseDoneRequest r) = 0;
  virtual Task<Result<LockReply>> Lock(LockRequest r) = 0;
  virtual Task<Result<NodeReply>> Unlink(NameRequest r) = 0;
  virtual Task<Result<NodeReply>> Rmdir(NameRequest r) = 0;
  virtual Task<Result<NodeReply>> Rename(RenameRequest r) = 0;
  virtual Task<Result<NodeReply>> Link(LinkRequest r) = 0;
  virtual Task<Result<ReadLinkReply>> ReadLink(InodeRequest r) = 0;
  virtual Task<Result<ReadDirReply>> ReadDir(ReadDirRequest r) = 0;
  virtual Task<Result<XattrReply>> GetXattr(XattrRequest r) = 0;
  virtual Task<Result<XattrReply>> ListXattr(XattrRequest r) = 0;
  virtual Task<Result<XattrReply>> SetXattr(XattrRequest r) = 0;
  virtual Task<Result<XattrReply>> RemoveXattr(XattrRequest r) = 0;
  virtual Task<Result<StatFsReply>> StatFs(InodeRequest r) = 0;
  virtual Task<Result<LayoutReply>> GetLayout(LayoutRequest r) = 0;
  virtual Task<Result<LayoutReply>> SetLayout(LayoutRequest r) = 0;
  virtual Task<Result<Empty>> Sync(InodeRequest r) = 0;  // all replied mutations are durable
  virtual Task<Result<PathsReply>> Paths(InodeRequest r) = 0;

  virtual Task<Result<GetExtentsReply>> GetExtents(GetExtentsRequest r) = 0;
  virtual Task<Result<AllocateReply>> Allocate(AllocateRequest r) = 0;
  virtual Task<Result<CommitReply>> Commit(CommitRequest r) = 0;
  virtual Task<Result<CloneReply>> Clone(CloneRequest r) = 0;  // ask again for the rest
  virtual Task<Result<Empty>> ReportShard(ReportShardRequest r) = 0;

  virtual Task<Result<RegisterNodeReply>> RegisterNode(RegisterNodeRequest r) = 0;
  virtual Task<Result<HeartbeatReply>> Heartbeat(HeartbeatRequest r) = 0;
  virtual Task<Result<Empty>> ReportWork(ReportWorkRequest r) = 0;
  virtual Task<Result<CheckShardsReply>> CheckShards(CheckShardsRequest r) = 0;
  virtual Task<Result<ClusterMap>> GetMap(InodeRequest r) = 0;
  virtual Task<Result<StatusReply>> Status(InodeRequest r) = 0;
  virtual Task<Result<AdminReply>> Admin(AdminRequest r) = 0;
  virtual Task<Result<FsckReply>> Fsck(InodeRequest r) = 0;
};

// One connection to a metadata address. Calls fail with kUnavailable or kDeadline.
class MetaConnector {
 public:
  virtual ~MetaConnector() = default;
  virtual std::shared_ptr<MetaService> Connect(const std::string& address) = 0;
};

}  // namespace stria
