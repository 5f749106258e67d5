// Entries come in the order of their cookies. Keys order by hash, then name; entries of the same hash
// are put in the order of their slots here, which needs all of them at once (they are few).
#include <algorithm>

#include "meta/ops/nodes.h"

namespace stria {
namespace {

// Entries after the cookie, complete hashes only; `end` if there are no more.
Result<std::vector<DirEntry>> EntriesAfter(Txn& txn, InodeId dir, uint64_t cookie, size_t rows_limit,
                                           bool* end) {
  const uint64_t from_hash = cookie & ~uint64_t{0xff};
  ASSIGN_OR_RETURN(auto rows, txn.Scan(Family::kDentries, DentryHashKey(dir, from_hash),
                                       PrefixEnd(InodeKey(dir)), rows_limit));
  *end = rows.size() < rows_limit;
  std::vector<DirEntry> entries;
  uint64_t last_hash = 0;
  for (const KvEntry& row : rows) {
    DentryKeyParts key;
    if (!ParseDentryKey(row.first, &key)) {
      return CorruptRecord(Family::kDentries, row.first, "its key does not decode");
    }
    ASSIGN_OR_RETURN(DentryRecord rec, DentryRecord::Decode(row.first, row.second));
    entries.push_back({std::move(key.name), rec.ino, rec.type, key.hash | rec.slot, std::nullopt});
    last_hash = key.hash;
  }
  // The rows may have stopped amid one hash.
  if (!*end)
    std::erase_if(entries, [&](const DirEntry& e) { return (e.cookie & ~uint64_t{0xff}) == last_hash; });
  std::erase_if(entries, [&](const DirEntry& e) { return e.cookie <= cookie; });
  std::sort(entries.begin(), entries.end(),
            [](const DirEntry& a, const DirEntry& b) { return a.cookie < b.cookie; });
  return entries;
}

}  // namespace

Result<ReadDirReply> OpReadDir(Txn& txn, const OpCtx& ctx, const ReadDirRequest& r) {
  ASSIGN_OR_RETURN(InodeRecord dir, GetDir(txn, r.ino));
  if (!ctx.HasOpen(r.ino, false) && !MayAccess(ctx, dir.attr, kMayRead, AclIn(txn, dir))) return Error(FsError::kAccess);
  ReadDirReply reply;
  reply.parent = dir.parent;
  const size_t limit = std::clamp<size_t>(r.limit, 1, kMaxDirEntriesPerReply);
  ASSIGN_OR_RETURN(reply.entries, EntriesAfter(txn, r.ino, r.cookie, limit + 2, &reply.end));
  if (reply.entries.empty() && !reply.end) {
    // Many names of one hash: take enough to have one whole hash after this one.
    ASSIGN_OR_RETURN(reply.entries,
                     EntriesAfter(txn, r.ino, r.cookie, limit + 2 * kMaxSlots + 2, &reply.end));
  }
  if (reply.entries.size() > limit) {
    reply.entries.resize(limit);
    reply.end = false;
  }
  size_t bytes = 0;
  for (size_t i = 0; i < reply.entries.size(); ++i) {
    DirEntry& e = reply.entries[i];
    bytes += e.name.size() + sizeof(DirEntry);
    if (bytes > kMaxDirReplyBytes) {
      reply.entries.resize(i);
      reply.end = false;
      break;
    }
    if (!r.with_attrs) continue;
    ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, e.ino));
    e.attr = rec.attr;
  }
  return reply;
}

}  // namespace stria
