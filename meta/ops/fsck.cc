#include "meta/ops/fsck.h"

#include "meta/ops/fsck_internal.h"
#include "meta/ops/nodes.h"

namespace stria {

Result<FsckReply> CheckStore(KvStore& kv, const std::atomic<bool>* stop) { return fsck::Checker(kv, stop).Run(); }

namespace fsck {

std::string Name(InodeId ino) { return "inode " + std::to_string(ino.v); }
std::string Name(StripeId stripe) { return "stripe " + std::to_string(stripe.v); }

Result<FsckReply> Checker::Run() {
  RETURN_IF_ERROR(LoadState());
  RETURN_IF_ERROR(LoadInodes());
  RETURN_IF_ERROR(CheckQueues());
  RETURN_IF_ERROR(CheckDentries());
  RETURN_IF_ERROR(CheckParents());
  RETURN_IF_ERROR(CheckXattrs());
  CheckLinks();
  CheckTree();
  RETURN_IF_ERROR(CheckExtents());
  CheckSizes();
  RETURN_IF_ERROR(CheckRefs());
  RETURN_IF_ERROR(CheckStripes());
  RETURN_IF_ERROR(CheckShards());
  RETURN_IF_ERROR(CheckGarbage());
  CheckCounters();
  out_.inodes = inodes_.size();
  return std::move(out_);
}

void Checker::Problem(std::string sentence) {
  if (out_.problems.size() < kMaxFsckProblems) out_.problems.push_back(std::move(sentence));
}

void Checker::Problem(std::string sentence, std::string repair, Fix fix) {
  Problem(std::move(sentence));
  if (repairs_.size() < kMaxFsckRepairs) repairs_.push_back({std::move(repair), std::move(fix)});
}

InodeFacts* Checker::FindInode(InodeId ino) {
  auto it = inodes_.find(ino);
  return it == inodes_.end() ? nullptr : &it->second;
}

void Checker::CheckId(IdKind kind, uint64_t id, const char* what) {
  if (id >= state_.id_limits[static_cast<size_t>(kind)]) {
    Problem(std::string(what) + " " + std::to_string(id) + " is beyond the ids that were given out");
  }
}

Result<void> Checker::LoadState() {
  ASSIGN_OR_RETURN(auto super, kv_.Get(static_cast<KvFamily>(Family::kState), SuperKey()));
  if (!super) {
    Problem("the superblock is missing");
  } else if (auto rec = SuperRecord::Decode(SuperKey(), *super); !rec.ok()) {
    Problem(rec.error().message);
  }
  ASSIGN_OR_RETURN(auto state, kv_.Get(static_cast<KvFamily>(Family::kState), StateKey()));
  if (!state) {
    Problem("the state record is missing");
    return Ok();
  }
  Result<StateRecord> rec = StateRecord::Decode(StateKey(), *state);
  if (rec.ok()) {
    state_ = *rec;
  } else {
    Problem(rec.error().message);
  }
  return Ok();
}

Result<void> Checker::LoadInodes() {
  return ForEach<InodeRecord>([&](const std::string& key, const InodeRecord& rec) -> Result<void> {
    CheckId(IdKind::kInode, rec.attr.ino.v, "inode");
    CheckId(IdKind::kStamp, rec.attr.version, "version");
    if (rec.attr.data_version > rec.attr.version) {
      Problem(Name(rec.attr.ino) + " has a data version that is newer than its version");
    }
    Count(rec.is_dir() ? Counter::kDirectories : Counter::kFiles);
    inodes_[rec.attr.ino].rec = rec;
    return Ok();
  });
}

Result<void> Checker::CheckQueues() {
  auto mark = [&](const std::string& key, const char* queue, Family family, bool InodeFacts::*flag) -> Result<void> {
    InodeId ino;
    InodeFacts* facts = ParseKey64(key, &ino.v) ? FindInode(ino) : nullptr;
    if (facts) {
      facts->*flag = true;
    } else {
      Problem("the queue of " + std::string(queue) + " has " + Name(ino) + ", which does not exist",
              Name(ino) + " is taken out of the queue of " + queue,
              [family, key](Txn& txn, Touched*) -> Result<void> {
                txn.Delete(family, key);
                return Ok();
              });
    }
    return Ok();
  };
  RETURN_IF_ERROR(ForEach<OrphanRecord>([&](const std::string& key, const OrphanRecord&) {
    return mark(key, "orphans", Family::kOrphans, &InodeFacts::orphan);
  }));
  RETURN_IF_ERROR(ForEach<IntentRecord>([&](const std::string& key, const IntentRecord&) {
    return mark(key, "intents", Family::kIntents, &InodeFacts::intent);
  }));
  for (const auto& [ino, f] : inodes_) CheckQueued(ino, f);
  return Ok();
}

void Checker::CheckQueued(InodeId ino, const InodeFacts& f) {
  if (f.orphan && !f.rec.dead()) {
    Problem(Name(ino) + " is an orphan, but has links", Name(ino) + " is taken out of the queue of orphans",
            DeleteRecord<OrphanRecord>(InodeKey(ino)));
  }
  if (f.rec.dead() && !f.orphan && !f.intent) {
    Problem(Name(ino) + " has no links and nothing will free it", Name(ino) + " is queued to be freed",
            [ino = ino](Txn& txn, Touched* touched) -> Result<void> {
              txn.Write(InodeKey(ino), OrphanRecord());
              touched->orphaned.insert(ino);
              return Ok();
            });
  }
  if (f.intent && f.rec.masks.empty()) {
    Problem(Name(ino) + " waits to be trimmed, but nothing is masked",
            Name(ino) + " is taken out of the queue of intents", DeleteRecord<IntentRecord>(InodeKey(ino)));
  } else if (!f.intent && !f.rec.masks.empty()) {
    Problem(Name(ino) + " has masked ranges that nothing will trim", Name(ino) + " is queued to be trimmed",
            [ino = ino](Txn& txn, Touched* touched) -> Result<void> {
              txn.Write(InodeKey(ino), IntentRecord());
              touched->trim.insert(ino);
              return Ok();
            });
  }
}

Result<void> Checker::CheckDentries() {
  std::pair<InodeId, uint64_t> hash_of_slots;
  std::set<uint8_t> slots;
  return ForEach<DentryRecord>([&](const std::string& key, const DentryRecord& rec) -> Result<void> {
    DentryKeyParts parts;
    if (!ParseDentryKey(key, &parts)) {
      Problem("a key of family dentries does not decode: " + KeyToString(Family::kDentries, key));
      return Ok();
    }
    const std::string name = "entry '" + parts.name + "' of directory " + std::to_string(parts.parent.v);
    if (parts.hash != NameHash(parts.name)) Problem(name + " is stored under a wrong hash");
    if (std::pair(parts.parent, parts.hash) != hash_of_slots) slots.clear();
    hash_of_slots = {parts.parent, parts.hash};
    if (!slots.insert(rec.slot).second) Problem(name + " has the cookie of another entry");
    InodeFacts* dir = FindInode(parts.parent);
    if (!dir || !dir->rec.is_dir() || dir->rec.dead()) {
      Problem(name + ": that is no directory");
    } else {
      ++dir->entries;
    }
    InodeFacts* f = FindInode(rec.ino);
    if (!f) {
      const std::string problem = name + " names " + Name(rec.ino) + ", which does not exist";
      ASSIGN_OR_RETURN(const bool traceless, IsTraceless(rec.ino));
      if (!traceless || !dir) Problem(problem);
      else Problem(problem, name + " is removed: it names nothing", RemoveEntry(parts.parent, parts.name));
      return Ok();
    }
    ++f->links;
    if (f->rec.attr.type != rec.type) Problem(name + " has another type than its inode");
    if (f->rec.is_dir()) {
      if (dir) ++dir->subdirs;
      if (f->rec.parent != parts.parent) Problem(name + " is a directory that has another parent");
    }
    ASSIGN_OR_RETURN(auto back, Find<ParentRecord>(ParentKey(rec.ino, parts.parent, parts.name)));
    if (!back) {
      Problem(name + " has no record in family parents", name + " is recorded in family parents again",
              PutRecord(ParentKey(rec.ino, parts.parent, parts.name), ParentRecord()));
    }
    return Ok();
  });
}

Result<void> Checker::CheckParents() {
  return ForEach<ParentRecord>([&](const std::string& key, const ParentRecord&) -> Result<void> {
    ParentKeyParts parts;
    if (!ParseParentKey(key, &parts)) {
      Problem("a key of family parents does not decode: " + KeyToString(Family::kParents, key));
      return Ok();
    }
    ASSIGN_OR_RETURN(auto entry, Find<DentryRecord>(DentryKey(parts.parent, parts.name)));
    if (entry && entry->ino == parts.ino) return Ok();
    const std::string name = "'" + parts.name + "' of directory " + std::to_string(parts.parent.v);
    const std::string problem = Name(parts.ino) + " is not " + name + ", as family parents says";
    const InodeFacts* f = FindInode(parts.ino);
    // An inode with fewer names than links may have lost this name: then this record is the only way to find it.
    const bool missed = f && f->links < (f->rec.is_dir() ? 1 : f->rec.attr.nlink);
    if (missed || unreadable_) Problem(problem);
    else Problem(problem, "family parents forgets " + name + " for " + Name(parts.ino), DeleteRecord<ParentRecord>(key));
    return Ok();
  });
}

Result<void> Checker::CheckXattrs() {
  return ForEach<XattrRecord>([&](const std::string& key, const XattrRecord& rec) -> Result<void> {
    InodeId ino;
    std::string name;
    InodeFacts* f = ParseXattrKey(key, &ino, &name) ? FindInode(ino) : nullptr;
    if (!f) {
      Problem("extended attribute '" + name + "' is of " + Name(ino) + ", which does not exist");
      return Ok();
    }
    ++f->xattrs;
    f->xattr_bytes += name.size() + rec.value.size();
    if (const uint8_t acl = AclOf(name)) {
      f->acls |= acl;
      if (!Acl::Parse(rec.value).ok()) Problem(Name(ino) + " has an access control list that does not decode");
    }
    return Ok();
  });
}

void Checker::CheckLinks() {
  for (const auto& [ino, f] : inodes_) {
    const Attr& a = f.rec.attr;
    if (f.xattrs != f.rec.xattr_count || f.xattr_bytes != f.rec.xattr_bytes) {
      Problem(Name(ino) + " has other extended attributes than it counts",
              Name(ino) + " counts its extended attributes again",
              ChangeInode(ino, [n = f.xattrs, bytes = static_cast<uint32_t>(f.xattr_bytes)](InodeRecord* rec) {
                rec->xattr_count = n;
                rec->xattr_bytes = bytes;
              }));
    }
    if (f.acls != a.acls) Problem(Name(ino) + " has other access control lists than its attributes say");
    if (!f.rec.is_dir()) {
      if (f.links == a.nlink) continue;
      const std::string problem =
          Name(ino) + " has " + std::to_string(a.nlink) + " links, but " + std::to_string(f.links) + " names";
      if (f.links < a.nlink || f.rec.dead()) Problem(problem);  // a name may have been lost: bytes stay as long
      else Problem(problem, Name(ino) + " has " + std::to_string(f.links) + " links now",
                   ChangeInode(ino, [n = f.links](InodeRecord* rec) { rec->attr.nlink = static_cast<uint32_t>(n); }));
      continue;
    }
    const uint64_t names = ino == kRootInode || f.rec.dead() ? 0 : 1;
    if (f.links != names) {
      Problem("directory " + std::to_string(ino.v) + " has " + std::to_string(f.links) + " names");
    }
    if (!f.rec.dead() && a.nlink != 2 + f.subdirs) {
      Problem("directory " + std::to_string(ino.v) + " has " + std::to_string(a.nlink) + " links, but " +
                  std::to_string(f.subdirs) + " subdirectories",
              "directory " + std::to_string(ino.v) + " counts its subdirectories again",
              ChangeInode(ino, [n = f.subdirs](InodeRecord* rec) { rec->attr.nlink = static_cast<uint32_t>(2 + n); }));
    }
    if (a.size != f.entries) {
      Problem("directory " + std::to_string(ino.v) + " has " + std::to_string(f.entries) +
                  " entries, but counts " + std::to_string(a.size),
              "directory " + std::to_string(ino.v) + " counts its entries again",
              ChangeInode(ino, [n = f.entries](InodeRecord* rec) { rec->attr.size = n; }));
    }
  }
}

// Every directory that is alive leads up to the root.
void Checker::CheckTree() {
  if (!FindInode(kRootInode)) Problem("the root directory is missing");
  std::set<InodeId> good = {kRootInode};
  for (const auto& [start, f] : inodes_) {
    if (!f.rec.is_dir() || f.rec.dead()) continue;
    std::set<InodeId> path;
    InodeId at = start;
    while (!good.contains(at)) {
      const InodeFacts* facts = FindInode(at);
      if (!facts || !facts->rec.is_dir() || facts->rec.dead() || !path.insert(at).second) {
        Problem("directory " + std::to_string(start.v) + " does not lead up to the root");
        break;
      }
      at = facts->rec.parent;
    }
    if (good.contains(at)) good.insert(path.begin(), path.end());
  }
}

}  // namespace fsck
}  // namespace stria
