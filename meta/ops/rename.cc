// rename(2), in these steps; the order of the checks is Linux's (do_renameat2, vfs_rename):
//   1. the two directories can be searched, the names are names
//   2. source and target are looked up
//   3. neither directory lies beneath what moves or is replaced
//   4. two names of one inode: nothing happens
//   5. permissions, types, link bounds
//   6. entries, link counts, times
#include "meta/ops/nodes.h"

namespace stria {
namespace {

struct Side {
  DentryRecord entry;
  InodeRecord rec;
};

struct Move {
  InodeRecord from_dir;
  InodeRecord to_dir;  // not used if same_dir
  bool same_dir = false;
  Side source;
  std::optional<Side> target;
  InodeRecord& to() { return same_dir ? from_dir : to_dir; }
};

Result<std::optional<Side>> FindSide(Txn& txn, InodeId dir, const std::string& name) {
  ASSIGN_OR_RETURN(std::optional<DentryRecord> entry, FindDentry(txn, dir, name));
  if (!entry) return std::optional<Side>();
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, entry->ino));
  return std::optional<Side>(Side{*entry, std::move(rec)});
}

// True if `ancestor` is `ino` or above it.
Result<bool> IsAbove(Txn& txn, InodeId ancestor, InodeId ino) {
  for (size_t depth = 0; depth < kMaxDirDepth; ++depth) {
    if (ino == ancestor) return true;
    if (ino == kRootInode) return false;
    ASSIGN_OR_RETURN(std::optional<InodeRecord> rec, txn.Read<InodeRecord>(InodeKey(ino)));
    if (!rec || !rec->is_dir())
      return CorruptRecord(Family::kInodes, InodeKey(ino), "it should be a directory");
    ino = rec->parent;
  }
  return Error(FsError::kLoop, "the directory is nested too deeply");
}

Result<Move> Resolve(Txn& txn, const OpCtx& ctx, const RenameRequest& r) {
  Move m;
  m.same_dir = r.parent == r.new_parent;
  ASSIGN_OR_RETURN(m.from_dir, GetSearchableDir(txn, ctx, r.parent));
  if (!m.same_dir) {
    ASSIGN_OR_RETURN(m.to_dir, GetSearchableDir(txn, ctx, r.new_parent));
  }
  if (IsDots(r.name)) return Error(FsError::kBusy);
  if (IsDots(r.new_name)) return Error(r.no_replace ? FsError::kExist : FsError::kBusy);
  if (Error e = CheckName(r.name); !e.ok()) return e;
  ASSIGN_OR_RETURN(std::optional<Side> source, FindSide(txn, r.parent, r.name));
  if (!source) return Error(FsError::kNoEnt);
  m.source = std::move(*source);
  if (Error e = CheckName(r.new_name); !e.ok()) return e;
  ASSIGN_OR_RETURN(m.target, FindSide(txn, r.new_parent, r.new_name));
  if (m.target && r.no_replace) return Error(FsError::kExist);
  if (!m.target && r.exchange) return Error(FsError::kNoEnt);
  if (m.same_dir) return m;
  if (m.source.rec.is_dir()) {
    ASSIGN_OR_RETURN(const bool loop, IsAbove(txn, m.source.rec.attr.ino, r.new_parent));
    if (loop) return Error(FsError::kInval, "a directory cannot move into itself");
  }
  if (m.target && m.target->rec.is_dir()) {
    ASSIGN_OR_RETURN(const bool loop, IsAbove(txn, m.target->rec.attr.ino, r.parent));
    if (loop) return Error(r.exchange ? FsError::kInval : FsError::kNotEmpty);
  }
  return m;
}

Error CheckRights(Txn& txn, const OpCtx& ctx, Move& m, bool exchange) {
  const bool source_dir = m.source.rec.is_dir();
  const std::string from_acl = AclIn(txn, m.from_dir), to_acl = AclIn(txn, m.to());
  if (Error e = MayDelete(ctx, m.from_dir.attr, m.source.rec.attr, source_dir, from_acl); !e.ok()) return e;
  if (!m.target) {
    if (Error e = MayCreate(ctx, m.to().attr, to_acl); !e.ok()) return e;
  } else {
    const bool as_dir = exchange ? m.target->rec.is_dir() : source_dir;
    if (Error e = MayDelete(ctx, m.to().attr, m.target->rec.attr, as_dir, to_acl); !e.ok()) return e;
  }
  if (m.same_dir) return Error();
  // Its ".." changes.
  const auto may_write = [&](const InodeRecord& rec) { return MayAccess(ctx, rec.attr, kMayWrite, AclIn(txn, rec)); };
  if (source_dir && !may_write(m.source.rec)) return Error(FsError::kAccess);
  if (exchange && m.target->rec.is_dir() && !may_write(m.target->rec)) return Error(FsError::kAccess);
  const bool target_dir = m.target && m.target->rec.is_dir();
  if (source_dir && !target_dir && m.to_dir.attr.nlink >= kMaxDirLinks) return Error(FsError::kMLink);
  if (exchange && target_dir && !source_dir && m.from_dir.attr.nlink >= kMaxDirLinks)
    return Error(FsError::kMLink);
  return Error();
}

Result<NodeReply> Finish(Txn& txn, const OpCtx& ctx, Move& m) {
  m.source.rec.attr.ctime_ns = ctx.now_ns;
  RETURN_IF_ERROR(PutInode(txn, ctx, &m.source.rec));
  RETURN_IF_ERROR(PutChangedDir(txn, ctx, &m.from_dir));
  NodeReply reply{m.source.rec.attr, m.from_dir.attr, std::nullopt, txn.seq()};
  if (!m.same_dir) {
    RETURN_IF_ERROR(PutChangedDir(txn, ctx, &m.to_dir));
    reply.parent2 = m.to_dir.attr;
  }
  return reply;
}

Result<NodeReply> Exchange(Txn& txn, const OpCtx& ctx, const RenameRequest& r, Move& m) {
  Side& a = m.source;
  Side& b = *m.target;
  ReplaceDentry(txn, ctx, r.parent, r.name, a.entry, b.rec.attr.ino, b.rec.attr.type);
  ReplaceDentry(txn, ctx, r.new_parent, r.new_name, b.entry, a.rec.attr.ino, a.rec.attr.type);
  if (!m.same_dir) {
    if (a.rec.is_dir() || b.rec.is_dir()) txn.NoteDirMoved();
    if (a.rec.is_dir()) {
      a.rec.parent = r.new_parent;
      --m.from_dir.attr.nlink;
      ++m.to_dir.attr.nlink;
    }
    if (b.rec.is_dir()) {
      b.rec.parent = r.parent;
      --m.to_dir.attr.nlink;
      ++m.from_dir.attr.nlink;
    }
  }
  b.rec.attr.ctime_ns = ctx.now_ns;
  RETURN_IF_ERROR(PutInode(txn, ctx, &b.rec));
  return Finish(txn, ctx, m);
}

}  // namespace

Result<NodeReply> OpRename(Txn& txn, const OpCtx& ctx, const RenameRequest& r) {
  if (r.no_replace && r.exchange) return Error(FsError::kInval, "no_replace and exchange exclude each other");
  ASSIGN_OR_RETURN(Move m, Resolve(txn, ctx, r));
  if (m.target && m.target->rec.attr.ino == m.source.rec.attr.ino) {
    NodeReply reply{m.source.rec.attr, m.from_dir.attr, std::nullopt, txn.seq()};
    if (!m.same_dir) reply.parent2 = m.to_dir.attr;
    return reply;
  }
  if (Error e = CheckRights(txn, ctx, m, r.exchange); !e.ok()) return e;
  if (r.exchange) return Exchange(txn, ctx, r, m);

  const InodeId ino = m.source.rec.attr.ino;
  const bool is_dir = m.source.rec.is_dir();
  RemoveDentry(txn, ctx, &m.from_dir, r.name, ino);
  if (is_dir) {
    if (!m.same_dir) txn.NoteDirMoved();
    m.source.rec.parent = r.new_parent;
    --m.from_dir.attr.nlink;
    ++m.to().attr.nlink;
  }
  if (!m.target) {
    RETURN_IF_ERROR(AddDentry(txn, ctx, &m.to(), r.new_name, ino, m.source.rec.attr.type));
    return Finish(txn, ctx, m);
  }
  InodeRecord& victim = m.target->rec;
  if (victim.is_dir()) {
    ASSIGN_OR_RETURN(auto rows, txn.ScanPrefix(Family::kDentries, InodeKey(victim.attr.ino), 1));
    if (!rows.empty()) return Error(FsError::kNotEmpty);
    --m.to().attr.nlink;
  }
  ReplaceDentry(txn, ctx, r.new_parent, r.new_name, m.target->entry, ino, m.source.rec.attr.type);
  ASSIGN_OR_RETURN(NodeReply reply, Finish(txn, ctx, m));
  RETURN_IF_ERROR(DropLink(txn, ctx, &victim));
  return reply;
}

}  // namespace stria
