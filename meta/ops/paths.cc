#include "meta/ops/nodes.h"

namespace stria {
namespace {

Result<std::vector<ParentKeyParts>> NamesOf(Txn& txn, InodeId ino, size_t limit) {
  ASSIGN_OR_RETURN(auto rows, txn.ScanPrefix(Family::kParents, InodeKey(ino), limit));
  std::vector<ParentKeyParts> out(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!ParseParentKey(rows[i].first, &out[i])) {
      return CorruptRecord(Family::kParents, rows[i].first, "its key does not decode");
    }
  }
  return out;
}

// "/a/b" of a directory, "" of the root; "..." stands for what is too deep or has no name.
Result<std::string> DirPath(Txn& txn, InodeId dir) {
  std::vector<std::string> names;
  while (dir != kRootInode) {
    if (names.size() == kMaxPathDepth) {
      names.push_back("...");
      break;
    }
    ASSIGN_OR_RETURN(auto name, NamesOf(txn, dir, 1));
    if (name.empty()) {
      names.push_back("...");
      break;
    }
    names.push_back(std::move(name[0].name));
    dir = name[0].parent;
  }
  std::string path;
  for (auto it = names.rbegin(); it != names.rend(); ++it) path.append("/").append(*it);
  return path;
}

}  // namespace

Result<PathsReply> OpPaths(Txn& txn, InodeId ino) {
  PathsReply reply;
  if (ino == kRootInode) {
    reply.paths.push_back("/");
    return reply;
  }
  RETURN_IF_ERROR(GetInode(txn, ino));
  ASSIGN_OR_RETURN(auto names, NamesOf(txn, ino, kMaxPathsPerReply));
  for (const ParentKeyParts& name : names) {
    ASSIGN_OR_RETURN(std::string dir, DirPath(txn, name.parent));
    reply.paths.push_back(dir + "/" + name.name);
  }
  return reply;
}

}  // namespace stria
