#include "client/fuse/kernel_cache.h"

#include <fuse3/fuse_lowlevel.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace stria {
namespace {
constexpr int64_t kFirstPauseNs = kMillisecond / 4;
constexpr int64_t kLongestPauseNs = 50 * kMillisecond;
constexpr int64_t kMoveLookNs = 1 * kMillisecond;

int NotifyKernel(fuse_session* session, uint64_t node, off_t offset, off_t length) {
  return fuse_lowlevel_notify_inval_inode(session, node, offset, length);
}

int StoreInKernel(fuse_session* session, uint64_t node, off_t offset, char byte) {
  fuse_bufvec bytes = FUSE_BUFVEC_INIT(1);
  bytes.buf[0].mem = &byte;
  return fuse_lowlevel_notify_store(session, node, offset, &bytes, static_cast<fuse_buf_copy_flags>(0));
}
}  // namespace

void ToldInodes::Add(uint64_t node, int64_t now_ns) {
  Told& t = told_[node];
  t.last_ns = now_ns;
  ++t.times;
  order_.emplace_back(now_ns, node);
  while (order_.front().first < now_ns - kToldNs || order_.size() > kMaxTold) {
    const auto oldest = told_.find(order_.front().second);
    order_.pop_front();
    if (--oldest->second.times == 0) told_.erase(oldest);
  }
}

bool ToldInodes::Has(uint64_t node, int64_t now_ns) const {
  auto it = told_.find(node);
  return it != told_.end() && it->second.last_ns >= now_ns - kToldNs;
}

FuseKernelCache::FuseKernelCache(RootMap roots) : FuseKernelCache(roots, &NotifyKernel, &StoreInKernel) {}

FuseKernelCache::FuseKernelCache(RootMap roots, Notify notify, Store store) : roots_(roots), notify_(notify), store_(store) {}

FuseKernelCache::~FuseKernelCache() { Detach(); }

void FuseKernelCache::Attach(fuse_session* session) {
  std::lock_guard<std::mutex> lock(mu_);
  session_ = session;
  data_threads_ = std::make_unique<ThreadPool>(kDataThreads, "notify-data");
  attr_thread_ = std::make_unique<ThreadPool>(1, "notify-attr");
}

void FuseKernelCache::Detach() {
  std::unique_ptr<ThreadPool> data, attr;
  {
    std::lock_guard<std::mutex> lock(mu_);
    session_ = nullptr;
    data = std::move(data_threads_);
    attr = std::move(attr_thread_);
  }
  attr.reset();  // finishes the submitted work, and joins
  data.reset();
}

void FuseKernelCache::Told(InodeId ino) { told_.Add(roots_.ToNode(ino), Executor::Current().NowNs()); }

void FuseKernelCache::Doubt() { dir_names_.Doubt(Executor::Current().NowNs()); }

int64_t FuseKernelCache::Believe(InodeId dir, const std::string& name, int64_t ns) {
  return dir_names_.Believe(dir, name, ns, Executor::Current().NowNs());
}

Task<void> FuseKernelCache::WaitToMove(InodeId dir, std::string name) {
  while (!dir_names_.MayMove(dir, name, Executor::Current().NowNs())) co_await Sleep(kMoveLookNs);
}

Task<void> FuseKernelCache::NameChanged(InodeId dir, std::string name) {
  const int64_t left_ns = dir_names_.Until(dir, name) - Executor::Current().NowNs();
  if (left_ns > 0) co_await Sleep(left_ns);
  if (!dir_changed_) co_return;
  if (!dir) dir_changed_(InodeId(), dir, name);
  const uint64_t node = name.empty() ? 0 : dir_names_.Find(dir, name);
  if (node != 0 && !inodes_.SurelyUnknown(node)) dir_changed_(roots_.FromNode(node), dir, name);
}

Task<void> FuseKernelCache::InvalidateInode(InodeId ino, bool data, uint64_t offset, uint64_t length) {
  const uint64_t node = roots_.ToNode(ino);
  // A negative offset is: attributes only. A length of 0 is: to the end.
  const off_t at = data ? static_cast<off_t>(offset) : -1;
  const off_t bytes = data ? static_cast<off_t>(length) : 0;
  int64_t pause_ns = kFirstPauseNs;
  // ENOENT: the kernel does not know it, or not yet. Any other error means that the mount is going away,
  // and its caches with it.
  while (co_await Invalidate(node, at, bytes) == -ENOENT && told_.Has(node, Executor::Current().NowNs())) {
    if (inodes_.SurelyUnknown(node)) co_return;
    co_await Sleep(pause_ns);
    pause_ns = std::min(2 * pause_ns, kLongestPauseNs);
  }
}

Task<void> FuseKernelCache::SizeGrew(InodeId ino, uint64_t last, uint8_t byte) {
  if (store_ == nullptr) co_return;
  // If the kernel does not know the inode it is told the size with it.
  (void)co_await Tell(true, [store = store_, node = roots_.ToNode(ino), last, byte](fuse_session* session) {
    return store(session, node, static_cast<off_t>(last), static_cast<char>(byte));
  });
}

Task<int> FuseKernelCache::Invalidate(uint64_t node, off_t offset, off_t length) {
  return Tell(offset >= 0, [notify = notify_, node, offset, length](fuse_session* session) {
    return notify(session, node, offset, length);
  });
}

Task<int> FuseKernelCache::Tell(bool data, std::function<int(fuse_session*)> tell) {
  Executor* ex = &Executor::Current();
  OneShot<int> done;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!session_) co_return 0;
    (data ? data_threads_ : attr_thread_)->Submit([session = session_, ex, done, tell = std::move(tell)] {
      const int said = tell(session);
      ex->Post([done, said] { done.Set(said); });
    });
  }
  co_return co_await done.Take();
}

}  // namespace stria
