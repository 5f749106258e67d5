#include "client/fuse/fuse_times.h"

#include <linux/fuse.h>

namespace stria {

FuseKind FuseKindOf(uint32_t opcode) {
  switch (opcode) {
    case FUSE_LOOKUP: return FuseKind::kLookup;
    case FUSE_GETATTR: return FuseKind::kGetAttr;
    case FUSE_SETATTR: return FuseKind::kSetAttr;
    case FUSE_MKDIR:
    case FUSE_MKNOD:
    case FUSE_CREATE:
    case FUSE_SYMLINK: return FuseKind::kCreate;
    case FUSE_UNLINK:
    case FUSE_RMDIR: return FuseKind::kRemove;
    case FUSE_RENAME:
    case FUSE_RENAME2: return FuseKind::kRename;
    case FUSE_LINK: return FuseKind::kLink;
    case FUSE_OPEN:
    case FUSE_OPENDIR: return FuseKind::kOpen;
    case FUSE_READ: return FuseKind::kRead;
    case FUSE_WRITE: return FuseKind::kWrite;
    case FUSE_FLUSH: return FuseKind::kFlush;
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR: return FuseKind::kRelease;
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR: return FuseKind::kFsync;
    case FUSE_READDIR:
    case FUSE_READDIRPLUS: return FuseKind::kReadDir;
    case FUSE_GETLK:
    case FUSE_SETLK:
    case FUSE_SETLKW: return FuseKind::kLock;
    case FUSE_GETXATTR:
    case FUSE_SETXATTR:
    case FUSE_LISTXATTR:
    case FUSE_REMOVEXATTR: return FuseKind::kXattr;
    default: return FuseKind::kOther;
  }
}

}  // namespace stria
