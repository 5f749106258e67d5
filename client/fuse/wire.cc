#include "client/fuse/wire.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstring>

namespace stria {
namespace {

constexpr uint32_t kStatBlockBytes = 512;
constexpr uint32_t kStatFsBlockBytes = 4096;

void SplitNs(int64_t ns, uint64_t* s, uint32_t* rest) {
  int64_t sec = ns / kSecond;
  int64_t nsec = ns % kSecond;
  if (nsec < 0) {  // before 1970
    nsec += kSecond;
    --sec;
  }
  *s = static_cast<uint64_t>(sec);
  *rest = static_cast<uint32_t>(nsec);
}

// The kernel's 32-bit encoding of a device number (new_encode_dev).
uint32_t EncodeDev(uint64_t dev) {
  const uint32_t major_no = major(dev);
  const uint32_t minor_no = minor(dev);
  return (minor_no & 0xff) | (major_no << 8) | ((minor_no & ~0xffU) << 12);
}

}  // namespace

uint32_t TypeBits(FileType type) {
  switch (type) {
    case FileType::kFile: return S_IFREG;
    case FileType::kDirectory: return S_IFDIR;
    case FileType::kSymlink: return S_IFLNK;
    case FileType::kFifo: return S_IFIFO;
    case FileType::kSocket: return S_IFSOCK;
    case FileType::kCharDevice: return S_IFCHR;
    case FileType::kBlockDevice: return S_IFBLK;
  }
  return S_IFREG;
}

FileType TypeOf(uint32_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR: return FileType::kDirectory;
    case S_IFLNK: return FileType::kSymlink;
    case S_IFIFO: return FileType::kFifo;
    case S_IFSOCK: return FileType::kSocket;
    case S_IFCHR: return FileType::kCharDevice;
    case S_IFBLK: return FileType::kBlockDevice;
    default: return FileType::kFile;
  }
}

void FillAttr(const Attr& attr, fuse_attr* out) {
  *out = {};
  out->ino = attr.ino.v;
  out->size = attr.size;
  out->blocks = DivCeil(attr.allocated_bytes, kStatBlockBytes);
  SplitNs(attr.atime_ns, &out->atime, &out->atimensec);
  SplitNs(attr.mtime_ns, &out->mtime, &out->mtimensec);
  SplitNs(attr.ctime_ns, &out->ctime, &out->ctimensec);
  out->mode = TypeBits(attr.type) | (attr.mode & 07777);
  out->nlink = attr.nlink;
  out->uid = attr.uid;
  out->gid = attr.gid;
  out->rdev = EncodeDev(attr.rdev);
  out->blksize = attr.type == FileType::kFile ? kPreferredIoBytes : kStatFsBlockBytes;
}

fuse_attr_out MakeAttrOut(const EntryOut& entry) {
  fuse_attr_out out = {};
  SplitNs(std::max<int64_t>(entry.attr_valid_ns, 0), &out.attr_valid, &out.attr_valid_nsec);
  FillAttr(entry.attr, &out.attr);
  return out;
}

fuse_entry_out MakeEntryOut(const EntryOut& entry, const RootMap& roots, int64_t name_valid_ns) {
  fuse_entry_out out = {};
  out.nodeid = roots.ToNode(entry.attr.ino);
  SplitNs(std::max<int64_t>(name_valid_ns, 0), &out.entry_valid, &out.entry_valid_nsec);
  SplitNs(std::max<int64_t>(entry.attr_valid_ns, 0), &out.attr_valid, &out.attr_valid_nsec);
  FillAttr(entry.attr, &out.attr);
  return out;
}

struct statvfs MakeStatVfs(const StatFsReply& reply) {
  struct statvfs out = {};
  out.f_bsize = kStatFsBlockBytes;
  out.f_frsize = kStatFsBlockBytes;
  out.f_blocks = reply.total_bytes / kStatFsBlockBytes;
  out.f_bfree = out.f_bavail = reply.free_bytes / kStatFsBlockBytes;
  out.f_namemax = kMaxNameBytes;
  // In a part of the tree files are not counted: as of other filesystems without a number, `df -i` shows none.
  if (reply.files == 0) return out;
  // The number of inodes is not fixed; the free ones are as many as fit at one block each.
  out.f_ffree = out.f_favail = out.f_bfree;
  out.f_files = reply.files + out.f_ffree;
  return out;
}

VfsHandle HandleFor(int open_flags) {
  VfsHandle h;
  const int access = open_flags & O_ACCMODE;
  h.read = access != O_WRONLY;
  h.write = access == O_WRONLY || access == O_RDWR;
  h.append = (open_flags & O_APPEND) != 0;
  h.sync = (open_flags & O_DSYNC) != 0;  // O_SYNC includes it
  h.noatime = (open_flags & O_NOATIME) != 0;
  return h;
}

uint32_t OpenReplyFlags(const VfsHandle& handle, OpenMode mode, const FuseFeatures& features) {
  if (mode == OpenMode::kThrough) return kOpenPassthrough;  // the kernel refuses FOPEN_KEEP_CACHE beside it
  if (mode == OpenMode::kBeside) return kOpenPassthrough | FOPEN_DIRECT_IO;
  if (!handle.write) {
    // Not FOPEN_NOFLUSH, although there is nothing to flush: close(2) gives up the process' locks.
    if (!handle.page_cache) return FOPEN_DIRECT_IO;
    return handle.keep_cache ? FOPEN_KEEP_CACHE : 0;
  }
  // A read-write file that could not be mapped otherwise goes through the page cache, written through.
  if (handle.read && !features.direct_io_mmap) return 0;
  return FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
}

FuseFeatures ExtendInitReply(const fuse_init_in& in, bool passthrough, fuse_init_out* out, size_t out_bytes) {
  FuseFeatures have;
  if (out_bytes < sizeof(fuse_init_out)) return have;
  if (in.flags & FUSE_HANDLE_KILLPRIV_V2) {
    out->flags |= FUSE_HANDLE_KILLPRIV_V2;
    out->flags &= ~static_cast<uint32_t>(FUSE_HANDLE_KILLPRIV);
    have.kill_priv = true;
  }
  const uint64_t offered = (in.flags & FUSE_INIT_EXT) ? uint64_t{in.flags2} << 32 : 0;
  if (offered & kInitDirectIoAllowMmap) {
    out->flags |= FUSE_INIT_EXT;
    out->flags2 |= static_cast<uint32_t>(kInitDirectIoAllowMmap >> 32);
    have.direct_io_mmap = true;
  }
  // The kernel takes it only without write-back caching, which this mount never asks for.
  if (passthrough && (offered & kInitPassthrough)) {
    out->flags |= FUSE_INIT_EXT;
    out->flags2 |= static_cast<uint32_t>(kInitPassthrough >> 32);
    // max_stack_depth, which has no name in the system's linux/fuse.h. The backing files lie on a disk's filesystem, not on one
    // that is stacked on another.
    constexpr uint32_t depth = 1;
    std::memcpy(reinterpret_cast<char*>(&out->flags2) + sizeof(out->flags2), &depth, sizeof(depth));
    have.passthrough = true;
  }
  return have;
}

}  // namespace stria
