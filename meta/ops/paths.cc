#include <map>
#include <optional>

#include "meta/ops/access.h"
#include "meta/ops/nodes.h"

namespace stria {
namespace {

Result<std::vector<ParentKeyParts>> NamesOf(Txn& txn, InodeId ino, std::string_view begin, size_t limit) {
  ASSIGN_OR_RETURN(auto rows, txn.Scan(Family::kParents, begin, PrefixEnd(InodeKey(ino)), limit));
  std::vector<ParentKeyParts> out(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!ParseParentKey(rows[i].first, &out[i])) {
      return CorruptRecord(Family::kParents, rows[i].first, "its key does not decode");
    }
  }
  return out;
}

// A name in it is no secret to the caller.
Result<bool> MayList(Txn& txn, const OpCtx& ctx, InodeId dir) {
  ASSIGN_OR_RETURN(const InodeRecord rec, GetInode(txn, dir));
  return MayAccess(ctx, rec.attr, kMayRead | kMayExec, AclIn(txn, rec));
}

// "/a/b" of a directory, "" of the root; "..." stands for parts that are too deep or have no name. None if the caller may not
// list the directory or one above it, up to the root of his export.
Result<std::optional<std::string>> DirPath(Txn& txn, const OpCtx& ctx, InodeId dir) {
  std::vector<std::string> names;
  bool above = false;
  while (true) {
    ASSIGN_OR_RETURN(const bool may, above ? Result<bool>(true) : MayList(txn, ctx, dir));
    if (!may) return std::optional<std::string>();
    above = above || dir == ctx.confined_to;
    if (dir == kRootInode) break;
    if (names.size() == kMaxPathDepth) {
      names.push_back("...");
      break;
    }
    ASSIGN_OR_RETURN(auto name, NamesOf(txn, dir, InodeKey(dir), 1));
    if (name.empty()) {
      names.push_back("...");
      break;
    }
    names.push_back(std::move(name[0].name));
    dir = name[0].parent;
  }
  std::string path;
  for (auto it = names.rbegin(); it != names.rend(); ++it) path.append("/").append(*it);
  return std::optional(path);
}

}  // namespace

Result<std::optional<bool>> OpLiesBelow(Txn& txn, InodeId dir, InodeId root) {
  InodeId at = dir;
  for (size_t depth = 0; depth < kMaxDirDepth; ++depth) {
    ASSIGN_OR_RETURN(const std::optional<InodeRecord> rec, txn.Read<InodeRecord>(InodeKey(at)));
    if (at == dir && (!rec || !rec->is_dir() || rec->dead())) return std::optional<bool>();
    if (!rec || !rec->is_dir()) return CorruptRecord(Family::kInodes, InodeKey(at), "it should be a directory");
    if (at == root) return std::optional(true);
    if (at == kRootInode) return std::optional(false);
    at = rec->parent;
  }
  return Error(FsError::kLoop, "the directory is nested too deeply");
}

Result<PathsPage> OpPaths(Txn& txn, const OpCtx& ctx, InodeId ino, std::string_view after, size_t limit) {
  PathsPage page;
  if (ino == kRootInode) {
    page.paths.push_back("/");
    return page;
  }
  RETURN_IF_ERROR(GetInode(txn, ino));
  const std::string first = InodeKey(ino);
  if (!after.empty() && !after.starts_with(first)) return Error(FsError::kBadRequest, "these are names of another inode");
  const std::string begin = after.empty() ? first : std::string(after) + '\0';
  ASSIGN_OR_RETURN(const auto names, NamesOf(txn, ino, begin, limit + 1));
  std::map<InodeId, std::optional<std::string>> dirs;  // most links of a file are in few
  size_t bytes = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == limit || bytes > kMaxPathsBytes) {
      page.next = ParentKey(ino, names[i - 1].parent, names[i - 1].name);
      break;
    }
    const InodeId parent = names[i].parent;
    if (!dirs.contains(parent)) {
      ASSIGN_OR_RETURN(dirs[parent], DirPath(txn, ctx, parent));
    }
    const std::optional<std::string>& dir = dirs[parent];
    if (!dir) {
      ++page.hidden;
      continue;
    }
    page.paths.push_back(*dir + "/" + names[i].name);
    bytes += page.paths.back().size();
  }
  return page;
}

}  // namespace stria
