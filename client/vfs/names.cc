#include "client/vfs/names.h"

#include <optional>
#include <utility>

namespace stria {

Names::Names(NamesRooms rooms, TaskScope& scope)
    : inodes_(rooms.inodes), attrs_(rooms.attrs), nodes_(rooms.nodes), last_known_(rooms.last_known),
      made_ahead_(rooms.made_ahead), commits_(rooms.commits), keeper_(rooms.keeper), attr_calls_(rooms.attr_calls),
      session_(rooms.session), calls_(rooms.calls), scope_(scope) {}

Task<Result<EntryOut>> Names::Lookup(Caller who, InodeId parent, std::string name) {
  const CallList::Call under_way(&calls_, "lookup in directory", parent);
  if (name.size() > kMaxNameBytes) co_return Error(FsError::kNameTooLong);
  if (auto known = nodes_.FindEntry(parent, name)) {
    if (!*known) co_return Error(FsError::kNoEnt);
    if (auto attr = nodes_.FindAttr(*known)) co_return attrs_.Overlay(*attr);
    auto fresh = co_await attr_calls_.GetAttr(who, *known);
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
  co_return attrs_.RememberNode(*reply, since);
}

Task<Result<EntryOut>> Names::MakeNode(Caller who, InodeId parent, std::string name, FileType type, uint32_t mode,
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
  co_return attrs_.RememberNode(reply->node, nodes_.SinceChange(since));
}

Task<Result<void>> Names::Unlink(Caller who, InodeId parent, std::string name) {
  const CallList::Call under_way(&calls_, "removal in directory", parent);
  NameRequest r;
  r.parent = parent;
  r.name = name;
  const auto known = nodes_.FindEntry(parent, name);
  const VfsInodePtr given = known && *known ? keeper_.GiveBackWith(&r, *known) : nullptr;
  const uint64_t call = r.header.trace_id;
  const uint64_t since = nodes_.epoch();
  const uint64_t made = nodes_.names_made();
  NodeCache::Changing changing(&nodes_, parent, name);
  auto reply = co_await session_.Mutate(&MetaService::Unlink, std::move(r), who);
  changing.End();
  if (given) keeper_.WasGivenBack(given, call, reply.ok() && reply->released);
  const uint64_t now = nodes_.AfterChange(since);
  nodes_.ForgetEntry(parent, name);
  if (!reply.ok()) co_return reply.error();
  if (made == nodes_.names_made()) nodes_.RememberEntry(parent, name, InodeId(), now);  // else it may be there again
  attrs_.RememberNode(*reply, now);
  if (reply->attr.nlink == 0) {
    nodes_.ForgetAttr(reply->attr.ino);
    if (const VfsInodePtr inode = inodes_.Find(reply->attr.ino)) {
      inode->attr.nlink = 0;
      commits_.DropUnreachable(inode);
      // Nobody can reach it any more: its lease need not be kept for a later open.
      if (inode->readers + inode->writers == 0) scope_.Spawn(keeper_.ReleaseInode(inode));
    }
  }
  co_return Ok();
}

Task<Result<void>> Names::Rmdir(Caller who, InodeId parent, std::string name) {
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
  attrs_.RememberNode(*reply, now);
  nodes_.ForgetAttr(reply->attr.ino);
  nodes_.DropDir(reply->attr.ino);
  nodes_.NoteRemovedDir(reply->attr);
  co_return Ok();
}

Task<Result<void>> Names::Rename(Caller who, InodeId parent, std::string name, InodeId new_parent,
                               std::string new_name, bool no_replace, bool exchange) {
  const CallList::Call under_way(&calls_, "rename from directory", parent);
  if (new_name.size() > kMaxNameBytes) co_return Error(FsError::kNameTooLong);
  const std::optional<InodeId> victim = nodes_.FindEntry(new_parent, new_name);
  const MadeAhead::Pause pause(&made_ahead_, victim);
  CO_RETURN_IF_ERROR(co_await made_ahead_.TellIn(victim));
  // The source's bytes go first: after a crash the new name never shows less than the rename saw.
  if (auto known = nodes_.FindEntry(parent, name); known && *known) {
    const VfsInodePtr inode = inodes_.Find(*known);
    if (inode && !inode->writes.clean()) CO_RETURN_IF_ERROR(co_await commits_.FlushInode(inode, false));
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
  const VfsInodePtr given = replaces ? keeper_.GiveBackWith(&r, *replaced) : nullptr;
  const uint64_t call = r.header.trace_id;
  const uint64_t since = nodes_.epoch();
  const uint64_t made = nodes_.names_made();
  NodeCache::Changing from(&nodes_, parent, name), to(&nodes_, new_parent, new_name);
  auto reply = co_await session_.Mutate(&MetaService::Rename, std::move(r), who);
  from.End();
  to.End();
  if (given) keeper_.WasGivenBack(given, call, reply.ok() && reply->released);
  const uint64_t now = nodes_.AfterChange(since);
  nodes_.ForgetEntry(parent, name);
  nodes_.ForgetEntry(new_parent, new_name);
  if (replaced && *replaced) attrs_.AttrChanged(*replaced);  // it has a link less
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
  attrs_.RememberNode(*reply, now);
  co_return Ok();
}

Task<Result<EntryOut>> Names::Link(Caller who, InodeId ino, InodeId new_parent, std::string new_name) {
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
  co_return attrs_.RememberNode(*reply, nodes_.SinceChange(since));
}

Task<Result<std::string>> Names::ReadLink(Caller who, InodeId ino) {
  const CallList::Call under_way(&calls_, "readlink of", ino);
  InodeRequest r;
  r.ino = ino;
  CO_ASSIGN_OR_RETURN(ReadLinkReply reply, co_await session_.Call(&MetaService::ReadLink, std::move(r), who));
  co_return std::move(reply.target);
}

Task<Result<ReadDirReply>> Names::ReadDir(Caller who, InodeId ino, uint64_t cookie, uint32_t limit, bool attrs) {
  const CallList::Call under_way(&calls_, "listing of directory", ino);
  co_return co_await last_known_.Or(FetchListing(std::move(who), ino, cookie, limit, attrs), last_known_.Listing(ino, cookie));
}

Task<Result<ReadDirReply>> Names::FetchListing(Caller who, InodeId ino, uint64_t cookie, uint32_t limit, bool attrs) {
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
    if (e.attr) e.attr = attrs_.Remember(*e.attr, since).attr;
  }
  last_known_.NoteListing(ino, cookie, *reply);
  co_return std::move(*reply);
}

Task<Result<void>> Names::SyncDir(Caller who, InodeId ino, uint64_t mark) {
  const CallList::Call under_way(&calls_, "fsync of directory", ino);
  CO_RETURN_IF_ERROR(co_await session_.MakeDurable(ino, std::move(who)));
  if (Error lost = session_.lost_changes().Tell(ino, mark); !lost.ok()) co_return lost;
  co_return Ok();
}

}  // namespace stria
