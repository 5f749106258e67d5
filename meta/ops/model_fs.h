// The oracle of the operations: a filesystem of simple maps, written from the manual pages and not from
// the operations. Directories are maps of names; a file is one cell per byte that says where the byte
// is. Only for tests.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/meta_api.h"

namespace stria {

// Where a byte of a file is: nothing (a hole), a byte of a stripe, or the byte itself.
struct ModelCell {
  StripeId stripe;
  uint64_t offset = 0;
  int value = -1;
  bool operator==(const ModelCell&) const = default;
};

struct ModelNode {
  FileType type = FileType::kFile;
  uint32_t mode = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t nlink = 0;
  uint64_t rdev = 0;
  int64_t atime = 0;
  int64_t mtime = 0;
  int64_t ctime = 0;
  InodeId parent;
  std::map<std::string, InodeId> entries;
  std::string target;
  std::map<std::string, std::string> xattrs;
  std::vector<ModelCell> bytes;
  bool IsDir() const { return type == FileType::kDirectory; }
};

struct ModelCaller {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::set<uint32_t> groups;
  int64_t now = 0;
};

class ModelFs {
 public:
  explicit ModelFs(int64_t now) {
    ModelNode root;
    root.type = FileType::kDirectory;
    root.mode = 0755;
    root.nlink = 2;
    root.atime = root.mtime = root.ctime = now;
    root.parent = kRootInode;
    nodes_[kRootInode] = root;
  }
  std::map<InodeId, ModelNode>& nodes() { return nodes_; }
  std::set<InodeId>& open() { return open_; }
  ModelNode* Find(InodeId ino) {
    auto it = nodes_.find(ino);
    return it == nodes_.end() ? nullptr : &it->second;
  }

  FsError Lookup(const ModelCaller& c, InodeId dir, const std::string& name, InodeId* out);
  // On kOk the new node is made as `ino`; *existing is set instead if the file was there and is opened.
  FsError Make(const ModelCaller& c, const MakeNodeRequest& r, InodeId ino, std::optional<InodeId>* existing);
  FsError Unlink(const ModelCaller& c, InodeId dir, const std::string& name);
  FsError Rmdir(const ModelCaller& c, InodeId dir, const std::string& name);
  FsError Rename(const ModelCaller& c, const RenameRequest& r);
  FsError Link(const ModelCaller& c, InodeId ino, InodeId dir, const std::string& name);
  FsError SetAttr(const ModelCaller& c, const SetAttrRequest& r);
  FsError SetXattr(const ModelCaller& c, const XattrRequest& r);
  FsError RemoveXattr(const ModelCaller& c, const XattrRequest& r);
  FsError GetXattr(const ModelCaller& c, const XattrRequest& r, std::string* value);
  FsError Write(const ModelCaller& c, InodeId ino, uint64_t offset, const std::vector<ModelCell>& cells);
  FsError Punch(const ModelCaller& c, InodeId ino, uint64_t offset, uint64_t length);
  // *cloned: bytes up to the end of the source.
  FsError Clone(const ModelCaller& c, const CloneRequest& r, uint64_t* cloned);
  // The last opener closes it.
  void Close(InodeId ino);

 private:
  bool May(const ModelCaller& c, const ModelNode& n, const char* rwx);
  void DropRights(const ModelCaller& c, ModelNode& n);
  FsError Walk(const ModelCaller& c, InodeId dir, const std::string& name, bool creating);
  FsError MayRemove(const ModelCaller& c, InodeId dir, const ModelNode& victim, bool as_dir);
  bool Beneath(InodeId ino, InodeId top);
  void Unref(const ModelCaller& c, InodeId ino);
  void Touch(const ModelCaller& c, InodeId dir) { nodes_[dir].mtime = nodes_[dir].ctime = c.now; }
  bool MayKnow(const ModelCaller& c, InodeId ino);
  FsError XattrRights(const ModelCaller& c, const XattrRequest& r, bool write);

  std::map<InodeId, ModelNode> nodes_;
  std::set<InodeId> open_;
};

}  // namespace stria
