// Names and attributes: each method asks the metadata server unless the lease lets us answer.
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/virtual_xattr.h"
#include "client/vfs/vfs.h"

namespace stria {

Task<Result<EntryOut>> Vfs::Lookup(Caller who, InodeId parent, std::string name) {
  const CallList::Call under_way(&calls_, "lookup in directory", parent);
  if (name.size() > kMaxNameBytes) co_return Error(FsError::kNameTooLong);
  if (auto known = nodes_.FindEntry(parent, name)) {
    if (!*known) co_return Error(FsError::kNoEnt);
    if (auto attr = nodes_.FindAttr(*known)) co_return Overlay(*attr);
    auto fresh = co_await GetAttr(who, *known);
    if (fresh.ok() || fresh.code() != FsError::kStale) co_return fresh;
    nodes_.ForgetEntry(parent, name);
  }
  const uint64_t since = nodes_.epoch();
  const uint64_t made = nodes_.names_made();
  NameRequest r;
  r.parent = parent;
  r.name = name;
  auto reply = co_await last_known_.Or(session_.Call(&MetaService::Lookup, std::move(r), who),
                                       last_known_.Entry(parent, name));
  if (!reply.ok()) {
    if (reply.code() == FsError::kNoEnt && made == nodes_.names_made()) nodes_.RememberEntry(parent, name, InodeId(), since);
    co_return reply.error();
  }
  if (name != "." && name != ".." && made == nodes_.names_made()) nodes_.RememberEntry(parent, name, reply->attr.ino, since);
  co_return RememberNode(*reply, since);
}

Task<Result<EntryOut>> Vfs::GetAttr(Caller who, InodeId ino) {
  const CallList::Call under_way(&calls_, "stat of", ino);
  auto it = inodes_.find(ino);
  const std::shared_ptr<VfsInode> inode = it != inodes_.end() ? it->second : nullptr;
  const bool gated = inode && PagesGated(*inode);
  const bool cut = inode && nodes_.IsResizing(ino) && inode->writes.clean();  // whether it is already only the server knows
  if (inode && inode->buffers_writes() && inode->attr_known && !inode->attr_stale && !cut &&
      inode->lease.generation() == session_.generation() && session_.LeaseLeftNs() > 0) {
    const EntryOut out = Overlay(inode->attr);
    if (gated) co_await kernel_view_.DropOldPages(InKernel(inode), inode->attr.data_version);  // the lease may go meanwhile
    co_return out;
  }
  if (const auto attr = gated ? std::nullopt : nodes_.FindAttr(ino)) co_return Overlay(*attr);
  if (const auto removed = nodes_.RemovedDir(ino)) co_return Overlay(*removed);
  while (true) {
    const uint64_t since = nodes_.epoch();
    const uint64_t known = inode ? inode->attr.version : 0;
    InodeRequest r;
    r.ino = ino;
    CO_ASSIGN_OR_RETURN(const NodeReply reply,
                        co_await last_known_.Or(session_.Call(&MetaService::GetAttr, std::move(r), who),
                                                last_known_.Directory(ino)));
    // Bytes that were buffered here when the server was asked, and that a program knows it has written, were committed meanwhile:
    // this answer lacks them, and nothing here has them any more.
    if (inode && inode->attr.version != known && Overtaken(*inode, reply.attr)) continue;
    const EntryOut out = RememberNode(reply, since);
    if (gated) co_await kernel_view_.DropOldPages(InKernel(inode), reply.attr.data_version);
    co_return out;
  }
}

namespace {
bool SetsOnlySize(const SetAttrIn& set) {
  return set.size && !set.mode && !set.uid && !set.gid && !set.atime_ns && !set.mtime_ns && !set.atime_now && !set.mtime_now;
}
}  // namespace

Task<Result<EntryOut>> Vfs::SetAttr(Caller who, InodeId ino, SetAttrIn set) {
  const CallList::Call under_way(&calls_, "change of attributes of", ino);
  if (auto done = SetAhead(who, ino, set)) co_return *std::move(done);
  const MadeAhead::Pause pause(&made_ahead_, ino);
  // Who opens it while it is cut waits: what he writes is not among what goes.
  auto it = inodes_.find(ino);
  const std::shared_ptr<VfsInode> inode = it != inodes_.end() ? it->second : set.size ? InodeOf(ino) : nullptr;
  auto changed = co_await ChangeAttr(std::move(who), ino, inode, set);
  if (inode) LetGo(inode);
  co_return changed;
}

// `inode` as far as it is in use here.
Task<Result<EntryOut>> Vfs::ChangeAttr(Caller who, InodeId ino, std::shared_ptr<VfsInode> inode, SetAttrIn set) {
  SemaphoreHold held;
  std::optional<NoWrites> no_writes;
  std::optional<Resizing> resizing;
  bool unflushed = false, cut = false;
  if (inode) {
    CO_ASSIGN_OR_RETURN(held, co_await turns_.Take(TurnsOf(inode), &InodeTurns::open_mu, "change of attributes"));
    no_writes.emplace(TurnsOf(inode));
    // Of what the server never had nothing is stored to be cut off at once: it goes from here, and the rest is what the file
    // shall be. Who has it open for writing is not refused.
    if (set.size && SetsOnlySize(set) && HoldsFor(*inode, true) && inode->CutsDirtyBytesOnly(*set.size)) {
      resizing.emplace(this, ino);
      co_await resizing->Begin();
      if ((cut = HoldsFor(*inode, true) && inode->CutsDirtyBytesOnly(*set.size))) {
        inode->CutDirty(*set.size, Executor::Current().WallNs());
        write_back_.Account(inode->writes);
      }
    }
    // What was written before must not come after: sizes and times of older writes would win. All of it goes
    // first, even what is cut off at once: if this client dies between the two, the file holds what a prefix
    // of its writes made.
    if (!inode->writes.clean() || inode->writes.mtime_ns()) {
      const auto flushed = co_await FlushInode(inode, false);
      unflushed = FindsNoPlace(flushed.code()) && set.size && (cut || *set.size < inode->attr.size);
      if (!unflushed) CO_RETURN_IF_ERROR(flushed);
    }
  }
  if (inode && (set.atime_ns || set.atime_now)) inode->atime.Forget();  // it is older
  SetAttrRequest r;
  r.ino = ino;
  r.mode = set.mode;
  r.uid = set.uid;
  r.gid = set.gid;
  r.size = set.size;
  r.atime_ns = set.atime_ns;
  r.mtime_ns = set.mtime_ns;
  r.atime_now = set.atime_now;
  r.mtime_now = set.mtime_now;
  r.kill_suid = set.kill_suid;
  if (inode) r.header.opened = inode->lease.proof();
  if (set.size && !resizing) {
    resizing.emplace(this, ino);
    co_await resizing->Begin();
  }
  const uint64_t since = nodes_.epoch();
  auto reply = co_await (unflushed ? CutUnflushed(inode, std::move(r), who)
                                   : session_.Mutate(&MetaService::SetAttr, std::move(r), who));
  if (!reply.ok()) co_return reply.error();
  if (inode) inode->Committed(session_.term(), reply->seq);
  // It may have been created over meanwhile.
  if (auto now = inodes_.find(ino); now != inodes_.end() && set.size) {
    VfsInode& n = *now->second;
    n.mapping.Forget(*set.size, kMaxFileBytes);
    n.writes.Truncate(*set.size);  // pages of mappings that came meanwhile
    if (reply->attr.version >= n.attr.version) n.attr = reply->attr;
    write_back_.Account(n.writes);
  }
  const EntryOut out = RememberNode(*reply, nodes_.SinceChange(since));
  co_return out;
}

Task<Result<EntryOut>> Vfs::MakeNode(Caller who, InodeId parent, std::string name, FileType type, uint32_t mode,
                                     uint64_t rdev, std::string target) {
  const CallList::Call under_way(&calls_, "creation in directory", parent);
  if (name.size() > kMaxNameBytes) co_return Error(FsError::kNameTooLong);
  if (target.size() > kMaxSymlinkBytes) co_return Error(FsError::kNameTooLong);
  const uint64_t since = nodes_.epoch();
  const uint64_t made = nodes_.names_made();
  MakeNodeRequest r;
  r.parent = parent;
  r.name = name;
  r.type = type;
  r.mode = mode;
  r.rdev = rdev;
  r.target = std::move(target);
  r.umask = who.umask;
  r.exclusive = true;
  NodeCache::Changing changing(&nodes_, parent, name);
  auto reply = co_await session_.Mutate(&MetaService::MakeNode, std::move(r), who);
  changing.End();
  const InodeId ino = reply.ok() ? reply->node.attr.ino : InodeId();
  const bool whole = reply.ok() && reply->whole && nodes_.MayKnowWhole(ino, since, made);
  nodes_.NameMade();
  if (!reply.ok()) {
    if (reply.code() == FsError::kExist) nodes_.ForgetEntry(parent, name);
    co_return reply.error();
  }
  nodes_.RememberEntry(parent, name, ino, since);
  if (whole) nodes_.MadeEmpty(ino);
  co_return RememberNode(reply->node, nodes_.SinceChange(since));
}

Task<Result<void>> Vfs::Unlink(Caller who, InodeId parent, std::string name) {
  const CallList::Call under_way(&calls_, "removal in directory", parent);
  NameRequest r;
  r.parent = parent;
  r.name = name;
  const auto known = nodes_.FindEntry(parent, name);
  const std::shared_ptr<VfsInode> given = known && *known ? GiveBackWith(&r, *known) : nullptr;
  const uint64_t call = r.header.trace_id;
  const uint64_t since = nodes_.epoch();
  const uint64_t made = nodes_.names_made();
  NodeCache::Changing changing(&nodes_, parent, name);
  auto reply = co_await session_.Mutate(&MetaService::Unlink, std::move(r), who);
  changing.End();
  if (given) WasGivenBack(given, call, reply.ok() && reply->released);
  const uint64_t now = nodes_.AfterChange(since);
  nodes_.ForgetEntry(parent, name);
  if (!reply.ok()) co_return reply.error();
  if (made == nodes_.names_made()) nodes_.RememberEntry(parent, name, InodeId(), now);  // else it may be there again
  RememberNode(*reply, now);
  if (reply->attr.nlink == 0) {
    nodes_.ForgetAttr(reply->attr.ino);
    auto it = inodes_.find(reply->attr.ino);
    if (it != inodes_.end()) {
      it->second->attr.nlink = 0;
      DropUnreachable(it->second);
      // Nobody can reach it any more: its lease need not be kept for a later open.
      if (it->second->readers + it->second->writers == 0) scope_.Spawn(ReleaseInode(it->second));
    }
  }
  co_return Ok();
}

Task<Result<void>> Vfs::Rmdir(Caller who, InodeId parent, std::string name) {
  const CallList::Call under_way(&calls_, "removal in directory", parent);
  const std::optional<InodeId> victim = nodes_.FindEntry(parent, name);
  const MadeAhead::Pause pause(&made_ahead_, victim);
  CO_RETURN_IF_ERROR(co_await made_ahead_.TellIn(victim));
  NameRequest r;
  r.parent = parent;
  r.name = name;
  const uint64_t since = nodes_.epoch();
  const NodeCache::Changing changing(&nodes_, parent, name);
  auto reply = co_await session_.Mutate(&MetaService::Rmdir, std::move(r), who);
  const uint64_t now = nodes_.AfterChange(since);
  nodes_.ForgetEntry(parent, name);
  if (!reply.ok()) co_return reply.error();
  RememberNode(*reply, now);
  nodes_.ForgetAttr(reply->attr.ino);
  nodes_.DropDir(reply->attr.ino);
  nodes_.NoteRemovedDir(reply->attr);
  co_return Ok();
}

Task<Result<void>> Vfs::Rename(Caller who, InodeId parent, std::string name, InodeId new_parent,
                               std::string new_name, bool no_replace, bool exchange) {
  const CallList::Call under_way(&calls_, "rename from directory", parent);
  if (new_name.size() > kMaxNameBytes) co_return Error(FsError::kNameTooLong);
  const std::optional<InodeId> victim = nodes_.FindEntry(new_parent, new_name);
  const MadeAhead::Pause pause(&made_ahead_, victim);
  CO_RETURN_IF_ERROR(co_await made_ahead_.TellIn(victim));
  // The source's bytes go first: after a crash the new name never shows less than the rename saw.
  if (auto known = nodes_.FindEntry(parent, name); known && *known) {
    auto it = inodes_.find(*known);
    if (it != inodes_.end() && !it->second->writes.clean()) {
      CO_RETURN_IF_ERROR(co_await FlushInode(it->second, false));
    }
  }
  RenameRequest r;
  r.parent = parent;
  r.name = name;
  r.new_parent = new_parent;
  r.new_name = new_name;
  r.no_replace = no_replace;
  r.exchange = exchange;
  const std::optional<InodeId> replaced = nodes_.FindEntry(new_parent, new_name);
  const bool replaces = replaced && *replaced && !no_replace && !exchange && replaced != nodes_.FindEntry(parent, name);
  // As for rmdir: somebody may be in it.
  const std::optional<Attr> directory = replaces ? nodes_.FindAttr(*replaced) : std::nullopt;
  const std::shared_ptr<VfsInode> given = replaces ? GiveBackWith(&r, *replaced) : nullptr;
  const uint64_t call = r.header.trace_id;
  const uint64_t since = nodes_.epoch();
  const uint64_t made = nodes_.names_made();
  NodeCache::Changing from(&nodes_, parent, name), to(&nodes_, new_parent, new_name);
  auto reply = co_await session_.Mutate(&MetaService::Rename, std::move(r), who);
  from.End();
  to.End();
  if (given) WasGivenBack(given, call, reply.ok() && reply->released);
  const uint64_t now = nodes_.AfterChange(since);
  nodes_.ForgetEntry(parent, name);
  nodes_.ForgetEntry(new_parent, new_name);
  if (replaced && *replaced) AttrChanged(*replaced);  // it has a link less
  if (!reply.ok()) co_return reply.error();
  if (directory && directory->type == FileType::kDirectory) {
    nodes_.DropDir(*replaced);
    nodes_.NoteRemovedDir(*directory);
  }
  if (!exchange) {
    nodes_.RememberEntry(new_parent, new_name, reply->attr.ino, now);
    // Of two names of one file both stay. What comes under the old name now we are told of in a whole directory only.
    const bool one_name = reply->attr.type == FileType::kDirectory || reply->attr.nlink == 1;
    const bool moved = parent != new_parent || name != new_name;
    if (moved && one_name && made == nodes_.names_made() && nodes_.IsWhole(parent)) {
      nodes_.RememberEntry(parent, name, InodeId(), now);
    }
  }
  RememberNode(*reply, now);
  co_return Ok();
}

Task<Result<EntryOut>> Vfs::Link(Caller who, InodeId ino, InodeId new_parent, std::string new_name) {
  const CallList::Call under_way(&calls_, "link of", ino);
  if (new_name.size() > kMaxNameBytes) co_return Error(FsError::kNameTooLong);
  const uint64_t since = nodes_.epoch();
  LinkRequest r;
  r.ino = ino;
  r.new_parent = new_parent;
  r.new_name = new_name;
  NodeCache::Changing changing(&nodes_, new_parent, new_name);
  auto reply = co_await session_.Mutate(&MetaService::Link, std::move(r), who);
  changing.End();
  nodes_.NameMade();
  if (!reply.ok()) {
    if (reply.code() == FsError::kExist) nodes_.ForgetEntry(new_parent, new_name);
    co_return reply.error();
  }
  nodes_.RememberEntry(new_parent, new_name, ino, since);
  co_return RememberNode(*reply, nodes_.SinceChange(since));
}

Task<Result<std::string>> Vfs::ReadLink(Caller who, InodeId ino) {
  const CallList::Call under_way(&calls_, "readlink of", ino);
  InodeRequest r;
  r.ino = ino;
  CO_ASSIGN_OR_RETURN(ReadLinkReply reply, co_await session_.Call(&MetaService::ReadLink, std::move(r), who));
  co_return std::move(reply.target);
}

Task<Result<ReadDirReply>> Vfs::ReadDir(Caller who, InodeId ino, uint64_t cookie, uint32_t limit, bool attrs) {
  const CallList::Call under_way(&calls_, "listing of directory", ino);
  return last_known_.Or(FetchListing(std::move(who), ino, cookie, limit, attrs), last_known_.Listing(ino, cookie));
}

Task<Result<ReadDirReply>> Vfs::FetchListing(Caller who, InodeId ino, uint64_t cookie, uint32_t limit, bool attrs) {
  const uint64_t since = nodes_.epoch();
  const uint64_t made = nodes_.names_made();
  ReadDirRequest r;
  r.ino = ino;
  r.cookie = cookie;
  r.limit = limit;
  r.with_attrs = attrs;
  auto reply = co_await session_.Call(&MetaService::ReadDir, std::move(r), who);
  if (!reply.ok()) co_return reply.error();
  if (nodes_.MayKnowWhole(ino, since, made)) {
    nodes_.Listed(ino, cookie, reply->entries, reply->end);
  } else if (made == nodes_.names_made()) {
    for (const DirEntry& e : reply->entries) {
      if (nodes_.FindEntry(ino, e.name) != e.ino) nodes_.RememberEntry(ino, e.name, e.ino, since);
    }
  }
  for (DirEntry& e : reply->entries) {
    if (e.attr) e.attr = Remember(*e.attr, since).attr;
  }
  last_known_.NoteListing(ino, cookie, *reply);
  co_return std::move(*reply);
}

Task<Result<void>> Vfs::SyncDir(Caller who, InodeId ino) {
  const CallList::Call under_way(&calls_, "fsync of directory", ino);
  InodeRequest r;
  r.ino = ino;
  CO_RETURN_IF_ERROR(co_await session_.Call(&MetaService::Sync, std::move(r), who));
  co_return Ok();
}

Task<Result<std::string>> Vfs::GetXattr(Caller who, InodeId ino, std::string name) {
  const CallList::Call under_way(&calls_, "getxattr of", ino);
  if (IsVirtualXattr(name)) co_return co_await residence_.Get(std::move(who), ino, std::move(name));
  // The kernel asks for the capabilities of whatever is given to somebody; what has just been made has no attributes at all.
  if (Untold(ino) != nullptr) co_return Error(FsError::kNoData);
  // It asks for the lists of whatever it checks; most inodes have none, as their attributes say.
  const uint8_t acl = name == "system.posix_acl_access" ? kAccessAcl : name == "system.posix_acl_default" ? kDefaultAcl : 0;
  if (acl) {
    if (const auto attr = nodes_.FindAttr(ino); attr && (attr->acls & acl) == 0) co_return Error(FsError::kNoData);
  }
  XattrRequest r;
  r.ino = ino;
  r.name = std::move(name);
  CO_ASSIGN_OR_RETURN(XattrReply reply, co_await session_.Call(&MetaService::GetXattr, std::move(r), who));
  co_return std::move(reply.value);
}

Task<Result<std::vector<std::string>>> Vfs::ListXattr(Caller who, InodeId ino) {
  const CallList::Call under_way(&calls_, "listxattr of", ino);
  if (Untold(ino) != nullptr) co_return std::vector<std::string>();
  XattrRequest r;
  r.ino = ino;
  CO_ASSIGN_OR_RETURN(XattrReply reply, co_await session_.Call(&MetaService::ListXattr, std::move(r), who));
  co_return std::move(reply.names);
}

Task<Result<void>> Vfs::SetXattr(Caller who, InodeId ino, std::string name, std::string value, bool create,
                                 bool replace) {
  const CallList::Call under_way(&calls_, "setxattr of", ino);
  const MadeAhead::Pause pause(&made_ahead_, ino);
  if (name == kGatherXattr) co_return co_await Gather(std::move(who), ino, std::move(value));
  if (name == kLayoutXattr) co_return co_await residence_.SetLayout(std::move(who), ino, std::move(value));
  XattrRequest r;
  r.ino = ino;
  r.name = std::move(name);
  r.value = std::move(value);
  r.create = create;
  r.replace = replace;
  auto reply = co_await session_.Mutate(&MetaService::SetXattr, std::move(r), who);
  ChangedUntold(ino);
  if (!reply.ok()) co_return reply.error();
  co_return Ok();
}

Task<Result<void>> Vfs::RemoveXattr(Caller who, InodeId ino, std::string name) {
  const CallList::Call under_way(&calls_, "removexattr of", ino);
  const MadeAhead::Pause pause(&made_ahead_, ino);
  XattrRequest r;
  r.ino = ino;
  r.name = std::move(name);
  if (auto it = inodes_.find(ino); it != inodes_.end()) r.header.opened = it->second->lease.proof();
  auto reply = co_await session_.Mutate(&MetaService::RemoveXattr, std::move(r), who);
  ChangedUntold(ino);
  if (!reply.ok()) co_return reply.error();
  co_return Ok();
}

}  // namespace stria
