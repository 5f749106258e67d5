#include "client/vfs/vfs.h"

#include <utility>

#include "client/vfs/inode.h"

namespace stria {

Vfs::Vfs(VfsOptions options, MetaSession& session, StripeIo io, StripePool& pool, StripeReader& reader,
         KernelCache& kernel)
    : options_(options), session_(session), io_(io), pool_(pool), reader_(reader), kernel_(kernel),
      blocks_(options.block_cache_bytes) {}

// Frames first: they refer to everything else.
Vfs::~Vfs() { scope_.CancelAll(); }

void Vfs::Start() { scope_.Spawn(PeriodicWriteBack()); }

Task<Result<void>> Vfs::FlushAll() {
  std::vector<std::shared_ptr<VfsInode>> dirty;
  for (auto& [ino, n] : inodes_) {
    if (!n->dirty.clean()) dirty.push_back(n);
  }
  Error first;
  for (auto& n : dirty) {
    auto r = co_await FlushInode(n, true);
    if (!r.ok() && first.ok()) first = r.error();
  }
  if (!first.ok()) co_return first;
  co_return Ok();
}

}  // namespace stria
