#include "meta/ops/model_fs.h"

#include <algorithm>

namespace stria {

bool ModelFs::May(const ModelCaller& c, const ModelNode& n, const char* rwx) {
  for (const char* p = rwx; *p != 0; ++p) {
    const uint32_t bit = *p == 'r' ? 4 : *p == 'w' ? 2 : 1;
    if (c.uid == 0) {
      if (*p == 'x' && !n.IsDir() && (n.mode & 0111) == 0) return false;
      continue;
    }
    uint32_t shift = 0;
    if (n.uid == c.uid)
      shift = 6;
    else if (n.gid == c.gid || c.groups.contains(n.gid))
      shift = 3;
    if (((n.mode >> shift) & bit) == 0) return false;
  }
  return true;
}

void ModelFs::DropRights(const ModelCaller& c, ModelNode& n) {
  n.mode &= ~04000u;
  const bool member = c.uid == 0 || n.gid == c.gid || c.groups.contains(n.gid);
  if ((n.mode & 010) || !member) n.mode &= ~02000u;
}

// Path resolution up to the last component.
FsError ModelFs::Walk(const ModelCaller& c, InodeId dir, const std::string& name, bool creating) {
  const ModelNode* d = Find(dir);
  if (!d) return FsError::kStale;
  if (!d->IsDir()) return FsError::kNotDir;
  if (!May(c, *d, "x")) return FsError::kAccess;
  if (creating && (name == "." || name == "..")) return FsError::kExist;
  if (name.size() > 255) return FsError::kNameTooLong;
  if (name.empty()) return FsError::kNoEnt;
  return FsError::kOk;
}

FsError ModelFs::Lookup(const ModelCaller& c, InodeId dir, const std::string& name, InodeId* out) {
  if (FsError e = Walk(c, dir, name, false); e != FsError::kOk) return e;
  if (name == ".")
    *out = dir;
  else if (name == "..")
    *out = nodes_[dir].parent;
  else {
    auto it = nodes_[dir].entries.find(name);
    if (it == nodes_[dir].entries.end()) return FsError::kNoEnt;
    *out = it->second;
  }
  return Find(*out) ? FsError::kOk : FsError::kStale;
}

FsError ModelFs::Make(const ModelCaller& c, const MakeNodeRequest& r, InodeId ino,
                      std::optional<InodeId>* existing) {
  if (FsError e = Walk(c, r.parent, r.name, true); e != FsError::kOk) return e;
  ModelNode& d = nodes_[r.parent];
  if (auto it = d.entries.find(r.name); it != d.entries.end()) {
    if (r.type != FileType::kFile || !r.open || r.exclusive) return FsError::kExist;
    ModelNode& f = nodes_[it->second];
    if (f.IsDir()) return FsError::kIsDir;
    if (f.type != FileType::kFile) return FsError::kLoop;
    if (!May(c, f, "w")) return FsError::kAccess;
    if (r.truncate && f.type == FileType::kFile) {
      f.bytes.clear();
      f.mtime = f.ctime = c.now;
      if (c.uid != 0) DropRights(c, f);
    }
    *existing = it->second;
    return FsError::kOk;
  }
  if (d.nlink == 0) return FsError::kNoEnt;
  if (!May(c, d, "wx")) return FsError::kAccess;
  const bool device = r.type == FileType::kCharDevice || r.type == FileType::kBlockDevice;
  if (device && c.uid != 0) return FsError::kPerm;
  ModelNode n;
  n.type = r.type;
  n.mode = r.mode & 07777;
  n.uid = c.uid;
  n.gid = (d.mode & 02000) ? d.gid : c.gid;
  n.atime = n.mtime = n.ctime = c.now;
  n.nlink = 1;
  n.rdev = device ? r.rdev : 0;
  if (r.type == FileType::kSymlink) {
    n.mode = 0777;
    n.target = r.target;
  }
  if (r.type == FileType::kDirectory) {
    n.mode = (n.mode & 01777) | (d.mode & 02000);
    n.nlink = 2;
    n.parent = r.parent;
    ++d.nlink;
  } else if ((d.mode & 02000) && (n.mode & 02010) == 02010 && c.uid != 0 && d.gid != c.gid &&
             !c.groups.contains(d.gid)) {
    n.mode &= ~02000u;
  }
  d.entries[r.name] = ino;
  Touch(c, r.parent);
  nodes_[ino] = n;
  return FsError::kOk;
}

FsError ModelFs::MayRemove(const ModelCaller& c, InodeId dir, const ModelNode& victim, bool as_dir) {
  const ModelNode& d = nodes_[dir];
  if (!May(c, d, "wx")) return FsError::kAccess;
  if ((d.mode & 01000) && c.uid != 0 && c.uid != victim.uid && c.uid != d.uid) return FsError::kPerm;
  if (as_dir != victim.IsDir()) return as_dir ? FsError::kNotDir : FsError::kIsDir;
  return FsError::kOk;
}

void ModelFs::Unref(const ModelCaller& c, InodeId ino) {
  ModelNode& n = nodes_[ino];
  n.nlink = n.IsDir() ? 0 : n.nlink - 1;
  n.ctime = c.now;
  if (n.nlink == 0 && !open_.contains(ino)) nodes_.erase(ino);
}

void ModelFs::Close(InodeId ino) {
  open_.erase(ino);
  if (ModelNode* n = Find(ino); n && n->nlink == 0) nodes_.erase(ino);
}

FsError ModelFs::Unlink(const ModelCaller& c, InodeId dir, const std::string& name) {
  if (FsError e = Walk(c, dir, name, false); e != FsError::kOk) return e;
  if (name == "." || name == "..") return FsError::kIsDir;
  auto it = nodes_[dir].entries.find(name);
  if (it == nodes_[dir].entries.end()) return FsError::kNoEnt;
  const InodeId ino = it->second;
  if (FsError e = MayRemove(c, dir, nodes_[ino], false); e != FsError::kOk) return e;
  nodes_[dir].entries.erase(it);
  Touch(c, dir);
  Unref(c, ino);
  return FsError::kOk;
}

FsError ModelFs::Rmdir(const ModelCaller& c, InodeId dir, const std::string& name) {
  if (FsError e = Walk(c, dir, name, false); e != FsError::kOk) return e;
  if (name == ".") return FsError::kInval;
  if (name == "..") return FsError::kNotEmpty;
  auto it = nodes_[dir].entries.find(name);
  if (it == nodes_[dir].entries.end()) return FsError::kNoEnt;
  const InodeId ino = it->second;
  if (FsError e = MayRemove(c, dir, nodes_[ino], true); e != FsError::kOk) return e;
  if (!nodes_[ino].entries.empty()) return FsError::kNotEmpty;
  nodes_[dir].entries.erase(it);
  --nodes_[dir].nlink;
  Touch(c, dir);
  Unref(c, ino);
  return FsError::kOk;
}

bool ModelFs::Beneath(InodeId ino, InodeId top) {
  while (ino != top) {
    if (ino == kRootInode) return false;
    ino = nodes_[ino].parent;
  }
  return true;
}

FsError ModelFs::Rename(const ModelCaller& c, const RenameRequest& r) {
  if (r.exchange && r.no_replace) return FsError::kInval;
  for (InodeId dir : {r.parent, r.new_parent}) {
    if (FsError e = Walk(c, dir, "x", false); e != FsError::kOk) return e;
  }
  if (r.name == "." || r.name == "..") return FsError::kBusy;
  if (r.new_name == "." || r.new_name == "..") return r.no_replace ? FsError::kExist : FsError::kBusy;
  if (r.name.size() > 255) return FsError::kNameTooLong;
  ModelNode& from = nodes_[r.parent];
  ModelNode& to = nodes_[r.new_parent];
  if (!from.entries.contains(r.name)) return FsError::kNoEnt;
  if (r.new_name.size() > 255) return FsError::kNameTooLong;
  const InodeId ino = from.entries[r.name];
  ModelNode& n = nodes_[ino];
  std::optional<InodeId> old;
  if (auto it = to.entries.find(r.new_name); it != to.entries.end()) old = it->second;
  if (old && r.no_replace) return FsError::kExist;
  if (!old && r.exchange) return FsError::kNoEnt;
  const bool moves = r.parent != r.new_parent;
  if (moves && n.IsDir() && Beneath(r.new_parent, ino)) return FsError::kInval;
  if (moves && old && nodes_[*old].IsDir() && Beneath(r.parent, *old)) {
    return r.exchange ? FsError::kInval : FsError::kNotEmpty;
  }
  if (old == ino) return FsError::kOk;
  if (FsError e = MayRemove(c, r.parent, n, n.IsDir()); e != FsError::kOk) return e;
  if (!old) {
    if (to.nlink == 0) return FsError::kNoEnt;
    if (!May(c, to, "wx")) return FsError::kAccess;
  } else {
    const bool as_dir = r.exchange ? nodes_[*old].IsDir() : n.IsDir();
    if (FsError e = MayRemove(c, r.new_parent, nodes_[*old], as_dir); e != FsError::kOk) return e;
  }
  if (moves && n.IsDir() && !May(c, n, "w")) return FsError::kAccess;
  if (moves && r.exchange && nodes_[*old].IsDir() && !May(c, nodes_[*old], "w")) return FsError::kAccess;
  if (!r.exchange && old && !nodes_[*old].entries.empty()) return FsError::kNotEmpty;

  to.entries[r.new_name] = ino;
  if (n.IsDir()) {
    --from.nlink;
    ++to.nlink;
    n.parent = r.new_parent;
  }
  n.ctime = c.now;
  if (r.exchange) {
    from.entries[r.name] = *old;
    ModelNode& o = nodes_[*old];
    if (o.IsDir()) {
      --to.nlink;
      ++from.nlink;
      o.parent = r.parent;
    }
    o.ctime = c.now;
  } else {
    from.entries.erase(r.name);
    if (old) {
      if (nodes_[*old].IsDir()) --to.nlink;
      Unref(c, *old);
    }
  }
  Touch(c, r.parent);
  Touch(c, r.new_parent);
  return FsError::kOk;
}

FsError ModelFs::Link(const ModelCaller& c, InodeId ino, InodeId dir, const std::string& name) {
  ModelNode* n = Find(ino);
  if (!n) return FsError::kStale;
  if (FsError e = Walk(c, dir, name, true); e != FsError::kOk) return e;
  ModelNode& d = nodes_[dir];
  if (d.entries.contains(name)) return FsError::kExist;
  if (d.nlink == 0) return FsError::kNoEnt;
  if (!May(c, d, "wx")) return FsError::kAccess;
  if (n->IsDir()) return FsError::kPerm;
  const bool runs_as = (n->mode & 04000) != 0 || (n->mode & 02010) == 02010;
  const bool usable = n->type == FileType::kFile && !runs_as && May(c, *n, "rw");
  if (c.uid != 0 && c.uid != n->uid && !usable) return FsError::kPerm;
  if (n->nlink == 0) return FsError::kNoEnt;
  d.entries[name] = ino;
  ++n->nlink;
  n->ctime = c.now;
  Touch(c, dir);
  return FsError::kOk;
}

FsError ModelFs::SetAttr(const ModelCaller& c, const SetAttrRequest& r) {
  ModelNode* n = Find(r.ino);
  if (!n) return FsError::kStale;
  if (!MayKnow(c, r.ino)) return FsError::kAccess;
  if (r.read_ns) {
    if (!May(c, *n, "r")) return FsError::kAccess;
    constexpr int64_t kDayNs = 86'400'000'000'000;
    if (n->atime <= std::max(n->mtime, n->ctime) || *r.read_ns - n->atime >= kDayNs) n->atime = *r.read_ns;
    return FsError::kOk;
  }
  const bool root = c.uid == 0;
  const bool owner = root || c.uid == n->uid;
  auto in_group = [&](uint32_t g) { return g == c.gid || c.groups.contains(g); };
  if (r.size) {
    if (n->IsDir()) return FsError::kIsDir;
    if (n->type != FileType::kFile) return FsError::kInval;
    if (!May(c, *n, "w")) return FsError::kAccess;
  }
  const bool times = r.atime_ns || r.mtime_ns || r.atime_now || r.mtime_now;
  const bool nothing = !r.mode && !r.uid && !r.gid && !r.size && !r.kill_suid && !times;
  if (nothing && !owner && !May(c, *n, "w")) return FsError::kPerm;
  if (r.uid && !root && (*r.uid != n->uid || c.uid != n->uid)) return FsError::kPerm;
  if (r.gid && !root && (c.uid != n->uid || (*r.gid != n->gid && !in_group(*r.gid)))) return FsError::kPerm;
  if (r.kill_suid && !owner && !May(c, *n, "w")) return FsError::kPerm;
  if (r.mode && !owner) return FsError::kPerm;
  if (r.mode && n->type == FileType::kSymlink) return FsError::kNotSupported;
  if ((r.atime_ns || r.mtime_ns) && !owner) return FsError::kPerm;
  if (r.atime_now != r.mtime_now && !owner) return FsError::kPerm;
  if (r.atime_now && r.mtime_now && !owner && !May(c, *n, "w")) return FsError::kAccess;

  if (r.mode) {
    n->mode = *r.mode & 07777;
    if (!root && !in_group(r.gid.value_or(n->gid))) n->mode &= ~02000u;
  }
  if (!n->IsDir() && (r.uid || r.gid || r.kill_suid || (r.size && !root))) {
    DropRights(c, *n);
  }
  if (r.uid) n->uid = *r.uid;
  if (r.gid) n->gid = *r.gid;
  if (r.size) {
    n->bytes.resize(*r.size);
    n->mtime = c.now;
  }
  if (r.atime_now) n->atime = c.now;
  if (r.mtime_now) n->mtime = c.now;
  if (r.atime_ns) n->atime = *r.atime_ns;
  if (r.mtime_ns) n->mtime = *r.mtime_ns;
  n->ctime = c.now;
  return FsError::kOk;
}

// A caller with a path to it, or any right.
bool ModelFs::MayKnow(const ModelCaller& c, InodeId ino) {
  const ModelNode& n = nodes_[ino];
  if (c.uid == 0 || c.uid == n.uid) return true;
  const bool right = May(c, n, "r") || May(c, n, "w") || May(c, n, "x");
  if (n.type != FileType::kSymlink && right) return true;
  for (const auto& [dir, d] : nodes_) {
    for (const auto& [name, child] : d.entries) {
      if (child == ino && May(c, d, "x")) return true;
    }
  }
  return false;
}

FsError ModelFs::XattrRights(const ModelCaller& c, const XattrRequest& r, bool write) {
  if (r.name.empty() || r.name.size() > 255) return FsError::kRange;
  const std::string space = r.name.substr(0, r.name.find('.') + 1);
  if (space != "user." && space != "trusted." && space != "security.") return FsError::kNotSupported;
  const ModelNode* n = Find(r.ino);
  if (!n) return FsError::kStale;
  if (space == "trusted." && c.uid != 0) return write ? FsError::kPerm : FsError::kNoData;
  if (space == "security." && write && c.uid != 0) return FsError::kPerm;
  if (space == "security." && !write && !MayKnow(c, r.ino)) return FsError::kAccess;
  if (space != "user.") return FsError::kOk;
  if (n->type != FileType::kFile && !n->IsDir()) return write ? FsError::kPerm : FsError::kNoData;
  if (write && n->IsDir() && (n->mode & 01000) && c.uid != 0 && c.uid != n->uid) return FsError::kPerm;
  return May(c, *n, write ? "w" : "r") ? FsError::kOk : FsError::kAccess;
}

FsError ModelFs::SetXattr(const ModelCaller& c, const XattrRequest& r) {
  if (FsError e = XattrRights(c, r, true); e != FsError::kOk) return e;
  ModelNode& n = nodes_[r.ino];
  const bool there = n.xattrs.contains(r.name);
  if (there && r.create) return FsError::kExist;
  if (!there && r.replace) return FsError::kNoData;
  n.xattrs[r.name] = r.value;
  n.ctime = c.now;
  return FsError::kOk;
}

FsError ModelFs::RemoveXattr(const ModelCaller& c, const XattrRequest& r) {
  if (FsError e = XattrRights(c, r, true); e != FsError::kOk) return e;
  ModelNode& n = nodes_[r.ino];
  if (n.xattrs.erase(r.name) == 0) return FsError::kNoData;
  n.ctime = c.now;
  return FsError::kOk;
}

FsError ModelFs::GetXattr(const ModelCaller& c, const XattrRequest& r, std::string* value) {
  if (FsError e = XattrRights(c, r, false); e != FsError::kOk) return e;
  auto it = nodes_[r.ino].xattrs.find(r.name);
  if (it == nodes_[r.ino].xattrs.end()) return FsError::kNoData;
  *value = it->second;
  return FsError::kOk;
}

FsError ModelFs::Write(const ModelCaller& c, InodeId ino, uint64_t offset,
                       const std::vector<ModelCell>& cells) {
  ModelNode* n = Find(ino);
  if (!n) return FsError::kStale;
  if (n->IsDir()) return FsError::kIsDir;
  if (n->type != FileType::kFile) return FsError::kInval;
  n->bytes.resize(std::max<size_t>(n->bytes.size(), offset + cells.size()));
  std::copy(cells.begin(), cells.end(), n->bytes.begin() + static_cast<ptrdiff_t>(offset));
  n->mtime = n->ctime = c.now;
  return FsError::kOk;
}

FsError ModelFs::Punch(const ModelCaller& c, InodeId ino, uint64_t offset, uint64_t length) {
  ModelNode* n = Find(ino);
  if (!n) return FsError::kStale;
  if (n->IsDir()) return FsError::kIsDir;
  if (n->type != FileType::kFile) return FsError::kInval;
  for (uint64_t i = offset; i < offset + length && i < n->bytes.size(); ++i) n->bytes[i] = ModelCell();
  n->mtime = n->ctime = c.now;
  return FsError::kOk;
}

FsError ModelFs::Clone(const ModelCaller& c, const CloneRequest& r, uint64_t* cloned) {
  *cloned = 0;
  for (InodeId ino : {r.to, r.from}) {
    const ModelNode* n = Find(ino);
    if (!n) return FsError::kStale;
    if (n->IsDir()) return FsError::kIsDir;
    if (n->type != FileType::kFile) return FsError::kInval;
  }
  const std::vector<ModelCell> source = nodes_[r.from].bytes;
  if (r.from_offset >= source.size()) return FsError::kOk;
  const uint64_t length = std::min<uint64_t>(r.length, source.size() - r.from_offset);
  if (r.from == r.to && r.from_offset < r.to_offset + length && r.to_offset < r.from_offset + length) {
    return FsError::kInval;
  }
  *cloned = length;
  const auto first = source.begin() + static_cast<ptrdiff_t>(r.from_offset);
  return Write(c, r.to, r.to_offset, std::vector<ModelCell>(first, first + static_cast<ptrdiff_t>(length)));
}

}  // namespace stria
