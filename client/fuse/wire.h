// Between Stria's values and the structures of the FUSE protocol (linux/fuse.h). Pure.
#pragma once

#include <linux/fuse.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <optional>

#include "api/meta_api.h"
#include "client/fuse/open_modes.h"
#include "client/vfs/vfs.h"

namespace stria {

// Features negotiated at INIT that libfuse 3.14 does not know.
struct FuseFeatures {
  bool direct_io_mmap = false;  // a direct_io file can be mapped (kernel >= 6.6)
  bool kill_priv = false;       // the kernel says with each write whether suid and sgid must go
  bool passthrough = false;     // the kernel can be told to read another file in place of this mount's (kernel >= 6.9)
};
// Newer than the system's linux/fuse.h.
inline constexpr uint64_t kInitDirectIoAllowMmap = 1ULL << 36;  // FUSE_DIRECT_IO_ALLOW_MMAP
inline constexpr uint64_t kInitPassthrough = 1ULL << 37;        // FUSE_PASSTHROUGH
inline constexpr uint32_t kOpenPassthrough = 1U << 7;           // FOPEN_PASSTHROUGH

// The inode behind the kernel's number 1: the root, or the directory that is mounted as one.
struct RootMap {
  InodeId root = kRootInode;
  InodeId FromNode(uint64_t node) const { return node == FUSE_ROOT_ID ? root : InodeId(node); }
  uint64_t ToNode(InodeId ino) const { return ino == root ? FUSE_ROOT_ID : ino.v; }
};

// -o uid=,gid=: every file seems to have this owner. A caller with that uid acts as the user who mounted, so that the servers,
// which know the true owners, allow it. Owners cannot be changed through such a mount.
struct OwnerMap {
  std::optional<uint32_t> uid, gid;
  uint32_t as_uid = 0, as_gid = 0;  // the user who mounted
  bool IsOwner(uint32_t caller) const { return uid && caller == *uid; }
  void Apply(fuse_attr* attr) const {
    if (uid) attr->uid = *uid;
    if (gid) attr->gid = *gid;
  }
};

uint32_t TypeBits(FileType type);          // S_IFREG ...
FileType TypeOf(uint32_t mode);            // kFile if the mode names none
// Files prefer requests of this size (st_blksize).
inline constexpr uint32_t kPreferredIoBytes = 256 * kKiB;

void FillAttr(const Attr& attr, fuse_attr* out);
fuse_attr_out MakeAttrOut(const EntryOut& entry);
fuse_entry_out MakeEntryOut(const EntryOut& entry, const RootMap& roots, int64_t name_valid_ns = 0);
struct statvfs MakeStatVfs(const StatFsReply& reply);

// The handle that open(2) flags ask for.
VfsHandle HandleFor(int open_flags);
// FOPEN_* of an opened file.
uint32_t OpenReplyFlags(const VfsHandle& handle, OpenMode mode, const FuseFeatures& features);

// Completes libfuse's answer to INIT (`out_bytes` long) on its way to the kernel: adds what the kernel offered (`in`) and
// libfuse does not know; passthrough only if asked for. Returns what is now in effect.
FuseFeatures ExtendInitReply(const fuse_init_in& in, bool passthrough, fuse_init_out* out, size_t out_bytes);

}  // namespace stria
