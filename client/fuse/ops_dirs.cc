// Operations on open directories.
//
// Offsets: 0 is the start, 1 after ".", 2 after ".."; from there on the server's cookies (all larger).
// The kernel asks for a page or so at a time; entries are fetched kReadDirEntries at once and kept with
// the open directory. Attributes that come along stay in the Vfs; what it still knows of a name when the kernel asks
// for it is given along.
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cache/name_epoch.h"
#include "client/fuse/fuse_adapter.h"

namespace stria {
namespace {

using Identity = FuseAdapter::Identity;
constexpr uint64_t kAfterDot = 1;
constexpr uint64_t kAfterDotDot = 2;
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

// Makes entries[next] the one after `offset`.
Task<Result<void>> Fetch(FuseAdapter& a, FuseDir* d, uint64_t offset, bool with_attrs) {
  const uint64_t cookie = offset <= kAfterDotDot ? 0 : offset;
  CO_ASSIGN_OR_RETURN(ReadDirReply reply, co_await a.vfs().ReadDir(d->opener, d->ino, cookie,
                                                                   FuseAdapter::kReadDirEntries, with_attrs));
  if (reply.entries.empty() && !reply.end) co_return Error(FsError::kIo, "a listing does not go on");
  d->entries = std::move(reply.entries);
  d->next = 0;
  d->offset = offset;
  d->end = reply.end;
  d->parent = reply.parent;
  co_return Ok();
}

// Packs dirents of one reply.
class DirPacker {
 public:
  DirPacker(size_t room, bool plus) : bytes_(std::min(room, kMaxDirReplyBytes), '\0'), plus_(plus) {}
  // False if it does not fit. `known`: with `plus`, what the kernel may keep of it.
  bool Add(const std::string& name, InodeId ino, FileType type, uint64_t next_offset, const fuse_entry_out* known) {
    fuse_entry_param e = {};  // ino 0: a name alone
    e.attr.st_ino = ino.v;
    e.attr.st_mode = TypeBits(type);
    char* at = bytes_.data() + used_;
    const size_t room = bytes_.size() - used_;
    const auto offset = static_cast<off_t>(next_offset);
    const size_t need = plus_ ? fuse_add_direntry_plus(nullptr, at, room, name.c_str(), &e, offset)
                              : fuse_add_direntry(nullptr, at, room, name.c_str(), &e.attr, offset);
    if (need > room) return false;
    if (known != nullptr) std::memcpy(at + offsetof(fuse_direntplus, entry_out), known, sizeof(*known));
    used_ += need;
    return true;
  }
  bool empty() const { return used_ == 0; }
  std::string_view bytes() const { return {bytes_.data(), used_}; }

 private:
  std::string bytes_;
  const bool plus_;
  size_t used_ = 0;
};

fuse_entry_out ListedEntry(FuseAdapter& a, EntryOut entry) {
  entry.name_valid_ns = std::min(entry.name_valid_ns, NameEpoch::kListedValidNs);
  fuse_entry_out out = MakeEntryOut(entry, a.roots());
  a.owner().Apply(&out.attr);
  return out;
}

Task<void> ReadDir(FuseAdapter& a, FuseRequest* r, uint64_t fh, size_t room, uint64_t offset, bool plus) {
  FuseDirPtr d = a.Dir(fh);
  if (!d) {
    r->Fail(FsError::kBadF);
    co_return;
  }
  auto held = co_await d->mu.Lock();
  DirPacker out(room, plus);
  // From the start means afresh: rewinddir(3) shows what was made meanwhile.
  if (offset == 0 || offset != d->offset) {
    auto fetched = co_await Fetch(a, d.get(), offset, plus);
    if (!fetched.ok()) {
      r->Fail(fetched.error());
      co_return;
    }
  }
  bool full = false;
  std::vector<InodeId> given;  // with attributes, and a lookup of each name
  if (offset < kAfterDot) {
    full = !out.Add(".", d->ino, FileType::kDirectory, kAfterDot, nullptr);
    if (!full) d->offset = kAfterDot;
  }
  if (!full && d->offset < kAfterDotDot) {
    full = !out.Add("..", d->parent, FileType::kDirectory, kAfterDotDot, nullptr);
    if (!full) d->offset = kAfterDotDot;
  }
  while (!full) {
    if (d->next == d->entries.size()) {
      if (d->end || !out.empty()) break;  // do not make what is there wait for more
      auto fetched = co_await Fetch(a, d.get(), d->offset, plus);
      if (!fetched.ok()) {
        r->Fail(fetched.error());
        co_return;
      }
      continue;
    }
    const DirEntry& e = d->entries[d->next];
    fuse_entry_out entry;
    const std::optional<EntryOut> known = plus ? a.vfs().Listed(d->ino, e) : std::nullopt;
    if (known) entry = ListedEntry(a, *known);
    full = !out.Add(e.name, e.ino, e.type, e.cookie, known ? &entry : nullptr);
    if (full) break;
    if (known) {
      a.Told(*known);
      a.Given(known->attr.ino);
      given.push_back(known->attr.ino);
    }
    d->offset = e.cookie;
    ++d->next;
  }
  if (!given.empty()) a.Listed(d->ino);
  if (r->Bytes(out.bytes())) co_return;
  for (const InodeId ino : given) a.TakeBack(ino);
}
void BeginReadDir(fuse_req_t req, size_t size, off_t offset, fuse_file_info* fi, bool plus) {
  FuseAdapter::Of(req).Begin(req, OnInterrupt::kCancel, Identity::kNone,
                             [fh = fi->fh, size, offset, plus](FuseAdapter& ad, FuseRequest* r) {
                               return ReadDir(ad, r, fh, size, static_cast<uint64_t>(offset), plus);
                             });
}
void LlReadDir(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* fi) {
  BeginReadDir(req, size, offset, fi, false);
}
void LlReadDirPlus(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* fi) {
  BeginReadDir(req, size, offset, fi, true);
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
  ops->readdirplus = LlReadDirPlus;
  ops->releasedir = LlReleaseDir;
  ops->fsyncdir = LlFsyncDir;
}

}  // namespace stria
