// Operations on open directories.
//
// Offsets: 0 is the start, 1 after ".", 2 after ".."; from there on the server's cookies (all larger).
// The kernel asks for a page or so at a time; entries are fetched kReadDirEntries at once and kept with
// the open directory. A seek to one of them asks nobody.
//
// The kernel gets names alone (no READDIRPLUS). It keeps no name, so it would ask for each again at use. And it believes an
// entry from a listing more than what it knows, however late the listing comes: fuse_direntplus_link drops a name, and the
// mounts there, if the listing has another inode. Attributes stay in the Vfs, which answers from them: for the first entries
// always, for more if the program has looked up some of the former.
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <utility>

#include "client/fuse/fuse_adapter.h"

namespace stria {
namespace {

using Identity = FuseAdapter::Identity;
// More than the kernel asks for at once.
constexpr size_t kMaxDirReplyBytes = 1 * kMiB;

Task<void> OpenDir(FuseAdapter& a, FuseRequest* r, InodeId ino) {
  auto dir = std::make_shared<FuseDir>();
  dir->ino = ino;
  dir->opener = r->who;
  const uint64_t fh = a.AddDir(std::move(dir));
  if (!r->Opened(nullptr, fh, 0)) a.RemoveDir(fh);
  co_return;
}
void LlOpenDir(fuse_req_t req, fuse_ino_t node, fuse_file_info* fi) {
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kDetach, Identity::kCaller,
          [ino = a.roots().FromNode(node)](FuseAdapter& ad, FuseRequest* r) { return OpenDir(ad, r, ino); });
}

// Goes to `offset`, with what follows it.
Task<Result<void>> Fetch(FuseAdapter& a, FuseDir* d, uint64_t offset) {
  const int64_t now_ns = Executor::Current().NowNs();
  const bool with_attrs = offset == 0 || std::any_of(d->chunk.entries().begin(), d->chunk.entries().end(),
                                                     [&](const DirEntry& e) { return a.looked_up().Has(e.ino, now_ns); });
  CO_ASSIGN_OR_RETURN(ReadDirReply reply, co_await a.vfs().ReadDir(d->opener, d->ino, DirChunk::CookieOf(offset),
                                                                   FuseAdapter::kReadDirEntries, with_attrs));
  if (reply.entries.empty() && !reply.end) co_return Error(FsError::kIo, "a listing does not go on");
  d->parent = reply.parent;
  d->chunk.Take(offset, std::move(reply));
  co_return Ok();
}

// Packs dirents of one reply.
class DirPacker {
 public:
  explicit DirPacker(size_t room) : bytes_(std::min(room, kMaxDirReplyBytes), '\0') {}
  // False if it does not fit.
  bool Add(const std::string& name, InodeId ino, FileType type, uint64_t next_offset) {
    struct stat attr = {};
    attr.st_ino = ino.v;
    attr.st_mode = TypeBits(type);
    char* at = bytes_.data() + used_;
    const size_t room = bytes_.size() - used_;
    const auto offset = static_cast<off_t>(next_offset);
    const size_t need = fuse_add_direntry(nullptr, at, room, name.c_str(), &attr, offset);
    if (need > room) return false;
    used_ += need;
    return true;
  }
  bool empty() const { return used_ == 0; }
  std::string_view bytes() const { return {bytes_.data(), used_}; }

 private:
  std::string bytes_;
  size_t used_ = 0;
};

Task<void> ReadDir(FuseAdapter& a, FuseRequest* r, uint64_t fh, size_t room, uint64_t offset) {
  FuseDirPtr d = a.Dir(fh);
  if (!d) {
    r->Fail(FsError::kBadF);
    co_return;
  }
  auto held = co_await d->mu.Lock();
  DirPacker out(room);
  DirChunk& chunk = d->chunk;
  // Offset 0 lists anew: rewinddir(3) shows entries made meanwhile.
  if (offset == 0 || !chunk.Seek(offset)) {
    auto fetched = co_await Fetch(a, d.get(), offset);
    if (!fetched.ok()) {
      r->Fail(fetched.error());
      co_return;
    }
  }
  bool full = false;
  if (chunk.offset() < DirChunk::kAfterDot) {
    full = !out.Add(".", d->ino, FileType::kDirectory, DirChunk::kAfterDot);
    if (!full) chunk.PassDots(DirChunk::kAfterDot);
  }
  if (!full && chunk.offset() < DirChunk::kAfterDotDot) {
    full = !out.Add("..", d->parent, FileType::kDirectory, DirChunk::kAfterDotDot);
    if (!full) chunk.PassDots(DirChunk::kAfterDotDot);
  }
  while (!full) {
    const DirEntry* e = chunk.Next();
    if (e == nullptr) {
      if (chunk.end() || !out.empty()) break;  // the entries so far are the reply
      auto fetched = co_await Fetch(a, d.get(), chunk.offset());
      if (!fetched.ok()) {
        r->Fail(fetched.error());
        co_return;
      }
      continue;
    }
    full = !out.Add(e->name, e->ino, e->type, e->cookie);
    if (!full) chunk.Pass();
  }
  r->Bytes(out.bytes());
}
void LlReadDir(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* fi) {
  FuseAdapter::Of(req).Begin(req, OnInterrupt::kCancel, Identity::kNone,
                             [fh = fi->fh, size, offset](FuseAdapter& ad, FuseRequest* r) {
                               return ReadDir(ad, r, fh, size, static_cast<uint64_t>(offset));
                             });
}

Task<void> ReleaseDir(FuseAdapter& a, FuseRequest* r, uint64_t fh) {
  a.RemoveDir(fh);
  r->Ok();
  co_return;
}
void LlReleaseDir(fuse_req_t req, fuse_ino_t node, fuse_file_info* fi) {
  FuseAdapter::Of(req).Begin(req, OnInterrupt::kIgnore, Identity::kNone,
                             [fh = fi->fh](FuseAdapter& ad, FuseRequest* r) { return ReleaseDir(ad, r, fh); });
}

Task<void> FsyncDir(FuseAdapter& a, FuseRequest* r, InodeId ino) {
  r->Status(co_await a.vfs().SyncDir(r->who, ino));
}
void LlFsyncDir(fuse_req_t req, fuse_ino_t node, int datasync, fuse_file_info* fi) {
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kCancel, Identity::kNone,
          [ino = a.roots().FromNode(node)](FuseAdapter& ad, FuseRequest* r) { return FsyncDir(ad, r, ino); });
}

}  // namespace

void AddDirOps(fuse_lowlevel_ops* ops) {
  ops->opendir = LlOpenDir;
  ops->readdir = LlReadDir;
  ops->releasedir = LlReleaseDir;
  ops->fsyncdir = LlFsyncDir;
}

}  // namespace stria
