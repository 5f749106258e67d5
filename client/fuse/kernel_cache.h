// Tells the kernel to forget what it caches of an inode. A notification may wait for pages that a running
// read holds, so it runs on threads of its own, never on the executor's.
#pragma once

#include <memory>
#include <mutex>

#include "client/fuse/wire.h"
#include "client/vfs/vfs.h"
#include "common/exec/pool.h"

struct fuse_session;

namespace stria {

class FuseKernelCache final : public KernelCache {
 public:
  static constexpr int kNotifierThreads = 2;

  explicit FuseKernelCache(RootMap roots = {});
  ~FuseKernelCache() override;

  // Between Attach and Detach (any thread) notifications go to this mount; otherwise nothing is cached
  // anywhere and they return at once. Detach waits for those that are running: abort the connection first.
  void Attach(fuse_session* session);
  void Detach();
  // Before Attach.
  void SetRoots(RootMap roots) { roots_ = roots; }

  Task<void> InvalidateInode(InodeId ino, bool data, uint64_t offset, uint64_t length) override;

 private:
  RootMap roots_;
  fuse_session* session_ = nullptr;  // guarded by mu_
  std::mutex mu_;
  std::unique_ptr<ThreadPool> threads_;  // guarded by mu_; null while detached
};

}  // namespace stria
