// The work that unlink and truncate leave for later: masked ranges, and inodes that are dead but not yet empty.
#include "meta/ops/extents.h"
#include "meta/ops/nodes.h"

namespace stria {
namespace {

Result<std::vector<InodeId>> ListInodes(Txn& txn, Family f, InodeId after, size_t limit) {
  ASSIGN_OR_RETURN(auto rows, txn.Scan(f, InodeKey(InodeId(after.v + 1)), {}, limit));
  std::vector<InodeId> out(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!ParseKey64(rows[i].first, &out[i].v))
      return CorruptRecord(f, rows[i].first, "its key does not decode");
  }
  return out;
}

}  // namespace

Result<bool> TrimStep(Txn& txn, InodeId ino, Touched* touched) {
  ASSIGN_OR_RETURN(std::optional<InodeRecord> rec, txn.Read<InodeRecord>(InodeKey(ino)));
  if (!rec) {
    txn.Delete(Family::kIntents, InodeKey(ino));
    return false;
  }
  ASSIGN_OR_RETURN(const bool orphan, txn.Has<OrphanRecord>(InodeKey(ino)));
  if (rec->dead() && !orphan) {
    // Its masks are those of the last FreeInode: from where that stopped to the end.
    const uint64_t from = rec->masks.empty() ? 0 : rec->masks.front().begin;
    RETURN_IF_ERROR(FreeInode(txn, &*rec, touched, from));
    return txn.Has<IntentRecord>(InodeKey(ino));
  }
  while (!rec->masks.empty()) {
    MaskRange& m = rec->masks.front();
    ASSIGN_OR_RETURN(m.begin, DropRange(txn, &*rec, m.begin, m.end, touched));
    if (m.begin < m.end) break;
    rec->masks.erase(rec->masks.begin());
  }
  SetIntent(txn, *rec, touched);
  touched->attrs.insert(ino);  // fewer allocated bytes
  ASSIGN_OR_RETURN(rec->attr.version, txn.Stamp());
  txn.Write(InodeKey(ino), *rec);
  return !rec->masks.empty();
}

Result<std::vector<InodeId>> ListTrims(Txn& txn, InodeId after, size_t limit) {
  return ListInodes(txn, Family::kIntents, after, limit);
}

Result<std::vector<InodeId>> ListOrphans(Txn& txn, InodeId after, size_t limit) {
  return ListInodes(txn, Family::kOrphans, after, limit);
}

Result<void> OpReapOrphan(Txn& txn, InodeId ino, int64_t now_ns, Touched* touched) {
  ASSIGN_OR_RETURN(const bool orphan, txn.Has<OrphanRecord>(InodeKey(ino)));
  if (!orphan) return Ok();
  txn.Delete(Family::kOrphans, InodeKey(ino));
  ASSIGN_OR_RETURN(std::optional<InodeRecord> rec, txn.Read<InodeRecord>(InodeKey(ino)));
  if (!rec) return CorruptRecord(Family::kOrphans, InodeKey(ino), "its inode is missing");
  touched->attrs.insert(ino);
  ASSIGN_OR_RETURN(rec->attr.version, txn.Stamp());
  return FreeInode(txn, &*rec, touched);
}

}  // namespace stria
