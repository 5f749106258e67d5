#include "client/fuse/kernel_cache.h"

#include <fuse3/fuse_lowlevel.h>

#include <utility>

namespace stria {

FuseKernelCache::FuseKernelCache(RootMap roots) : roots_(roots) {}

FuseKernelCache::~FuseKernelCache() { Detach(); }

void FuseKernelCache::Attach(fuse_session* session) {
  std::lock_guard<std::mutex> lock(mu_);
  session_ = session;
  threads_ = std::make_unique<ThreadPool>(kNotifierThreads, "notify");
}

void FuseKernelCache::Detach() {
  std::unique_ptr<ThreadPool> threads;
  {
    std::lock_guard<std::mutex> lock(mu_);
    session_ = nullptr;
    threads = std::move(threads_);
  }
  threads.reset();  // finishes what was submitted, and joins
}

Task<void> FuseKernelCache::InvalidateInode(InodeId ino, bool data, uint64_t offset, uint64_t length) {
  const uint64_t node = roots_.ToNode(ino);
  // A negative offset is: attributes only. A length of 0 is: to the end.
  const off_t at = data ? static_cast<off_t>(offset) : -1;
  const off_t bytes = data ? static_cast<off_t>(length) : 0;
  Executor* ex = &Executor::Current();
  OneShot<bool> done;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!session_) co_return;
    threads_->Submit([session = session_, ex, done, node, at, bytes] {
      // ENOENT: the kernel does not know it. Any other error means that the mount is going away, and its
      // caches with it.
      (void)fuse_lowlevel_notify_inval_inode(session, node, at, bytes);
      ex->Post([done] { done.Set(true); });
    });
  }
  (void)co_await done.Take();
}

}  // namespace stria
