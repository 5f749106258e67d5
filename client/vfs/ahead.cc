// Files that the metadata server is told of with their first bytes.
//
// Of a directory that this client has to itself (LeaseMode::kExclusive of its inode, OpenReply::alone), and knows whole,
// it knows what the server would answer to a Create: so it makes the file here, with a number that it was given
// beforehand, and tells the server with the file's first commit (CommitRequest::make): one call instead of two, and
// one transaction. Nobody notices: before anybody else reads or changes a name there the server recalls the directory,
// and what was made is told before that is answered.
//
// What its maker changes of such a file (mode, owners, times) is told with it (MakeNodeRequest::set): who unpacks an archive
// or copies a file sets them between the last byte and the close.
//
// Before a call of ours names such a file, or its directory, the server is told (TellBefore, which the session asks
// before each call). If it cannot be made after all, its handles give the reason (VfsInode::lost).
#include <algorithm>
#include <array>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"
#include "common/log.h"

namespace stria {
namespace {

// What the server does not know a crash of this client loses. So it is told of files that are neither closed nor synced
// about as soon as it makes names durable by itself (MetaServerOptions::group_sync_ns).
constexpr int64_t kTellNs = 10 * kMillisecond;
constexpr int64_t kTellAgainNs = 1 * kSecond;
constexpr size_t kMaxMadeAhead = 1024;
constexpr uint32_t kNumbersAtOnce = 64;

constexpr uint32_t kSetIds = 06000;

// Without access control lists. What is not sure the server decides.
bool SurelyMayCreate(const Caller& who, const Attr& dir) {
  if (dir.nlink == 0 || dir.acls != 0) return false;
  if (who.uid == 0) return true;
  uint32_t rights = dir.mode & 7;
  if (who.uid == dir.uid) {
    rights = (dir.mode >> 6) & 7;
  } else if (who.gid == dir.gid || std::find(who.groups.begin(), who.groups.end(), dir.gid) != who.groups.end()) {
    rights = (dir.mode >> 3) & 7;
  }
  return (rights & 3) == 3;
}

// Likewise for mode, owner and times of a file that `who` has made, without set-id bits; nothing else comes of that.
bool SurelyMaySet(const Caller& who, const Attr& file, const SetAttrIn& set) {
  if (set.size || (set.mode.value_or(0) & ~uint32_t{0777}) != 0) return false;
  if (who.uid == 0) return true;
  const bool of_group = !set.gid || *set.gid == file.gid || *set.gid == who.gid ||
                        std::find(who.groups.begin(), who.groups.end(), *set.gid) != who.groups.end();
  return who.uid == file.uid && (!set.uid || *set.uid == file.uid) && of_group;
}

// The server's last word on a commit that makes a file; everything else may be asked again. `bare`: it does nothing else.
bool IsFinal(FsError e, bool bare) {
  switch (e) {
    case FsError::kConflict:
    case FsError::kExist:
    case FsError::kAccess:
    case FsError::kPerm:
    case FsError::kNoEnt:
    case FsError::kStale:
    case FsError::kNotDir:
    case FsError::kIsDir:
    case FsError::kLoop:
    case FsError::kInval:
    case FsError::kNameTooLong:
    case FsError::kBadRequest: return true;
    case FsError::kTimedOut:
    case FsError::kFenced:
    case FsError::kCancelled: return false;
    default: return bare && !IsRetryable(e);
  }
}

}  // namespace

Vfs::AheadPause::AheadPause(Vfs* vfs, std::optional<InodeId> dir) : vfs_(vfs), dir_(dir) {
  if (dir_ != InodeId()) ++vfs_->ahead_pauses_[dir_.value_or(InodeId())];
}

Vfs::AheadPause::~AheadPause() {
  if (dir_ == InodeId()) return;
  // It may have another layout now.
  if (auto of = vfs_->inodes_.find(dir_.value_or(InodeId())); of != vfs_->inodes_.end()) {
    if (of->second->attr.type == FileType::kDirectory) of->second->layout_known = false;
  }
  auto it = vfs_->ahead_pauses_.find(dir_.value_or(InodeId()));
  if (--it->second == 0) vfs_->ahead_pauses_.erase(it);
}

bool Vfs::NumbersLeft() {
  if (numbers_of_ != std::pair(session_.generation(), session_.term())) numbers_.clear();
  return !numbers_.empty();
}

void Vfs::AskAhead(InodeId parent, MakeNodeRequest* r) {
  if (!options_.make_ahead || last_made_in_ != parent || !nodes_.IsWhole(parent)) return;
  auto dir = inodes_.find(parent);
  const bool alone = dir != inodes_.end() && HoldsFor(*dir->second, true) && dir->second->layout_known;
  const bool numbers = NumbersLeft();
  if (alone && numbers) return;
  r->ahead = true;
  r->numbers = numbers ? 0 : kNumbersAtOnce;
}

void Vfs::TakeAhead(InodeId parent, const OpenReply& reply, uint64_t asked) {
  if (!reply.alone) return;
  if (reply.numbers > 0) {
    (void)NumbersLeft();
    numbers_of_ = {session_.generation(), session_.term()};
    numbers_.push_back({reply.first_number.v, reply.first_number.v + reply.numbers, reply.numbers_proof});
    sets_ahead_ = reply.sets;
  }
  const std::shared_ptr<VfsInode> dir = InodeOf(parent);
  VfsInode& n = *dir;
  if (n.generation != session_.generation()) DropState(n);
  n.lease = n.recalled_at > asked ? n.recalled_to : LeaseMode::kExclusive;  // as in TakeGrant
  n.for_write = n.lease == LeaseMode::kExclusive;
  n.proof = reply.alone_proof;
  ++n.grants;
  n.owes_release = 0;
  n.layout = reply.layout;
  n.layout_known = true;
  if (reply.node.parent && n.told_at <= asked && reply.node.parent->version >= n.attr.version) {
    n.attr = *reply.node.parent;
    n.attr_known = true;
    n.attr_stale = false;
  }
  LetGo(dir);
}

std::optional<Vfs::Opened> Vfs::MakeAhead(const Caller& who, InodeId parent, const std::string& name, uint32_t mode,
                                          const VfsHandle& flags) {
  if (!options_.make_ahead || name.empty() || (mode & kSetIds) != 0) return std::nullopt;
  if (ahead_pauses_.contains(parent) || ahead_pauses_.contains(InodeId())) return std::nullopt;
  auto found = inodes_.find(parent);
  if (found == inodes_.end()) return std::nullopt;
  VfsInode& dir = *found->second;
  // It may be on its way to be given up.
  if (!dir.buffers_writes() || !HoldsFor(dir, true) || dir.changing() || dir.lease_waits > 0) return std::nullopt;
  if (!dir.attr_known || dir.attr_stale || !dir.layout_known || !SurelyMayCreate(who, dir.attr)) return std::nullopt;
  if (!nodes_.IsWhole(parent) || nodes_.FindEntry(parent, name) != InodeId()) return std::nullopt;
  if (nodes_.IsChanging(parent, name) || made_ahead_ >= kMaxMadeAhead || !NumbersLeft()) return std::nullopt;

  Numbers& numbers = numbers_.front();
  const InodeId ino(numbers.next++);
  const std::string proof = numbers.proof;
  if (numbers.next == numbers.end) numbers_.pop_front();
  const int64_t now_ns = Executor::Current().WallNs();
  MadeAhead& made = ahead_[parent];
  made.last_ns = std::max(made.last_ns, now_ns);

  MadeFile r;
  r.parent = parent;
  r.name = name;
  r.mode = mode;
  r.umask = who.umask;
  r.made_ns = now_ns;

  const std::shared_ptr<VfsInode> inode = InodeOf(ino);
  VfsInode& n = *inode;
  n.lease = LeaseMode::kExclusive;
  n.for_read = n.for_write = true;
  n.proof = proof;
  ++n.grants;
  n.layout = dir.layout;
  n.layout_known = true;
  n.attr.ino = ino;
  n.attr.type = FileType::kFile;
  n.attr.mode = mode & ~(who.umask & 0777);
  n.attr.uid = who.uid;
  n.attr.gid = (dir.attr.mode & 02000) != 0 ? dir.attr.gid : who.gid;
  n.attr.nlink = 1;
  n.attr.atime_ns = n.attr.mtime_ns = n.attr.ctime_ns = now_ns;
  n.attr_known = true;
  n.mapping.Know(0, kMaxFileBytes, {});
  n.ahead = std::move(r);
  n.maker = who;
  n.ahead_since_ns = Executor::Current().NowNs();
  made.files.emplace(ino, inode);
  ++made_ahead_;
  if (!std::exchange(tells_old_, true)) scope_.Spawn(TellOld());
  ++counters_.made_ahead;
  nodes_.MadeHere(parent, name, ino);
  n.in_kernel.NothingShown();
  n.in_kernel.Grew(Executor::Current().NowNs());
  return MakeHandle(inode, flags);
}

VfsInode* Vfs::Untold(InodeId ino) {
  if (made_ahead_ == 0) return nullptr;
  auto found = inodes_.find(ino);
  if (found == inodes_.end() || !found->second->ahead) return nullptr;
  VfsInode& n = *found->second;
  if (n.telling || n.tried_to_tell || !n.buffers_writes() || !HoldsFor(n, true)) return nullptr;
  return n.changing() || n.lease_waits > 0 || n.cuts > 0 ? nullptr : &n;  // as in MakeAhead
}

std::optional<EntryOut> Vfs::SetAhead(const Caller& who, InodeId ino, const SetAttrIn& set) {
  VfsInode* const untold = Untold(ino);
  if (untold == nullptr || !sets_ahead_) return std::nullopt;
  VfsInode& n = *untold;
  const Caller& maker = n.maker;
  if (who.uid != maker.uid || who.gid != maker.gid || who.groups != maker.groups) return std::nullopt;
  if (!SurelyMaySet(who, n.attr, set)) return std::nullopt;

  const int64_t now_ns = Executor::Current().WallNs();
  MadeFile::Set& all = n.ahead->set ? *n.ahead->set : n.ahead->set.emplace();
  const auto change = [](auto* told, auto* shown, auto value) { *told = *shown = value; };
  if (set.mode) change(&all.mode, &n.attr.mode, *set.mode);
  if (set.uid) change(&all.uid, &n.attr.uid, *set.uid);
  if (set.gid) change(&all.gid, &n.attr.gid, *set.gid);
  if (set.atime_ns || set.atime_now) {
    change(&all.atime_ns, &n.attr.atime_ns, set.atime_ns.value_or(now_ns));
    n.atime.Forget();  // it is older
  }
  if (set.mtime_ns || set.mtime_now) {
    change(&all.mtime_ns, &n.attr.mtime_ns, set.mtime_ns.value_or(now_ns));
    // Of what was written before as well: those bytes come later.
    if (!n.writes.clean()) n.writes.SetMtime(n.attr.mtime_ns);
  }
  n.attr.ctime_ns = now_ns;
  ++counters_.set_ahead;
  return Overlay(n.attr);
}

void Vfs::MadeKnown(VfsInode& n) {
  auto in = ahead_.find(n.ahead->parent);
  in->second.files.erase(n.ino);
  if (in->second.files.empty()) ahead_.erase(in);
  --made_ahead_;
  n.ahead.reset();
}

void Vfs::MadeAnswered(const std::shared_ptr<VfsInode>& inode, const Result<CommitReply>& reply, uint64_t since,
                       bool bare) {
  VfsInode& n = *inode;
  n.telling = false;
  n.told.Pulse();
  n.tell_error = reply.error();
  if (!n.ahead) return;  // the session was lost meanwhile
  if (reply.ok()) {
    MadeKnown(n);
    if (n.base_version) n.base_version = reply->attr.data_version;
    if (reply->parent) (void)Remember(*reply->parent, since);
    return;
  }
  if (!IsFinal(reply.code(), bare)) {
    n.ahead_since_ns = Executor::Current().NowNs() + kTellAgainNs;
    return;
  }
  LogWarning("file {} in directory {} could not be made: {}", n.ahead->name, n.ahead->parent, reply.error());
  const InodeId parent = n.ahead->parent;
  nodes_.ForgetEntry(parent, n.ahead->name);
  MadeKnown(n);
  n.lost = Error(reply.code() == FsError::kNoSpace ? FsError::kNoSpace : FsError::kIo,
                 "this file could not be made: " + reply.error().ToString());
  DropLease(n);
  n.owes_release = session_.NumberCall();  // after a restart of the server it was claimed
  n.attr_known = false;
  n.attr.nlink = 0;
  DropUnreachable(inode);
  n.writes.Wake();
  LetGo(inode);
}

// Of its own, as who waits for it may be cancelled.
Task<void> Vfs::Tell(std::shared_ptr<VfsInode> inode, bool durable) {
  VfsInode& n = *inode;
  if (!n.ahead) {  // the session was lost before this began
    n.telling = false;
    n.told.Pulse();
    DropIfIdle(inode);
    co_return;
  }
  n.tried_to_tell = true;
  CommitRequest r;
  r.ino = n.ino;
  r.make = *n.ahead;
  r.header.opened = n.proof;
  r.durable = durable;
  const uint64_t since = nodes_.epoch();
  const uint64_t generation = n.generation;
  Result<CommitReply> reply = FsError::kFenced;
  if (generation == session_.generation()) {
    reply = co_await session_.Mutate(&MetaService::Commit, std::move(r), n.maker);
  }
  MadeAnswered(inode, reply, since, true);
  if (!reply.ok() || n.generation != generation) co_return;
  n.Committed(session_.term(), reply->seq);
  if (durable) n.KnownDurable({session_.term(), reply->seq});
  (void)Remember(reply->attr, nodes_.SinceChange(since));
  DropIfIdle(inode);
}

Task<Result<void>> Vfs::TellMade(std::shared_ptr<VfsInode> inode, bool durable) {
  VfsInode& n = *inode;
  const uint64_t era = n.era;
  for (bool asked = false; n.ahead && n.era == era;) {
    if (!n.telling) {
      if (asked) co_return n.tell_error;
      asked = n.telling = true;
      scope_.Spawn(Tell(inode, durable));
      if (!n.telling) continue;
    }
    co_await n.told.Wait();
  }
  if (n.era != era) co_return n.loss;
  if (!n.lost.ok()) co_return n.lost;
  co_return Ok();
}

std::vector<std::shared_ptr<VfsInode>> Vfs::MadeAheadOf(const SessionCallNames& named) const {
  std::vector<std::shared_ptr<VfsInode>> out;
  if (made_ahead_ == 0) return out;
  for (InodeId ino : named) {
    if (auto dir = ahead_.find(ino); dir != ahead_.end()) {
      for (const auto& [file, inode] : dir->second.files) out.push_back(inode);
    }
    if (auto it = inodes_.find(ino); it != inodes_.end() && it->second->ahead) out.push_back(it->second);
  }
  return out;
}

std::optional<Task<Result<void>>> Vfs::TellBefore(const SessionCallNames& named) {
  std::vector<std::shared_ptr<VfsInode>> files = MadeAheadOf(named);
  if (files.empty()) return std::nullopt;
  return TellAll(std::move(files));
}

// All at once; that one cannot be made is its own affair.
Task<Result<void>> Vfs::TellAll(std::vector<std::shared_ptr<VfsInode>> files) {
  std::vector<Task<Result<void>>> told;
  for (const auto& inode : files) told.push_back(TellMade(inode, false));
  const std::vector<Result<void>> results = co_await WhenAll(std::move(told));
  for (size_t i = 0; i < files.size(); ++i) {
    if (!results[i].ok() && files[i]->lost.ok()) co_return results[i].error();
  }
  co_return Ok();
}

Task<Result<void>> Vfs::FlushHeld(std::shared_ptr<VfsInode> inode) {
  while (true) {
    std::vector<std::shared_ptr<VfsInode>> files = MadeAheadOf({inode->ino, InodeId()});
    if (files.empty()) break;
    CO_RETURN_IF_ERROR(co_await TellAll(std::move(files)));
  }
  co_return co_await FlushInode(std::move(inode), false);
}

Task<void> Vfs::TellOld() {
  while (made_ahead_ > 0) {
    co_await Sleep(kTellNs);
    const int64_t now_ns = Executor::Current().NowNs();
    std::vector<std::shared_ptr<VfsInode>> old;
    for (const auto& [dir, made] : ahead_) {
      for (const auto& [ino, inode] : made.files) {
        if (now_ns - inode->ahead_since_ns >= kTellNs && !inode->telling) old.push_back(inode);
      }
    }
    for (const auto& inode : old) {
      if (!inode->ahead || std::exchange(inode->telling, true)) continue;
      scope_.Spawn(Tell(inode, false));
    }
  }
  tells_old_ = false;
}

// Before that directory goes. Under an AheadPause.
Task<Result<void>> Vfs::TellIn(std::optional<InodeId> dir) {
  std::vector<std::shared_ptr<VfsInode>> files;
  for (const auto& [ino, made] : ahead_) {
    if (dir && ino != *dir) continue;
    for (const auto& [file, inode] : made.files) files.push_back(inode);
  }
  if (files.empty()) co_return Ok();
  co_return co_await TellAll(std::move(files));
}

}  // namespace stria
