#include "meta/ops/nodes.h"

namespace stria {

Result<NodeReply> OpLookup(Txn& txn, const OpCtx& ctx, const NameRequest& r) {
  ASSIGN_OR_RETURN(InodeRecord dir, GetSearchableDir(txn, ctx, r.parent));
  NodeReply reply;
  if (r.name == ".") {
    reply.attr = dir.attr;
    return reply;
  }
  if (r.name == "..") {
    ASSIGN_OR_RETURN(InodeRecord up, GetInode(txn, dir.parent));
    reply.attr = up.attr;
    return reply;
  }
  if (Error e = CheckName(r.name); !e.ok()) return e;
  ASSIGN_OR_RETURN(std::optional<DentryRecord> entry, FindDentry(txn, r.parent, r.name));
  if (!entry) return Error(FsError::kNoEnt);
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, entry->ino));
  reply.attr = rec.attr;
  return reply;
}

}  // namespace stria
