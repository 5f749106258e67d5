// The pages and attributes that one kernel keeps of files, as Linux does for descriptors without FOPEN_DIRECT_IO: a read looks
// at the attributes first, asking for them if it may not believe them any more (FUSE_AUTO_INVAL_DATA); then it copies from
// pages, and reads those that are missing, which are locked meanwhile. That a changed mtime drops all pages is left out: no
// promise may depend on it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "client/vfs/vfs.h"

namespace stria {

class SimPages {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  // The kernel hears of an open: it drops the pages of before if it is not to keep them.
  void Opened(const VfsHandlePtr& h);
  // As read(2) through a descriptor that may cache.
  Task<Result<BufferChain>> Read(Vfs& vfs, Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length);

  // Writes a page of a mapping back, as the kernel does when it likes. Who forgets pages waits for that.
  Task<Result<void>> WriteBack(Vfs& vfs, VfsHandlePtr h, uint64_t page, std::string bytes);

  // FUSE_NOTIFY_INVAL_INODE: the attributes at once; of pages, those whose reading began before, when it has ended and
  // `takes_ns` more have passed.
  void ForgetAttr(InodeId ino);
  Task<void> ForgetPages(InodeId ino, int64_t takes_ns);
  void Clear();

  // While it lives, these pages of a file are being read.
  class Locked {
   public:
    Locked(SimPages* all, InodeId ino, uint64_t first, uint64_t last);
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;
    ~Locked();
    void Fill(const std::string& bytes);  // of the first of them on

   private:
    SimPages* const all_;
    const InodeId ino_;
    const uint64_t first_, last_, number_;
  };

  // Files that a program is reading pages of, from the first on; for who wonders what waits for whom.
  std::set<InodeId> Reading() const;
  uint64_t pages_kept() const { return pages_kept_; }  // reads that asked nobody for bytes

 private:
  struct Page {
    bool there = false;
    uint64_t locked_by = 0;  // number of the read that fills it; 0: nobody
    uint64_t read = 0;       // number of the read that filled it
    std::string bytes;
  };
  struct File {
    std::map<uint64_t, Page> pages;
    uint64_t attr_epoch = 0;  // raised by each ForgetAttr
    int64_t attr_until_ns = 0;
    uint64_t size = 0;
    uint64_t opened_version = 0;  // as InodeInKernel has it of the last open
  };
  Task<Result<uint64_t>> Size(Vfs& vfs, Caller who, InodeId ino, uint64_t end);
  Task<Result<void>> Fill(Vfs& vfs, Caller who, VfsHandlePtr h, uint64_t first, uint64_t last);

  std::map<InodeId, File> files_;
  std::set<std::weak_ptr<VfsHandle>, std::owner_less<>> opened_;
  uint64_t reads_ = 0;
  uint64_t pages_kept_ = 0;
  Event unlocked_;
};

}  // namespace stria
