// Tells the kernel to forget what it caches of an inode. A notification with data may wait for pages that a running read holds,
// so it runs on threads of its own, never on the executor's. A notification of attributes alone waits for no page. It has
// another thread, because reads wait for it (AttrView::Resizing).
//
// An inode that the kernel does not have has nothing to forget, unless the reply that makes it known is still on its way: the
// kernel makes its inode some time after the reply, with attributes that no notification could revoke meanwhile. So if a kernel
// was told of an inode just now and says that it does not know it, it is notified again, until it drops the inode (FORGET).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "client/fuse/kernel_inodes.h"
#include "client/fuse/kernel_names.h"
#include "client/fuse/wire.h"
#include "client/vfs/vfs.h"
#include "common/exec/pool.h"

struct fuse_session;

namespace stria {

// Inodes that the kernel was told of within the last kToldNs; the oldest go first when there are too many.
class ToldInodes {
 public:
  static constexpr int64_t kToldNs = 1 * kSecond;
  static constexpr size_t kMaxTold = 100'000;

  void Add(uint64_t node, int64_t now_ns);
  bool Has(uint64_t node, int64_t now_ns) const;
  size_t size() const { return told_.size(); }

 private:
  struct Told {
    int64_t last_ns = 0;
    size_t times = 0;  // entries of order_
  };
  std::unordered_map<uint64_t, Told> told_;
  std::deque<std::pair<int64_t, uint64_t>> order_;  // each time, oldest first
};

class FuseKernelCache final : public KernelCache {
 public:
  static constexpr int kDataThreads = 2;
  // fuse_lowlevel_notify_inval_inode
  using Notify = int (*)(fuse_session*, uint64_t node, off_t offset, off_t length);
  // fuse_lowlevel_notify_store of one byte
  using Store = int (*)(fuse_session*, uint64_t node, off_t offset, char byte);

  explicit FuseKernelCache(RootMap roots = {});
  FuseKernelCache(RootMap roots, Notify notify, Store store = nullptr);  // for tests
  ~FuseKernelCache() override;

  // Between Attach and Detach (any thread) notifications go to this mount; otherwise nothing is cached
  // anywhere and they return at once. Detach waits for those that are running: abort the connection first.
  void Attach(fuse_session* session);
  void Detach();
  // Before Attach.
  void SetRoots(RootMap roots) { roots_ = roots; }

  // On the executor's thread, before the reply that gives the kernel this inode and attributes that it keeps.
  void Told(InodeId ino);
  // Likewise before each reply that counts as a lookup of the inode, and when the kernel returns such counts.
  void Given(InodeId ino) { inodes_.Given(roots_.ToNode(ino)); }
  void Forgotten(uint64_t node, uint64_t times) { inodes_.Forgotten(node, times); }
  bool MayKnow(InodeId ino) const override { return !inodes_.SurelyUnknown(roots_.ToNode(ino)); }
  // Names, likewise.
  void Named(InodeId dir, const std::string& name, InodeId ino, bool is_dir) {
    (is_dir ? dir_names_ : names_).Given(dir, name, roots_.ToNode(ino), inodes_);
    if (!is_dir) dir_names_.Drop(dir, name);
  }
  void Renamed(InodeId from_dir, const std::string& from, InodeId to_dir, const std::string& to) {
    names_.Moved(from_dir, from, to_dir, to);
    dir_names_.Moved(from_dir, from, to_dir, to);
  }
  bool MayHave(InodeId dir, const std::string& name) const {
    return dir_names_.MayHave(dir, name, inodes_) || names_.MayHave(dir, name, inodes_);
  }

  // The directory that the kernel has by that name.
  InodeId DirOf(InodeId dir, const std::string& name) const { return roots_.FromNode(dir_names_.Find(dir, name)); }
  // Until then the kernel surely believes that name of a directory, and does not ask for it.
  int64_t BelievedTo(InodeId dir, const std::string& name) const { return dir_names_.BelievedTo(dir, name); }
  // Before an answer about a directory that is not an answer about its name.
  void Doubt();
  // Returns when a rename of it may be answered (KernelNames::MayMove), after some 35 ms at the latest.
  Task<void> WaitToMove(InodeId dir, std::string name);
  // Is called when a name has changed by which the kernel may have that directory (0: any). On the executor's thread; null: nothing is.
  using DirChanged = std::function<void(InodeId ino, InodeId dir, const std::string& name)>;
  void WatchDirs(DirChanged fn) { dir_changed_ = std::move(fn); }
  // How long the kernel may be told to believe a name of a directory that it gets (Named); at most `ns`.
  int64_t Believe(InodeId dir, const std::string& name, int64_t ns);

  Task<void> InvalidateInode(InodeId ino, bool data, uint64_t offset, uint64_t length) override;
  Task<void> NameChanged(InodeId dir, std::string name) override;
  Task<void> SizeGrew(InodeId ino, uint64_t last, uint8_t byte) override;

 private:
  // The kernel's answer: 0 or a negative errno. 0 when there is no mount.
  Task<int> Invalidate(uint64_t node, off_t offset, off_t length);
  Task<int> Tell(bool data, std::function<int(fuse_session*)> tell);

  RootMap roots_;
  const Notify notify_;
  const Store store_;
  // Executor's thread only.
  ToldInodes told_;
  KernelInodes inodes_;
  KernelNames names_, dir_names_;  // apart, as files may be too many to know all
  DirChanged dir_changed_;
  fuse_session* session_ = nullptr;  // guarded by mu_
  std::mutex mu_;
  // Guarded by mu_; null while detached.
  std::unique_ptr<ThreadPool> data_threads_;
  std::unique_ptr<ThreadPool> attr_thread_;
};

}  // namespace stria
