// Repairs of the problems that fsck.cc and fsck_data.cc find.
#include "meta/ops/fsck_internal.h"
#include "meta/ops/nodes.h"

namespace stria {
namespace {

constexpr int kMaxRounds = 100;  // a repair may show the next problem; each round checks the whole store

Result<void> Apply(MetaStore& store, const fsck::Repair& repair, Touched* touched) {
  Txn txn(store);
  RETURN_IF_ERROR(repair.apply(txn, touched));
  RETURN_IF_ERROR(txn.Commit());
  return Ok();
}

}  // namespace

Result<FsckRepairs> RepairStore(MetaStore& store, bool dry_run, Touched* touched) {
  FsckRepairs out;
  for (int round = 0;; ++round) {
    fsck::Checker checker(store.kv());
    ASSIGN_OR_RETURN(FsckReply found, checker.Run());
    out.problems = std::move(found.problems);
    const std::vector<fsck::Repair> repairs = checker.TakeRepairs(dry_run);
    if (repairs.empty() || round == kMaxRounds || out.done.size() >= kMaxFsckRepairs) return std::move(out);
    for (const fsck::Repair& repair : repairs) {
      if (!dry_run) RETURN_IF_ERROR(Apply(store, repair, touched));
      out.done.push_back(repair.what);
    }
    if (dry_run) return std::move(out);
  }
}

namespace fsck {

std::vector<Repair> Checker::TakeRepairs(bool all) {
  std::vector<Repair> out = std::move(repairs_);
  if (out.empty() || all) out.insert(out.end(), counter_repairs_.begin(), counter_repairs_.end());
  return out;
}

// A new version, so that cached attributes are not used any more.
Checker::Fix Checker::ChangeInode(InodeId ino, std::function<void(InodeRecord*)> change) {
  return [ino, change = std::move(change)](Txn& txn, Touched* touched) -> Result<void> {
    ASSIGN_OR_RETURN(std::optional<InodeRecord> rec, txn.Read<InodeRecord>(InodeKey(ino)));
    if (!rec) return Ok();
    change(&*rec);
    ASSIGN_OR_RETURN(rec->attr.version, txn.Stamp());
    txn.Write(InodeKey(ino), *rec);
    touched->attrs.insert(ino);
    return Ok();
  };
}

Checker::Fix Checker::RemoveEntry(InodeId dir, std::string name) {
  return [dir, name = std::move(name)](Txn& txn, Touched* touched) -> Result<void> {
    ASSIGN_OR_RETURN(const std::optional<DentryRecord> entry, FindDentry(txn, dir, name));
    if (!entry) return Ok();
    txn.Delete(Family::kDentries, DentryKey(dir, name));
    txn.Delete(Family::kParents, ParentKey(entry->ino, dir, name));
    touched->entries.insert({dir, name});
    return Ok();  // the directory counts its entries again when they are checked again
  };
}

Result<bool> Checker::IsTraceless(InodeId ino) {
  if (unreadable_) return false;
  for (const Family family : {Family::kExtents, Family::kXattrs}) {
    const std::string prefix = InodeKey(ino);
    ASSIGN_OR_RETURN(const auto rows, kv_.Scan(static_cast<KvFamily>(family), prefix, PrefixEnd(prefix), 1));
    if (!rows.empty()) return false;
  }
  return true;
}

}  // namespace fsck
}  // namespace stria
