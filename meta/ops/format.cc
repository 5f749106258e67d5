#include "meta/ops/ops.h"

namespace stria {

Result<void> FormatStore(Txn& txn, const FormatParams& params) {
  ASSIGN_OR_RETURN(const bool formatted, txn.Has<SuperRecord>(SuperKey()));
  if (formatted) return Error(FsError::kExist, "the metadata store is formatted already");
  SuperRecord super;
  super.cluster = params.cluster;
  super.store = params.store;
  super.created_ns = params.now_ns;
  txn.Write(SuperKey(), super);

  InodeRecord root;
  root.attr.ino = kRootInode;
  root.attr.type = FileType::kDirectory;
  root.attr.mode = 0755;
  root.attr.nlink = 2;
  root.attr.atime_ns = root.attr.mtime_ns = root.attr.ctime_ns = params.now_ns;
  ASSIGN_OR_RETURN(root.attr.version, txn.Stamp());
  root.attr.data_version = root.attr.version;
  root.layout = params.layout;
  root.layout_inherited = false;
  root.parent = kRootInode;
  txn.Write(InodeKey(kRootInode), root);
  txn.AddCount(Counter::kDirectories, 1);
  return Ok();
}

}  // namespace stria
